"""Masses on scattered points as dots over two of their coordinates, which can be drawn again with other masses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from barymesh.viz.plane import COLOURS, axis_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from barymesh.support.points import Support

Floats = NDArray[np.floating[Any]]
# areas of dots, in square points: of one without mass, and what the heaviest has more, alone and among very many
SMALLEST, MOST_GROWTH, LEAST_GROWTH = 4.0, 120.0, 16.0
# all dots together are no larger than about this
TOGETHER = 12_000.0


class CloudPicture:
    """Dots at the points of a support. Heavier ones are larger and darker, and lie over lighter ones.

    The first of the two coordinates runs to the right, the second up. ``largest`` is the mass with which the scale
    ends, by default that of the heaviest point.
    """

    def __init__(
        self,
        axes: Axes,
        support: Support,
        masses: Floats,
        kept: tuple[int, int] = (0, 1),
        *,
        largest: float | None = None,
    ) -> None:
        self.places, self.largest = support.points[:, kept], largest
        self.growth = float(np.clip(TOGETHER / support.size, LEAST_GROWTH, MOST_GROWTH))
        self.dots = axes.scatter(
            self.places[:, 0], self.places[:, 1], c=masses, cmap=f"{COLOURS}_r", edgecolors="0.4", linewidths=0.3
        )
        axes.set(xlabel=axis_name(support, kept[0]), ylabel=axis_name(support, kept[1]))
        if support.names is None:
            # columns of a table have units of their own
            axes.set_aspect("equal", adjustable="datalim")
        self.show(masses)

    def show(self, masses: Floats) -> None:
        """Draw other masses ``(n,)`` in their place."""
        largest = float(masses.max()) if self.largest is None else self.largest
        order = np.argsort(masses)
        self.dots.set_offsets(self.places[order])
        self.dots.set_array(masses[order])
        self.dots.set_clim(0, largest)
        self.dots.set_sizes(SMALLEST + self.growth * masses[order] / largest)
