"""Virtual time is counted in ticks of about a microsecond, so that sums and comparisons of times are exact."""

from __future__ import annotations

from typing import Any

import numpy as np

TICKS = 2.0**20
TICK = 1.0 / TICKS


def whole_ticks(seconds: Any) -> Any:
    """The last whole tick not after each time, in seconds."""
    return np.floor(np.asarray(seconds) * TICKS) * TICK
