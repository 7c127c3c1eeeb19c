"""Back from a noisy vector to a histogram. It sees the noisy vector only, so it costs no privacy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from barymesh.resources import memory
from barymesh.support.points import Support

Floats = NDArray[np.float64]
# where it stops: the change of a step (L1), and the number of steps; later ones change only what the blur hides
STILL, MOST_STEPS = 1e-7, 300


def onto_simplex(v: Floats) -> Floats:
    """The probability vector nearest to v ``(n,)`` in the Euclidean norm: ``max(v - t, 0)`` with the t that makes the
    sum 1."""
    falling = np.sort(v)[::-1]
    levels = (np.cumsum(falling) - 1) / np.arange(1, v.size + 1)
    return np.asarray(np.maximum(v - levels[np.flatnonzero(falling > levels)[-1]], 0.0))


def nearest_histogram(noisy: Floats, support: Support, reg: float) -> Floats:
    """The probability vector p ``(n,)`` that minimises ``(p - noisy)' G (p - noisy)``, ``G = exp(-|x - y|^2/(2 reg))``.

    That is the distance between p and the noisy vector after a blur of width sqrt(reg/2), the one with which the
    barycenter sees them. The Euclidean projection would fit the noise between neighbouring points, which it does not
    see. Found by accelerated projected gradients.
    """
    blurred, norm = _kernel(support, reg)
    p = ahead = onto_simplex(noisy)
    pace = 1.0
    for _ in range(MOST_STEPS):
        last, p = p, onto_simplex(ahead - blurred(ahead - noisy) / norm)
        before, pace = pace, (1 + np.sqrt(1 + 4 * pace**2)) / 2
        ahead = p + (before - 1) / pace * (p - last)
        if np.abs(p - last).sum() < STILL:
            break
    return p


def _kernel(support: Support, reg: float) -> tuple[Callable[[Floats], Floats], float]:
    """``v -> G v``, and a bound on the norm of G."""
    if support.grid is None:
        memory.require(24 * support.size**2, f"A blur on {support.size} points", "Use a regular grid or fewer points.")
        points = support.points
        squares = np.square(points[:, None] - points).sum(axis=2)
        dense = np.exp(-squares / (2 * reg))
        return lambda v: dense @ v, float(dense.sum(axis=0).max())
    # a product of one kernel an axis
    shape = support.grid.shape
    factors = [np.exp(-np.square(axis[:, None] - axis) / (2 * reg)) for axis in support.grid.axes]

    def blurred(v: Floats) -> Floats:
        block = v.reshape(shape)
        for factor in factors:
            # takes the first axis and puts it last, so that after all of them the order is as before
            block = np.tensordot(block, factor, axes=(0, 0))
        return block.ravel()

    return blurred, float(np.prod([factor.sum(axis=0).max() for factor in factors]))
