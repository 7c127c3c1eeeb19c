"""Compiled updates of the accelerated algorithms, row by row over a batch of nodes."""

from __future__ import annotations

import numba

from barymesh.compiling import compiled_parallel


@compiled_parallel
def advance(omega, momentum, nodes, rise, scale, naive, lam):
    """Move the nodes to a new theta, whose square is ``1 + rise (b,)`` times that of the old: ``omega += rise
    momentum``, ``momentum *= 1 + rise``. Fill ``lam (b, n)`` with the points to ask the oracle at: the new ones, or the
    old ones if naive."""
    for row in numba.prange(nodes.size):
        i = nodes[row]
        for k in range(omega.shape[1]):
            before = omega[i, k]
            omega[i, k] = before + rise[row] * momentum[i, k]
            momentum[i, k] += rise[row] * momentum[i, k]
            lam[row, k] = scale[i] * (before if naive else omega[i, k])


@compiled_parallel
def descend(omega, momentum, nodes, step, push, g, totals, heard):
    """The step along ``heard g - totals``, the node's row of the Laplacian applied to the gradients:
    ``omega -= step slope``, ``momentum += push slope``."""
    for row in numba.prange(nodes.size):
        i = nodes[row]
        for k in range(omega.shape[1]):
            slope = heard[row] * g[row, k] - totals[row, k]
            omega[i, k] -= step * slope
            momentum[i, k] += push[row] * slope
