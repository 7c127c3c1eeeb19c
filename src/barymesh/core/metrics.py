"""Compiled part of the metrics."""

from __future__ import annotations

import numba
import numpy as np

from barymesh.core.compiling import compiled_parallel
from barymesh.core.vector_sums import squared_distance


@compiled_parallel
def squared_differences(p, edges):
    """``|p_i - p_j|^2`` for every edge ``(i, j)`` of ``edges (E, 2)``."""
    out = np.empty(edges.shape[0])
    for e in numba.prange(edges.shape[0]):
        out[e] = squared_distance(p[edges[e, 0]], p[edges[e, 1]])
    return out
