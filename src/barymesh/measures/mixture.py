"""Weighted mixtures of other measures, Gaussians for instance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from barymesh.checks import as_floats
from barymesh.errors import DimensionError, MeasureError
from barymesh.measures.base import Atoms, Discretisation, Floats, Measure, as_masses
from barymesh.measures.gaussian import Gaussian


class Mixture(Measure):
    """A weighted mixture of measures: ``sum_k weights[k] * components[k]``.

    Parameters
    ----------
    components : list of Measure
        What is mixed; all of the same dimension.
    weights : array (K,), optional
        The share of each, normalised to sum 1. Uniform by default.

    Examples
    --------
    >>> from barymesh import Empirical, Gaussian, Mixture
    >>> Mixture([Gaussian(0, 1), Empirical([3.0, 3.5])], [0.9, 0.1]).weights
    array([0.9, 0.1])
    """

    def __init__(self, components: Sequence[Measure], weights: ArrayLike | None = None) -> None:
        if isinstance(components, Measure):
            raise MeasureError(
                "A mixture needs a list of measures; one was given by itself. Write [measure] for a list of one."
            )
        self.components = list(components)
        unknown = [type(c).__name__ for c in self.components if not isinstance(c, Measure)]
        if unknown:
            raise MeasureError(f"A component of a mixture is a {unknown[0]}; components must be measures of barymesh.")
        if not self.components:
            raise MeasureError("A mixture is empty: give at least one component.")
        dimensions = {component.dimension for component in self.components}
        if len(dimensions) > 1 or None in dimensions:
            raise DimensionError(
                f"The components of a mixture have dimensions {sorted(map(str, dimensions))}; all must be known, and "
                "the same. Give histograms points= of their own."
            )
        self.weights = as_masses(
            np.ones(len(self.components)) if weights is None else weights, "The weights of a mixture"
        )
        if self.weights.shape != (len(self.components),):
            raise MeasureError(
                f"A mixture has {len(self.components)} components and weights of shape {self.weights.shape}; give "
                f"one each."
            )

    @classmethod
    def of_gaussians(cls, means: ArrayLike, stds: ArrayLike, weights: ArrayLike | None = None) -> Mixture:
        """A mixture of Gaussians.

        Parameters
        ----------
        means : array (K,) or (K, d)
            Their centres.
        stds : float or array (K,)
            Their standard deviations, one for all or one for each.
        weights : array (K,), optional
            The share of each. Uniform by default.

        Returns
        -------
        Mixture
            Of K Gaussians.

        Examples
        --------
        >>> from barymesh import Mixture
        >>> len(Mixture.of_gaussians([0, 3], [0.3, 0.8]).components)
        2
        """
        centres = np.atleast_1d(as_floats(means, "The means of a mixture", MeasureError))
        given = as_floats(stds, "The stds of a mixture", MeasureError)
        if given.shape not in ((), (1,), (len(centres),)):
            raise MeasureError(
                f"A mixture has {len(centres)} means and stds of shape {given.shape}; give one for all or one each."
            )
        widths = np.broadcast_to(given, (len(centres),))
        return cls([Gaussian(mean, std) for mean, std in zip(centres, widths, strict=True)], weights)

    @property
    def dimension(self) -> int | None:
        return self.components[0].dimension

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        counts = rng.multinomial(size, self.weights)
        draws = [c.sample(int(count), rng) for c, count in zip(self.components, counts, strict=True) if count]
        return rng.permutation(np.concatenate([*draws, np.empty((0, self.dimension or 0))]))

    def atoms(self, how: Discretisation) -> Atoms:
        generator = how.generator()
        shared = replace(how, generator=lambda: generator)
        parts = [component.atoms(shared) for component in self.components]
        points = np.concatenate([part.points for part in parts])
        masses = np.concatenate([w * part.weights for w, part in zip(self.weights, parts, strict=True)])
        return Atoms.from_weights(points, masses)
