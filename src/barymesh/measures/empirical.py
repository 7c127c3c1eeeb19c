"""Empirical measures: samples, with optional weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from barymesh.errors import MeasureError
from barymesh.measures.base import Atoms, Discretisation, Floats, Measure, as_masses, as_points, draw


class Empirical(Measure):
    """Samples: mass at the given points, equal or in proportion to weights.

    Parameters
    ----------
    points : array (N, d) or (N,)
        Where the mass is; a flat list is on the line.
    weights : array (N,), optional
        How much of it, normalised to sum 1. Equal by default.
    names : list of d str, optional
        What the coordinates are called, in tables and plots.
    label : str, optional
        What the measure itself is called; ``result.plan(label)`` and the like take it in place of a number.

    Examples
    --------
    >>> from barymesh import Empirical
    >>> Empirical([[0, 0], [1, 2]], weights=[1, 3]).weights
    array([0.25, 0.75])
    """

    def __init__(
        self,
        points: ArrayLike,
        weights: ArrayLike | None = None,
        *,
        names: Sequence[str] | None = None,
        label: str | None = None,
    ) -> None:
        self.label = None if label is None else str(label)
        self.points = as_points(points, "A measure given by samples")
        count = self.points.shape[0]
        if weights is None:
            self.weights = np.full(count, 1.0 / count)
        else:
            self.weights = as_masses(weights, "The weights of a measure given by samples")
            if self.weights.shape != (count,):
                raise MeasureError(
                    f"A measure has {count} samples but weights of shape {self.weights.shape}; give one weight each."
                )

        self.names = None if names is None else tuple(map(str, names))
        if self.names is not None and len(self.names) != self.dimension:
            raise MeasureError(
                f"A measure has samples in {self.dimension} dimensions and {len(self.names)} names for them; give one "
                "name for each."
            )

    @property
    def dimension(self) -> int:
        return int(self.points.shape[1])

    @property
    def records(self) -> int:
        return len(self.points)

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        return draw(self.points, self.weights, size, rng)

    def atoms(self, how: Discretisation) -> Atoms:
        return Atoms.from_weights(self.points, self.weights)


def by_group(
    points: Floats, weights: Floats | None, groups: Sequence[str] | NDArray[np.str_], names: Sequence[str] | None
) -> list[Empirical]:
    """A measure for each group of the samples ``(N, d)``, labelled by it, in the order of their first appearance."""
    labels, first, member = np.unique(np.asarray(groups, dtype=str), return_index=True, return_inverse=True)
    measures = []
    for k in np.argsort(first):
        own = np.flatnonzero(member == k)
        masses = None if weights is None else weights[own]
        try:
            measures.append(Empirical(points[own], masses, names=names, label=str(labels[k])))
        except MeasureError as error:
            raise MeasureError(f"Group {str(labels[k])!r}: {error}") from error
    return measures
