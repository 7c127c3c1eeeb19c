"""Anything with scipy's ``rvs``: frozen distributions of ``scipy.stats`` and objects with the same methods."""

from __future__ import annotations

import warnings
from functools import cached_property
from typing import Any

import numpy as np

from barymesh.errors import MeasureError, SamplerError
from barymesh.measures.base import Atoms, Discretisation, Floats, Measure
from barymesh.measures.empirical import Empirical
from barymesh.measures.gaussian import MOST_TENSOR_DIMENSIONS, NODES_PER_RESOLUTION, Gaussian
from barymesh.measures.sampler import checked_draws

# the mass of a discrete distribution that may be left out, and the most values that are kept; those with more are cut
# into so many slices of equal probability
NEGLIGIBLE, MOST_VALUES, SLICES = 1e-12, 20_000, 2048
# nodes of the Gauss-Legendre rule on a panel, and the most panels in each half of the probabilities
PANEL_NODES, MOST_PANELS = 8, 256
# panels shrink by this factor towards probability 0, where quantiles may be infinite; the last one ends there
SHRINK, SHRINKING_PANELS = 4.0, 20
# quantiles are kept within so many interquartile ranges of the median, and so many supports of its middle
FARTHEST_RANGES, FARTHEST_SUPPORTS = 1000.0, 10.0


class Distribution(Measure):
    """A frozen distribution: any object with ``rvs(size=, random_state=)``.

    Its oracle draws nothing where something better is known: a normal distribution is taken as the Gaussian it is, in
    up to three dimensions; a discrete one on the line (with ``pmf``) by its masses; any other on the line that has
    ``ppf`` by a quadrature of its quantiles, as fine as the problem's reg and support need. The rest is sampled.

    Parameters
    ----------
    frozen : object with ``rvs``
        A frozen distribution of ``scipy.stats``, or an object with the same methods.

    Examples
    --------
    >>> from scipy import stats
    >>> from barymesh import Distribution
    >>> Distribution(stats.gamma(3)).dimension
    1
    """

    def __init__(self, frozen: Any) -> None:
        self.frozen = frozen
        self._dimension: int | None = None
        # an object that holds two distributions accepts size 2, but not size 3
        for size in (2, 3):
            self._dimension = int(self.sample(size, np.random.default_rng(0)).shape[1])

    @property
    def dimension(self) -> int | None:
        return self._dimension

    @property
    def sampled_only(self) -> bool:
        return self.exact is None and not self._has_quantiles

    @cached_property
    def exact(self) -> Measure | None:
        """The same measure as a Gaussian, or as values with their masses; None if it is neither."""
        return _as_gaussian(self.frozen, self.dimension) or self._as_masses()

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        # with size 1 some multivariate distributions return a bare vector
        drawn_size = max(size, 2)
        try:
            drawn = np.asarray(self.frozen.rvs(size=drawn_size, random_state=rng))
        except (TypeError, ValueError) as error:
            raise SamplerError(
                f"{self._label} cannot be drawn from ({error}). It must have rvs(size=, random_state=), and be "
                "one distribution: give each its own place in the list."
            ) from error
        return checked_draws(drawn[:size], size, self._label, self._dimension)

    def atoms(self, how: Discretisation) -> Atoms:
        if self.exact is not None:
            return self.exact.atoms(how)
        if self._has_quantiles:
            points, weights = self._slices() if self._is_discrete else self._quadrature(how)
            return Atoms(points[:, None], np.arange(points.size), weights)
        points = self.sample(how.samples, how.generator())
        return Atoms(points, np.arange(len(points)), np.full(len(points), 1.0 / len(points)))

    @property
    def _label(self) -> str:
        return f"The distribution {getattr(getattr(self.frozen, 'dist', None), 'name', type(self.frozen).__name__)!r}"

    @property
    def _has_quantiles(self) -> bool:
        return self.dimension == 1 and hasattr(self.frozen, "ppf")

    @property
    def _is_discrete(self) -> bool:
        return self._has_quantiles and hasattr(self.frozen, "pmf")

    def _as_masses(self) -> Empirical | None:
        """The values of a discrete distribution that carry all but a negligible part of its mass, if they are few; or
        all but less than slices could tell apart, if the tails are long or masses are rounded."""
        if not self._is_discrete:
            return None
        listed = getattr(getattr(self.frozen, "dist", self.frozen), "xk", None)
        if listed is not None:
            # values of the user's own, which the frozen distribution may have shifted
            values = np.unique(np.asarray(listed, dtype=float))
            values = values + (float(self.frozen.support()[0]) - values[0])
            return Empirical(values, self.frozen.pmf(values)) if values.size <= MOST_VALUES else None
        (middle,) = self._quantiles(np.array([0.5]), False)
        # not from quantiles far out: scipy finds those of heavy tails by counting up to them
        reach = 16
        while 2 * reach < MOST_VALUES:
            values = middle + np.arange(-reach, reach + 1.0)
            masses = self.frozen.pmf(values)
            if masses.sum() >= 1 - NEGLIGIBLE:
                return Empirical(values[masses > 0], masses[masses > 0])
            reach *= 2
        return Empirical(values[masses > 0], masses[masses > 0]) if masses.sum() >= 1 - 0.5 / SLICES else None

    def _slices(self) -> tuple[Floats, Floats]:
        """The midpoints of slices of equal probability."""
        levels = (np.arange(SLICES) + 0.5) / SLICES
        return self._quantiles(levels, False), np.full(SLICES, 1.0 / SLICES)

    def _quadrature(self, how: Discretisation) -> tuple[Floats, Floats]:
        """Nodes and weights that integrate functions of the quantiles over the probabilities 0 to 1.

        Every half of the probabilities is divided into panels, smaller towards its end, and those on which the quantile
        moves by more than the resolution allows are bisected, those of the largest mass first. Each panel has a
        Gauss-Legendre rule.
        """
        nodes, masses = np.polynomial.legendre.leggauss(PANEL_NODES)
        widest = how.resolution * PANEL_NODES / NODES_PER_RESOLUTION
        points, weights = [], []
        for upper in (False, True):
            ends = np.concatenate([[0.0], 0.5 * SHRINK ** np.arange(-SHRINKING_PANELS, 1.0)])
            places = np.concatenate([[np.nan], self._quantiles(ends[1:], upper)])
            while True:
                # the last panel stays, and what rounding would spoil: there the distribution has a gap
                with np.errstate(invalid="ignore"):
                    wide = (np.abs(np.diff(places)) > widest) & (np.diff(ends) > 1e-14)
                room = MOST_PANELS - (ends.size - 1)
                if not wide.any() or room <= 0:
                    break
                largest = np.flatnonzero(wide)
                largest = np.sort(largest[np.argsort(-np.diff(ends)[largest], kind="stable")[:room]])
                middles = (ends[largest] + ends[largest + 1]) / 2
                places = np.insert(places, largest + 1, self._quantiles(middles, upper))
                ends = np.insert(ends, largest + 1, middles)
            middle, half = (ends[1:] + ends[:-1]) / 2, np.diff(ends) / 2
            levels = (middle[1:, None] + half[1:, None] * nodes).ravel()
            points += [self._quantiles(middle[:1], upper), self._quantiles(levels, upper)]
            weights += [ends[1:2], (half[1:, None] * masses).ravel()]
        found = np.concatenate(points)
        low, high = self._reach(how)
        if not np.isfinite([low, high]).all():
            raise SamplerError(f"{self._label} has quartiles that are not finite. Give samples of it instead.")
        mass = np.concatenate(weights)
        return np.clip(found, low, high), mass / mass.sum()

    def _reach(self, how: Discretisation) -> tuple[float, float]:
        """How far out quantiles are kept. Beyond, they only make costs large, up to infinity, and numbers inaccurate:
        all that mass is moved to the edge of the support anyway."""
        (first,), (middle,), (third,) = (self._quantiles(np.array([level]), False) for level in (0.25, 0.5, 0.75))
        reach = FARTHEST_RANGES * (third - first)
        low, high = middle - reach, middle + reach
        if how.support is not None:
            lowest, highest = float(how.support.points.min()), float(how.support.points.max())
            margin = FARTHEST_SUPPORTS * (highest - lowest)
            low, high = min(low, lowest - margin), max(high, highest + margin)
        return float(low), float(high)

    def _quantiles(self, tails: Floats, upper: bool = True) -> Floats:
        """The quantiles with this much mass above them, or below them; infinite ones may be among them."""
        try:
            # scipy warns of overflow in far tails; what matters is checked below
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                if not upper:
                    found = self.frozen.ppf(tails)
                elif hasattr(self.frozen, "isf"):
                    found = self.frozen.isf(tails)
                else:
                    found = self.frozen.ppf(1 - tails)
            values = np.asarray(found, dtype=float).reshape(tails.shape)
        except (TypeError, ValueError) as error:
            raise SamplerError(f"{self._label} has no quantiles ({error}). Its ppf must take an array.") from error
        except RuntimeError as error:  # from scipy's search in very heavy tails
            raise SamplerError(
                f"{self._label} has quantiles that cannot be found ({error}). Give samples of it."
            ) from error
        if np.isnan(values).any():
            level = float(tails[np.isnan(values)][0])
            raise SamplerError(
                f"{self._label} has the quantile nan at probability {1 - level if upper else level}; all must be "
                "numbers. Give samples of it instead."
            )
        return values


def _as_gaussian(frozen: Any, dimension: int | None) -> Gaussian | None:
    """A normal distribution of scipy as a Gaussian, where that has a quadrature; None for others."""
    from scipy.stats import multivariate_normal, norm

    try:
        if type(getattr(frozen, "dist", None)) is type(norm):
            # its parameters may be arrays of one number
            return Gaussian(np.ravel(frozen.mean()), np.ravel(frozen.std()))
        if type(frozen) is type(multivariate_normal([0.0])) and (dimension or 0) <= MOST_TENSOR_DIMENSIONS:
            return Gaussian(frozen.mean, cov=frozen.cov)
    except MeasureError:
        # flat in some direction
        return None
    return None
