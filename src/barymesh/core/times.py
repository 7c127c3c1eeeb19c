"""How compiled code counts virtual time: in ticks of about a microsecond, so that sums and comparisons are exact."""

from __future__ import annotations

from typing import Any

import numpy as np

TICKS = 2.0**20
TICK = 1.0 / TICKS
# stands for a time that never comes: finite, so that compiled code may assume there are no infinities
FOREVER = 1e300
# the laws of delays
SPACED, CATEGORICAL, LOG_NORMAL, TRACE = range(4)


def whole_ticks(seconds: Any) -> Any:
    """The last whole tick not after each time, in seconds."""
    return np.floor(np.asarray(seconds) * TICKS) * TICK
