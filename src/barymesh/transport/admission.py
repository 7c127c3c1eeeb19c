"""Checks on arrival: every frame is checked before it is used, and a peer that keeps sending bad ones is cut off for a
while. No sockets here."""

from __future__ import annotations

import logging
import secrets
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from barymesh.errors import OptionError
from barymesh.transport import handshake
from barymesh.transport.handshake import Reply
from barymesh.transport.rate_limit import RateLimit
from barymesh.transport.wire import HARMLESS, BadMessageError, Mark, Message, MessageFormat, Reason

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Tolerance:
    """A peer that sends ``bad`` bad messages within ``window`` seconds is cut off: for ``pause`` seconds, and for twice
    as long each time it begins again soon after, up to ``longest_pause``."""

    bad: int = 20
    window: float = 60.0
    pause: float = 60.0
    longest_pause: float = 6 * 3600.0

    def __post_init__(self) -> None:
        if self.bad < 1 or not all(value > 0 for value in (self.window, self.pause, self.longest_pause)):
            raise OptionError(f"{self}: all must be positive.")


class Admission:
    """Decides which frames of one peer are used: messages of its own ``nodes``, in the run's format, of the incarnation
    that the peer has announced in this connection, each newer than the last one of that node.

    ``marks``: (incarnation, sequence) of the newest message of each node. ``reply``: that of the peer to the request
    of this connection; None before it has come. ``accepted``, ``duplicates`` and ``refused`` (by reason) count the
    frames. ``cut_offs``: how often the peer was cut off, and ``pause``: for how many seconds, the last time.
    """

    def __init__(
        self,
        peer: str,
        nodes: Collection[int],
        message_format: MessageFormat,
        tolerance: Tolerance | None = None,
        marks: Mapping[int, Mark] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.peer = peer
        self.nodes = frozenset(nodes)
        self.format = message_format
        self.tolerance = tolerance or Tolerance()
        self.marks = {node: mark for node, mark in (marks or {}).items() if node in self.nodes}
        self.accepted = 0
        self.duplicates = 0
        self.refused: Counter[Reason] = Counter()
        self.cut_off = False
        self.cut_offs = 0
        self.pause = 0.0
        self.reply: Reply | None = None
        self._challenge = b""
        self._readmitted = -float("inf")
        self._clock = clock
        self._log_limit = RateLimit(clock=clock)
        self._fault_times: deque[float] = deque(maxlen=self.tolerance.bad)

    def begin(self) -> bytes:
        """A new connection begins: the challenge that the reply must repeat."""
        self.reply, self._challenge = None, secrets.token_bytes(handshake.CHALLENGE_BYTES)
        return self._challenge

    def accept(self, frame: bytes) -> Message | None:
        """The message in the frame, or None if there is none to be used. Raises nothing, whatever the frame is."""
        if self.cut_off:
            return None
        try:
            if handshake.is_handshake(frame):
                self.reply = self._reply(frame)
                return None
            message = self._checked(frame)
        except BadMessageError as fault:
            self.report(fault)
            return None
        if message is None:
            self.duplicates += 1
            return None
        self.marks[message.sender] = message.mark
        self.accepted += 1
        return message

    def _reply(self, frame: bytes) -> Reply:
        reply = Reply.decode(frame)
        if reply.challenge != self._challenge:
            raise BadMessageError(Reason.STALE, "a reply to another request")
        if self.reply is not None and replace(reply, incarnation=self.reply.incarnation) != self.reply:
            raise BadMessageError(Reason.MALFORMED, "a second reply, with more than another incarnation")
        return reply

    def _checked(self, frame: bytes) -> Message | None:
        """The message; None if it is the newest one again, which peers repeat for neighbours that missed it."""
        message = self.format.decode(frame)
        if message.sender not in self.nodes:
            raise BadMessageError(Reason.SENDER, f"node {message.sender}")
        announced = None if self.reply is None else self.reply.incarnation
        if message.incarnation != announced:
            raise BadMessageError(Reason.STALE, f"incarnation {message.incarnation}, announced was {announced}")
        incarnation, sequence = self.marks.get(message.sender, (-1, -1))
        if message.incarnation == incarnation:
            if message.sequence == sequence:
                return None
            if message.sequence < sequence:
                raise BadMessageError(
                    Reason.STALE, f"node {message.sender}: number {message.sequence} after {sequence}"
                )
        self.format.check(message)
        return message

    def report(self, fault: BadMessageError) -> None:
        """Count a fault of the peer, and cut the peer off if there were too many that no honest peer commits."""
        self.refused[fault.reason] += 1
        if (suppressed := self._log_limit.suppressed(fault.reason)) is not None:
            _log.log(
                logging.INFO if fault.reason in HARMLESS else logging.WARNING,
                "peer %s: refused what it sent: %s",
                self.peer,
                fault,
                extra={"peer": self.peer, "reason": fault.reason.name, "suppressed": suppressed},
            )
        if fault.reason in HARMLESS:
            return
        now = self._clock()
        self._fault_times.append(now)
        if len(self._fault_times) == self.tolerance.bad and now - self._fault_times[0] <= self.tolerance.window:
            self._cut_off(now)
            _log.error(
                "peer %s: cut off for %g s after %d bad messages within %g s",
                self.peer,
                self.pause,
                self.tolerance.bad,
                self.tolerance.window,
                extra={"peer": self.peer, "refused_messages": {reason.name: n for reason, n in self.refused.items()}},
            )

    def _cut_off(self, now: float) -> None:
        # as good for ten times as long as it was cut off: then it begins with the first pause again
        soon = now - self._readmitted <= 10 * self.pause
        longer = min(2 * self.pause, self.tolerance.longest_pause)
        self.pause = longer if soon else self.tolerance.pause
        self.cut_off, self.cut_offs = True, self.cut_offs + 1

    def readmit(self) -> None:
        """The pause is over, or somebody has ended it: look at what the peer sends again."""
        self.cut_off, self._readmitted = False, self._clock()
        self._fault_times.clear()
