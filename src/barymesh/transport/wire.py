"""The wire format. A message is the newest state of one node, in one frame: a header of fixed size, then little-endian
float64 numbers. Reading a frame executes nothing.

Every message of a run has the same numbers. Some of them, the private columns, are meant for one receiver only; a frame
has them or leaves them out. So the frames of a run have one of exactly two lengths.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from barymesh.core import kernels
from barymesh.errors import BarymeshError, NumericalError, OptionError

Floats = NDArray[np.float64]
# (incarnation, sequence): the sequence grows from message to message of one incarnation of a node
Mark = tuple[int, int]

MAGIC = b"bary"
VERSION = 3
# the oldest and the newest version that this program speaks
VERSIONS = (3, VERSION)
RUN_LENGTH = 64

# magic, version, flags, digest of the run id, sender, length, incarnation, sequence; the numbers after it are aligned
_HEADER = struct.Struct("<4sHH16sIIQQ")
# what every version of the format begins with
_PREFIX = struct.Struct("<4sH")
_NUMBER = np.dtype("<f8")
_DIGEST_BYTES = 16
_WITH_PRIVATE = 1
# incarnation and sequence are kept in signed 64-bit integers
_MARK_LIMIT = 2**63

HEADER_BYTES = _HEADER.size
# where the header has the length
_LENGTH, _LENGTH_OFFSET = struct.Struct("<I"), 28
# messages of several nodes of one peer travel in one packet, of at most so many bytes
PACKET_BYTES = 2**16
# no columns
NONE = slice(0, 0)


def frame_bytes(numbers: int) -> int:
    """The length of a frame with so many numbers."""
    return HEADER_BYTES + numbers * _NUMBER.itemsize


@lru_cache(maxsize=64)
def run_digest(run: str) -> bytes:
    """The run in a frame: 16 bytes of blake2b of the run id."""
    return hashlib.blake2b(run.encode(), digest_size=_DIGEST_BYTES).digest()


class Reason(StrEnum):
    """Why something received is not used. The values are shown to users."""

    TOO_LONG = "longer than any message of this run"
    MALFORMED = "not a message"
    VERSION = "another version of the format"
    WIDTH = "another number of values than the run's"
    RUN = "of another run"
    SENDER = "from a node that this peer does not host"
    NOT_FINITE = "values that are not finite"
    OUT_OF_RANGE = "values out of range"
    CONTRADICTION = "values that contradict one another, or the network file"
    STALE = "older than a message received before, or of an incarnation that was not announced"
    BROKEN = "a frame that is too large, or a breach of protocol"


# what honest peers may send, while others take a new network file or install another version, or after a snapshot was
# restored: it is not used, and nobody is blamed
HARMLESS = frozenset({Reason.RUN, Reason.VERSION, Reason.STALE})


class BadMessageError(BarymeshError, ValueError):
    """A frame is not a message that can be used; for this ``reason``. ``sender``: whose it is, where that is known."""

    def __init__(self, reason: Reason, detail: str = "", sender: int | None = None) -> None:
        super().__init__(f"{reason} ({detail})" if detail else str(reason))
        self.reason = reason
        self.detail = detail
        self.sender = sender


@dataclass(eq=False, slots=True)
class Message:
    """The state of node ``sender``. A message replaces one of the same incarnation with a smaller sequence number, and
    one of any incarnation before.

    ``values``: the numbers that were sent, read-only: all of a message ``(width,)``, or those outside the columns
    ``missing``.
    """

    sender: int
    incarnation: int
    sequence: int
    values: Floats
    missing: slice

    @property
    def mark(self) -> Mark:
        """(incarnation, sequence)."""
        return self.incarnation, self.sequence

    def vector(self) -> Floats:
        """``(width,)``, with zeros in the private columns if those were not sent; read-only."""
        start, count = self.missing.start, self.missing.stop - self.missing.start
        if not count:
            return self.values
        vector = np.concatenate([self.values[:start], np.zeros(count), self.values[start:]])
        vector.flags.writeable = False
        return vector


Contradiction = Callable[[int, Floats], str]


def _no_contradiction(sender: int, values: Floats) -> str:
    return ""


@dataclass(frozen=True, eq=False)
class MessageFormat:
    """What every message of a run has: the id of its ``run``, and numbers between ``lower`` and ``upper (width,)``
    (infinite: no bound). The columns ``private`` are for one receiver only; if they are ``opaque`` they have no bounds,
    and may have any bits. ``versions``: the oldest and the newest version of the format that this peer speaks.
    ``contradiction``: called with the sender and the values that are sent, says what is impossible in them, see
    ``AsynchronousAlgorithm``."""

    run: str
    lower: Floats
    upper: Floats
    private: slice = field(default_factory=lambda: NONE)
    versions: tuple[int, int] = VERSIONS
    contradiction: Contradiction = _no_contradiction
    opaque: bool = False

    def __post_init__(self) -> None:
        if not (self.run.isascii() and self.run.isprintable() and 0 < len(self.run) <= RUN_LENGTH):
            raise OptionError(
                f"The run id {self.run!r} must be 1 to {RUN_LENGTH} printable ASCII characters, the same for all peers."
            )
        # a finite bound keeps infinity out
        largest = np.finfo(np.float64).max
        for name in ("lower", "upper"):
            bound = np.clip(np.array(getattr(self, name), dtype=np.float64), -largest, largest)
            object.__setattr__(self, name, bound)
        if self.lower.ndim != 1 or self.lower.shape != self.upper.shape or not self.lower.size:
            raise OptionError(
                f"lower {self.lower.shape} and upper {self.upper.shape} must have one bound for each number of a "
                "message."
            )
        if not (self.lower <= self.upper).all():
            raise OptionError("lower is above upper, or not a number; give lower <= upper, infinite for no bound.")
        start, stop, _ = self.private.indices(self.width)
        if self.private != slice(start, stop) or start > stop:
            raise OptionError(
                f"private is {self.private}; give slice(start, stop) with 0 <= start <= stop <= {self.width}."
            )

    @property
    def width(self) -> int:
        """How many numbers a message has, private ones included."""
        return self.lower.size

    @property
    def longest_frame(self) -> int:
        """The most bytes that a message of this run can take."""
        return frame_bytes(self.width)

    def longest_packet(self, nodes: int) -> int:
        """The most bytes that a packet of a peer with so many nodes can take."""
        return min(nodes * self.longest_frame, max(PACKET_BYTES, self.longest_frame))

    @cached_property
    def _digest(self) -> bytes:
        return run_digest(self.run)

    @cached_property
    def _bounds(self) -> dict[bool, tuple[Floats, Floats]]:
        """Lower and upper bound of what is sent, with and without the private columns."""
        return {True: (self.lower, self.upper), False: (self.public(self.lower), self.public(self.upper))}

    def public(self, vectors: Floats) -> Floats:
        """Vectors ``(..., width)`` without their private columns."""
        return np.concatenate([vectors[..., : self.private.start], vectors[..., self.private.stop :]], axis=-1)

    def as_vector(self, sender: int, vector: ArrayLike) -> Floats:
        """The vector ``(width,)`` of a message. OptionError if it has another shape."""
        values = np.asarray(vector, dtype=np.float64)
        if values.shape != (self.width,):
            raise OptionError(f"Node {sender} sends an array {values.shape}; messages of this run are ({self.width},).")
        return values

    def encode(
        self, sender: int, incarnation: int, sequence: int, vector: ArrayLike, *, with_private: bool = False
    ) -> bytes:
        """The frame of a vector ``(width,)``, with or without its private columns. NumericalError if no neighbour would
        accept it."""
        values = self.as_vector(sender, vector)
        if not with_private:
            values = self.public(values)
        self.require_sendable([sender], values[None])
        return encode(self.run, sender, incarnation, sequence, values, with_private=with_private)

    def frames(
        self, sender: int, incarnation: int, sequence: int, vector: Floats, *, with_private: bool
    ) -> tuple[bytes, bytes]:
        """The frames of a vector ``(width,)`` for all neighbours but one, and for that one: it gets the private columns
        too if it is ``with_private``. Nothing is checked."""
        numbers = vector.astype(_NUMBER, copy=False).tobytes()
        start, stop = _NUMBER.itemsize * self.private.start, _NUMBER.itemsize * self.private.stop
        mark = (sender, incarnation, sequence)
        public = _header(self._digest, 0, *mark, len(numbers) - (stop - start)) + numbers[:start] + numbers[stop:]
        return public, _header(self._digest, _WITH_PRIVATE, *mark, len(numbers)) + numbers if with_private else public

    def require_sendable(self, senders: Sequence[int], values: Floats) -> None:
        """NumericalError if neighbours would refuse these values: vectors ``(b, width)`` of so many ``senders``, or
        their public columns."""
        try:
            self._check(senders, values)
        except BadMessageError as error:
            raise NumericalError(
                f"Node {error.sender} has {error}. Nothing was sent. Check its measure for extreme coordinates, or use "
                "a larger reg."
            ) from None

    def decode(self, frame: bytes) -> Message:
        """The message of this run in the frame. BadMessageError, and no other error, if it has none. The values are
        not checked against their bounds."""
        # the length comes first, so that a huge frame costs nothing
        if len(frame) > self.longest_frame:
            raise BadMessageError(Reason.TOO_LONG, f"{len(frame)} bytes, at most {self.longest_frame}")
        if len(frame) < _PREFIX.size:
            raise BadMessageError(Reason.MALFORMED, f"{len(frame)} bytes")
        magic, version = _PREFIX.unpack_from(frame)
        if magic != MAGIC:
            raise BadMessageError(Reason.MALFORMED, f"it begins with {magic!r}, not {MAGIC!r}")
        # another version may have another header, and is reported by its number
        oldest, newest = self.versions
        if not oldest <= version <= newest:
            raise BadMessageError(Reason.VERSION, f"{version}, this program speaks {oldest} to {newest}")
        if len(frame) < HEADER_BYTES:
            raise BadMessageError(Reason.MALFORMED, f"{len(frame)} bytes, less than a header")
        _, _, flags, digest, sender, length, incarnation, sequence = _HEADER.unpack_from(frame)
        if len(frame) != frame_bytes(length):
            raise BadMessageError(Reason.MALFORMED, f"{len(frame)} bytes for {length} values")
        if flags not in (0, _WITH_PRIVATE) or max(incarnation, sequence) >= _MARK_LIMIT:
            raise BadMessageError(Reason.MALFORMED, f"flags {flags}, incarnation {incarnation}, sequence {sequence}")
        # messages of another run may have another width
        if digest != self._digest:
            raise BadMessageError(Reason.RUN, f"digest {digest.hex()}, expected {self._digest.hex()}")
        missing = NONE if flags == _WITH_PRIVATE else self.private
        expected = self.width - (missing.stop - missing.start)
        if length != expected:
            raise BadMessageError(Reason.WIDTH, f"{length} values, expected {expected}")
        values = np.frombuffer(frame, dtype=_NUMBER, offset=HEADER_BYTES)
        return Message(sender, incarnation, sequence, values.astype(np.float64, copy=False), missing)

    def check(self, message: Message) -> None:
        """BadMessageError unless every value that was sent is within its bounds, and possible beside the others."""
        self._check((message.sender,), message.values[None])

    def _check(self, senders: Sequence[int], values: Floats) -> None:
        """``check`` for vectors ``(b, width)``, or for their public columns."""
        bounded = self.public(values) if self.opaque and values.shape[1] == self.width else values
        lower, upper = self._bounds[bounded.shape[1] == self.width]
        if not kernels.all_within(bounded, lower, upper):
            # a NaN is on neither side of a bound
            row, column = np.argwhere(~((bounded >= lower) & (bounded <= upper)))[0]
            value = bounded[row, column]
            reason = Reason.OUT_OF_RANGE if np.isfinite(bounded[row]).all() else Reason.NOT_FINITE
            where = f"value {column} is {value:g}, bounds {lower[column]:g} and {upper[column]:g}"
            raise BadMessageError(reason, where, senders[row])
        for sender, sent in zip(senders, values, strict=True):
            if impossible := self.contradiction(sender, sent):
                raise BadMessageError(Reason.CONTRADICTION, impossible, sender)


def encode(
    run: str, sender: int, incarnation: int, sequence: int, values: ArrayLike, *, with_private: bool = False
) -> bytes:
    """The frame with these values, whatever they are. ``MessageFormat.encode`` checks them first."""
    numbers = np.ascontiguousarray(values, dtype=_NUMBER).tobytes()
    flags = _WITH_PRIVATE if with_private else 0
    return _header(run_digest(run), flags, sender, incarnation, sequence, len(numbers)) + numbers


def _header(digest: bytes, flags: int, sender: int, incarnation: int, sequence: int, length: int) -> bytes:
    """That of a frame with so many bytes after it."""
    return _HEADER.pack(MAGIC, VERSION, flags, digest, sender, length // _NUMBER.itemsize, incarnation, sequence)


def packets(frames: Sequence[bytes]) -> Iterator[slice]:
    """Which frames travel together: in packets of at most PACKET_BYTES, or of one frame."""
    start, size = 0, 0
    for k, frame in enumerate(frames):
        if size and size + len(frame) > PACKET_BYTES:
            yield slice(start, k)
            start, size = k, 0
        size += len(frame)
    yield slice(start, len(frames))


def frames(packet: bytes) -> Iterator[bytes]:
    """The frames in a packet, by the lengths in their headers. What is no message comes last, as it is."""
    start, (oldest, newest) = 0, VERSIONS
    while start + HEADER_BYTES <= len(packet):
        magic, version = _PREFIX.unpack_from(packet, start)
        end = start + frame_bytes(_LENGTH.unpack_from(packet, start + _LENGTH_OFFSET)[0])
        if end >= len(packet) or magic != MAGIC or not oldest <= version <= newest:
            break
        yield packet[start:end]
        start = end
    yield packet[start:]


def in_version(frame: bytes, version: int) -> bytes:
    """The frame for a peer that speaks this version: so far all of them differ in its number only."""
    if version == VERSION:
        return frame
    return _PREFIX.pack(MAGIC, version) + frame[_PREFIX.size :]
