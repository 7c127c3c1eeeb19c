"""Write files so that a crash or Ctrl-C never leaves half a file where a whole one was.

A new file has a temporary name, and its writer holds a lock on it, until it takes the place of the old one. A process
that is killed leaves it there without the lock, and the next that writes the same file removes it.
"""

from __future__ import annotations

import csv
import io
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import IO, Any

from barymesh.errors import FileError

if sys.platform != "win32":
    import fcntl

_UNFINISHED = ".part"


@contextmanager
def replacing(target: Path, *, private: bool = False) -> Iterator[IO[Any]]:
    """A binary file to write; it takes the place of ``target`` only once it is complete and on disk. No other user can
    read it if it is ``private``."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_unfinished(target)
        handle, name = _temporary(target)
    except OSError as error:
        raise FileError(
            f"Cannot write {target}: {error.strerror or error}. Choose another place with write permission."
        ) from error
    try:
        with _keeping_lock(handle):
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            # mkstemp makes files private
            if not private:
                os.chmod(name, 0o666 & ~_umask())
            os.replace(name, target)
    except OSError as error:
        Path(name).unlink(missing_ok=True)
        raise FileError(
            f"Cannot write {target}: {error.strerror or error}. Make room, or choose another place; "
            "what was there is unchanged."
        ) from error
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _temporary(target: Path) -> tuple[int, str]:
    """A new file beside the target, open and locked, and its name."""
    while True:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=_UNFINISHED)
        if sys.platform != "win32":
            # some network file systems have no locks
            with suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_EX)
        if os.path.exists(name):
            return handle, name
        # another process took it for that of a dead one, in the instant before it was locked
        os.close(handle)


@contextmanager
def _keeping_lock(handle: int) -> Iterator[None]:
    """Keep the lock of the file beyond its closing, until it has its name; on Windows it must be closed for that."""
    held = None if sys.platform == "win32" else os.dup(handle)
    try:
        yield
    finally:
        if held is not None:
            os.close(held)


def _remove_unfinished(target: Path) -> None:
    """Remove what processes that were killed have left of this file."""
    for path in target.parent.glob(f".{escape(target.name)}.*{_UNFINISHED}"):
        # its writer is alive, or somebody else has removed it
        with suppress(OSError):
            if sys.platform == "win32":
                # files that are open cannot be removed there
                path.unlink()
            else:
                with path.open("rb") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    path.unlink()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_text(target: Path, text: str) -> None:
    """Write a text file the same safe way."""
    with replacing(target) as file:
        file.write(text.encode())


def write_csv(target: Path, header: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    """Write a table the same safe way."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    write_text(target, text.getvalue())
