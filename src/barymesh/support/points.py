"""The points on which the barycenter lives."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from barymesh.checks import as_floats, whole_number
from barymesh.errors import SupportError
from barymesh.resources import memory
from barymesh.support.grid import Grid, ends, recognise

Floats = NDArray[np.float64]


class Support:
    """``n`` distinct points in d dimensions: explicit ones, or a regular grid.

    Explicit points that form a regular grid in C order are recognised, and get the fast separable kernels.

    Parameters
    ----------
    points : array (n, d) or (n,)
        The points; a flat list is on the line.
    reason : str, default=""
        Why these points were chosen, if the program chose them.
    names : list of d str, optional
        What the coordinates are called, in tables and plots.

    Attributes
    ----------
    points : array (n, d)
        The points.
    grid : Grid or None
        The regular grid that they form, if they do.

    Examples
    --------
    >>> import numpy as np
    >>> from barymesh import Support
    >>> Support(np.linspace(0, 1, 11))
    Support(11 grid on [0, 1])
    >>> Support([[0, 0], [1, 0], [0.3, 2]])
    Support(3 points in 2 dimensions)
    """

    def __init__(self, points: ArrayLike, *, reason: str = "", names: Sequence[str] | None = None) -> None:
        given = np.array(as_floats(points, "The support", SupportError))
        if given.ndim == 1:
            given = given[:, None]
        if given.ndim != 2:
            raise SupportError(f"The support must be points (n, d), not an array of shape {given.shape}.")
        if given.size == 0:
            raise SupportError("The support is empty: give at least one point.")
        if not np.isfinite(given).all():
            row = int(np.flatnonzero(~np.isfinite(given).all(axis=1))[0])
            raise SupportError(f"Support point {row} is {given[row]}; all coordinates must be finite.")
        self.points: Floats = given
        self.grid: Grid | None = recognise(given)
        self.reason = reason
        self.names = self._checked_names(names)
        if self.grid is None:
            _refuse_duplicates(given)

    @classmethod
    def regular(
        cls,
        shape: int | Sequence[int],
        lower: float | Sequence[float] = 0.0,
        upper: float | Sequence[float] = 1.0,
        *,
        reason: str = "",
    ) -> Support:
        """A regular grid with ``shape[a]`` points from ``lower[a]`` to ``upper[a]`` along each axis.

        Parameters
        ----------
        shape : int or sequence of int
            Points along each axis.
        lower, upper : float or sequence of float, default=0 and 1
            One bound for all axes, or one for each.
        reason : str, default=""
            Why these points were chosen.

        Returns
        -------
        Support
            The points of the grid.

        Examples
        --------
        >>> from barymesh import Support
        >>> Support.regular((64, 32), 0, (2, 1))
        Support(64 x 32 grid on [0, 2] x [0, 1])
        """
        sides = list(shape) if isinstance(shape, Sequence | np.ndarray) and not isinstance(shape, str) else [shape]
        counts = tuple(whole_number("A side of the grid", side, None, SupportError) for side in sides)
        bounds = [as_floats(bound, "A bound of the grid", SupportError) for bound in (lower, upper)]
        if not counts or any(bound.shape not in ((), (len(counts),)) for bound in bounds):
            raise SupportError(
                f"The grid has shape {counts} and bounds of shapes {[bound.shape for bound in bounds]}; "
                "give one number of points for each axis, and one bound for all or one for each."
            )
        lows, highs = (np.broadcast_to(bound, (len(counts),)) for bound in bounds)
        for axis, (count, low, high) in enumerate(zip(counts, lows, highs, strict=True)):
            if count < 1:
                raise SupportError(f"The grid has {count} points along axis {axis}; it needs at least one.")
            if not (np.isfinite([low, high]).all() and (high > low or (high == low and count == 1))):
                raise SupportError(
                    f"The grid goes from {low} to {high} along axis {axis}; both must be finite, the upper end above "
                    "the lower (or equal to it, for a single point)."
                )
        return cls.of_grid(Grid(counts, tuple(map(float, lows)), tuple(map(float, highs))), reason=reason)

    @classmethod
    def of_grid(cls, grid: Grid, *, reason: str = "") -> Support:
        """The points of a Grid.

        Parameters
        ----------
        grid : Grid
            For instance that of an Image.
        reason : str, default=""
            Why these points were chosen.

        Returns
        -------
        Support
            The points of the grid.
        """
        count = math.prod(grid.shape)
        memory.require(16 * count * grid.dimension, f"A support of {count} grid points", "Use a coarser grid.")
        support = cls.__new__(cls)
        support.points, support.grid, support.reason, support.names = grid.points, grid, reason, None
        return support

    @classmethod
    def scattered(cls, points: Floats, *, reason: str = "", names: Sequence[str] | None = None) -> Support:
        """Points that moved here: some may coincide, and they form no grid.

        Parameters
        ----------
        points : array (n, d)
            Finite coordinates.
        reason : str, default=""
            Why these points were chosen.
        names : list of d str, optional
            One for each coordinate.

        Returns
        -------
        Support
            The points as they are.
        """
        support = cls.__new__(cls)
        support.points, support.grid, support.reason = np.array(points, dtype=float), None, reason
        support.names = support._checked_names(names)
        return support

    def named(self, names: Sequence[str] | None) -> Support:
        """The same points, with names for the coordinates.

        Parameters
        ----------
        names : list of d str, optional
            One for each coordinate, or None for no names.

        Returns
        -------
        Support
            With the same arrays.
        """
        support = copy.copy(self)
        support.names = self._checked_names(names)
        return support

    def _checked_names(self, names: Sequence[str] | None) -> tuple[str, ...] | None:
        if names is not None and len(names) != self.dimension:
            raise SupportError(
                f"The support has {self.dimension} coordinates and {len(names)} names for them; give one name for each."
            )
        return None if names is None else tuple(map(str, names))

    @property
    def size(self) -> int:
        """The number of points, n."""
        return int(self.points.shape[0])

    @property
    def dimension(self) -> int:
        """The number of coordinates, d."""
        return int(self.points.shape[1])

    @cached_property
    def ends(self) -> tuple[Floats, Floats]:
        """The lowest and the highest coordinate along each axis, ``(d,)`` each."""
        return ends(self.points)

    @cached_property
    def spacing(self) -> float:
        """The typical distance between neighbouring points."""
        low, high = self.ends
        extent = high - low
        counts = np.array(self.grid.shape) if self.grid else np.full(self.dimension, self.size ** (1 / self.dimension))
        steps = extent / np.maximum(counts - 1, 1)
        return float(steps[extent > 0].max(initial=0.0)) or 1.0

    @property
    def box(self) -> str:
        """The box around the points as text, such as "[0, 2] x [0, 1]"."""
        return " x ".join(f"[{low:g}, {high:g}]" for low, high in zip(*self.ends, strict=True))

    def __repr__(self) -> str:
        if self.grid is None:
            return f"Support({self.size} points in {self.dimension} dimensions)"
        return f"Support({' x '.join(map(str, self.grid.shape))} grid on {self.box})"


def as_support(given: Any) -> Support:
    """A Support from points or from a Support."""
    if isinstance(given, str):
        raise SupportError(f"The support {given!r} is not understood. Give points (n, d), a Support, 'auto', or None.")
    return given if isinstance(given, Support) else Support(given)


def grid_values(support: Support) -> list[Any] | None:
    """The grid of a support as values for JSON; None without a grid."""
    grid = support.grid
    return None if grid is None else [grid.shape, grid.lower, grid.upper]


def stored_support(values: list[Any] | None, points: ArrayLike | None, *, reason: str = "") -> Support:
    """The support with these ``grid_values``, or with these points if they are None."""
    if values is not None:
        return Support.of_grid(Grid(*map(tuple, values)), reason=reason)
    return Support([], reason=reason) if points is None else Support.scattered(np.asarray(points), reason=reason)


def _refuse_duplicates(points: Floats) -> None:
    order = np.lexsort(points.T)
    same = np.flatnonzero((np.diff(points[order], axis=0) == 0).all(axis=1))
    if same.size:
        first, second = sorted(map(int, order[same[0] : same[0] + 2]))
        raise SupportError(
            f"Support points {first} and {second} are the same point {points[first]} ({same.size} duplicates in all). "
            "Remove duplicates, for instance with numpy.unique(points, axis=0)."
        )
