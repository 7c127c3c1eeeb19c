"""Back from a noisy vector to a histogram. It sees the noisy vector only, so it costs no privacy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from barymesh.cost import SQUARED, Cost
from barymesh.oracle.gibbs import smoothing
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
    blurred = smoothing(support, Cost(SQUARED), 2 * reg)
    # G is symmetric and positive, so its norm is at most its largest row sum
    norm = float(blurred(np.ones(support.size)).max())
    p = ahead = onto_simplex(noisy)
    pace = 1.0
    for _ in range(MOST_STEPS):
        last, p = p, onto_simplex(ahead - blurred(ahead - noisy) / norm)
        before, pace = pace, (1 + np.sqrt(1 + 4 * pace**2)) / 2
        ahead = p + (before - 1) / pace * (p - last)
        if np.abs(p - last).sum() < STILL:
            break
    return p
