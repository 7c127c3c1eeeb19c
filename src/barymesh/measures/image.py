"""Grey images and volumes as measures on their pixel grid."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from barymesh.errors import MeasureError
from barymesh.measures.base import Atoms, Discretisation, Floats, Measure, as_masses, draw
from barymesh.support.grid import Grid


class Image(Measure):
    """The brightness of a 2-D image, or of a volume in any dimension, as mass on its pixels.

    The first coordinate runs down the rows, as in the array.

    Parameters
    ----------
    pixels : array (height, width), or of any shape
        The brightness; normalised to sum 1.
    grid : Grid, optional
        Where the pixels are; by default they are square, and the longest side spans [0, 1].

    Examples
    --------
    >>> import numpy as np
    >>> from barymesh import Image
    >>> Image(np.ones((20, 30))).grid.upper
    (0.6551724137931034, 1.0)
    """

    def __init__(self, pixels: ArrayLike, grid: Grid | None = None) -> None:
        self.pixels = as_masses(pixels, "An image")
        if self.pixels.ndim == 0:
            raise MeasureError(
                f"An image is {pixels!r}, but must be an array with at least one axis, such as (height, width)."
            )
        self.grid = grid or Grid.of_image(self.pixels.shape)
        if self.grid.shape != self.pixels.shape:
            raise MeasureError(
                f"An image of shape {self.pixels.shape} was put on a grid of shape {self.grid.shape}. "
                "Give a grid of the same shape, or leave it out."
            )

    @property
    def dimension(self) -> int:
        return self.grid.dimension

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        return draw(self.grid.points, self.pixels.ravel(), size, rng)

    def atoms(self, how: Discretisation) -> Atoms:
        return Atoms.from_weights(self.grid.points, self.pixels.ravel(), self.grid)
