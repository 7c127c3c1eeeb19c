"""Choose an oracle for every node, and run mixed ones as one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable

import numpy as np

from barymesh.cost import Cost
from barymesh.measures.base import Atoms
from barymesh.oracle.atoms import AtomOracle
from barymesh.oracle.base import Floats, Indices, Oracle
from barymesh.oracle.dense import DenseOracle
from barymesh.oracle.gibbs import on_one_line
from barymesh.oracle.grid import GridOracle
from barymesh.resources import memory
from barymesh.support.points import Support

# a matrix product costs about a twentieth of an exponential a pair, but does all pairs, also those without mass
DENSE_SHARE = 0.1


class GroupedOracle(Oracle):
    """Several oracles side by side: ``members[k]`` lists the nodes of ``parts[k]``."""

    def __init__(self, parts: list[Oracle], members: list[Indices]) -> None:
        self.parts, self.members = parts, members
        self.reg, self.size = parts[0].reg, parts[0].size
        count = sum(m.size for m in members)
        self.part_of, self.place = np.empty(count, dtype=np.intp), np.empty(count, dtype=np.intp)
        sizes = np.empty(count, dtype=np.intp)
        for k, (part, nodes) in enumerate(zip(parts, members, strict=True)):
            self.part_of[nodes], self.place[nodes] = k, np.arange(nodes.size)
            sizes[nodes] = np.diff(part.offsets)
        self.offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
        self.weights = np.concatenate([self._slice(i) for i in range(count)])

    def _slice(self, node: int) -> Floats:
        part, place = self.parts[self.part_of[node]], self.place[node]
        return np.asarray(part.weights[part.offsets[place] : part.offsets[place + 1]])

    def evaluate(
        self, x: Floats, nodes: Indices | None = None, weights: Floats | None = None, out: Floats | None = None
    ) -> tuple[Floats, Floats]:
        chosen = self.chosen(nodes)
        value = np.empty(chosen.size)
        log_p = np.empty((chosen.size, self.size)) if out is None else out
        for k, part in enumerate(self.parts):
            rows = np.flatnonzero(self.part_of[chosen] == k)
            if rows.size:
                value[rows], log_p[rows] = part.evaluate(
                    x[rows], self.place[chosen[rows]], self._weights_of(k, weights)
                )
        return value, log_p

    def atom_log_sums(self, x: Floats, nodes: Indices | None = None) -> Floats:
        chosen = self.chosen(nodes)
        pieces: list[Floats] = [np.empty(0)] * chosen.size
        for k, part in enumerate(self.parts):
            rows = np.flatnonzero(self.part_of[chosen] == k)
            if rows.size:
                sums = part.atom_log_sums(x[rows], self.place[chosen[rows]])
                ends = np.cumsum(np.diff(self.offsets)[chosen[rows]])
                for row, piece in zip(rows, np.split(sums, ends[:-1]), strict=True):
                    pieces[row] = piece
        return np.concatenate(pieces)

    def _weights_of(self, k: int, weights: Floats | None) -> Floats | None:
        if weights is None:
            return None
        return np.concatenate([weights[self.offsets[i] : self.offsets[i + 1]] for i in self.members[k]])


def build_oracle(atoms: list[Atoms], support: Support, cost: Cost, reg: float, dtype: type = np.float64) -> Oracle:
    """The fastest safe oracle for these measures: separable on grids, dense on common points, else atom by atom.

    Every row of a batch is the same to the last bit, whatever the rest of the batch is.
    """
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for node, a in enumerate(atoms):
        groups[_key(a, support, cost)].append(node)
    alone: list[int] = []
    parts: list[Oracle] = []
    members: list[Indices] = []
    for key, nodes in groups.items():
        some = [atoms[i] for i in nodes]
        grid = some[0].grid
        if key == grid and grid is not None and support.grid is not None and cost.separable is not None:
            parts.append(GridOracle(some, grid, support.grid, cost.separable, reg, dtype))
        elif _worth_a_matrix(some, support, cost):
            parts.append(DenseOracle(some, support, cost, reg, dtype))
        else:
            alone = alone + nodes
            continue
        members.append(np.array(nodes))
    if alone:
        alone.sort()
        parts.append(AtomOracle([atoms[i] for i in alone], support, cost, reg, dtype))
        members.append(np.array(alone))
    return parts[0] if len(parts) == 1 else GroupedOracle(parts, members)


def _key(a: Atoms, support: Support, cost: Cost) -> Hashable:
    """Nodes with the same key can share an oracle."""
    on_grids = a.grid is not None and a.grid.dimension > 1 and support.grid is not None
    return a.grid if on_grids and cost.separable is not None else id(a.table)


def _worth_a_matrix(some: list[Atoms], support: Support, cost: Cost) -> bool:
    points = some[0].table.shape[0]
    used = sum(a.weights.size for a in some)
    if used < DENSE_SHARE * points * len(some):
        return False
    if cost.separable is not None and on_one_line(support.grid, some[0].grid):
        # there the matrix is never written out
        return True
    return len(some) > 1 and memory.fits(2 * 8 * points * (2 * support.size + len(some)))
