"""Limit how often the same kind of event is logged: a peer that sends bad messages must not fill the log."""

from __future__ import annotations

import time
from collections.abc import Callable


class RateLimit:
    """Allows one event of a kind in ``interval`` seconds, and counts the others."""

    def __init__(self, interval: float = 10.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval = interval
        self._clock = clock
        self._last: dict[str, float] = {}
        self._suppressed: dict[str, int] = {}

    def suppressed(self, kind: str) -> int | None:
        """Count an event of the kind. If it may be logged: the number of events suppressed since the last one that was.
        None if it is suppressed."""
        now = self._clock()
        if now - self._last.get(kind, -float("inf")) < self._interval:
            self._suppressed[kind] = self._suppressed.get(kind, 0) + 1
            return None
        self._last[kind] = now
        return self._suppressed.pop(kind, 0)
