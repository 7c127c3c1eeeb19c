"""Oracle for histograms on a common set of points: two large matrix products for all nodes together."""

from __future__ import annotations

import numpy as np

from barymesh.core import kernels
from barymesh.cost import Cost
from barymesh.measures.base import Atoms
from barymesh.oracle.atoms import AtomOracle
from barymesh.oracle.base import Floats, Indices, Oracle
from barymesh.oracle.gibbs import line_exponents, line_kernel, matrix_kernel, on_one_line, padded, squared_kernel
from barymesh.support.points import Support

TINY: dict[type, float] = {np.float64: 1e-290, np.float32: 1e-30}


class DenseOracle(Oracle):
    """``Z = exp(x) K`` and ``p = exp(x) * (mu/Z) K'`` with ``K = exp(-c/reg)``, checked row by row for underflow.

    Rows that fail the check are done by the AtomOracle, in the log domain. On regular points of the line K is a
    Toeplitz matrix, and is never written out.
    """

    def __init__(self, atoms: list[Atoms], support: Support, cost: Cost, reg: float, dtype: type = np.float64) -> None:
        self.exact = AtomOracle(atoms, support, cost, reg, dtype)
        self.reg, self.size, self.offsets, self.weights = reg, support.size, self.exact.offsets, self.exact.weights
        self.dtype, self.tiny = dtype, TINY[dtype]
        self.atoms = atoms[0].table.shape[0]
        self.position = np.concatenate([a.index for a in atoms])
        self.masses = self._masses(np.arange(len(atoms)), self.weights)
        grid, form = atoms[0].grid, cost.separable
        if form is not None and grid is not None and support.grid is not None and on_one_line(support.grid, grid):
            exponents: Floats = line_exponents(support.grid, grid, form, reg).astype(dtype)
            self.to_atoms = line_kernel(exponents, self.size, self.atoms)
            self.to_support = line_kernel(exponents[::-1], self.atoms, self.size)
        elif cost.squared:
            points, table = (np.ascontiguousarray(each) / np.sqrt(reg) for each in (support.points, atoms[0].table))
            self.to_atoms = squared_kernel(points, table, dtype)
            # squared distances of points to themselves are equal to the last bit in both directions
            same = np.array_equal(points, table)
            self.to_support = self.to_atoms if same else squared_kernel(table, points, dtype)
        else:
            matrix: Floats = np.exp(-self.exact.cost_rows.T).astype(dtype, copy=False)
            self.to_atoms = matrix_kernel(matrix)
            symmetric = self.size == self.atoms and np.array_equal(matrix, matrix.T)
            self.to_support = self.to_atoms if symmetric else matrix_kernel(matrix.T)

    def evaluate(
        self, x: Floats, nodes: Indices | None = None, weights: Floats | None = None, out: Floats | None = None
    ) -> tuple[Floats, Floats]:
        chosen = self.chosen(nodes)
        x = np.ascontiguousarray(x, dtype=float)
        if weights is None:
            masses = self.masses if nodes is None else self.masses[chosen]
        else:
            masses = self._masses(chosen, weights)
        count = chosen.size
        value, top, ok = np.empty(count), np.empty(count), np.empty(count, dtype=bool)
        widths = (self.size, padded(self.atoms), padded(self.size))
        e, z, sums = (np.empty((count, width), self.masses.dtype) for width in widths)
        log_p = np.empty(x.shape) if out is None else out
        there, back = self.to_atoms, self.to_support
        kernels.dense_nodes(
            x, masses, there.numbers, there.layout, back.numbers, back.layout, self.tiny, e, z, sums, top, value, log_p,
            ok,
        )  # fmt: skip
        value += top if weights is None else top * masses.sum(axis=1)
        failed = np.flatnonzero(~ok)
        if failed.size:
            value[failed], log_p[failed] = self.exact.evaluate(x[failed], chosen[failed], weights)
        return value, log_p

    def atom_log_sums(self, x: Floats, nodes: Indices | None = None) -> Floats:
        chosen = self.chosen(nodes)
        x = np.ascontiguousarray(x, dtype=float)
        ok = np.empty(chosen.size, dtype=bool)
        starts = np.concatenate([[0], np.cumsum(self.offsets[chosen + 1] - self.offsets[chosen])])
        log_sums = np.empty(int(starts[-1]))
        top, z = self._sums(x)
        kernels.log_sums(z, top, self.position, self.offsets[chosen], starts, self.tiny, log_sums, ok)
        for row in np.flatnonzero(~ok):
            exactly = self.exact.atom_log_sums(x[row : row + 1], chosen[row : row + 1])
            log_sums[starts[row] : starts[row + 1]] = exactly
        return log_sums

    def _sums(self, x: Floats) -> tuple[Floats, Floats]:
        """``top = max x`` of every row, and ``Z = exp(x - top) K``."""
        e: Floats = np.empty(x.shape, self.dtype)
        top = np.empty(x.shape[0])
        kernels.shifted_exp(x, top, e)
        return top, self.to_atoms.times(e)

    def _masses(self, nodes: Indices, weights: Floats) -> Floats:
        """The weights of the atoms at their places, ``(b, N)``."""
        masses: Floats = np.zeros((nodes.size, self.atoms), self.dtype)
        for row, node in zip(masses, nodes, strict=True):
            own = slice(self.offsets[node], self.offsets[node + 1])
            row[self.position[own]] = weights[own]
        return masses
