"""Compiled part of the metrics."""

from __future__ import annotations

import numba
import numpy as np

from barymesh.compiling import compiled_parallel


@compiled_parallel
def squared_differences(p, edges):
    """``|p_i - p_j|^2`` for every edge ``(i, j)`` of ``edges (E, 2)``."""
    out = np.empty(edges.shape[0])
    for e in numba.prange(edges.shape[0]):
        i, j = edges[e, 0], edges[e, 1]
        total = 0.0
        for k in range(p.shape[1]):
            gap = p[i, k] - p[j, k]
            total += gap * gap
        out[e] = total
    return out
