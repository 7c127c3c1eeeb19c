"""Measures known only through a function that draws from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from barymesh.checks import as_floats
from barymesh.errors import SamplerError
from barymesh.measures.base import Atoms, Discretisation, Floats, Measure


class Sampler(Measure):
    """A measure known only through a function that draws from it.

    Parameters
    ----------
    function : function ``(size, rng) -> samples``
        Returns ``(size, d)``, or ``(size,)`` on the line. ``rng`` is a ``numpy.random.Generator``; draw from it and
        nothing else, so that runs repeat exactly.

    Examples
    --------
    >>> from barymesh import Sampler
    >>> Sampler(lambda size, rng: rng.exponential(2.0, (size, 3))).dimension
    3
    """

    def __init__(self, function: Callable[[int, np.random.Generator], Any]) -> None:
        self.function = function
        self._dimension: int | None = None
        self._dimension = int(self.sample(2, np.random.default_rng(0)).shape[1])

    @property
    def dimension(self) -> int | None:
        return self._dimension

    @property
    def sampled_only(self) -> bool:
        return True

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        name = getattr(self.function, "__name__", repr(self.function))
        return checked_draws(self.function(size, rng), size, f"The sampler {name!r}", self._dimension)

    def atoms(self, how: Discretisation) -> Atoms:
        points = self.sample(how.samples, how.generator())
        return Atoms(points, np.arange(how.samples), np.full(how.samples, 1.0 / how.samples))


def checked_draws(drawn: Any, size: int, what: str, dimension: int | None) -> Floats:
    """Draws as a finite ``(size, d)`` array, or a SamplerError with what was returned."""
    values = as_floats(drawn, f"What {what[0].lower()}{what[1:]} returns", SamplerError)
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2 or values.shape[0] != size or values.shape[1] == 0:
        raise SamplerError(
            f"{what} was called for {size} draws and returned shape {np.shape(drawn)}; it must be ({size}, d) or "
            f"({size},)."
        )
    if dimension is not None and values.shape[1] != dimension:
        raise SamplerError(
            f"{what} returned draws in {values.shape[1]} dimensions, and in {dimension} before; it must keep to one."
        )
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values).all(axis=1))[0])
        raise SamplerError(f"{what} returned {values[row]} at draw {row}; all draws must be finite.")
    return values
