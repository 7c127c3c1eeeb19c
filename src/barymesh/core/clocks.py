"""Compiled draws of the nodes' own clocks."""

from __future__ import annotations

import numpy as np

from barymesh.core.compiling import compiled
from barymesh.core.counter_random import CLOCKS, ORDERS, key, unit, word


@compiled
def waits(seed, nodes, counts, jitter):
    """The waits ``(b,)`` before activation ``counts`` of the nodes, in units of their mean: exponential if jitter is
    negative, else uniform within ``1 -+ jitter``, and the first one uniform on (0, 1)."""
    out = np.empty(nodes.size)
    for k in range(nodes.size):
        level = unit(word(key(seed, CLOCKS, nodes[k], counts[k]), 0))
        if jitter < 0:
            out[k] = -np.log(level)
        elif counts[k] == 0:
            out[k] = level
        else:
            out[k] = 1.0 + jitter * (2.0 * level - 1.0)
    return out


@compiled
def permutation(seed, window, size):
    """The order of the nodes in a window (Fisher and Yates)."""
    out = np.arange(size)
    name = key(seed, ORDERS, window, size)
    for k in range(size - 1, 0, -1):
        other = np.int64(unit(word(name, k)) * (k + 1))
        out[k], out[other] = out[other], out[k]
    return out
