"""The Gibbs kernel ``K = exp(-c/reg)`` between support points and atoms, as something that rows are multiplied with.

The products are our own, not BLAS's: its threads go on spinning for a while after each call, beside those of the
compiled code, and a BLAS rounds a row differently depending on what other rows come with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from barymesh.core import gibbs as kernels
from barymesh.core.matmul import LANES, padded
from barymesh.oracle.base import Floats
from barymesh.support.grid import Grid

# below this many products of two numbers, starting threads costs more than it saves
SERIAL_PRODUCTS = 100_000
# how far, relative to the spacing, points of two lines may drift apart and still count as on one
DRIFT = 1e-9


@dataclass(frozen=True)
class Kernel:
    """A matrix ``(n, columns)`` spread over ``numbers``; see ``gibbs_kernels.times_serial`` for the layout."""

    numbers: Floats
    layout: tuple[int, int, int]
    columns: int

    def times(self, rows: Floats) -> Floats:
        """``rows (m, n) @ K``, with columns of no meaning at its end that fill up the last strip."""
        out: Floats = np.zeros((rows.shape[0], padded(self.columns)), self.numbers.dtype)
        small = rows.size * self.columns < SERIAL_PRODUCTS
        run = kernels.times_serial if small else kernels.times_parallel
        run(np.ascontiguousarray(rows), self.numbers, self.layout, out)
        return out


def matrix_kernel(matrix: Floats) -> Kernel:
    """A matrix ``(n, columns)``, kept strip by strip, so that a product reads it from one end to the other."""
    rows, columns = matrix.shape
    strips = padded(columns) // LANES
    numbers: Floats = np.zeros((strips, rows, LANES), matrix.dtype)
    for strip in range(strips):
        part = matrix[:, strip * LANES : (strip + 1) * LANES]
        numbers[strip, :, : part.shape[1]] = part
    return Kernel(numbers.ravel(), (0, rows * LANES, LANES), columns)


def line_kernel(exponents: Floats, rows: int, columns: int) -> Kernel:
    """The Toeplitz matrix ``K[k, l] = exp(-exponents[rows - 1 + l - k])``, which is never written out."""
    numbers = np.zeros(rows - 1 + padded(columns), exponents.dtype)
    np.exp(-exponents, out=numbers[: exponents.size])
    return Kernel(numbers, (rows - 1, LANES, -1), columns)


def on_one_line(support: Grid | None, grid: Grid | None) -> bool:
    """Whether both are regular points of the line with the same spacing."""
    if support is None or grid is None or support.dimension != 1 or grid.dimension != 1:
        return False
    (n,), (count,) = support.shape, grid.shape
    return min(n, count) > 1 and abs(_spacing(support) - _spacing(grid)) * max(n, count) <= DRIFT * _spacing(grid)


def line_exponents(support: Grid, grid: Grid, form: Callable[[Floats], Floats], reg: float) -> Floats:
    """Of points on one line, and for a cost ``form(z - y)``: the costs divided by reg in the order of y - z, ``(n + N -
    1,)``."""
    steps = np.arange(1 - support.shape[0], grid.shape[0], dtype=float)
    return form(support.lower[0] - grid.lower[0] - _spacing(grid) * steps) / reg


def _spacing(grid: Grid) -> float:
    return (grid.upper[0] - grid.lower[0]) / (grid.shape[0] - 1)
