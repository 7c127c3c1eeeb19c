"""What every measure offers: samples from an addressed generator, and weighted atoms for the oracle."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from barymesh.checks import as_floats, normalised
from barymesh.errors import DimensionError, MeasureError
from barymesh.support.grid import Grid
from barymesh.support.points import Support

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True)
class Atoms:
    """A discrete measure: weight ``weights[k] > 0`` at the point ``table[index[k]]``; the weights sum to 1.

    ``table (U, d)`` may be shared by many measures (all pixels of a grid, say); ``grid`` is set if it is a grid's
    points.
    """

    table: Floats
    index: Indices
    weights: Floats
    grid: Grid | None = None

    @property
    def points(self) -> Floats:
        return self.table[self.index]

    @classmethod
    def from_weights(cls, table: Floats, weights: Floats, grid: Grid | None = None) -> Atoms:
        """Weights on all points of a table, zeros dropped, normalised to sum 1."""
        index = np.flatnonzero(weights > 0)
        kept = weights[index]
        return cls(table, index, kept / kept.sum(), grid)

    def without(self, least: float) -> Atoms:
        """The same without the atoms that weigh less than ``least``."""
        if self.weights.min() >= least:
            return self
        kept = self.weights >= least
        return Atoms(self.table, self.index[kept], self.weights[kept] / self.weights[kept].sum(), self.grid)

    def digest(self, key: bytes = b"") -> bytes:
        """16 bytes that other atoms do not have. With a key, nobody without it can find the data by trying."""
        digest = hashlib.blake2b(digest_size=16, key=key)
        for array in (self.points, self.weights):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.digest()


@dataclass(frozen=True)
class Discretisation:
    """How measures that are not discrete become atoms: around which support, how finely, from which generator."""

    support: Support | None = None
    resolution: float = 0.1
    samples: int = 1000
    generator: Callable[[], np.random.Generator] = field(default=lambda: np.random.default_rng(0))


class Measure(ABC):
    """A probability measure on R^d: what all kinds of measures share.

    Derive from it for a kind of your own.
    """

    # what it is called, in tables and plots, and where a result is asked about it
    label: str | None = None

    @property
    @abstractmethod
    def dimension(self) -> int | None:
        """d, or None for a histogram that takes its points from the support."""

    @property
    def sampled_only(self) -> bool:
        """Whether nothing is known of the measure but draws: its atoms are then a sample, and on a network nodes draw
        ever more."""
        return False

    @property
    def records(self) -> int | None:
        """How many records it was made from, which is what ``weights="size"`` counts; None if that has no meaning."""
        return None

    @abstractmethod
    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        """Independent draws.

        Parameters
        ----------
        size : int
            How many.
        rng : numpy.random.Generator
            Where to draw from.

        Returns
        -------
        array (size, d)
            The draws.
        """

    @abstractmethod
    def atoms(self, how: Discretisation) -> Atoms:
        """The measure itself if it is discrete, a quadrature where there is one, else a sample.

        Parameters
        ----------
        how : Discretisation
            Around which ``support``, at which ``resolution``, with how many ``samples`` from which ``generator``.

        Returns
        -------
        Atoms
            Weighted points.
        """


class Unavailable(Measure):
    """A measure whose data are not here: what asks for them is refused, with the ``reason``."""

    @property
    @abstractmethod
    def reason(self) -> str:
        """Why, and what to do about it."""

    @property
    def dimension(self) -> int | None:
        return None

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        raise MeasureError(self.reason)

    def atoms(self, how: Discretisation) -> Atoms:
        raise MeasureError(self.reason)


def discretise(measures: Sequence[Measure], how: Callable[[int], Discretisation]) -> list[Atoms]:
    """The atoms of every measure, ``how(k)`` those of measure k. Equal tables of points become one."""
    atoms = []
    for k, measure in enumerate(measures):
        try:
            atoms.append(measure.atoms(how(k)))
        except (MeasureError, DimensionError) as error:
            raise type(error)(f"Measure {k}: {error}") from error
    # by identity: those of one grid, or on the support, are one object already
    tables = {id(one.table): one.table for one in atoms}
    if len(tables) < 2:
        return atoms
    first: dict[tuple[tuple[int, ...], bytes], Floats] = {}
    for identity, table in tables.items():
        key = (table.shape, hashlib.blake2b(np.ascontiguousarray(table).data).digest())
        tables[identity] = first.setdefault(key, table)
    return [replace(one, table=tables[id(one.table)]) for one in atoms]


def as_points(values: ArrayLike, what: str) -> Floats:
    """Finite coordinates as ``(N, d)``; a flat list is N points on the line."""
    points = as_floats(values, what, MeasureError)
    if points.ndim == 1:
        points = points[:, None]
    if points.ndim != 2 or points.shape[1] == 0:
        raise DimensionError(
            f"{what} must be an array (N, d) of N points in d dimensions, not of shape {points.shape}."
        )
    if points.shape[0] == 0:
        raise MeasureError(f"{what} is empty: give at least one point.")
    if not np.isfinite(points).all():
        row = int(np.flatnonzero(~np.isfinite(points).all(axis=1))[0])
        raise MeasureError(
            f"{what} has the value {points[row]} at row {row}; remove or mend rows with NaN or infinity."
        )
    return points


def as_masses(values: ArrayLike, what: str) -> Floats:
    """Weights that are finite, not negative and not all zero, normalised to sum 1."""
    masses = as_floats(values, what, MeasureError)
    bad = ~(np.isfinite(masses) & (masses >= 0))
    if masses.size == 0:
        raise MeasureError(f"{what} is empty: give at least one weight.")
    if bad.any():
        place = tuple(map(int, np.argwhere(bad)[0]))
        where = place[0] if len(place) == 1 else place
        raise MeasureError(
            f"{what} has the value {masses[place]} at position {where}; weights must be finite and not negative."
        )
    if not masses.max() > 0:
        raise MeasureError(f"{what} has zero mass: every weight is 0. Leave it out, or give it some mass.")
    return normalised(masses)


def draw(points: Floats, masses: Floats, size: int, rng: np.random.Generator) -> Floats:
    """Independent draws of weighted points."""
    cumulative = np.cumsum(masses)
    chosen = np.searchsorted(cumulative, rng.random(size) * cumulative[-1], side="right")
    return np.asarray(points[np.minimum(chosen, masses.size - 1)])
