"""Checks before a file is read: that it is an ordinary file, and that what it holds fits into memory.

A compressed file of a few megabytes can unpack to terabytes, a device never ends, and a pipe may never begin.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from barymesh.errors import FileError
from barymesh.resources import memory

# the numbers as they are stored, and again as float64
BYTES_A_NUMBER = 16


def require_regular(file: Path) -> None:
    """Raise FileError unless this is an ordinary file. Links to one are fine."""
    try:
        mode = os.stat(file).st_mode
    except FileNotFoundError as error:
        raise FileError(f"There is no file {file}.") from error
    except (OSError, ValueError) as error:
        raise FileError(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}.") from error
    if not stat.S_ISREG(mode):
        kind = next(name for test, name in _KINDS if test(mode))
        raise FileError(f"{file} is {kind}, not an ordinary file. Copy what it holds into a file, and give that.")


def require_room(file: Path, numbers: int) -> None:
    """Raise FileError if so many numbers of this file would not fit into memory."""
    free, needed = memory.available_bytes(), BYTES_A_NUMBER * numbers
    if free is not None and needed > free:
        raise FileError(
            f"{file} holds {numbers:,} numbers, which take {min(needed, memory.MOST) / memory.GIB:.1f} GiB to read, "
            f"but only {free / memory.GIB:.1f} GiB of memory is free. Give a smaller file; if it should be "
            "small, it is damaged."
        )


_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (lambda mode: True, "a device"),
)
