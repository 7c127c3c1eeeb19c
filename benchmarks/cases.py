"""The problems that barycenter solvers are compared on: histograms on grids and on scattered points of the unit cube,
squared Euclidean cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from barymesh.support.grid import Grid
from benchmarks.images import Floats, digits


@dataclass(frozen=True)
class SolverCase:
    """``count`` measures on a regular grid of this ``shape``, or, without one, on ``scattered`` points of the square.

    ``target``: how many times faster than the best other solver we mean to be.
    """

    count: int
    shape: tuple[int, ...] = ()
    scattered: int = 0
    target: float | None = None

    @property
    def title(self) -> str:
        if not self.shape:
            return f"{self.count} on {self.scattered:,} scattered points"
        kind = ("histograms", "images", "volumes")[len(self.shape) - 1]
        return f"{self.count:,} {kind}, " + " x ".join(f"{side:,}" for side in self.shape)

    @property
    def points(self) -> Floats:
        """``(n, d)``, in C order of the grid."""
        if self.shape:
            return Grid(self.shape, (0.0,) * len(self.shape), (1.0,) * len(self.shape)).points
        return np.random.default_rng(1).random((self.scattered, 2))

    def histograms(self) -> Floats:
        """``(count, n)``, each summing to 1: images in two dimensions, ellipsoids in three, else bell curves."""
        if len(self.shape) == 2:
            return digits(self.count, self.shape[0]).reshape(self.count, -1)
        rng, points = np.random.default_rng(0), self.points
        rows = np.empty((self.count, len(points)))
        for row in rows:
            centre, width = rng.uniform(0.3, 0.7, points.shape[1]), rng.uniform(0.05, 0.2, points.shape[1])
            distance = np.square((points - centre) / width).sum(axis=1)
            # at least one point, however coarse the grid
            row[:] = distance <= max(2, distance.min()) if len(self.shape) == 3 else np.exp(-distance / 2)
        return np.asarray(rows / rows.sum(axis=1, keepdims=True))
