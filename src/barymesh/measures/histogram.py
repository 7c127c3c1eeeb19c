"""Histograms, on the support of the barycenter or on points of their own."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from barymesh.errors import MeasureError
from barymesh.grid import recognise
from barymesh.measures.base import Atoms, Discretisation, Floats, Measure, as_masses, as_points, draw


class Histogram(Measure):
    """Masses at ``points (N, d)``, or on the support of the barycenter where no points are given.

    The masses need not sum to 1. Histograms with equal points share them in the solver.
    """

    def __init__(self, masses: ArrayLike, points: ArrayLike | None = None) -> None:
        self.masses = as_masses(masses, "A histogram").ravel()
        self.points: Floats | None = None
        if points is not None:
            self.points = as_points(points, "The points of a histogram")
            if self.points.shape[0] != self.masses.size:
                raise MeasureError(
                    f"A histogram has {self.masses.size} masses and {self.points.shape[0]} points; give one each."
                )

    @property
    def dimension(self) -> int | None:
        return None if self.points is None else int(self.points.shape[1])

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        if self.points is None:
            raise MeasureError(
                "A histogram on the support cannot be sampled by itself; give it points=, for instance support.points."
            )
        return draw(self.points, self.masses, size, rng)

    def atoms(self, how: Discretisation) -> Atoms:
        if self.points is not None:
            return Atoms.from_weights(self.points, self.masses, recognise(self.points))
        assert how.support is not None
        return Atoms.from_weights(how.support.points, self.masses, how.support.grid)
