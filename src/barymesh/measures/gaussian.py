"""Gaussian measures in any dimension."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from barymesh.errors import DimensionError, MeasureError
from barymesh.measures.base import Atoms, Discretisation, Floats, Measure, as_points

# nodes that weigh less than this are left out: together they are below rounding
NEGLIGIBLE = 1e-18
SMALLEST_ORDER, LARGEST_ORDER = 32, 20_000
MOST_NODES = 20_000
MOST_TENSOR_DIMENSIONS = 3


class Gaussian(Measure):
    """The normal distribution with the given mean ``(d,)`` and either ``std`` (scalar or per axis) or ``cov (d, d)``.

    Its oracle is a Gauss-Hermite quadrature (a tensor product of them in 2-D and 3-D), fine enough for the problem's
    reg and support unless ``order`` fixes the number of nodes along each axis; beyond 3-D, a sample.
    """

    def __init__(
        self, mean: ArrayLike, std: ArrayLike | None = None, *, cov: ArrayLike | None = None, order: int | None = None
    ) -> None:
        self.mean = as_points(np.atleast_1d(np.asarray(mean, dtype=float))[None], "The mean of a Gaussian")[0]
        d = self.mean.size
        if (std is None) == (cov is None):
            raise MeasureError(
                "A Gaussian needs exactly one of std= (standard deviations) and cov= (covariance matrix)."
            )
        if std is not None:
            stds = np.asarray(std, dtype=float)
            if stds.ndim > 1 or stds.size not in (1, d):
                raise DimensionError(
                    f"The std of a Gaussian has shape {stds.shape}, its mean {d} coordinates; give one number or {d}."
                )
            if not (np.isfinite(stds).all() and (stds > 0).all()):
                raise MeasureError(
                    f"The std of a Gaussian is {std}; it must be positive and finite. For a single point use Empirical."
                )
            self.cov = np.diag(np.broadcast_to(stds, (d,)) ** 2)
        else:
            self.cov = np.atleast_2d(np.asarray(cov, dtype=float))
            if self.cov.shape != (d, d):
                raise DimensionError(
                    f"The cov of a Gaussian has shape {self.cov.shape}; its mean has {d} coordinates, so ({d}, {d}) "
                    f"is needed."
                )
            if not np.isfinite(self.cov).all() or not np.allclose(self.cov, self.cov.T):
                raise MeasureError("The cov of a Gaussian must be a finite symmetric matrix.")
        try:
            self.root = np.linalg.cholesky(self.cov)
        except np.linalg.LinAlgError as error:
            smallest = np.linalg.eigvalsh(self.cov)[0]
            raise MeasureError(
                f"The cov of a Gaussian must be positive definite; its smallest eigenvalue is {smallest:.3g}."
            ) from error
        if order is not None and order < 1:
            raise MeasureError(f"The quadrature order of a Gaussian is {order}; it must be at least 1.")
        self.order = order

    @property
    def dimension(self) -> int:
        return int(self.mean.size)

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        return np.asarray(self.mean + rng.standard_normal((size, self.dimension)) @ self.root.T)

    def atoms(self, how: Discretisation) -> Atoms:
        d = self.dimension
        if d > MOST_TENSOR_DIMENSIONS:
            points = self.sample(how.samples, how.generator())
            return Atoms(points, np.arange(how.samples), np.full(how.samples, 1.0 / how.samples))
        widest = float(np.sqrt(np.linalg.eigvalsh(self.cov)[-1]))
        order = self.order or order_for(widest / how.resolution)
        nodes, weights = hermite(order)
        while self.order is None and weights.size**d > MOST_NODES:
            order = order * 3 // 4
            nodes, weights = hermite(order)
        grid = np.stack([g.ravel() for g in np.meshgrid(*[nodes] * d, indexing="ij")], axis=1)
        mass = np.prod(np.stack([g.ravel() for g in np.meshgrid(*[weights] * d, indexing="ij")], axis=1), axis=1)
        return Atoms.from_weights(self.mean + grid @ self.root.T, np.where(mass > NEGLIGIBLE, mass, 0.0))

    def __repr__(self) -> str:
        return f"Gaussian(mean={self.mean.tolist()}, cov={self.cov.tolist()})"


def order_for(widths: float) -> int:
    """The order whose nodes lie half a resolution apart, for a deviation of ``widths`` resolutions.

    The zeros of the Hermite polynomial of order q are pi/sqrt(q) deviations apart near the centre.
    """
    return int(np.clip(np.ceil((2 * np.pi * widths) ** 2), SMALLEST_ORDER, LARGEST_ORDER))


@lru_cache(maxsize=256)
def hermite(order: int) -> tuple[Floats, Floats]:
    """Nodes and weights (sum 1) of the standard normal distribution, negligible ones left out."""
    from scipy.special import roots_hermitenorm

    nodes, weights = roots_hermitenorm(order)
    weights = weights / weights.sum()
    kept = weights > NEGLIGIBLE
    return nodes[kept], weights[kept] / weights[kept].sum()
