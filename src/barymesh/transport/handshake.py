"""The handshake of a connection: one request, and its reply. No sockets here.

A peer that connects sends a request: its network, the versions of the format that it speaks, a random challenge, and
the mark of the newest message that it has of the other. The other replies with its own network, the version that both
speak, the challenge, and its incarnation: the random number of the life that its messages belong to.

- **Freshness.** The challenge is new in every connection, so a reply that repeats it was made after the request.
  Messages of the incarnation in it are those of a node that is there now, whatever was known of the node before, and
  whatever clocks show.
- **An old memory.** A node that was started from a snapshot or a backup learns from the mark in a request that others
  have newer messages of it than its own memory knows of, and begins a new life.
- **Other networks and versions.** Peers that have nothing to say to one another learn why, and send no messages.

Both frames are the same in all versions of the format, from 3 on.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from barymesh.transport.wire import MAGIC, RUN_LENGTH, BadMessageError, Mark, Reason

# (oldest, newest)
Versions = tuple[int, int]

CHALLENGE_BYTES = 16
PROGRAM = version("barymesh")

# in place of the version of the format
_HANDSHAKE = 0
_PREFIX = struct.Struct("<4sH")
# after the prefix: oldest and newest version, node, challenge, incarnation and sequence, run, program
_REQUEST = struct.Struct(f"<HHI{CHALLENGE_BYTES}sqq{RUN_LENGTH}s16s")
# after the prefix: version in common, oldest and newest version, challenge, incarnation, run, program
_REPLY = struct.Struct(f"<HHH{CHALLENGE_BYTES}sq{RUN_LENGTH}s16s")
# a request before version 3 was the number of a node, and nothing else
_OLD_REQUEST_BYTES = 4
_NO_MARK = (-1, -1)


@dataclass(frozen=True)
class Request:
    """A peer with this ``node``, in this ``run``, asks for messages. ``mark``: (incarnation, sequence) of the newest
    that it has; None if it has none. ``program``: the version of its program."""

    versions: Versions
    node: int
    challenge: bytes
    mark: Mark | None
    run: str
    program: str = PROGRAM

    def encode(self) -> bytes:
        """The frame."""
        return _PREFIX.pack(MAGIC, _HANDSHAKE) + _REQUEST.pack(
            *self.versions, self.node, self.challenge, *(self.mark or _NO_MARK), self.run.encode(),
            self.program.encode()[:16],
        )  # fmt: skip

    @classmethod
    def decode(cls, frame: bytes) -> Request:
        """The request in the frame. BadMessageError, and no other error, if it has none."""
        if len(frame) == _OLD_REQUEST_BYTES:
            raise BadMessageError(Reason.VERSION, "a request of a version before 3")
        oldest, newest, node, challenge, incarnation, sequence, run, program = _fields(frame, _REQUEST)
        mark = (incarnation, sequence) if incarnation >= 0 and sequence >= 0 else None
        return cls((oldest, newest), node, challenge, mark, _text(run), _text(program))


@dataclass(frozen=True)
class Reply:
    """To the request with this ``challenge``: the ``version`` that both speak, 0 if there is none, and the
    ``incarnation`` that the messages which follow belong to, -1 if none follow."""

    version: int
    versions: Versions
    challenge: bytes
    incarnation: int
    run: str
    program: str = PROGRAM

    def encode(self) -> bytes:
        """The frame."""
        return _PREFIX.pack(MAGIC, _HANDSHAKE) + _REPLY.pack(
            self.version, *self.versions, self.challenge, self.incarnation, self.run.encode(),
            self.program.encode()[:16],
        )  # fmt: skip

    @classmethod
    def decode(cls, frame: bytes) -> Reply:
        """The reply in the frame. BadMessageError, and no other error, if it has none."""
        chosen, oldest, newest, challenge, incarnation, run, program = _fields(frame, _REPLY)
        return cls(chosen, (oldest, newest), challenge, incarnation, _text(run), _text(program))


def is_handshake(frame: bytes) -> bool:
    """Whether the frame belongs to a handshake, and is no message."""
    return len(frame) >= _PREFIX.size and _PREFIX.unpack_from(frame) == (MAGIC, _HANDSHAKE)


def common_version(ours: Versions, theirs: Versions) -> int:
    """The newest version that both speak; 0 if there is none."""
    newest = min(ours[1], theirs[1])
    return newest if newest >= max(ours[0], theirs[0]) else 0


def _fields(frame: bytes, layout: struct.Struct) -> tuple[Any, ...]:
    if not is_handshake(frame) or len(frame) != _PREFIX.size + layout.size:
        raise BadMessageError(Reason.MALFORMED, f"{len(frame)} bytes that are no part of a handshake")
    return layout.unpack_from(frame, _PREFIX.size)


def _text(raw: bytes) -> str:
    text = raw.rstrip(b"\0").decode("ascii", errors="replace")
    if not (text.isascii() and text.isprintable()):
        raise BadMessageError(Reason.MALFORMED, "text that is not printable")
    return text
