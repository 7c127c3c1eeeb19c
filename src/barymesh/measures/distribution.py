"""Anything with scipy's ``rvs``: frozen distributions of ``scipy.stats`` and their look-alikes."""

from __future__ import annotations

from typing import Any

import numpy as np

from barymesh.errors import SamplerError
from barymesh.measures.base import Atoms, Discretisation, Floats, Measure
from barymesh.measures.sampler import checked_draws

# quantiles used for one-dimensional distributions that know their own
QUANTILES = 2048


class Distribution(Measure):
    """A frozen distribution, duck-typed on ``rvs(size=, random_state=)``.

    One-dimensional ones that have ``ppf`` get a deterministic oracle: the midpoints of 2048 slices of equal
    probability. Others are sampled.

    Parameters
    ----------
    frozen : object with ``rvs``
        A frozen distribution of ``scipy.stats``, or anything that answers like one.

    Examples
    --------
    >>> from scipy import stats
    >>> from barymesh import Distribution
    >>> Distribution(stats.gamma(3)).dimension
    1
    """

    sampled_only = True

    def __init__(self, frozen: Any) -> None:
        self.frozen = frozen
        self._dimension: int | None = None
        # an object that holds two distributions answers to size 2, but not to size 3
        for size in (2, 3):
            self._dimension = int(self.sample(size, np.random.default_rng(0)).shape[1])

    @property
    def dimension(self) -> int | None:
        return self._dimension

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        # with size 1 some multivariate distributions return a bare vector
        asked = max(size, 2)
        try:
            drawn = np.asarray(self.frozen.rvs(size=asked, random_state=rng))
        except (TypeError, ValueError) as error:
            raise SamplerError(
                f"{self._name} cannot be drawn from ({error}). It must answer to rvs(size=, random_state=), and be one "
                "distribution: give each its own place in the list."
            ) from error
        return checked_draws(drawn[:size], size, self._name, self._dimension)

    @property
    def _name(self) -> str:
        return f"The distribution {getattr(getattr(self.frozen, 'dist', None), 'name', type(self.frozen).__name__)!r}"

    def atoms(self, how: Discretisation) -> Atoms:
        if self.dimension == 1 and hasattr(self.frozen, "ppf"):
            levels = (np.arange(QUANTILES) + 0.5) / QUANTILES
            points = np.asarray(self.frozen.ppf(levels), dtype=float).reshape(-1, 1)
        else:
            points = self.sample(how.samples, how.generator())
        return Atoms(points, np.arange(len(points)), np.full(len(points), 1.0 / len(points)))
