"""Compiled random draws of the schedules."""

from __future__ import annotations

import numpy as np

from barymesh.core.compiling import compiled
from barymesh.core.counter_random import CLOCKS, ORDERS, random_bits, random_stream, unit


@compiled
def waiting_times(seed, nodes, counts, jitter):
    """The waiting times ``(b,)`` before activation ``counts`` of the nodes, in units of their mean: exponential if
    ``jitter`` is negative, else uniform within ``1 -+ jitter``, and the first one uniform on (0, 1)."""
    out = np.empty(nodes.size)
    for k in range(nodes.size):
        level = unit(random_bits(random_stream(seed, CLOCKS, nodes[k], counts[k]), 0))
        if jitter < 0:
            out[k] = -np.log(level)
        elif counts[k] == 0:
            out[k] = level
        else:
            out[k] = 1.0 + jitter * (2.0 * level - 1.0)
    return out


@compiled
def permutation(seed, window, size):
    """The order of the nodes in a window (Fisher-Yates shuffle)."""
    out = np.arange(size)
    stream = random_stream(seed, ORDERS, window, size)
    for k in range(size - 1, 0, -1):
        chosen = np.int64(unit(random_bits(stream, k)) * (k + 1))
        out[k], out[chosen] = out[chosen], out[k]
    return out
