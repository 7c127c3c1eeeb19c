"""The gate of a link: every frame is checked before it is used, and a neighbour that keeps sending bad ones is cut
off. No sockets here."""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from barymesh.errors import NumericalError, OptionError
from barymesh.transport import wire
from barymesh.transport.rate_limit import Seldom
from barymesh.transport.wire import BadMessageError, Message, Reason

_log = logging.getLogger(__name__)

Mark = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Rules:
    """What every message of a run looks like: its ``run`` id, its numbers between ``lower`` and ``upper (width,)``
    (infinite: no bound), and their ``dtype`` on the wire, "f8" or "f4"."""

    run: str
    lower: NDArray[Any]
    upper: NDArray[Any]
    dtype: str = "f8"

    def __post_init__(self) -> None:
        if not (self.run.isascii() and self.run.isprintable() and 0 < len(self.run) <= wire.RUN_LENGTH):
            raise OptionError(
                f"The run id {self.run!r} must be 1 to {wire.RUN_LENGTH} printable ASCII characters, the same for "
                "all peers."
            )
        if self.dtype not in wire.DTYPES:
            raise OptionError(f"dtype is {self.dtype!r}; choose one of {', '.join(wire.DTYPES)}.")
        for name in ("lower", "upper"):
            object.__setattr__(self, name, self._rounded(getattr(self, name)))
        if self.lower.ndim != 1 or self.lower.shape != self.upper.shape or not self.lower.size:
            raise OptionError(
                f"lower {self.lower.shape} and upper {self.upper.shape} must have one bound for each number of a "
                "message."
            )
        if not (self.lower <= self.upper).all():
            raise OptionError("lower is above upper, or not a number; give lower <= upper, infinite for no bound.")

    def _rounded(self, bound: ArrayLike) -> NDArray[Any]:
        """The bound in numbers of the wire: finite, so that it keeps infinity out; and rounded as they are, so that
        what was within it before it was rounded is so after it."""
        dtype = wire.DTYPES[self.dtype]
        largest = float(np.finfo(dtype).max)
        return np.clip(np.array(bound, dtype=np.float64), -largest, largest).astype(dtype)

    @property
    def width(self) -> int:
        """How many numbers a message has."""
        return self.lower.size

    @property
    def frame_limit(self) -> int:
        """No message of this run takes more bytes."""
        return wire.frame_limit(self.width)

    def fault(self, values: NDArray[Any]) -> BadMessageError | None:
        """What is wrong with the numbers ``(width,)``."""
        # a NaN is on neither side of a bound
        within = (values >= self.lower) & (values <= self.upper)
        if np.count_nonzero(within) == within.size:
            return None
        place = int(np.argmin(within))
        reason = Reason.OUT_OF_RANGE if np.isfinite(values).all() else Reason.NOT_FINITE
        return BadMessageError(
            reason, f"value {place} is {values[place]:g}, bounds {self.lower[place]:g} and {self.upper[place]:g}"
        )

    def encode(self, sender: int, incarnation: int, sequence: int, vector: ArrayLike) -> bytes:
        """The frame of a message that every neighbour will admit. NumericalError if none would."""
        values = np.asarray(vector, dtype=np.float64)
        if values.shape != (self.width,):
            raise OptionError(f"Node {sender} sends an array {values.shape}; messages of this run are ({self.width},).")
        if fault := self.fault(values):
            raise NumericalError(
                f"Node {sender} has {fault}. Nothing was sent. Check its measure "
                "for extreme coordinates, or use a larger reg."
            )
        return wire.encode(self.run, sender, incarnation, sequence, values, self.dtype)


@dataclass(frozen=True)
class Tolerance:
    """A peer that sends ``bad`` bad messages within ``window`` seconds is cut off."""

    bad: int = 20
    window: float = 60.0

    def __post_init__(self) -> None:
        if self.bad < 1 or not self.window > 0:
            raise OptionError(f"Tolerance(bad={self.bad}, window={self.window}): both must be positive.")


class Gate:
    """What may pass from one peer, known by its key: messages of its own ``nodes`` by the rules, each newer than the
    one before. ``marks``: (incarnation, sequence) of the newest message of each node, to go on from."""

    def __init__(
        self,
        peer: str,
        nodes: Collection[int],
        rules: Rules,
        tolerance: Tolerance | None = None,
        marks: Mapping[int, Mark] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.peer = peer
        self.nodes = frozenset(nodes)
        self.rules = rules
        self.tolerance = tolerance or Tolerance()
        self.marks = {node: mark for node, mark in (marks or {}).items() if node in self.nodes}
        self.admitted = 0
        self.repeated = 0
        self.refused: Counter[Reason] = Counter()
        self.cut_off = False
        self._clock = clock
        self._seldom = Seldom(clock=clock)
        self._offences: deque[float] = deque(maxlen=self.tolerance.bad)

    def admit(self, frame: bytes) -> Message | None:
        """The message in the frame, or None if it is not to be used. Raises nothing, whatever the frame is."""
        if self.cut_off:
            return None
        try:
            message = self._checked(frame)
        except BadMessageError as fault:
            self.blame(fault)
            return None
        if message is None:
            self.repeated += 1
            return None
        self.marks[message.sender] = message.mark
        self.admitted += 1
        return message

    def _checked(self, frame: bytes) -> Message | None:
        """The message; None if it is the newest once more, which peers repeat for those who missed it."""
        message = wire.decode(frame, self.rules.width)
        if message.run != self.rules.run:
            raise BadMessageError(Reason.RUN, ascii(message.run))
        if message.sender not in self.nodes:
            raise BadMessageError(Reason.SENDER, f"node {message.sender}")
        if message.dtype != self.rules.dtype:
            raise BadMessageError(Reason.DTYPE, f"{message.dtype}, expected {self.rules.dtype}")
        last = self.marks.get(message.sender, (-1, -1))
        if message.mark == last:
            return None
        if message.mark < last:
            raise BadMessageError(Reason.STALE, f"node {message.sender}: {message.mark} after {last}")
        if fault := self.rules.fault(message.values()):
            raise fault
        return message

    def blame(self, fault: BadMessageError) -> None:
        """Count an offence of the peer, and cut it off if it was one too many."""
        self.refused[fault.reason] += 1
        if (held := self._seldom.held(fault.reason)) is not None:
            _log.warning(
                "peer %s: refused what it sent: %s",
                self.peer,
                fault,
                extra={"peer": self.peer, "reason": fault.reason.name, "unlogged": held},
            )
        now = self._clock()
        self._offences.append(now)
        if len(self._offences) == self.tolerance.bad and now - self._offences[0] <= self.tolerance.window:
            self.cut_off = True
            _log.error(
                "peer %s: cut off after %d bad messages within %g s",
                self.peer,
                self.tolerance.bad,
                self.tolerance.window,
                extra={"peer": self.peer, "refused": {reason.name: n for reason, n in self.refused.items()}},
            )
