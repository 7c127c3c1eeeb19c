"""Virtual time in compiled code: whole ticks of about a microsecond, so that sums and comparisons are exact."""

from __future__ import annotations

from typing import Any

import numpy as np

TICKS = 2.0**20
TICK = 1.0 / TICKS
# a time that never comes: finite, because compiled code assumes that there are no infinities
FOREVER = 1e300
# the kinds of delay distributions
SPACED, CATEGORICAL, LOG_NORMAL, TRACE = range(4)


def whole_ticks(seconds: Any) -> Any:
    """Times in seconds, rounded down to whole ticks."""
    return np.floor(np.asarray(seconds) * TICKS) * TICK
