"""The reference of the command line, written from the commands themselves: a page that says ``<!-- commands -->`` gets
every command there, with its arguments, options and examples."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import typer

from barymesh.cli.app import app
from barymesh.cli.exit_codes import MEANINGS, WRITTEN

PLACE = "<!-- commands -->"


def commands(group: Any = None, name: str = "barymesh") -> Iterator[tuple[str, Any]]:
    """Full name and command, for every command and every group of commands but the outermost."""
    for word, command in (group or typer.main.get_command(app)).commands.items():
        full = f"{name} {word}"
        yield full, command
        if hasattr(command, "commands"):
            yield from commands(command, full)


def as_markdown() -> str:
    """All commands, a section each, and what the exit codes mean."""
    return "\n".join([*(_section(name, command) for name, command in commands()), "## Exit codes\n", _codes(), ""])


def _section(name: str, command: Any) -> str:
    lines = [f"## {name}\n", _prose(command.help or "")]
    if not hasattr(command, "commands"):
        context = command.context_class(command, info_name=name)
        records = [record for part in command.params if (record := part.get_help_record(context))]
        lines += ["| | |", "|---|---|", *(f"| `{given}` | {_cell(text)} |" for given, text in records), ""]
    return "\n".join(lines)


def _prose(text: str) -> str:
    """Paragraphs as they are; indented ones, which are commands or lines of a file, as one block of code."""
    pieces = []
    for code, paragraphs in groupby(text.strip().split("\n\n"), lambda paragraph: paragraph.startswith(" ")):
        if code:
            joined = [" ".join(line.strip() for line in paragraph.splitlines()) for paragraph in paragraphs]
            language = "bash" if joined[0].startswith("barymesh") else "toml"
            pieces.append("\n".join([f"```{language}", *joined, "```"]))
        else:
            pieces += paragraphs
    return "\n\n".join(pieces) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _codes() -> str:
    """What every command says at the end of its help, as a list."""
    listed = [f"- `{code}`: {meaning}" for code, meaning in MEANINGS.items()]
    return "\n".join([*listed, "", WRITTEN])


def _fill(_app: Any, _page: str, source: list[str]) -> None:
    if PLACE in source[0]:
        source[0] = source[0].replace(PLACE, as_markdown())


def setup(sphinx: Any) -> dict[str, bool]:
    """What Sphinx calls."""
    sphinx.connect("source-read", _fill)
    return {"parallel_read_safe": True}
