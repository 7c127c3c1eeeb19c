"""How a command ends: exit codes, errors as one line, and an output folder that can be written."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

import typer

from barymesh.errors import BarymeshError, FileError
from barymesh.interrupt import request_interrupt
from barymesh.status import Status

if TYPE_CHECKING:
    from barymesh.result import Result

USAGE, BAD_INPUT, NOT_CONVERGED, OUT_OF_TIME, INTERRUPTED = 2, 3, 4, 5, 130
MEANINGS = {
    0: "converged ('barymesh compare': no method failed)",
    USAGE: "wrong usage",
    BAD_INPUT: "bad input or a missing package, nothing was computed",
    NOT_CONVERGED: "stopped at max_iter, one of several methods failed, or a node needs attention ('barymesh status')",
    OUT_OF_TIME: "out of time before reaching the tolerance, as methods that never stop by themselves always are",
    INTERRUPTED: "interrupted",
}
WRITTEN = "With 4, 5 and 130 the result so far was written."
EPILOG = f"Exit codes: {'; '.join(f'{code} {meaning}' for code, meaning in MEANINGS.items())}. {WRITTEN}"
CODES = {
    Status.CONVERGED: 0,
    Status.STATIONARY: 0,
    Status.MAX_ITERATIONS: NOT_CONVERGED,
    Status.STOPPED: NOT_CONVERGED,
    Status.OUT_OF_TIME: OUT_OF_TIME,
    Status.INTERRUPTED: INTERRUPTED,
}


def exit_code(result: Result) -> int:
    """The exit code of a command that computed one barycenter."""
    return CODES[result.status]


def finish(work: Callable[[], int], as_json: bool) -> NoReturn:
    """Run the work; errors of barymesh become one message and an exit code, not a traceback."""
    try:
        with _stopped_by_sigterm():
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


@contextmanager
def _stopped_by_sigterm() -> Iterator[None]:
    """SIGTERM, which batch systems send when the time is over, does what Ctrl-C does, also where Ctrl-C is ignored:
    results are kept, and workers end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        # often sent twice, to a process and to its group
        request_interrupt()

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def error_as_json(error: BarymeshError) -> dict[str, str]:
    """The class and the message of an error."""
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
