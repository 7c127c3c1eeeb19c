"""A few out of many, evenly: for pictures of networks too large to be shown whole."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# nodes whose estimates are kept for pictures and animations
MOST_PICTURED = 64


def evenly(count: int, most: int) -> NDArray[np.intp]:
    """At most so many of ``count`` places, evenly spaced, with the first and the last."""
    return np.linspace(0, count - 1, min(count, most)).astype(np.intp)
