"""IDX files, in which MNIST and its relatives come: one array of numbers, plain or packed with gzip.

The header is two zero bytes, a byte for the type of the numbers, a byte for the number of axes, and the length of each
axis as 4 bytes; everything is big-endian.
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from barymesh.errors import FileError
from barymesh.io.limits import require_regular, require_room

TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
# that NumPy 1 can hold
MOST_AXES = 32
GZIP = b"\x1f\x8b"


def read_idx(file: Path) -> NDArray[Any]:
    """The array in an IDX file. Never more is unpacked than the header announces and memory can hold."""
    require_regular(file)
    try:
        with file.open("rb") as raw:
            # by content: browsers unpack .gz files and keep their names
            packed = raw.read(2) == GZIP
            raw.seek(0)
            if not packed:
                return _read(file, raw, file.stat().st_size)
            with gzip.open(raw) as unpacked:
                return _read(file, cast(BinaryIO, unpacked), None)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FileError(f"{file} is truncated or damaged inside its gzip packing ({error}). Get it again.") from error
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"{file} cannot be read: {error.strerror or error}.") from error


def _read(file: Path, stream: BinaryIO, length: int | None) -> NDArray[Any]:
    """The array in a stream of ``length`` bytes, if that is known beforehand."""
    start = stream.read(4)
    if len(start) == 4 and (start[:2] != b"\0\0" or start[2] not in TYPES or not 0 < start[3] <= MOST_AXES):
        raise FileError(
            f"{file} is not an IDX file: its magic number is {start.hex(' ')}, not 00 00, a known type and a number of "
            "axes. Rename it if it is of another kind."
        )
    axes = start[3] if len(start) == 4 else 0
    sides = stream.read(4 * axes)
    if axes == 0 or len(sides) < 4 * axes:
        raise FileError(f"{file} is truncated: its header is incomplete. Get it again.")
    dtype, shape = np.dtype(TYPES[start[2]]), struct.unpack(f">{axes}I", sides)
    count = math.prod(shape)
    wanted = 4 + 4 * axes + dtype.itemsize * count
    if length is not None and length < wanted:
        raise FileError(f"{file} is truncated: {length} bytes, where a stack of shape {shape} needs {wanted}.")
    require_room(file, count)
    values = stream.read(dtype.itemsize * count)
    if len(values) < dtype.itemsize * count:
        raise FileError(f"{file} is truncated: a stack of shape {shape} needs {wanted} bytes. Get it again.")
    if stream.read(1):
        raise FileError(f"{file} is too long: a stack of shape {shape} has {wanted} bytes. Get it again.")
    return np.frombuffer(values, dtype).reshape(shape)
