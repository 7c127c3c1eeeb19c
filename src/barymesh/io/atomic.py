"""Write files so that a crash or Ctrl-C never leaves half a file where a whole one was."""

from __future__ import annotations

import csv
import io
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from barymesh.errors import FileError


@contextmanager
def replacing(target: Path) -> Iterator[IO[Any]]:
    """A binary file to write; it takes the place of ``target`` only once it is complete and on disk."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise FileError(
            f"Cannot write {target}: {error.strerror or error}. Choose another place with write permission."
        ) from error
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes files private; results are ordinary files
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
