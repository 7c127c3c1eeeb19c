"""One message on the wire: the newest state of a node, in a single frame, as msgpack of a fixed schema. Reading one
executes nothing."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from barymesh.errors import BarymeshError

VERSION = 1
RUN_LENGTH = 64

# little-endian whatever the machine
DTYPES: dict[str, np.dtype[Any]] = {"f8": np.dtype("<f8"), "f4": np.dtype("<f4")}

# bytes; everything around the payload takes at most 108
_OVERHEAD = 128

_Whole = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class Reason(StrEnum):
    """Why something received is not used. The values are what people read."""

    TOO_LONG = "longer than any message of this run"
    MALFORMED = "not a message"
    VERSION = "another version of the format"
    DTYPE = "another number format than the run's"
    WIDTH = "another number of values than the run's"
    RUN = "of another run"
    SENDER = "from a node that is not this peer's"
    NOT_FINITE = "values that are not finite"
    OUT_OF_RANGE = "values out of range"
    STALE = "older than what was received before"
    BROKEN = "connection broken by an oversized frame or a breach of protocol"


class BadMessageError(BarymeshError, ValueError):
    """A frame is not a message that can be used; ``reason`` says why."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(f"{reason} ({detail})" if detail else str(reason))
        self.reason = reason
        self.detail = detail


class Message(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """``length`` numbers of a node. A newer message of a node, by (incarnation, sequence), replaces an older one."""

    version: int
    run: Annotated[str, msgspec.Meta(max_length=RUN_LENGTH)]
    sender: _Whole
    incarnation: _Whole
    sequence: _Whole
    dtype: Annotated[str, msgspec.Meta(max_length=8)]
    length: _Whole
    payload: bytes

    @property
    def mark(self) -> tuple[int, int]:
        """Grows from message to message of one sender."""
        return self.incarnation, self.sequence

    def values(self) -> NDArray[Any]:
        """``(length,)``, as sent; read-only, no copy."""
        return np.frombuffer(self.payload, dtype=DTYPES[self.dtype])

    def vector(self) -> NDArray[np.float64]:
        """``(length,)`` in float64; read-only where nothing had to be converted."""
        return self.values().astype(np.float64, copy=False)


class _Head(msgspec.Struct, array_like=True):
    """What every version of the format begins with."""

    version: int


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Message)
_head_decoder = msgspec.msgpack.Decoder(_Head)

# msgspec's own errors and its bad UTF-8 are ValueErrors; deep nesting ends in RecursionError
_UNREADABLE = (ValueError, RecursionError)


HEADER_BYTES = 42


def frame_bytes(numbers: int) -> int:
    """The bytes of a message of so many numbers."""
    return HEADER_BYTES + 8 * numbers


def frame_limit(width: int) -> int:
    """No message of ``width`` numbers takes more bytes."""
    return _OVERHEAD + width * DTYPES["f8"].itemsize


def encode(run: str, sender: int, incarnation: int, sequence: int, vector: ArrayLike, dtype: str = "f8") -> bytes:
    """The frame that carries the vector."""
    values = np.ascontiguousarray(vector, dtype=DTYPES[dtype])
    return _encoder.encode(
        Message(VERSION, run, int(sender), int(incarnation), int(sequence), dtype, values.size, values.tobytes())
    )


def decode(frame: bytes, width: int) -> Message:
    """The message of ``width`` numbers in the frame. BadMessageError, and no other error, if it is not one."""
    # before anything is read, so that a huge frame costs nothing
    if len(frame) > frame_limit(width):
        raise BadMessageError(Reason.TOO_LONG, f"{len(frame)} bytes, at most {frame_limit(width)}")
    try:
        message = _decoder.decode(frame)
    except _UNREADABLE as error:
        raise _unreadable(frame, error) from error
    if message.version != VERSION:
        raise _other_version(message.version)
    if message.dtype not in DTYPES:
        raise BadMessageError(Reason.DTYPE, ascii(message.dtype))
    if len(message.payload) != message.length * DTYPES[message.dtype].itemsize:
        raise BadMessageError(Reason.MALFORMED, f"{len(message.payload)} bytes for {message.length} values")
    if message.length != width:
        raise BadMessageError(Reason.WIDTH, f"{message.length} values, expected {width}")
    return message


def _unreadable(frame: bytes, error: Exception) -> BadMessageError:
    """Another version may have other fields, and should be called by its name."""
    try:
        version = _head_decoder.decode(frame).version
    except _UNREADABLE:
        version = VERSION
    return BadMessageError(Reason.MALFORMED, str(error)) if version == VERSION else _other_version(version)


def _other_version(version: int) -> BadMessageError:
    return BadMessageError(Reason.VERSION, f"{version}, this is version {VERSION}")
