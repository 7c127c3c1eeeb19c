"""Regular grids: the shape behind images, volumes and evenly spaced points."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
# how far, relative to the spacing, a point may lie from its place and still count as on the grid
REGULAR = 1e-6


@dataclass(frozen=True)
class Grid:
    """A regular grid: ``shape[a]`` points along axis a, from ``lower[a]`` to ``upper[a]``, both included.

    Points are listed in C order: the last axis varies fastest, as in ``image.ravel()``.

    Parameters
    ----------
    shape : tuple of int
        Points along each axis.
    lower, upper : tuple of float
        Where each axis begins and ends.

    Examples
    --------
    >>> from barymesh import Grid
    >>> Grid((2, 2), (0.0, 0.0), (1.0, 3.0)).points
    array([[0., 0.],
           [0., 3.],
           [1., 0.],
           [1., 3.]])
    """

    shape: tuple[int, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]

    @property
    def dimension(self) -> int:
        """The number of axes, d."""
        return len(self.shape)

    @cached_property
    def axes(self) -> tuple[Floats, ...]:
        """The coordinates along each axis."""
        return tuple(
            np.linspace(low, high, count) for low, high, count in zip(self.lower, self.upper, self.shape, strict=True)
        )

    @property
    def points(self) -> Floats:
        """All points, ``(prod(shape), d)``; equal grids share one array."""
        return _points(self)

    @classmethod
    def of_image(cls, shape: tuple[int, ...]) -> Grid:
        """The pixel grid of an image or volume: square pixels, the longest side spanning [0, 1].

        Parameters
        ----------
        shape : tuple of int
            That of the image.

        Returns
        -------
        Grid
            Where its pixels are.
        """
        step = 1.0 / max(max(shape) - 1, 1)
        return cls(shape, (0.0,) * len(shape), tuple(step * (count - 1) for count in shape))


@lru_cache(maxsize=64)
def _points(grid: Grid) -> Floats:
    points = np.stack([a.ravel() for a in np.meshgrid(*grid.axes, indexing="ij")], axis=1)
    # shared by all equal grids, so it must not change
    points.flags.writeable = False
    return points


def ends(points: Floats) -> tuple[Floats, Floats]:
    """The lowest and the highest coordinate of the points ``(n, d)`` along each axis, ``(d,)`` each."""
    # axis by axis: a reduction over the first of two axes is slow where the other is short
    return np.array([axis.min() for axis in points.T]), np.array([axis.max() for axis in points.T])


def recognise(points: Floats) -> Grid | None:
    """The regular grid whose points these are, in C order, or None.

    Only grids of two or more points along some axis count; the order must be that of ``Grid.points``.
    """
    n, dimension = points.shape
    if n < 2:
        return None
    lower, upper = ends(points)
    flat = (upper - lower) <= REGULAR * (upper - lower).max() / max(n, 2)
    upper = np.where(flat, lower, upper)
    # in exact C order the sides follow from where coordinates begin anew, and nothing need be sorted
    found = _grid_of(points, lower, upper, _sides_in_order(points))
    if found is not None:
        return found
    shape: list[int] = []
    for axis in range(dimension):
        extent = upper[axis] - lower[axis]
        shape.append(1 if flat[axis] else max(round(extent / _step(np.unique(points[:, axis]))), 1) + 1)
        if np.prod(shape, dtype=float) > n:
            return None
    return _grid_of(points, lower, upper, tuple(shape))


def _sides_in_order(points: Floats) -> tuple[int, ...]:
    """The sides of the grid that the points are in C order, if they are those of any."""
    sides: list[int] = []
    for axis in reversed(range(points.shape[1])):
        drops = np.flatnonzero(np.diff(points[:, axis]) < 0)
        side = int(drops[0]) + 1 if drops.size else len(points)
        if axis > 0 and drops.size == 0 and (points[:, axis] == points[0, axis]).all():
            side = 1
        sides.insert(0, side)
        points = points[::side]
    return tuple(sides)


def _grid_of(points: Floats, lower: Floats, upper: Floats, shape: tuple[int, ...]) -> Grid | None:
    """The grid of this shape, if these are its points."""
    single = np.array(shape) == 1
    if int(np.prod(shape)) != len(points) or single.all() or (upper[~single] <= lower[~single]).any():
        return None
    # a side of one point has no extent
    upper = np.where(single, lower, upper)
    grid = Grid(shape, tuple(map(float, lower)), tuple(map(float, upper)))
    spacing = min((u - lo) / (c - 1) for lo, u, c in zip(lower, upper, shape, strict=True) if c > 1)
    return grid if np.abs(grid.points - points).max() <= REGULAR * spacing else None


def _step(sorted_values: Floats) -> float:
    """The typical distance between neighbouring distinct values; near-duplicates from rounding do not count."""
    gaps = np.diff(sorted_values)
    extent = sorted_values[-1] - sorted_values[0]
    gaps = gaps[gaps > REGULAR * extent / max(sorted_values.size, 1)]
    return float(np.median(gaps)) if gaps.size else 1.0
