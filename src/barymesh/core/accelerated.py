"""Compiled updates of the accelerated algorithms, row by row over a batch of nodes."""

from __future__ import annotations

import numba

from barymesh.core.compiling import compiled_inline, compiled_parallel
from barymesh.core.theta import square_change

compiled_square_change = compiled_inline(square_change)


@compiled_parallel
def advance(omega, momentum, last_index, last_excess, nodes, index, excess, size, scale, naive, lam, share):
    """Move the nodes from the theta of their ``last_index (k,)`` to that of ``index (b,)``, whose square is 1 + rise
    times as large: ``omega += rise momentum``, ``momentum *= 1 + rise``. ``size``: the number of nodes, m.

    Fill ``lam (b, n)`` with the points at which to evaluate the oracle, the new ones, or the old ones if naive; and
    ``share (b,)`` with m theta.
    """
    for row in numba.prange(nodes.size):
        i = nodes[row]
        rise = compiled_square_change(index[row], excess[row], last_index[i], last_excess[i], size)
        last_index[i], last_excess[i] = index[row], excess[row]
        share[row] = size / (0.5 * (index[row] - 1) + size + excess[row])
        for k in range(omega.shape[1]):
            before = omega[i, k]
            omega[i, k] = before + rise * momentum[i, k]
            momentum[i, k] += rise * momentum[i, k]
            lam[row, k] = scale[i] * (before if naive else omega[i, k])


@compiled_parallel
def descend(omega, momentum, nodes, step, share, g, totals, counts):
    """The step along ``counts g - totals``, the node's row of the Laplacian applied to the gradients: ``omega -= step
    slope``, ``momentum += step (1 - m theta) / (m theta) slope``, with m theta in ``share (b,)``."""
    for row in numba.prange(nodes.size):
        i = nodes[row]
        push = step * (1.0 - share[row]) / share[row]
        for k in range(omega.shape[1]):
            slope = counts[row] * g[row, k] - totals[row, k]
            omega[i, k] -= step * slope
            momentum[i, k] += push * slope
