"""The cost of moving a unit of mass from a support point z to a place y."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from barymesh.checks import as_floats
from barymesh.errors import CostError

if TYPE_CHECKING:
    from barymesh.support.points import Support

Floats = NDArray[np.float64]
SQUARED = "sqeuclidean"
EUCLIDEAN = "euclidean"
# metrics that are sums over the axes, so that exp(-cost/reg) is a product: their one-axis form
SEPARABLE: dict[str, Callable[[Floats], Floats]] = {SQUARED: np.square, "cityblock": np.abs}
# scipy estimates a covariance for these from the points of each call
DATA_DEPENDENT = ("seuclidean", "mahalanobis")
# costs computed at once when only their largest is wanted
LARGEST_BLOCK = 4_000_000
# of distances, relative to them
ROUNDING = 1e-9
CostLike = str | Callable[[Floats, Floats], Any] | NDArray[Any]


class Cost:
    """A cost function, made from what the user passes.

    ``spec`` is a `scipy.spatial.distance` metric name, a callable ``(z (n, d), y (N, d)) -> (n, N)``, or a precomputed
    matrix ``(n, N)`` between the support and the common atoms of discrete measures.
    """

    def __init__(self, spec: CostLike = SQUARED) -> None:
        self.matrix_given: Floats | None = None
        self.function: Callable[[Floats, Floats], Any] | None = None
        if isinstance(spec, str):
            self.name = spec
            if spec not in (SQUARED, EUCLIDEAN):
                _check_metric(spec)
        elif callable(spec):
            self.name = getattr(spec, "__name__", "callable")
            self.function = spec
        else:
            self.name = "precomputed"
            matrix = as_floats(spec, "A precomputed cost", CostError)
            if matrix.ndim != 2:
                raise CostError(
                    f"A precomputed cost must be a matrix (support, atoms), not an array of shape {matrix.shape}. Give "
                    "the name of a metric or a function, if it is not precomputed."
                )
            self.matrix_given = _checked(matrix, "The precomputed cost")

    @property
    def given(self) -> CostLike:
        """What it was made from."""
        return self.matrix_given if self.matrix_given is not None else self.function or self.name

    @property
    def squared(self) -> bool:
        return self.name == SQUARED and self.function is None

    @property
    def separable(self) -> Callable[[Floats], Floats] | None:
        """The one-axis form for costs that add up over the axes, else None."""
        if self.function is not None or self.matrix_given is not None:
            return None
        return SEPARABLE.get(self.name)

    def matrix(self, support: Floats, atoms: Floats) -> Floats:
        """Costs ``(n, N)`` between support points ``(n, d)`` and atoms ``(N, d)``."""
        if self.matrix_given is not None:
            self.check_shape(support.shape[0], atoms.shape[0])
            return self.matrix_given
        if self.function is not None:
            given = as_floats(self.function(support, atoms), f"What the cost function {self.name!r} returns", CostError)
            if given.shape != (support.shape[0], atoms.shape[0]):
                raise CostError(
                    f"The cost function {self.name!r} returned shape {given.shape} for {support.shape[0]} support "
                    f"points and "
                    f"{atoms.shape[0]} atoms; it must return ({support.shape[0]}, {atoms.shape[0]})."
                )
            return _checked(given, f"The cost function {self.name!r}")
        from scipy.spatial.distance import cdist

        return _checked(cdist(support, atoms, self.name), f"The metric {self.name!r}")

    def check_shape(self, points: int, atoms: int) -> None:
        """Refuse a precomputed matrix that does not fit."""
        if self.matrix_given is not None and self.matrix_given.shape != (points, atoms):
            raise CostError(
                f"The precomputed cost has shape {self.matrix_given.shape}; {(points, atoms)} is needed: "
                "a row for each support point, a column for each atom."
            )

    def largest(self, support: Support, atoms: Floats) -> float:
        """The largest cost between any support point and any of the atoms ``(N, d)``, exactly."""
        if self.matrix_given is not None:
            return float(self.matrix_given.max())
        on_box = support.grid is not None or support.dimension == 1
        if on_box and (self.separable is not None or (self.name == EUCLIDEAN and self.function is None)):
            # along each axis the farthest point is an end, and a grid has a point at every combination of ends
            axes = zip(atoms.T, *support.ends, strict=True)
            farthest = np.array([np.maximum(np.abs(y - low), np.abs(high - y)) for y, low, high in axes])
            if self.separable is not None:
                return float(self.separable(farthest).sum(axis=0).max())
            return float(np.linalg.norm(farthest, axis=0).max())
        points = support.points
        if self.squared:
            points, atoms = _farthest(points, atoms), _farthest(atoms, points)
        rows = max(1, LARGEST_BLOCK // atoms.shape[0])
        return max(float(self.matrix(points[k : k + rows], atoms).max()) for k in range(0, len(points), rows))


def _farthest(these: Floats, others: Floats) -> Floats:
    """Those of the points ``(n, d)`` that can be one of the two that are farthest apart: by the triangle inequality, as
    far from the middle as the largest distance known less the largest of the others from the middle."""
    middle = these.mean(axis=0)
    own, other = (np.sqrt(np.square(points - middle).sum(axis=1)) for points in (these, others))
    known = np.sqrt(np.square(others - these[own.argmax()]).sum(axis=1).max())
    return np.asarray(these[own >= known - other.max() - ROUNDING * known])


def _checked(matrix: Floats, what: str) -> Floats:
    if not np.isfinite(matrix).all() or matrix.min(initial=0.0) < 0:
        bad = np.argwhere(~(np.isfinite(matrix) & (matrix >= 0)))[0]
        raise CostError(
            f"{what} has the value {matrix[tuple(bad)]} at row {bad[0]}, column {bad[1]}; costs must be finite and "
            f"not negative."
        )
    return matrix


def _check_metric(name: str) -> None:
    if name in DATA_DEPENDENT:
        raise CostError(
            f"The metric {name!r} takes its scale from the points given, so it would differ from measure to measure. "
            "Scale the coordinates yourself, and use 'sqeuclidean' or 'euclidean'."
        )
    from scipy.spatial.distance import cdist

    try:
        cdist(np.zeros((1, 1)), np.ones((1, 1)), name)
    except ValueError as error:
        raise CostError(
            f"Unknown cost {name!r}. Give 'sqeuclidean', 'euclidean', another metric of scipy.spatial.distance, "
            "a function (support, atoms) -> matrix, or a matrix."
        ) from error
