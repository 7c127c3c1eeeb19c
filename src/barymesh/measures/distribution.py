"""Anything with scipy's ``rvs``: frozen distributions of ``scipy.stats`` and their look-alikes."""

from __future__ import annotations

from typing import Any

import numpy as np

from barymesh.measures.base import Atoms, Discretisation, Floats, Measure
from barymesh.measures.sampler import checked_draws

# quantiles used for one-dimensional distributions that know their own
QUANTILES = 2048


class Distribution(Measure):
    """A frozen distribution, duck-typed on ``rvs(size=, random_state=)``.

    One-dimensional ones that have ``ppf`` get a deterministic oracle: the midpoints of 2048 slices of equal
    probability. Others are sampled.
    """

    def __init__(self, frozen: Any) -> None:
        self.frozen = frozen
        self._dimension = int(self.sample(2, np.random.default_rng(0)).shape[1])

    @property
    def dimension(self) -> int:
        return self._dimension

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        # with size 1 some multivariate distributions return a bare vector
        drawn = np.asarray(self.frozen.rvs(size=max(size, 2), random_state=rng))
        return checked_draws(drawn[:size], size, f"The distribution {self.frozen!r}")

    def atoms(self, how: Discretisation) -> Atoms:
        if self.dimension == 1 and hasattr(self.frozen, "ppf"):
            levels = (np.arange(QUANTILES) + 0.5) / QUANTILES
            points = np.asarray(self.frozen.ppf(levels), dtype=float).reshape(-1, 1)
        else:
            points = self.sample(how.samples, how.generator())
        return Atoms(points, np.arange(len(points)), np.full(len(points), 1.0 / len(points)))
