"""How a command ends: exit codes, errors as words, and an output folder that can be written."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import typer

from barymesh.errors import BarymeshError, FileError

BAD_INPUT, NOT_CONVERGED, INTERRUPTED = 3, 4, 130


def finish(work: Callable[[], int], as_json: bool) -> NoReturn:
    """Run the work; errors of barymesh become one message and an exit code, not a traceback."""
    try:
        code = work()
    except BarymeshError as error:
        if as_json:
            typer.echo(json.dumps(error_as_json(error)))
        typer.echo(f"Error: {error}", err=True)
        code = BAD_INPUT
    except KeyboardInterrupt:
        typer.echo("Interrupted before there was a result.", err=True)
        code = INTERRUPTED
    sys.exit(code)


def error_as_json(error: BarymeshError) -> dict[str, str]:
    return {"error": type(error).__name__, "message": str(error)}


def writable_folder(folder: Path) -> Path:
    """The output folder, refused before the work if nothing can be written there after it."""
    if folder.exists() and not folder.is_dir():
        raise FileError(f"The output {folder} is a file, not a folder. Choose another with -o, or the key output.")
    above = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise FileError(
            f"The output {folder} cannot be written: {above} is no folder, or forbids it. "
            "Choose another with -o, or the key output."
        )
    return folder
