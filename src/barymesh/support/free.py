"""A support whose points move to where they serve best, and the rules for where they start.

**On one machine** the points start by k-means++ (Arthur and Vassilvitskii, 2007) among draws from all measures: the
first is one of the draws, each further one is a draw with a probability in proportion to its squared distance from the
nearest point so far.

**On a network** no draw of a measure may leave its node. All nodes know the same n draws of the standard normal
distribution, from the seed, and the root scales them by the averages of the nodes' means and mean squares, axis by
axis. These averages are all that the start takes from the data.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from barymesh.checks import whole_number
from barymesh.errors import SupportError
from barymesh.random import addressed_generator
from barymesh.support.points import Support

Floats = NDArray[np.float64]
WEIGHTS = ("uniform", "learned")
# k-means++ chooses among so many draws for each point, within these limits in all
DRAWS_A_POINT, FEWEST_DRAWS, MOST_DRAWS = 10, 2000, 50_000
# the addresses of random draws, apart from those of the nodes
START, NORMAL = 2**40, 2**41


class FreeSupport:
    """A support of n points that move, in any dimension, under the squared Euclidean cost.

    The points and, if they are learned, the weights are found together. The problem is not convex: what is found is
    stationary, and depends on where the points start.

    Parameters
    ----------
    n : int, optional
        The number of points; not needed if ``points`` are given.
    weights : str, default="uniform"
        ``"uniform"``: all points weigh 1/n; ``"learned"``: the weights are those of the entropic barycenter on the
        points.
    points : array (n, d), optional
        Where the points start. By default k-means++ among draws from the measures; on a network random draws with the
        mean and the deviations of all measures together.
    starts : int, default=1
        How many starts are tried, each with other draws; the result with the lowest objective is kept.
    dimension : int, optional
        The number of coordinates, where the measures do not show it.
    seed : int, default=0
        Of the draws that the points start from.
    reach : float, optional
        The largest size that a coordinate of any measure may have. Sums that are masked need it: all nodes must know
        how large their numbers can be.

    Examples
    --------
    >>> import numpy as np
    >>> import barymesh as bm
    >>> rng = np.random.default_rng(0)
    >>> clouds = [rng.normal(shift, 1, (200, 5)) for shift in (0, 2)]
    >>> result = bm.barycenter(clouds, bm.FreeSupport(n=20), reg=0.5, tol=1e-4)
    >>> result.status.name, result.support
    ('STATIONARY', Support(20 points in 5 dimensions))
    """

    def __init__(
        self, n: int | None = None, *, weights: str = "uniform", points: ArrayLike | None = None, starts: int = 1,
        dimension: int | None = None, seed: int = 0, reach: float | None = None,
    ) -> None:  # fmt: skip
        if weights not in WEIGHTS:
            raise SupportError(f"The weights of a free support are {weights!r}; choose 'uniform' or 'learned'.")
        self.points = None if points is None else Support(points).points
        if (self.points is None) == (n is None) and (self.points is None or n != len(self.points)):
            raise SupportError(f"A free support has n={n} points; give n, or points= to start from.")
        size = len(self.points) if self.points is not None else n
        self.n = whole_number("The number n of points of a free support", size, 1, SupportError)
        self.weights, self.seed = weights, whole_number("The seed of a free support", seed, None, SupportError)
        self.starts = whole_number("The number of starts of a free support", starts, 1, SupportError)
        if self.points is not None and self.starts > 1:
            raise SupportError(f"There is one start from given points, not {self.starts}; leave out starts or points.")
        shown = None if self.points is None else self.points.shape[1]
        wanted = None if dimension is None else whole_number("The dimension", dimension, 1, SupportError)
        if shown is not None and wanted is not None and shown != wanted:
            raise SupportError(f"The points of a free support have {shown} coordinates, but dimension={wanted}.")
        self.dimension = wanted or shown
        if reach is not None and not (np.isfinite(reach) and reach > 0):
            raise SupportError(f"The reach of a free support is {reach!r}; it must be a positive number.")
        self.reach = None if reach is None else float(reach)

    @property
    def learned(self) -> bool:
        """Whether the weights are learned."""
        return self.weights == "learned"

    def __repr__(self) -> str:
        more = f", starts={self.starts}" if self.starts > 1 else ""
        given = ", points given" if self.points is not None else ""
        within = f", reach={self.reach:g}" if self.reach is not None else ""
        return f"FreeSupport(n={self.n}, weights={self.weights!r}{more}{given}{within})"


def normal_draws(free: FreeSupport, dimension: int, start: int = 0) -> Floats:
    """``(n, d)`` draws of the standard normal distribution, the same for all nodes."""
    return addressed_generator(free.seed, NORMAL, start).standard_normal((free.n, dimension))


def draws_for(free: FreeSupport) -> int:
    """How many draws of the measures k-means++ chooses among."""
    return int(np.clip(DRAWS_A_POINT * free.n, FEWEST_DRAWS, max(MOST_DRAWS, free.n)))


def kmeans_plus_plus(n: int, pool: Floats, rng: np.random.Generator) -> Floats:
    """``(n, d)``: points chosen from the ``pool (N, d)``, far from one another."""
    chosen = np.empty((n, pool.shape[1]))
    chosen[0] = pool[rng.integers(len(pool))]
    nearest = np.full(len(pool), np.inf)
    for k in range(1, n):
        gaps = pool - chosen[k - 1]
        nearest = np.minimum(nearest, np.einsum("ij,ij->i", gaps, gaps))
        total = np.cumsum(nearest)
        # with fewer distinct draws than points, some points start in the same place
        place = np.searchsorted(total, rng.random() * total[-1], side="right") if total[-1] > 0 else rng.integers(k)
        chosen[k] = pool[min(int(place), len(pool) - 1)]
    return chosen
