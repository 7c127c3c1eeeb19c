"""Gaussian measures in any dimension."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from barymesh.checks import as_floats, whole_number
from barymesh.errors import AccuracyWarning, DimensionError, MeasureError, warn
from barymesh.measures.base import Atoms, Discretisation, Floats, Measure, as_points

# nodes that weigh less than this are left out: together they are below rounding
NEGLIGIBLE = 1e-18
SMALLEST_ORDER, LARGEST_ORDER = 32, 100_000
MOST_NODES = 20_000
# at the solution two would do; potentials on the way to it are rougher
NODES_PER_RESOLUTION = 4.0
FEWEST_PER_RESOLUTION = 1.5
MOST_TENSOR_DIMENSIONS = 3


class Gaussian(Measure):
    """The normal distribution with the given mean and either standard deviations or a covariance.

    Its oracle is a Gauss-Hermite quadrature (a tensor product of them in 2-D and 3-D), fine enough for the problem's
    reg and support; beyond 3-D, a sample.

    Parameters
    ----------
    mean : float or array (d,)
        Its centre.
    std : float or array (d,), optional
        One deviation for all axes, or one for each. Give this or ``cov``.
    cov : array (d, d), optional
        The covariance matrix.
    order : int, optional
        Nodes of the quadrature along each axis; by default as many as reg and support need.

    Examples
    --------
    >>> from barymesh import Gaussian
    >>> Gaussian([0, 1], 0.5)
    Gaussian(mean=[0.0, 1.0], cov=[[0.25, 0.0], [0.0, 0.25]])
    >>> Gaussian([0, 1], cov=[[1, 0.5], [0.5, 1]]).dimension
    2
    """

    def __init__(
        self, mean: ArrayLike, std: ArrayLike | None = None, *, cov: ArrayLike | None = None, order: int | None = None
    ) -> None:
        centre = as_floats(mean, "The mean of a Gaussian", MeasureError)
        if centre.ndim > 1:
            raise DimensionError(
                f"The mean of a Gaussian has shape {centre.shape}; give one number, or one for each dimension."
            )
        self.mean = as_points(np.atleast_1d(centre)[None], "The mean of a Gaussian")[0]
        d = self.mean.size
        if (std is None) == (cov is None):
            raise MeasureError(
                "A Gaussian needs exactly one of std= (standard deviations) and cov= (covariance matrix)."
            )
        if std is not None:
            stds = as_floats(std, "The std of a Gaussian", MeasureError)
            if stds.ndim > 1 or stds.size not in (1, d):
                raise DimensionError(
                    f"The std of a Gaussian has shape {stds.shape}, its mean {d} coordinates; give one number or {d}."
                )
            if not (np.isfinite(stds).all() and (stds > 0).all()):
                raise MeasureError(
                    f"The std of a Gaussian is {std}; it must be positive and finite. For a single point use Empirical."
                )
            with np.errstate(over="ignore", under="ignore"):
                squares = np.broadcast_to(stds, (d,)) ** 2
            if not (np.isfinite(squares).all() and (squares >= np.finfo(float).tiny).all()):
                raise MeasureError(
                    f"The std of a Gaussian is {std}; its square is out of floating-point range. Rescale."
                )
            self.cov = np.diag(squares)
        else:
            self.cov = np.atleast_2d(as_floats(cov, "The cov of a Gaussian", MeasureError))
            if self.cov.shape != (d, d):
                raise DimensionError(
                    f"The cov of a Gaussian has shape {self.cov.shape}; its mean has {d} coordinates, so ({d}, {d}) "
                    f"is needed."
                )
            if not np.isfinite(self.cov).all():
                row, column = np.argwhere(~np.isfinite(self.cov))[0]
                raise MeasureError(
                    f"The cov of a Gaussian has the value {self.cov[row, column]} at row {row}, column {column}; all "
                    "must be finite."
                )
            if not np.allclose(self.cov, self.cov.T, atol=1e-8 * np.abs(self.cov).max()):
                skew = np.abs(self.cov - self.cov.T).max()
                raise MeasureError(
                    f"The cov of a Gaussian differs from its transpose by up to {skew:.3g}; it must be symmetric. Use "
                    "(cov + cov.T) / 2."
                )
        try:
            self.root = np.linalg.cholesky(self.cov)
        except np.linalg.LinAlgError as error:
            smallest = np.linalg.eigvalsh(self.cov)[0]
            raise MeasureError(
                f"The cov of a Gaussian must be positive definite; its smallest eigenvalue is {smallest:.3g}. "
                "Add a little to its diagonal, or use Empirical where it is flat."
            ) from error
        self.order = (
            None if order is None else whole_number("The quadrature order of a Gaussian", order, 1, MeasureError)
        )

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
        variances, directions = np.linalg.eigh(self.cov)
        stds = np.sqrt(variances)
        rules = [hermite(order) for order in self._orders(stds / how.resolution)]
        axes = np.stack([g.ravel() for g in np.meshgrid(*(nodes for nodes, _ in rules), indexing="ij")], axis=1)
        mass = np.prod(np.meshgrid(*(weights for _, weights in rules), indexing="ij"), axis=0).ravel()
        points = self.mean + (axes * stds) @ directions.T
        return Atoms.from_weights(points, np.where(mass > NEGLIGIBLE, mass, 0.0))

    def _orders(self, widths: Floats) -> list[int]:
        """Orders along the principal axes, of deviations ``widths`` resolutions; warns if they must be too low."""
        if self.order is not None:
            return [self.order] * self.dimension
        finest = NODES_PER_RESOLUTION
        # in space the smallest orders take a few more, and may be fine enough
        most = max(MOST_NODES, _node_count(widths, 0.0))
        if _node_count(widths, finest) > most:
            low, high = 0.0, finest
            for _ in range(20):
                middle = (low + high) / 2
                low, high = (middle, high) if _node_count(widths, middle) <= most else (low, middle)
            finest = low
        if finest < FEWEST_PER_RESOLUTION and _node_count(widths, FEWEST_PER_RESOLUTION) > most:
            warn(
                f"The quadrature of a {self.dimension}-D Gaussian is too coarse for this reg and support: "
                f"it would need {_node_count(widths, FEWEST_PER_RESOLUTION)} nodes, {most} is the most. "
                "Use a larger reg, a finer support where its spacing is the limit, or samples of the Gaussian.",
                AccuracyWarning,
            )
        return [order_for(width, finest) for width in widths]

    def __repr__(self) -> str:
        return f"Gaussian(mean={self.mean.tolist()}, cov={self.cov.tolist()})"


def order_for(widths: float, per_resolution: float) -> int:
    """The order with that many nodes in a resolution, for a deviation of ``widths`` resolutions.

    The zeros of the Hermite polynomial of order q are pi/sqrt(q) deviations apart near the centre.
    """
    return int(np.clip(np.ceil((np.pi * per_resolution * widths) ** 2), SMALLEST_ORDER, LARGEST_ORDER))


def _node_count(widths: Floats, per_resolution: float) -> int:
    """Nodes of the tensor product with that many nodes in a resolution."""
    return math.prod(hermite(order_for(width, per_resolution))[0].size for width in widths)


@lru_cache(maxsize=1024)
def hermite(order: int) -> tuple[Floats, Floats]:
    """Nodes and weights (sum 1) of the standard normal distribution, negligible ones left out."""
    from scipy.special import roots_hermitenorm

    nodes, weights = roots_hermitenorm(order)
    weights = weights / weights.sum()
    kept = weights > NEGLIGIBLE
    return nodes[kept], weights[kept] / weights[kept].sum()
