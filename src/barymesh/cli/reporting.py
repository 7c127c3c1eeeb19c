"""What commands print at their end: tables for people, JSON for programs, warnings as plain lines."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import typer

from barymesh.errors import AccuracyWarning, DriftWarning, OutputWarning

OWN_WARNINGS = (AccuracyWarning, DriftWarning, OutputWarning)


@contextmanager
def collecting_warnings() -> Iterator[list[str]]:
    """A list that holds, after the block, the messages of the warnings of barymesh. Others are shown as usual."""
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        for kind in OWN_WARNINGS:
            warnings.simplefilter("always", kind)
        yield messages
    for one in caught:
        if issubclass(one.category, OWN_WARNINGS):
            messages.append(str(one.message))
        else:
            warnings.showwarning(one.message, one.category, one.filename, one.lineno)


def print_json(summary: Mapping[str, Any], files: Mapping[str, str], messages: Sequence[str]) -> None:
    """Everything as one JSON object."""
    typer.echo(json.dumps({**summary, "warnings": messages, "files": files}, indent=2))


def print_warnings(messages: Sequence[str]) -> None:
    """A line on the standard error for each."""
    for message in messages:
        typer.echo(f"Warning: {message}", err=True)
