"""Maps between a measure and the barycenter: new points go where the plan sends points like them, on average."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from barymesh.checks import as_floats
from barymesh.cost import Cost
from barymesh.coupling import Coupling, projected
from barymesh.errors import DimensionError, MeasureError
from barymesh.oracle.base import Floats
from barymesh.support.points import Support


class TransportMap:
    """Moves points of a measure to the barycenter, and back: the barycentric projections of the plan, for any points.

    With the potentials ``lam`` on the support and ``g`` on the measure, ``plan[l, k] = exp((lam_l + g_k - c(z_l, y_k))
    / reg)``:

        there(y) = sum_l z_l softmax_l((lam_l - c(z_l, y)) / reg)
        back(z)  = sum_k y_k softmax_k((g_k - c(z, y_k)) / reg)

    At the atoms of the measure, and at the points of the support, these are the means under the plan.

    Examples
    --------
    >>> import barymesh as bm
    >>> result = bm.barycenter([bm.Gaussian([0, 0], 0.5), bm.Gaussian([2, 4], 0.5)], reg=0.1)
    >>> result.map(1)([[2.0, 4.0]]).round(1)
    array([[1., 2.]])
    """

    def __init__(
        self, support: Support, cost: Cost, reg: float, dual: Floats, coupling: Callable[[], Coupling]
    ) -> None:
        self._support, self._cost, self._reg, self._dual, self._find_coupling = support, cost, reg, dual, coupling
        self._coupling: Coupling | None = None

    def __call__(self, points: ArrayLike) -> Floats:
        """Where points of the measure go.

        Parameters
        ----------
        points : array (..., d), or (N,) on the line
            Points, seen before or not.

        Returns
        -------
        array of the same shape
            Their places in the barycenter.
        """
        places, shape = self._places(points)

        def costs(block: slice) -> Floats:
            return self._cost.matrix(self._support.points, places[block]).T

        moved = projected(self._dual / self._reg, costs, self._support.points, self._reg, len(places))
        return moved.reshape(shape)

    def back(self, points: ArrayLike) -> Floats:
        """Where points of the barycenter go.

        Parameters
        ----------
        points : array (..., d), or (N,) on the line
            Points, of the support or others.

        Returns
        -------
        array of the same shape
            Their places in the measure.
        """
        places, shape = self._places(points)
        if self._coupling is None:
            self._coupling = self._find_coupling()
        own = self._coupling.atoms.points

        def costs(block: slice) -> Floats:
            return self._cost.matrix(places[block], own)

        return projected(self._coupling.atom_potential, costs, own, self._reg, len(places)).reshape(shape)

    def _places(self, points: ArrayLike) -> tuple[Floats, tuple[int, ...]]:
        """The points as ``(N, d)``, and the shape they were given in."""
        given, d = as_floats(points, "The points to move", MeasureError), self._support.dimension
        on_line = d == 1 and given.ndim == 1
        if not on_line and (given.ndim == 0 or given.shape[-1] != d):
            raise DimensionError(
                f"The points to move have shape {given.shape}; they must be (..., {d}), as the support has {d} "
                f"dimension{'s' if d > 1 else ''}."
            )
        if not np.isfinite(given).all():
            raise MeasureError("The points to move have NaN or infinite coordinates. Remove or mend them.")
        return given.reshape(-1, d), given.shape
