"""NumPy archives (.npz) and arrays (.npy), read only if what they announce fits into memory."""

from __future__ import annotations

import math
import struct
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from barymesh.io.limits import require_regular, require_room

Array = NDArray[Any]
# of the text that describes an array; NumPy itself accepts no more, but reads all of it first
LONGEST_HEADER = 10_000


def read_npy(path: Path) -> Array:
    """The array in a ``.npy`` file. FileError if it is no ordinary file, or too large; others if it is damaged."""
    require_regular(path)
    with path.open("rb") as raw:
        if raw.read(2) == b"PK":
            raise ValueError("it is an archive of arrays; call it .npz")
        raw.seek(0)
        require_room(path, _count(raw))
        raw.seek(0)
        return np.asarray(np.load(raw, allow_pickle=False))


def read_npz(path: Path) -> dict[str, Array]:
    """The arrays in a ``.npz`` file, by name. FileError if it is no ordinary file, or too large; FileNotFoundError if
    there is none; other errors if it is damaged."""
    if path.exists():
        require_regular(path)
    # opened here, because NumPy leaves a damaged archive open
    with path.open("rb") as raw:
        with zipfile.ZipFile(raw) as archive:
            total = 0
            for entry in archive.infolist():
                with archive.open(entry) as packed:
                    total += _count(packed)
        require_room(path, total)
        raw.seek(0)
        with np.load(raw, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}


def _count(stream: IO[bytes]) -> int:
    """The numbers that the header of an array announces; no more of it is read."""
    version = np.lib.format.read_magic(stream)
    if version > (2, 0):
        raise ValueError("it holds a table of fields, not an array of numbers")
    form = "<H" if version == (1, 0) else "<I"
    start = stream.tell()
    (length,) = struct.unpack(form, stream.read(struct.calcsize(form)))
    if length > LONGEST_HEADER:
        raise ValueError(f"its header has {length} bytes, and no array needs more than {LONGEST_HEADER}")
    stream.seek(start)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(stream)
    if min(shape, default=0) < 0:
        raise ValueError(f"it announces an array of shape {shape}")
    return math.prod(shape) * max(1, dtype.itemsize // 8)
