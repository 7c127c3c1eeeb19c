"""Say things seldom: whoever sends bad messages shall not fill the log too."""

from __future__ import annotations

import time
from collections.abc import Callable


class Seldom:
    """Lets one event of a kind through in ``interval`` seconds, and counts those held back in between."""

    def __init__(self, interval: float = 10.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval = interval
        self._clock = clock
        self._last: dict[str, float] = {}
        self._held: dict[str, int] = {}

    def held(self, kind: str) -> int | None:
        """How many events of the kind were held back since the last one let through; None if this is one more."""
        now = self._clock()
        if now - self._last.get(kind, -float("inf")) < self._interval:
            self._held[kind] = self._held.get(kind, 0) + 1
            return None
        self._last[kind] = now
        return self._held.pop(kind, 0)
