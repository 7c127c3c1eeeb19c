"""Compiled steps of the entropic method, row by row over a batch of nodes. See methods/entropic.py."""

from __future__ import annotations

import numba
import numpy as np

from barymesh.core.compiling import compiled, compiled_parallel
from barymesh.core.vector_math import fast_exp
from barymesh.core.vector_sums import sum_of


@compiled
def distance(log_p, log_q):
    """``sum_l |p_l - q_l|`` for logarithms ``(n,)`` of measures, which need not be normalised."""
    p, q = np.empty(log_p.size), np.empty(log_p.size)
    top_p, top_q = log_p[0], log_q[0]
    for k in range(p.size):
        top_p, top_q = max(top_p, log_p[k]), max(top_q, log_q[k])
    for k in range(p.size):
        p[k] = fast_exp(log_p[k] - top_p)
    for k in range(p.size):
        q[k] = fast_exp(log_q[k] - top_q)
    scale_p, scale_q = 1.0 / sum_of(p), 1.0 / sum_of(q)
    for k in range(p.size):
        p[k] = abs(scale_p * p[k] - scale_q * q[k])
    return sum_of(p)


@compiled_parallel
def distances(nodes, known, unknown, h, target, out):
    """``out (b,)``: the distances of the nodes' measures, whose logarithms are ``h (b, n)``, from their targets in
    ``target (k, n)``; ``unknown`` for nodes without one."""
    for row in numba.prange(nodes.size):
        out[row] = distance(h[row], target[nodes[row]]) if known[row] else unknown


@compiled_parallel
def move(nodes, relaxation, h, target, x):
    """``x_i += relaxation_i (target_i - h_i)``, with its mean removed, for the rows ``nodes (b,)`` of all but h."""
    for row in numba.prange(nodes.size):
        own_h, own_target, own_x, step = h[row], target[nodes[row]], x[nodes[row]], np.empty(h.shape[1])
        size = relaxation[nodes[row]]
        for k in range(step.size):
            step[k] = size * (own_target[k] - own_h[k])
        mean = sum_of(step) / step.size
        for k in range(step.size):
            own_x[k] += step[k] - mean
