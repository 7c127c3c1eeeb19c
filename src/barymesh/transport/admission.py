"""Checks on arrival: every frame is checked before it is used, and a peer that keeps sending bad ones is cut off. No
sockets here."""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from barymesh.errors import OptionError
from barymesh.transport.rate_limit import RateLimit
from barymesh.transport.wire import BadMessageError, Mark, Message, MessageFormat, Reason

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Tolerance:
    """A peer that sends ``bad`` bad messages within ``window`` seconds is cut off."""

    bad: int = 20
    window: float = 60.0

    def __post_init__(self) -> None:
        if self.bad < 1 or not self.window > 0:
            raise OptionError(f"Tolerance(bad={self.bad}, window={self.window}): both must be positive.")


class Admission:
    """Decides which frames of one peer are used: messages of its own ``nodes``, in the run's format, each newer than
    the last one of that node.

    ``marks``: (incarnation, sequence) of the newest message of each node. ``accepted``, ``duplicates`` and ``refused``
    (by reason) count the frames.
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
        self._clock = clock
        self._log_limit = RateLimit(clock=clock)
        self._fault_times: deque[float] = deque(maxlen=self.tolerance.bad)

    def accept(self, frame: bytes) -> Message | None:
        """The message in the frame, or None if it is not to be used. Raises nothing, whatever the frame is."""
        if self.cut_off:
            return None
        try:
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

    def _checked(self, frame: bytes) -> Message | None:
        """The message; None if it is the newest one again, which peers repeat for neighbours that missed it."""
        message = self.format.decode(frame)
        if message.sender not in self.nodes:
            raise BadMessageError(Reason.SENDER, f"node {message.sender}")
        last = self.marks.get(message.sender, (-1, -1))
        if message.mark == last:
            return None
        if message.mark < last:
            raise BadMessageError(Reason.STALE, f"node {message.sender}: {message.mark} after {last}")
        self.format.check(message)
        return message

    def report(self, fault: BadMessageError) -> None:
        """Count a fault of the peer, and cut the peer off if there were too many."""
        self.refused[fault.reason] += 1
        if (suppressed := self._log_limit.suppressed(fault.reason)) is not None:
            _log.warning(
                "peer %s: refused what it sent: %s",
                self.peer,
                fault,
                extra={"peer": self.peer, "reason": fault.reason.name, "suppressed": suppressed},
            )
        now = self._clock()
        self._fault_times.append(now)
        if len(self._fault_times) == self.tolerance.bad and now - self._fault_times[0] <= self.tolerance.window:
            self.cut_off = True
            _log.error(
                "peer %s: cut off after %d bad messages within %g s",
                self.peer,
                self.tolerance.bad,
                self.tolerance.window,
                extra={"peer": self.peer, "refused_messages": {reason.name: n for reason, n in self.refused.items()}},
            )
