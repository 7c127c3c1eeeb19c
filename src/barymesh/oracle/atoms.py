"""Oracle for measures given by weighted atoms anywhere, with any cost."""

from __future__ import annotations

import numpy as np

from barymesh.core import kernels
from barymesh.cost import Cost
from barymesh.measures.base import Atoms
from barymesh.oracle.base import Floats, Indices, Oracle
from barymesh.resources import memory
from barymesh.support.points import Support


class AtomOracle(Oracle):
    """One exponential for each pair of atom and support point, in the log domain."""

    def __init__(self, atoms: list[Atoms], support: Support, cost: Cost, reg: float, dtype: type = np.float64) -> None:
        self.reg, self.size = reg, support.size
        self.offsets = np.concatenate([[0], np.cumsum([a.weights.size for a in atoms])]).astype(np.intp)
        self.weights = np.concatenate([a.weights for a in atoms]).astype(dtype)
        table, self.index = shared_table(atoms)
        empty: Floats = np.empty((0, support.size), dtype)
        if cost.squared:
            root = np.sqrt(reg)
            self.support_t: Floats = np.ascontiguousarray(support.points.T / root, dtype)
            self.table: Floats = np.ascontiguousarray(table / root, dtype)
            self.cost_rows = empty
        else:
            memory.require(
                8 * table.shape[0] * support.size,
                f"The cost between {support.size} support points and {table.shape[0]} atoms",
                "Use a smaller support, fewer atoms, or the squared Euclidean cost, which needs no matrix.",
            )
            self.support_t, self.table = np.empty((0, 0), dtype), np.empty((0, 0), dtype)
            self.cost_rows = np.ascontiguousarray(cost.matrix(support.points, table).T / reg, dtype)

    def evaluate(
        self, x: Floats, nodes: Indices | None = None, weights: Floats | None = None, out: Floats | None = None
    ) -> tuple[Floats, Floats]:
        p = np.empty(x.shape, self.weights.dtype)
        log_p = np.empty(x.shape) if out is None else out
        value = self._run(x, 1.0, nodes, self.weights if weights is None else weights, p, log_p)
        return value, log_p

    def value_and_gradient(
        self, lam: Floats, nodes: Indices | None = None, out: Floats | None = None
    ) -> tuple[Floats, Floats]:
        out = np.empty(lam.shape) if out is None else out
        p = out if out.dtype == self.weights.dtype else np.empty(lam.shape, self.weights.dtype)
        value = self._run(lam, 1.0 / self.reg, nodes, self.weights, p, np.empty((len(lam), 0)))
        if p is not out:
            out[:] = p
        return self.reg * value, out

    def approach(
        self, x: Floats, rows: Indices, nodes: Indices, targets: Floats, steps: int, largest: float, *, centred: bool
    ) -> None:
        kernels.approach_atoms(
            rows, steps, targets, largest, centred, self.support_t, self.table, self.cost_rows, self.index,
            self.weights, self.offsets[nodes], self.offsets[nodes + 1], x,
        )  # fmt: skip

    def atom_log_sums(self, x: Floats, nodes: Indices | None = None) -> Floats:
        chosen = self.chosen(nodes)
        start, stop = self.offsets[chosen], self.offsets[chosen + 1]
        first = np.concatenate([[0], np.cumsum(stop - start)])
        out = np.empty(int(first[-1]))
        x = np.ascontiguousarray(x, self.weights.dtype)
        kernels.atom_log_sums(x, self.support_t, self.table, self.cost_rows, self.index, start, stop, first[:-1], out)
        return out

    def _run(
        self, lam: Floats, scale: float, nodes: Indices | None, weights: Floats, p: Floats, log_p: Floats
    ) -> Floats:
        """Fill ``p`` and, unless it is empty, ``log_p`` for ``x = scale * lam``; return the values in units of reg."""
        lam = np.ascontiguousarray(lam, self.weights.dtype)
        if nodes is None:
            start, stop = self.offsets[:-1], self.offsets[1:]
        else:
            start, stop = self.offsets[nodes], self.offsets[nodes + 1]
        value = np.empty(lam.shape[0])
        kernels.evaluate_atoms(
            lam, scale, self.support_t, self.table, self.cost_rows, self.index, weights, start, stop, value, p, log_p
        )
        return value


def shared_table(atoms: list[Atoms]) -> tuple[Floats, Indices]:
    """All distinct tables stacked, and every atom's row in that stack."""
    starts: dict[int, int] = {}
    tables: list[Floats] = []
    rows = 0
    for a in atoms:
        if id(a.table) not in starts:
            starts[id(a.table)] = rows
            tables.append(a.table)
            rows += a.table.shape[0]
    index = np.concatenate([a.index + starts[id(a.table)] for a in atoms])
    return (tables[0] if len(tables) == 1 else np.concatenate(tables)), index
