"""Many images as one array: measures that take as much memory as their pixels, and become atoms all at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from barymesh.errors import MeasureError
from barymesh.measures.base import Atoms, Measure
from barymesh.measures.image import Image
from barymesh.support.grid import Grid


class ImageStack(Sequence[Measure]):
    """The images ``pixels (m, *grid.shape)``, of any kind of number, in memory or in a file."""

    def __init__(self, pixels: NDArray[Any], grid: Grid) -> None:
        self.pixels, self.grid = pixels, grid

    def __len__(self) -> int:
        return len(self.pixels)

    @overload
    def __getitem__(self, place: int) -> Measure: ...
    @overload
    def __getitem__(self, place: slice) -> ImageStack: ...
    def __getitem__(self, place: int | slice) -> Measure | ImageStack:
        if isinstance(place, slice):
            return ImageStack(self.pixels[place], self.grid)
        return Image(self.pixels[place], self.grid)

    def __iter__(self) -> Iterator[Measure]:
        return (Image(pixels, self.grid) for pixels in self.pixels)

    def atoms(self) -> list[Atoms]:
        """Those of every image; an error names the first that is no measure."""
        flat = np.ascontiguousarray(self.pixels).reshape(len(self), -1)
        places = np.flatnonzero(flat)
        node, position = np.divmod(places, flat.shape[1])
        masses = flat.ravel()[places].astype(float)
        good = np.isfinite(masses) & (masses > 0)
        counts = np.bincount(node, minlength=len(self))
        wrong = np.concatenate([node[~good], np.flatnonzero(counts == 0)])
        if wrong.size:
            raise MeasureError(
                f"Measure {wrong.min()}: an image must have some mass, and none that is negative or not finite."
            )
        ends = np.concatenate([[0], np.cumsum(counts)])
        masses /= np.repeat(np.add.reduceat(masses, ends[:-1]), counts)
        table, parts = self.grid.points, pairwise(ends.tolist())
        return [Atoms(table, position[first:last], masses[first:last], self.grid) for first, last in parts]


def stacked(given: Any, grid: Grid | None) -> ImageStack | None:
    """A stack of the images ``given``, if they are an array of the shape of the grid, or flattened."""
    if not isinstance(given, np.ndarray) or grid is None or given.dtype.kind not in "uif" or len(given) == 0:
        return None
    fits = given.shape[1:] == grid.shape or given.shape[1:] == (int(np.prod(grid.shape)),)
    return ImageStack(given.reshape(len(given), *grid.shape), grid) if fits and grid.dimension > 1 else None
