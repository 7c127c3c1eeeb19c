"""Histograms, on the support of the barycenter or on points of their own."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from barymesh.errors import MeasureError
from barymesh.measures.base import Atoms, Discretisation, Floats, Measure, as_masses, as_points, draw
from barymesh.support.grid import recognise


class Histogram(Measure):
    """Masses on points of their own, or on the support of the barycenter.

    Histograms with equal points share them in the solver.

    Parameters
    ----------
    masses : array (N,)
        How much there is at each point; normalised to sum 1.
    points : array (N, d), optional
        Where; by default on the points of the support, in their order.

    Examples
    --------
    >>> from barymesh import Histogram
    >>> Histogram([1, 2, 1], points=[0.0, 0.5, 1.0]).masses
    array([0.25, 0.5 , 0.25])
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
