"""Masses on a grid as a picture over two of its axes, which can be drawn again with other masses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from barymesh.support.points import Support

Floats = NDArray[np.floating[Any]]
COLOURS = "magma"
ORDINALS = ("first", "second", "third")
# of one axis to the other; beyond it pixels need not be square
LARGEST_RATIO = 4.0


class PlanePicture:
    """A picture of masses on the grid of a support, summed over all axes but two.

    Pictures are drawn as image arrays are: the first axis runs down. Coordinates that have names, such as the columns
    of a table, are drawn as in a chart: the first runs to the right, the second up. The centre of a pixel is its point.
    """

    def __init__(self, axes: Axes, support: Support, masses: Floats, kept: tuple[int, int] = (0, 1)) -> None:
        assert support.grid is not None
        self.shape, self.kept, self.chart = support.grid.shape, kept, support.names is not None
        grid = support.grid
        lower, upper = (np.array([ends[axis] for axis in kept]) for ends in (grid.lower, grid.upper))
        counts = np.array([grid.shape[axis] for axis in kept])
        steps = np.where(counts > 1, (upper - lower) / np.maximum(counts - 1, 1), 0.0)
        half = np.where(steps > 0, steps, steps.max() or 1.0) / 2
        (low, left), (high, right) = lower - half, upper + half
        square = 1 / LARGEST_RATIO <= (high - low) / (right - left) <= LARGEST_RATIO
        down, across = (axis_name(support, axis) for axis in kept)
        self.image = axes.imshow(
            self._plane(masses),
            cmap=COLOURS,
            interpolation="nearest",
            vmin=0,
            origin="lower" if self.chart else "upper",
            extent=(low, high, left, right) if self.chart else (left, right, high, low),
            # columns of a table have units of their own
            aspect="equal" if square and not self.chart else "auto",
        )
        axes.set_xlabel(down if self.chart else across)
        axes.set_ylabel(across if self.chart else down)

    def show(self, masses: Floats) -> None:
        """Draw other masses ``(n,)`` in their place, as bright as their own largest."""
        plane = self._plane(masses)
        self.image.set_data(plane)
        self.image.set_clim(0, float(plane.max()))

    def _plane(self, masses: Floats) -> Floats:
        beyond = tuple(axis for axis in range(len(self.shape)) if axis not in self.kept)
        plane = masses.reshape(self.shape).sum(axis=beyond)
        return np.asarray(plane.T if self.chart else plane)


def axis_name(support: Support, axis: int) -> str:
    """What a coordinate is called: as in the data, if they had names."""
    if support.names is not None:
        return support.names[axis]
    return "position" if support.dimension == 1 else f"{ORDINALS[axis]} coordinate"
