"""The oracle of measures that are only sampled, from samples that grow.

After k batches of M draws, node i works with the empirical measure of its first kM draws,

    mu_i^k = 1/(kM) sum_{j < kM} delta(y_ij),       log p_i(x) = log E_{y ~ mu_i^k} softmax(x - c(y)/reg)

whose error falls like ``1/sqrt(kM)``, and which stays the same between two batches. Batch k = 0, 1, ... of a node is
what SampledOracle draws for its activation k. So a sample depends on (seed, node, number of batches) alone, and the
tables here are only a cache.

To bound the work, draws are merged; see core/growing.cpp:

- of a discrete measure, draws of the same atom: exact, and never more points than the measure has
- in up to three dimensions, draws in the same cell of a lattice: they become one point at their mean. The cells are
  ``resolution / CELLS`` wide; over so short a distance the softmax is almost linear, so its average is almost that at
  the mean. A single draw in its cell, as in the tails, is not moved. A node with more than ``most`` points joins its
  cells in pairs until it has no more
- in more dimensions, where cells hardly ever contain two draws, none: a node uses the batches that fit into ``most``
  points, at least one

With cells of width h, the error of ``p`` is ``h^2/24`` times the mean over the measure of the softmax's second
derivative along each axis. Measured, in total variation: at most 3e-4, for measures narrower than the resolution,
falling to 5e-6 for wide ones; with cells joined to 4096 points, 4e-4 in two dimensions and 5e-3 in three, where the
sampling error of as many draws is 1e-2 to 4e-2. A cost with kinks, such as the Euclidean, gives 1e-3 for a measure
narrower than a cell.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from barymesh.checks import whole_number
from barymesh.core import kernels
from barymesh.errors import OptionError
from barymesh.gradients.sampled import COST_NUMBERS, SampledOracle
from barymesh.oracle.base import Floats, Indices
from barymesh.problem import Problem
from barymesh.random import addressed_generator
from barymesh.resources import memory

Integers = NDArray[np.int64]

# cells in a resolution of the problem, and the most cells across the support
CELLS, MOST_CELLS = 16, 2**16
# the most points of a node
MOST = 4096
UNLIMITED = np.iinfo(np.int64).max
# draws made at a time for nodes with many batches to draw: of one node, and of all
DRAWS_OF_NODE, DRAWS = 4096, 1_000_000


class GrowingOracle:
    """``log_gradient(x, nodes, batches)``: from the first ``batches`` batches, of ``batch`` draws, of each node.

    ``most``: the most points of a node whose measure is not discrete.
    """

    def __init__(self, problem: Problem, batch: int, most: int = MOST) -> None:
        self.problem, self.sampled = problem, SampledOracle(problem)
        self.batch, most = whole_number("batch", batch, 1), whole_number("most", most, 1)
        self.size, self.dimension = self.sampled.size, self.sampled.dimension
        first, last = self.sampled.first, self.sampled.last
        roots = np.concatenate([[0], np.cumsum(self.sampled.root >= 0)])
        self.discrete = (last > first) & (roots[last] == roots[first])
        # of discrete measures, draw the numbers of the atoms instead of their points
        self.values: Floats = self.sampled.centres.copy()
        for node in np.flatnonzero(self.discrete):
            self.values[first[node] : last[node]] = np.arange(first[node], last[node])[:, None]
        lower, upper = problem.support.points.min(axis=0), problem.support.points.max(axis=0)
        width = max(problem.resolution / CELLS, float((upper - lower).max()) / MOST_CELLS)
        # of the positions in core/growing.cpp; like all points, divided by sampled.unit
        self.origin: Floats = (lower + upper) / 2 / self.sampled.unit
        self.unit = width / 2**kernels.CELL_BITS / self.sampled.unit
        on_lattice = ~self.discrete & (self.dimension <= kernels.MOST_AXES)
        self.most = np.where(on_lattice, most, UNLIMITED)
        self.most_batches = np.where(on_lattice | self.discrete, UNLIMITED, max(1, most // self.batch))
        self.tables = Tables(len(problem.measures), self.dimension)

    def log_gradient(self, x: Floats, nodes: Indices, batches: Integers) -> Floats:
        """``log p (b, n)`` at ``x = lam/reg (b, n)``, from the first ``batches (b,)`` batches of the nodes ``(b,)``."""
        x, log_p = np.ascontiguousarray(x, dtype=float), np.empty(x.shape)
        again = _repeated(nodes)
        if again.any():
            # the cache has one sample of a node at a time
            for part in (~again, again):
                log_p[part] = self.log_gradient(x[part], nodes[part], batches[part])
            return log_p
        points, weights, offsets = self.sample(nodes, batches)
        value, p = np.empty(nodes.size), np.empty(x.shape)
        for rows in self._shares(offsets):
            ends = offsets[rows.start : rows.stop + 1]
            some, ends = slice(ends[0], ends[-1]), ends - ends[0]
            costs = self._costs(points[some], ends)
            kernels.evaluate_atoms(
                x[rows], 1.0, self.sampled.support_t, points[some], costs, np.arange(ends[-1]), weights[some],
                ends[:-1], ends[1:], value[rows], p[rows], log_p[rows],
            )  # fmt: skip
        return log_p

    def sample(self, nodes: Indices, batches: Integers) -> tuple[Floats, Floats, Indices]:
        """The merged samples of different nodes: ``points (N, d)``, divided by ``sampled.unit``, ``weights (N,)`` and
        ``offsets (b + 1,)``; row i has ``offsets[i] : offsets[i + 1]``."""
        if batches.min(initial=1) < 1:
            raise OptionError(f"batches contains {batches.min()}; every node must have drawn at least one batch.")
        self._draw(nodes, np.minimum(batches, self.most_batches[nodes]))
        t = self.tables
        offsets = np.concatenate([[0], np.cumsum(t.size[nodes])])
        points, weights = np.empty((int(offsets[-1]), self.dimension)), np.empty(int(offsets[-1]))
        kernels.merged_sample(
            nodes, offsets, self.batch, self.discrete, self.origin, self.unit, self.sampled.centres,
            t.batches, t.begin, *t.entries, points, weights,
        )  # fmt: skip
        return points, weights, offsets

    def _draw(self, nodes: Indices, batches: Integers) -> None:
        """Bring the tables of the nodes to exactly ``batches (b,)`` batches."""
        t, of = self.tables, self.sampled
        seed = self.problem.seed % 2**64
        # draws cannot be removed: begin again
        t.batches[nodes[t.batches[nodes] > batches]] = 0
        while True:
            short = t.batches[nodes] < batches
            if not short.any():
                return
            nodes, batches = nodes[short], batches[short]
            at_once = max(1, min(DRAWS_OF_NODE, DRAWS // nodes.size) // self.batch)
            new = np.minimum(batches - t.batches[nodes], at_once)
            starts = np.concatenate([[0], np.cumsum(new * self.batch)])
            count = int(starts[-1])
            points = np.empty((count, self.dimension))
            self._call(nodes, new, starts, points)
            keys, counts = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
            sums, new_sizes = np.empty((count, self.dimension), dtype=np.int64), np.empty(nodes.size, dtype=np.int64)
            kernels.draw_sample_entries(
                seed, self.batch, nodes, starts, points, self.discrete, self.origin, self.unit,
                of.first, of.last, of.cumulative, self.values, of.root, of.roots,
                t.batches, t.size, t.level, keys, counts, sums, new_sizes,
            )  # fmt: skip
            t.make_room(nodes, t.size[nodes] + new_sizes)
            kernels.merge_sample_entries(
                nodes, self.batch, starts, new_sizes, keys, counts, sums, self.most,
                t.batches, t.size, t.level, t.begin, *t.entries,
            )  # fmt: skip

    def _call(self, nodes: Indices, new: Integers, starts: Indices, points: Floats) -> None:
        """Fill ``points`` with the next ``new`` batches of the nodes whose measures are functions."""
        of = self.sampled
        for i in np.flatnonzero(of.first[nodes] == of.last[nodes]):
            node, done = int(nodes[i]), int(self.tables.batches[nodes[i]])
            for k in range(int(new[i])):
                rng = addressed_generator(self.problem.seed, node, done + k)
                begin = int(starts[i]) + k * self.batch
                points[begin : begin + self.batch] = self.problem.measures[node].sample(self.batch, rng) / of.unit

    def _shares(self, offsets: Indices) -> list[slice]:
        """Rows that are computed together: all, or as many as COST_NUMBERS allows."""
        cuts: list[int] = []
        if not self.problem.cost.squared:
            cuts = (np.flatnonzero(np.diff(offsets[:-1] * self.size // COST_NUMBERS)) + 1).tolist()
        return [slice(start, stop) for start, stop in pairwise([0, *cuts, offsets.size - 1])]

    def _costs(self, points: Floats, offsets: Indices) -> Floats:
        """Costs over reg ``(N, n)`` of the points ``(N, d)``; none for the squared cost."""
        if self.problem.cost.squared:
            return np.empty((0, self.size))
        costs = np.empty((points.shape[0], self.size))
        # one node at a time: in its last bits, the cost of a point may depend on the other points of the call
        for start, stop in pairwise(offsets):
            costs[start:stop] = self.sampled.costs(points[start:stop]).T / self.sampled.reg
        return costs


class Tables:
    """The tables of core/growing.cpp, in shared arrays ``entries``: keys, counts and sums.

    Node i has ``size[i]`` entries from ``begin[i]``, and room for ``room[i]``; they hold ``batches[i]`` batches on
    ``level[i]`` of the lattice.
    """

    def __init__(self, count: int, dimension: int) -> None:
        self.batches, self.level = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        self.begin, self.size, self.room = (np.zeros(count, dtype=np.intp) for _ in range(3))
        self.dimension, self.used = dimension, 0
        self.entries = _entries(0, dimension)

    def make_room(self, nodes: Indices, sizes: Integers) -> None:
        """Make room for ``sizes (b,)`` entries of the nodes. Tables with less are moved; their room at least
        doubles."""
        short = sizes > self.room[nodes]
        if not short.any():
            return
        moved, begin, room, entries = nodes[short], self.begin.copy(), self.room.copy(), self.entries
        room[moved] = 2 ** np.ceil(np.log2(sizes[short])).astype(np.intp)
        used = self.used + int(room[moved].sum())
        if used > self.entries[0].size:
            # move all tables, without the gaps left by earlier moves
            moved, used = np.arange(begin.size), int(room.sum())
            entries = _entries(2 * used, self.dimension)
        begin[moved] = used - np.cumsum(room[moved])
        kernels.copy_sample_tables(moved, self.size, self.begin, *self.entries, begin, *entries)
        self.begin, self.room, self.used, self.entries = begin, room, used, entries


def _entries(count: int, dimension: int) -> tuple[Integers, Integers, Integers]:
    """Keys, counts and sums of ``count`` entries."""
    memory.require(8 * count * (2 + dimension), f"Samples of {count} points", "Allow fewer points a node.")
    return (
        np.empty(count, dtype=np.int64),
        np.empty(count, dtype=np.int64),
        np.empty((count, dimension), dtype=np.int64),
    )


def _repeated(nodes: Indices) -> NDArray[np.bool_]:
    """Which of the nodes occur earlier in the list."""
    again = np.ones(nodes.size, dtype=bool)
    again[np.unique(nodes, return_index=True)[1]] = False
    return again
