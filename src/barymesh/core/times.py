"""Virtual time: whole ticks of about a microsecond, so that sums and comparisons are exact."""

from __future__ import annotations

from typing import Any

import numpy as np

from barymesh.core.kernels import TICKS

TICK = 1.0 / TICKS


def whole_ticks(seconds: Any) -> Any:
    """Times in seconds, rounded down to whole ticks."""
    return np.floor(np.asarray(seconds) * TICKS) * TICK
