"""Oracle for measures given by weighted atoms anywhere, with any cost."""

from __future__ import annotations

import numpy as np

from barymesh import memory
from barymesh.cost import Cost
from barymesh.measures.base import Atoms
from barymesh.oracle import atom_kernels as kernels
from barymesh.oracle.base import Floats, Indices, Oracle
from barymesh.support import Support

# below this many pairs of atom and support point, starting threads costs more than it saves
SERIAL_PAIRS = 20_000


class AtomOracle(Oracle):
    """One exponential for each pair of atom and support point, in the log domain."""

    def __init__(self, atoms: list[Atoms], support: Support, cost: Cost, reg: float, dtype: type = np.float64) -> None:
        self.reg, self.size = reg, support.size
        self.offsets = np.concatenate([[0], np.cumsum([a.weights.size for a in atoms])]).astype(np.intp)
        self.weights = np.concatenate([a.weights for a in atoms]).astype(dtype)
        table, self.index = _shared_table(atoms)
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
        value, _, log_p = self._run(x, nodes, self.weights if weights is None else weights, out)
        return value, log_p

    def value_and_gradient(self, lam: Floats, nodes: Indices | None = None) -> tuple[Floats, Floats]:
        value, p, _ = self._run(np.asarray(lam) / self.reg, nodes, self.weights, np.empty((len(lam), 0)))
        return self.reg * value, p

    def atom_log_sums(self, x: Floats, nodes: Indices | None = None) -> Floats:
        chosen = self.chosen(nodes)
        start, stop = self.offsets[chosen], self.offsets[chosen + 1]
        first = np.concatenate([[0], np.cumsum(stop - start)])
        out = np.empty(int(first[-1]))
        x = np.ascontiguousarray(x, self.weights.dtype)
        kernels.log_sums_over_support(
            x, self.support_t, self.table, self.cost_rows, self.index, start, stop, first[:-1], out
        )
        return out

    def _run(
        self, x: Floats, nodes: Indices | None, weights: Floats, log_p: Floats | None
    ) -> tuple[Floats, Floats, Floats]:
        dtype = self.weights.dtype
        x = np.ascontiguousarray(x, dtype)
        if nodes is None:
            start, stop = self.offsets[:-1], self.offsets[1:]
        else:
            start, stop = self.offsets[nodes], self.offsets[nodes + 1]
        rows = x.shape[0]
        value, p = np.empty(rows), np.empty((rows, self.size), dtype)
        if log_p is None:
            log_p = np.empty((rows, self.size))
        small = (stop - start).sum() * self.size < SERIAL_PAIRS
        run = kernels.nodes_serial if small else kernels.nodes_parallel
        run(x, self.support_t, self.table, self.cost_rows, self.index, weights, start, stop, value, p, log_p)
        return value, p, log_p


def _shared_table(atoms: list[Atoms]) -> tuple[Floats, Indices]:
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
