"""The Gibbs kernel ``K = exp(-c/reg)`` between support points and atoms, as something that rows are multiplied with.

The products are our own, not BLAS's: its threads keep spinning for a while after each call, beside those of the
compiled code, and a BLAS rounds a row differently depending on what other rows come with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from barymesh.core import kernels
from barymesh.cost import Cost
from barymesh.oracle.base import Floats, Indices
from barymesh.resources import memory
from barymesh.support.grid import Grid
from barymesh.support.points import Support

# how far, relative to the spacing, points of two lines may drift apart and still count as on one
DRIFT = 1e-9


def padded(columns: int) -> int:
    """The number of columns rounded up to a whole number of strips."""
    return -(-columns // kernels.STRIP) * kernels.STRIP


@dataclass(frozen=True)
class Kernel:
    """A matrix ``(n, columns)`` spread over ``numbers``; see ``times`` in core/dense.cpp for the ``layout (origin,
    between, step)``."""

    numbers: Floats
    layout: Indices
    columns: int

    def times(self, rows: Floats) -> Floats:
        """``rows (m, n) @ K``, with columns of no meaning at its end that fill up the last strip."""
        out: Floats = np.zeros((rows.shape[0], padded(self.columns)), self.numbers.dtype)
        origin, between, step = self.layout.tolist()
        kernels.times(np.ascontiguousarray(rows), self.numbers, origin, between, step, out)
        return out


def matrix_kernel(matrix: Floats) -> Kernel:
    """A matrix ``(n, columns)``, kept strip by strip, so that a product reads it from one end to the other."""
    rows, columns = matrix.shape
    strips = padded(columns) // kernels.STRIP
    numbers: Floats = np.zeros((strips, rows, kernels.STRIP), matrix.dtype)
    for strip in range(strips):
        part = matrix[:, strip * kernels.STRIP : (strip + 1) * kernels.STRIP]
        numbers[strip, :, : part.shape[1]] = part
    return Kernel(numbers.ravel(), np.array([0, rows * kernels.STRIP, kernels.STRIP]), columns)


def squared_kernel(points: Floats, table: Floats, dtype: type) -> Kernel:
    """``exp(-|points[k] - table[l]|^2)`` for ``points (n, d)`` and ``table (N, d)``, strip by strip."""
    strips = padded(len(table)) // kernels.STRIP
    numbers: Floats = np.empty((strips, len(points), kernels.STRIP), dtype)
    kernels.squared_gibbs(points, table, numbers)
    return Kernel(numbers.ravel(), np.array([0, len(points) * kernels.STRIP, kernels.STRIP]), len(table))


def line_kernel(exponents: Floats, rows: int, columns: int) -> Kernel:
    """The Toeplitz matrix ``K[k, l] = exp(-exponents[rows - 1 + l - k])``, which is never written out."""
    numbers = np.zeros(rows - 1 + padded(columns), exponents.dtype)
    np.exp(-exponents, out=numbers[: exponents.size])
    return Kernel(numbers, np.array([rows - 1, kernels.STRIP, -1]), columns)


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


def axis_exponents(support: Grid, grid: Grid, form: Callable[[Floats], Floats], reg: float) -> list[Floats]:
    """``c/reg`` between two grids axis by axis, each ``(n_a, N_a)``, for a cost that adds up over the axes."""
    return [form(z[:, None] - y[None, :]) / reg for z, y in zip(support.axes, grid.axes, strict=True)]


def smoothing(support: Support, cost: Cost, reg: float) -> Callable[[Floats], Floats]:
    """``v -> K v`` on the support, ``K = exp(-c/reg)`` between its own points: axis by axis on a grid, else by one
    matrix."""
    grid, form = support.grid, cost.separable
    if grid is not None and form is not None:
        matrices = [np.exp(-exponents) for exponents in axis_exponents(grid, grid, form, reg)]

        def by_axes(v: Floats) -> Floats:
            block = v
            for matrix in matrices:
                # takes the first axis off and puts the result last: after all of them the order is back
                block = block.reshape(len(matrix), -1).T @ matrix.T
            return block.ravel()

        return by_axes
    size = support.size
    memory.require(8 * size**2, f"The matrix between {size} support points", "Use fewer support points, or a grid.")
    if cost.matrix_given is None:
        kernel = np.exp(-cost.matrix(support.points, support.points) / reg)
    else:
        # costs to the atoms are all there is: to an atom and back
        there = np.exp(-cost.matrix_given / reg)
        kernel = there @ there.T
    return lambda v: np.asarray(kernel @ v)
