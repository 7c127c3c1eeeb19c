"""Oracle for histograms on a common set of points: two large matrix products for all nodes together."""

from __future__ import annotations

import numpy as np

from barymesh.cost import Cost
from barymesh.measures.base import Atoms
from barymesh.oracle import dense_kernels as kernels
from barymesh.oracle.atoms import AtomOracle
from barymesh.oracle.base import Floats, Indices, Oracle
from barymesh.support import Support

TINY: dict[type, float] = {np.float64: 1e-290, np.float32: 1e-30}


class DenseOracle(Oracle):
    """``Z = exp(x) K`` and ``p = exp(x) * (mu/Z) K'`` with ``K = exp(-c/reg)``, checked row by row for underflow.

    Rows that fail the check are done by the AtomOracle, in the log domain.
    """

    def __init__(self, atoms: list[Atoms], support: Support, cost: Cost, reg: float, dtype: type = np.float64) -> None:
        self.exact = AtomOracle(atoms, support, cost, reg, dtype)
        self.reg, self.size, self.offsets, self.weights = reg, support.size, self.exact.offsets, self.exact.weights
        self.dtype, self.tiny = dtype, TINY[dtype]
        table = atoms[0].table
        rows = self.exact.cost_rows.T if self.exact.cost_rows.size else cost.matrix(support.points, table) / reg
        self.kernel: Floats = np.exp(-rows).astype(dtype)
        self.masses: Floats = np.zeros((len(atoms), table.shape[0]), dtype)
        for row, a in zip(self.masses, atoms, strict=True):
            row[a.index] = a.weights

    def evaluate(
        self, x: Floats, nodes: Indices | None = None, weights: Floats | None = None, out: Floats | None = None
    ) -> tuple[Floats, Floats]:
        if weights is not None:
            return self.exact.evaluate(x, nodes, weights, out)
        masses = self.masses if nodes is None else self.masses[nodes]
        x = np.ascontiguousarray(x, dtype=float)
        rows = x.shape[0]
        e: Floats = np.empty((rows, self.size), self.dtype)
        top, value, largest, ok = np.empty(rows), np.empty(rows), np.empty(rows), np.empty(rows, dtype=bool)
        kernels.shifted_exp(x, top, e)
        q = e @ self.kernel
        kernels.divide(masses, q, self.tiny, value, largest, ok)
        np.matmul(q, self.kernel.T, out=e)
        log_p = np.empty((rows, self.size)) if out is None else out
        kernels.finish(x, top, e, largest, self.tiny, ok, log_p)
        value += top
        failed = np.flatnonzero(~ok)
        if failed.size:
            value[failed], log_p[failed] = self.exact.evaluate(x[failed], self.chosen(nodes)[failed])
        return value, log_p

    def atom_log_sums(self, x: Floats, nodes: Indices | None = None) -> Floats:
        return self.exact.atom_log_sums(x, nodes)
