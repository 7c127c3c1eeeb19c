"""Oracle for measures on one regular grid, a support on a regular grid, and a cost that adds up over the axes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from barymesh.core import kernels
from barymesh.errors import RegularisationError
from barymesh.measures.base import Atoms
from barymesh.oracle.base import Floats, Indices, Oracle
from barymesh.oracle.gibbs import axis_exponents, padded
from barymesh.support.grid import Grid

# log-range that a chunk's numbers may span: e^-670 is above 2^-970
CHUNK_RANGE = 670.0
# the long chunks are right as long as mass moves by no more than this share of the grid; they are checked
USUAL_MOVE = 0.25
LN2, LOG2_E = 0.6931471805599453, 1.4426950408889634
# no cost over reg may be larger: -1e12 stands for log 0 in the compiled code
LARGEST_EXPONENT = 1e10
# numbers worked on together by the safe kernel
GROUP_NUMBERS = 4096


class SeparableKernel:
    """The kernel ``exp(-c/reg)`` from one grid to another, one matrix an axis, in the forms that the compiled code
    takes."""

    def __init__(self, exponents: list[Floats], dtype: type) -> None:
        """``exponents[a] (n_a, N_a)``: cost along axis a between source and target, divided by reg."""
        matrices = [np.exp(-k) for k in exponents]
        n_last, target = exponents[-1].shape
        self.first: Floats = np.zeros((n_last, padded(target)), dtype)
        self.first[:, :target] = matrices[-1]
        self.others: tuple[Floats, ...] = tuple(np.ascontiguousarray(matrix.T, dtype) for matrix in matrices[:-1])
        self.exponents = exponents
        self._blocks: tuple[tuple[Floats, ...], tuple[Floats, ...]] | None = None

    @property
    def blocks(self) -> tuple[tuple[Floats, ...], tuple[Floats, ...]]:
        """Block floating point tables, made when first needed: all axes with long chunks, then all with short ones."""
        if self._blocks is None:
            tables = [block_table(k, chunk_length(k, share)) for share in (USUAL_MOVE, 1.0) for k in self.exponents]
            self._blocks = tuple(t[0] for t in tables), tuple(t[1] for t in tables)
        return self._blocks


class GridOracle(Oracle):
    """A few small matrix products a node, checked for underflow; nodes that fail are done in block floating point."""

    def __init__(
        self,
        atoms: list[Atoms],
        grid: Grid,
        support: Grid,
        form: Callable[[Floats], Floats],
        reg: float,
        dtype: type = np.float64,
    ) -> None:
        self.reg, self.size = reg, int(np.prod(support.shape))
        self.dtype = dtype
        self.atom_count = int(np.prod(grid.shape))
        self.offsets = np.concatenate([[0], np.cumsum([a.weights.size for a in atoms])]).astype(np.intp)
        self.weights = np.concatenate([a.weights for a in atoms])
        self.position = np.concatenate([a.index for a in atoms])
        self.coordinates: Indices = np.stack(np.unravel_index(self.position, grid.shape), axis=1)
        first = self.offsets[:-1]
        # (m, d, 2): for each node the smallest box that holds its atoms, as start and stop along every axis
        lowest, highest = np.minimum.reduceat(self.coordinates, first), np.maximum.reduceat(self.coordinates, first)
        self.boxes: Indices = np.stack([lowest, highest + 1], axis=2)
        self.whole = np.array([[0, side] for side in support.shape])
        width = grid.shape[-1]
        self.padded_position = self.position // width * padded(width) + self.position % width
        exponents = axis_exponents(support, grid, form, reg)
        largest = sum(float(k.max()) for k in exponents)
        if largest > LARGEST_EXPONENT:
            least = reg * largest / LARGEST_EXPONENT
            raise RegularisationError(
                f"reg is {reg:g}, less than {1 / LARGEST_EXPONENT:g} of the largest cost, {reg * largest:.3g}: masses "
                f"that small cannot be told from 0. Give a reg of {least:.2g} or more; already far above that the "
                "result hardly changes."
            )
        self.to_atoms = SeparableKernel(exponents, dtype)
        self.to_support = SeparableKernel([np.ascontiguousarray(k.T) for k in exponents], dtype)
        self.scratch = np.array([self.size, _largest_intermediate(support.shape, grid.shape), self.atom_count])
        self.group = max(1, GROUP_NUMBERS // self.size)

    def evaluate(
        self, x: Floats, nodes: Indices | None = None, weights: Floats | None = None, out: Floats | None = None
    ) -> tuple[Floats, Floats]:
        chosen = self.chosen(nodes)
        weight = self.weights if weights is None else weights
        x = np.ascontiguousarray(x, dtype=float)
        log_p = np.empty_like(x) if out is None else out
        value = np.empty(x.shape[0])
        self._evaluate(x, chosen, weight, value, log_p, np.empty(0), chosen)
        return value, log_p

    def atom_log_sums(self, x: Floats, nodes: Indices | None = None) -> Floats:
        chosen = self.chosen(nodes)
        x = np.ascontiguousarray(x, dtype=float)
        ends = np.cumsum(self.offsets[chosen + 1] - self.offsets[chosen])
        sums = np.empty(int(ends[-1]))
        first = np.concatenate([[0], ends[:-1]])
        self._evaluate(x, chosen, self.weights, np.empty(chosen.size), np.empty((0, 0)), sums, first)
        return sums

    def _evaluate(
        self,
        x: Floats,
        nodes: Indices,
        weights: Floats,
        value: Floats,
        log_p: Floats,
        sums: Floats,
        first: Indices,
    ) -> None:
        """Fill ``value`` and ``log_p``, or ``sums`` if it is not empty."""
        ok = np.empty(x.shape[0], dtype=bool)
        there, back = self.to_atoms, self.to_support
        kernels.fast_nodes(
            x, nodes, self.offsets, self.position, self.padded_position, weights, there.first, there.others,
            back.first, back.others, self.boxes, self.whole, self.scratch, value, log_p, ok, sums, first,
        )  # fmt: skip
        failed = np.flatnonzero(~ok)
        if failed.size:
            self._safely(x, failed, nodes, weights, value, log_p, sums, first)

    def _safely(
        self,
        x: Floats,
        rows: Indices,
        nodes: Indices,
        weights: Floats,
        value: Floats,
        log_p: Floats,
        sums: Floats,
        first: Indices,
    ) -> None:
        """In block floating point, which cannot underflow; see ``safe_nodes``."""
        kernels.safe_nodes(
            x, rows, nodes, self.offsets, self.coordinates, weights, self.boxes, self.group,
            *self.to_atoms.blocks, *self.to_support.blocks, self.whole, value, log_p, sums, first,
        )  # fmt: skip


def chunk_length(exponents: Floats, share: float) -> int:
    """How many neighbouring points may share an exponent if mass moves by at most ``share`` of the axis."""
    steepest = np.abs(np.diff(exponents, axis=0)).max(initial=0.0) * share
    count = exponents.shape[0]
    return count if steepest * count <= CHUNK_RANGE else max(1, int(CHUNK_RANGE / steepest))


def block_table(exponents: Floats, chunk: int) -> tuple[Floats, Floats]:
    """``exp(-exponents)`` as ``mantissa (chunks, N, chunk)`` times ``2^exponent (chunks, N)``."""
    count, targets = exponents.shape
    chunks = -(-count // chunk)
    mantissa, exponent = np.zeros((chunks, targets, chunk)), np.empty((chunks, targets))
    for c in range(chunks):
        part = exponents[c * chunk : (c + 1) * chunk]
        exponent[c] = np.ceil(-part.min(axis=0) * LOG2_E)
        mantissa[c, :, : part.shape[0]] = np.exp(-part - exponent[c] * LN2).T
    return mantissa, exponent


def _largest_intermediate(support: tuple[int, ...], grid: tuple[int, ...]) -> int:
    """The most numbers held between two axes, in either direction, the last axis padded."""
    most = 0
    for source, target in ((support, grid), (grid, support)):
        for axis in range(len(source)):
            sides = (*source[:axis], *target[axis:-1], padded(target[-1]))
            most = max(most, int(np.prod(sides)))
    return max(most, int(np.prod(grid)))
