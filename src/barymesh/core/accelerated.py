"""Compiled updates of the accelerated algorithms, row by row over a batch of nodes."""

from __future__ import annotations

import numba

from barymesh.core.compiling import compiled_inline, compiled_parallel
from barymesh.core.theta import square_change

compiled_square_change = compiled_inline(square_change)


@compiled_parallel
def advance(omega, momentum, last_place, last_excess, nodes, place, excess, size, scale, naive, lam, share):
    """Move the nodes from the theta of their ``last_place (k,)`` to that of ``place (b,)``, whose square is 1 + rise
    times as large: ``omega += rise momentum``, ``momentum *= 1 + rise``. ``size``: the nodes of the network, m.

    Fill ``lam (b, n)`` with the points to ask the oracle at, the new ones, or the old ones if naive; and ``share (b,)``
    with m theta.
    """
    for row in numba.prange(nodes.size):
        i = nodes[row]
        rise = compiled_square_change(place[row], excess[row], last_place[i], last_excess[i], size)
        last_place[i], last_excess[i] = place[row], excess[row]
        share[row] = size / (0.5 * (place[row] - 1) + size + excess[row])
        for k in range(omega.shape[1]):
            before = omega[i, k]
            omega[i, k] = before + rise * momentum[i, k]
            momentum[i, k] += rise * momentum[i, k]
            lam[row, k] = scale[i] * (before if naive else omega[i, k])


@compiled_parallel
def descend(omega, momentum, nodes, step, share, g, totals, heard):
    """The step along ``heard g - totals``, the node's row of the Laplacian applied to the gradients: ``omega -= step
    slope``, ``momentum += step (1 - m theta) / (m theta) slope``, with m theta in ``share (b,)``."""
    for row in numba.prange(nodes.size):
        i = nodes[row]
        push = step * (1.0 - share[row]) / share[row]
        for k in range(omega.shape[1]):
            slope = heard[row] * g[row, k] - totals[row, k]
            omega[i, k] -= step * slope
            momentum[i, k] += push * slope
