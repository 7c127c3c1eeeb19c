"""Tables of samples that grow, compared with dictionaries of Python's integers."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from math import floor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barymesh.core import kernels

CELL_BITS, AXIS_BITS, MOST_AXES = 16, 21, 3
LARGEST = 2 ** (CELL_BITS + AXIS_BITS - 1)


# the plain twin


def z_order(positions):
    """The bits of the coordinates of a cell in turn: first the highest bit of the last axis."""
    cells = [format((position + LARGEST) >> CELL_BITS, f"0{AXIS_BITS}b") for position in positions]
    return int("".join("".join(bits) for bits in zip(*reversed(cells), strict=True)), 2)


@dataclass
class PlainSample:
    """All draws of one node, one by one: their keys on level 0, and their positions."""

    discrete: bool
    most: int
    level: int = 0
    keys: list[int] = field(default_factory=list)
    positions: list[list[int]] = field(default_factory=list)

    def add(self, points, origin, unit):
        for point in points.tolist():
            if self.discrete:
                key, positions = int(point[0]), [0] * len(point)
            else:
                shifted = (floor((x - o) / unit + 0.5) for x, o in zip(point, origin.tolist(), strict=True))
                positions = [min(max(p, -LARGEST), LARGEST - 1) for p in shifted]
                key = z_order(positions) if len(positions) <= MOST_AXES else len(self.keys)
            self.keys.append(key)
            self.positions.append(positions)
        while len(self.table()) > self.most:
            self.level += 1

    def table(self):
        """``(key, count, sums)`` in the order of the keys."""
        counts, sums = Counter(), defaultdict(lambda: [0] * len(self.positions[0]))
        for key, positions in zip(self.keys, self.positions, strict=True):
            counts[key >> self.level] += 1
            sums[key >> self.level] = [a + b for a, b in zip(sums[key >> self.level], positions, strict=True)]
        return [(key, counts[key], sums[key]) for key in sorted(counts)]

    def merged(self, origin, unit, centres):
        """The points and their weights."""
        table = self.table()
        weights = [count / len(self.keys) for _, count, _ in table]
        if self.discrete:
            return centres[[key for key, _, _ in table]], weights
        points = [
            [o + unit * (total / count) for o, total in zip(origin.tolist(), sums, strict=True)]
            for _, count, sums in table
        ]
        return np.array(points), weights


# the kernels


class Tables:
    """The tables of ``count`` nodes with room for ``room`` entries each."""

    def __init__(self, count, dimension, room):
        self.batches, self.size, self.level = (np.zeros(count, dtype=np.int64) for _ in range(3))
        self.begin = np.random.default_rng(count).permutation(count) * room
        self.entries = entries(count * room, dimension)

    def table(self, node):
        mine = slice(self.begin[node], self.begin[node] + self.size[node])
        return list(zip(*(array[mine].tolist() for array in self.entries), strict=True))


def entries(count, dimension):
    return np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros((count, dimension), np.int64)


def nothing_to_draw(count, dimension):
    """No node has components: the draws are given."""
    none = np.zeros(count, dtype=np.int64)
    roots = np.empty((0, dimension, dimension))
    return none, none, np.empty(0), np.empty((0, dimension)), np.empty(0, dtype=np.int64), roots


def add_batches(tables, batch, nodes, points, discrete, origin, unit, most, components, seed=0):
    """Row i adds its share of the ``points``; all rows have equally many."""
    starts = np.arange(nodes.size + 1) * (len(points) // nodes.size)
    new, new_sizes = entries(len(points), points.shape[1]), np.zeros(nodes.size, dtype=np.int64)
    kernels.draw_sample_entries(
        seed, batch, nodes, starts, points, discrete, origin, unit, *components,
        tables.batches, tables.size, tables.level, *new, new_sizes,
    )  # fmt: skip
    kernels.merge_sample_entries(
        nodes, batch, starts, new_sizes, *new, most, tables.batches, tables.size, tables.level, tables.begin,
        *tables.entries,
    )  # fmt: skip


def test_the_constants():
    assert (kernels.CELL_BITS, kernels.MOST_AXES) == (CELL_BITS, MOST_AXES)


@given(
    seed=st.integers(0, 10**6), dimension=st.integers(1, 5), count=st.integers(1, 4), batch=st.integers(1, 70),
    rounds=st.integers(1, 4), scale=st.sampled_from([1e-6, 1e-3, 1.0, 100.0, 1e300]), most=st.sampled_from([1, 7, 60]),
)  # fmt: skip
@settings(max_examples=150)
def test_tables(seed, dimension, count, batch, rounds, scale, most):
    """From draws in a few cells to draws in a cell each, and beyond the lattice."""
    rng = np.random.default_rng(seed)
    discrete, atoms = rng.random(count) < 0.3, 40
    most = np.where(discrete | (dimension > MOST_AXES), 10**9, most)
    origin, unit, centres = rng.normal(size=dimension), 1e-7, rng.normal(size=(atoms, dimension))
    tables = Tables(count, dimension, rounds * 2 * batch)
    plain = [PlainSample(bool(discrete[node]), int(most[node])) for node in range(count)]
    for _ in range(rounds):
        nodes = rng.permutation(count)[: rng.integers(1, count + 1)]
        if rng.random() < 0.2:
            # without batches, a table begins again
            tables.batches[nodes[0]] = 0
            plain[nodes[0]] = PlainSample(bool(discrete[nodes[0]]), int(most[nodes[0]]))
        new = batch * int(rng.integers(1, 3))
        points = scale * rng.normal(size=(nodes.size, new, dimension))
        points[discrete[nodes]] = rng.integers(atoms, size=(int(discrete[nodes].sum()), new, 1))
        for node, own in zip(nodes, points, strict=True):
            plain[node].add(own, origin, unit)
        add_batches(
            tables, batch, nodes, points.reshape(-1, dimension), discrete, origin, unit, most,
            nothing_to_draw(count, dimension),
        )  # fmt: skip
        for node in nodes:
            assert tables.table(node) == plain[node].table()
            assert tables.level[node] == plain[node].level
            assert tables.batches[node] * batch == len(plain[node].keys)
        offsets = np.concatenate([[0], np.cumsum(tables.size[nodes])])
        points, weights = np.empty((offsets[-1], dimension)), np.empty(offsets[-1])
        kernels.merged_sample(
            nodes, offsets, batch, discrete, origin, unit, centres, tables.batches, tables.begin, *tables.entries,
            points, weights,
        )  # fmt: skip
        for node, start, stop in zip(nodes, offsets, offsets[1:], strict=False):
            expected_points, expected_weights = plain[node].merged(origin, unit, centres)
            np.testing.assert_array_equal(points[start:stop], expected_points)
            np.testing.assert_array_equal(weights[start:stop], expected_weights)


@pytest.mark.parametrize("dimension", [1, 2, 3, 4])
def test_the_corners_of_the_lattice(dimension):
    """Keys use all 63 bits in three dimensions; the range between the corners is as large as integers can be."""
    points = np.repeat([[-1e300], [0.0], [1e300]], dimension, axis=1)
    tables, plain = Tables(1, dimension, 3), PlainSample(False, 10**9)
    origin = np.zeros(dimension)
    plain.add(points, origin, 1.0)
    add_batches(
        tables, 3, np.array([0]), points, np.array([False]), origin, 1.0, np.array([10**9]),
        nothing_to_draw(1, dimension),
    )  # fmt: skip
    assert tables.table(0) == plain.table()
    if dimension == MOST_AXES:
        assert [key for key, _, _ in tables.table(0)] == [0, 7 << 60, 2**63 - 1]


@pytest.mark.parametrize("dimension", [1, 2, 3, 5])
def test_batches_are_drawn_one_after_the_other(dimension):
    """Two batches at once are those that two calls draw, and become the same entries as if they had been given."""
    rng, batch, count = np.random.default_rng(dimension), 9, 3
    # a Gaussian, a discrete measure, a mixture of Gaussians
    first, last = np.array([0, 1, 5]), np.array([1, 5, 7])
    root, roots = np.array([0, -1, -1, -1, -1, 1, 2]), np.tril(rng.normal(size=(3, dimension, dimension)))
    cumulative = np.concatenate([np.cumsum(rng.random(n)) for n in last - first])
    values = rng.normal(size=(7, dimension))
    values[1:5] = np.arange(1, 5)[:, None]
    components = (first, last, cumulative, values, root, roots)
    discrete, nodes, origin = np.array([False, True, False]), np.array([2, 0, 1]), np.zeros(dimension)
    lattice = (discrete, origin, 1e-7, np.full(count, 10**9))
    at_once, in_turn, repeated = (Tables(count, dimension, 2 * batch) for _ in range(3))
    drawn, one, other = (np.empty((count * k * batch, dimension)) for k in (2, 1, 1))
    add_batches(at_once, batch, nodes, drawn, *lattice, components, seed=2**64 - 5)
    for points in (one, other):
        add_batches(in_turn, batch, nodes, points, *lattice, components, seed=2**64 - 5)
    shape = (count, batch, dimension)
    np.testing.assert_array_equal(
        drawn.reshape(count, 2 * batch, dimension), np.concatenate([one.reshape(shape), other.reshape(shape)], axis=1)
    )
    add_batches(repeated, batch, nodes, drawn, *lattice, nothing_to_draw(count, dimension))
    for node in range(count):
        assert at_once.table(node) == in_turn.table(node) == repeated.table(node)
    assert {key for key, _, _ in at_once.table(1)} <= {1, 2, 3, 4}


@given(seed=st.integers(0, 1000), dimension=st.integers(1, 5), count=st.integers(1, 6))
def test_copy_sample_tables(seed, dimension, count):
    rng = np.random.default_rng(seed)
    room = 8
    old, new = (Tables(count, dimension, room) for _ in range(2))
    old.size[:] = new.size[:] = rng.integers(room + 1, size=count)
    new.begin = rng.permutation(count) * room
    for array in old.entries:
        array[:] = rng.integers(1, 1000, size=array.shape)
    nodes = rng.permutation(count)[: rng.integers(count + 1)]
    kernels.copy_sample_tables(nodes, old.size, old.begin, *old.entries, new.begin, *new.entries)
    for node in range(count):
        empty = [(0, 0, [0] * dimension)] * int(new.size[node])
        assert new.table(node) == (old.table(node) if node in nodes else empty)
