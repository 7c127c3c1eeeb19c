"""The simulated delivery of messages does what its plain version does, to the last bit."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barymesh.core import kernels
from tests.core.plain_delivery import DELAYS, Edge, random_stream, span_end

LAWS = ["one delay", "few", "many", "uneven", "lognormal", "trace"]


class World:
    """A random network with delays, faults, and messages on their way."""

    def __init__(self, seed, size, density, law="few", faulty=False, length=16):
        self.rng = rng = np.random.default_rng(seed)
        self.size, self.length = size, length
        # times are whole ticks, or eighths of a second, so that many are the same
        self.grain = rng.choice([1.0 / kernels.TICKS, 0.125])
        linked = (rng.random((size, size)) < density) & ~np.eye(size, dtype=bool)
        self.receiver, self.sender = np.nonzero(linked)
        offsets = np.concatenate([[0], np.cumsum(linked.sum(axis=1))])
        count = self.sender.size
        streams = rng.integers(0, 2**64, count, dtype=np.uint64)
        self.edges = (offsets, self.sender.astype(np.uint32), streams)
        self.delays = self._delays(law)
        rates = rng.choice([0.0, 0.3, 0.6], 3) if faulty else np.zeros(3)
        crashed = self._spans(size, faulty)
        self.faults = (np.array([*rates, 0.8 * faulty]), *crashed, *self._spans(count, faulty))
        self.idle = self._spans(size, faulty)
        # node j has sent the messages 0 to newest[j], some of them at the same tick
        self.newest = rng.integers(-1, 40, size)
        self.sent = [np.sort(self.times(0.0, 5.0, 1 + last)) for last in self.newest]
        self.rings = (np.zeros((size, length)), np.zeros((size, length), dtype=np.int32))
        for j, last in enumerate(self.newest):
            for number in range(max(0, last + 1 - length), last + 1):
                self.rings[0][j, number % length] = self.sent[j][number]
                self.rings[1][j, number % length] = self.slot(j, number)
        self.reach = int(rng.choice([0, 3, length, length]))
        oldest = np.maximum(self.newest - self.reach, -1)[self.sender]
        held = np.where(rng.random(count) < 0.7, oldest, rng.integers(oldest, self.newest[self.sender] + 1))
        held = held.astype(np.int32)
        # messages before the first one are in the first rows
        self.held = (held, self.slot(self.sender, held).astype(np.int32))
        self.since = self.times(2.0, 4.0, size) if faulty else np.zeros(size)

    def times(self, low, high, size=None):
        """Random times between two, in seconds."""
        return self.rng.integers(int(low / self.grain), int(high / self.grain), size) * self.grain

    def slot(self, j, number):
        return 100 * (1 + j) + number

    @property
    def rows(self):
        return 100 * (self.size + 2)

    def _delays(self, law):
        rng, count, empty = self.rng, self.sender.size, np.empty(0)
        none = np.empty(0, dtype=np.intp)
        offset = self.times(0.0, 0.5, count) if rng.random() < 0.5 else empty
        low, step = float(self.times(0.0, 0.5)), float(self.times(0.0, 0.5))
        values = self.times(0.0, 2.0, 6)
        match law:
            case "one delay":
                return np.array([kernels.SPACED, 1, low, step]), empty, none
            case "few":
                return np.array([kernels.SPACED, rng.integers(2, 9), low, step]), empty, none
            case "many":
                return np.array([kernels.SPACED, rng.integers(2**10, 2**21), low, 1 / kernels.TICKS]), empty, none
            case "uneven":
                levels = np.cumsum(rng.dirichlet(np.ones(6)))
                levels[-1] = 1.0
                return np.array([kernels.CATEGORICAL, 6, *values, *levels]), offset, none
            case "lognormal":
                return np.array([kernels.LOG_NORMAL, 2, 0.4, 0.8]), offset, none
            case "trace":
                length = rng.integers(1, 4, count)
                return np.array([kernels.TRACE, 6, *values]), offset, rng.integers(0, 4, count) << 32 | length
        raise ValueError(law)

    def _spans(self, items, faulty):
        """Up to two spans for each item that do not touch; some never end."""
        found = []
        for _ in range(items if faulty else 0):
            ends = np.unique(self.times(0.0, 6.0, self.rng.integers(0, 6)))
            ends = ends[: ends.size // 2 * 2].reshape(-1, 2)
            if len(ends) and self.rng.random() < 0.2:
                ends[-1, 1] = kernels.FOREVER
            found.append(ends)
        first = np.concatenate([[0], np.cumsum([len(one) for one in found], dtype=np.intp)])
        return np.concatenate([*found, np.empty((0, 2))]), first if faulty else np.zeros(items + 1, dtype=np.intp)

    def edge(self, e):
        return Edge(e, self.receiver[e], self.edges, self.delays, self.faults)

    def slab(self, count):
        """Activations at random times, some of them at the same tick; sorted by node the plain way."""
        nodes = self.rng.integers(0, self.size, count)
        times = np.sort(self.times(3.0, 4.0, count))
        order = np.argsort(nodes, kind="stable")
        group = np.searchsorted(nodes[order], np.arange(self.size + 1))
        degrees = np.diff(self.edges[0])
        return nodes, times, order, group, np.concatenate([[0], np.cumsum(degrees[nodes])])

    def newest_arrived(self, e, now, above):
        """The newest message with a number above this one that arrived on an edge by now, or None."""
        j, i, edge = self.sender[e], self.receiver[e], self.edge(e)
        for number in range(self.newest[j], max(above, self.newest[j] - self.reach), -1):
            sent = self.sent[j][number]
            if sent < now and self.since[i] <= edge.arrival(number, sent) <= now:
                return number
        return None

    def received(self, slab):
        """What ``find_newest`` must fill in, and what is held on every edge afterwards."""
        nodes, times, _, _, starts = slab
        number, slot = (array.copy() for array in self.held)
        numbers, slots = np.empty((2, starts[-1]), dtype=np.int32)
        for a, (i, now) in enumerate(zip(nodes, times, strict=True)):
            own = slice(self.edges[0][i], self.edges[0][i + 1])
            for e in range(own.start, own.stop):
                found = self.newest_arrived(e, now, number[e])
                if found is not None:
                    number[e], slot[e] = found, self.slot(self.sender[e], found)
            numbers[starts[a] : starts[a + 1]], slots[starts[a] : starts[a + 1]] = number[own], slot[own]
        return (numbers, slots), (number, slot)


def worlds(laws=LAWS, faulty=(False, True), most=9):
    return st.builds(
        World, st.integers(0, 2**32), st.integers(1, most), st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from(laws),
        st.sampled_from(faulty),
    )  # fmt: skip


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@given(worlds(), st.integers(0, 70))
def test_arrival_times(world, count):
    rng = world.rng
    count = count if world.sender.size else 0
    chosen = rng.integers(0, max(1, world.sender.size), count)
    numbers, sent, out = rng.integers(0, 2**31, count), world.times(0.0, 6.0, count), np.empty(count)
    kernels.arrival_times(
        numbers, sent, chosen, world.receiver[chosen], world.edges, world.delays, world.faults, out
    )  # fmt: skip
    plain = [world.edge(e).arrival(int(k), s) for e, k, s in zip(chosen, numbers, sent.tolist(), strict=True)]
    assert out.tolist() == plain


@given(worlds(), st.integers(0, 2**31))
def test_rounds(world, number):
    start = float(world.times(0.0, 6.0))
    ends, sent = np.empty(world.size), np.empty(world.size, dtype=np.intp)
    kernels.round_ends(number, start, world.edges, world.delays, world.faults, world.idle, ends, sent)
    spans, first = world.idle

    def awake(i):
        return span_end(start, spans[first[i] : first[i + 1]]) or start

    for i, (begin, end) in enumerate(pairwise(world.edges[0])):
        rounds = [world.edge(e).round(number, awake(world.sender[e])) for e in range(begin, end)]
        assert ends[i] == max([awake(i), *(time for time, _ in rounds)])
        assert sent[i] == sum(count for _, count in rounds)


@given(worlds(laws=["few"], faulty=[True]), st.integers(0, 70))
def test_idle_activations(world, count):
    nodes, times, out = world.rng.integers(0, world.size, count), world.times(0, 7, count), np.empty(count, bool)
    kernels.idle_activations(nodes, times, world.idle, out)
    spans, first = world.idle
    expected = [span_end(t, spans[first[i] : first[i + 1]]) is not None for i, t in zip(nodes, times, strict=True)]
    assert out.tolist() == expected


@given(st.integers(0, 2**64 - 1), st.integers(0, 70))
def test_streams_of_edges(seed, count):
    rng = np.random.default_rng(seed)
    sender, receiver = rng.integers(0, 2**40, (2, count))
    out = np.empty(count, dtype=np.uint64)
    kernels.edge_streams(seed, sender, receiver, out)
    assert out.tolist() == [random_stream(seed, DELAYS, int(j), int(i)) for j, i in zip(sender, receiver, strict=True)]


@given(worlds(laws=["few"]), st.integers(0, 70))
def test_activations_sorted_by_node(world, count):
    nodes, times, *expected = world.slab(count)
    acted, offsets = world.newest + 1, world.edges[0]
    order, group, starts = np.empty(count, np.intp), np.empty(world.size + 1, np.intp), np.empty(count + 1, np.intp)
    numbers, newest = np.empty(count, np.intp), np.empty(world.size, np.intp)
    most = kernels.sort_by_node(nodes, acted, offsets, order, group, starts, numbers, newest)
    assert_same((order, group, starts), expected)
    counts = np.bincount(nodes, minlength=world.size)
    assert most == counts.max()
    np.testing.assert_array_equal(newest, acted - 1 + counts)
    earlier = [np.count_nonzero(nodes[:a] == i) for a, i in enumerate(nodes)]
    np.testing.assert_array_equal(numbers, acted[nodes] + earlier)
    # the last message of every node is the one left in the ring, if they have one place
    rows, last = np.arange(count, dtype=np.int32), {int(i): a for a, i in enumerate(nodes)}
    time, slot = np.full((world.size, 1), -1.0), np.full((world.size, 1), -1, dtype=np.int32)
    kernels.record_sent(nodes, numbers, times, rows, (time, slot))
    assert slot[:, 0].tolist() == [last.get(i, -1) for i in range(world.size)]
    assert time[:, 0].tolist() == [times[last[i]] if i in last else -1.0 for i in range(world.size)]


@given(worlds(), st.integers(0, 20))
def test_newest_messages(world, count):
    slab = world.slab(count)
    received, held = world.received(slab)
    found = np.empty((2, slab[-1][-1]), dtype=np.int32)
    shortest = 0.0 if world.delays[0][0] != kernels.SPACED else world.delays[0][2]
    kernels.find_newest(
        slab, world.edges, world.newest, world.reach, world.rings, world.held, world.since, world.delays, shortest,
        world.faults, (found[0], found[1]),
    )  # fmt: skip
    assert_same(found, received)
    assert_same(world.held, held)


# more nodes than a vector has numbers, and more recent messages than are looked up at once
@given(worlds(laws=LAWS[:3], faulty=[False], most=40), st.integers(0, 20), st.booleans())
def test_newest_messages_in_integers(world, count, copied):
    slab = world.slab(count)
    received, held = world.received(slab)
    found = np.empty((2, slab[-1][-1] if copied else 0), dtype=np.int32)
    kernels.find_newest_fast(
        slab, world.edges, world.newest, world.reach, world.rings, world.held, world.delays[0], (found[0], found[1])
    )
    assert_same(world.held, held)
    if copied:
        assert_same(found, received)


@given(worlds(laws=["few"], faulty=[False]), st.integers(0, 40))
def test_levels_of_execution(world, count):
    slab = nodes, _, order, group, starts = world.slab(count)
    # every activation has received any message sent before it: by an activation of the slab, or earlier
    acted, number = world.newest + 1, np.empty(starts[-1], dtype=np.int32)
    before = np.zeros((count + 1, world.size), dtype=np.intp)
    for a, i in enumerate(nodes):
        before[a + 1] = before[a] + (np.arange(world.size) == i)
        senders = world.sender[world.edges[0][i] : world.edges[0][i + 1]]
        number[starts[a] : starts[a + 1]] = world.rng.integers(-1, acted[senders] + before[a, senders])
    level = np.empty(count, dtype=np.intp)
    levels = kernels.execution_levels(slab, world.edges, acted, number, level)
    expected = []
    for a, i in enumerate(nodes):
        senders = world.sender[world.edges[0][i] : world.edges[0][i + 1]]
        within = number[starts[a] : starts[a + 1]] - acted[senders]
        causes = [order[group[j] + k] for j, k in zip(senders, within, strict=True) if k >= 0]
        causes += [b for b in range(a) if nodes[b] == i]
        expected.append(1 + max((expected[b] for b in causes), default=-1))
    assert level.tolist() == expected
    assert levels == 1 + max(expected, default=-1)


@given(worlds())
def test_rows_in_use(world):
    now, acted = float(world.times(2.0, 6.0)), world.newest + 1
    held, needed, oldest = [array.copy() for array in world.held], set(), 0
    for e, (j, i) in enumerate(zip(world.sender, world.receiver, strict=True)):
        edge, arrived = world.edge(e), None
        for number in range(world.newest[j], max(held[0][e], world.newest[j] - world.reach), -1):
            time = edge.arrival(number, world.sent[j][number])
            if world.since[i] <= time <= now:
                arrived = number
                break
            if now < time < kernels.FOREVER:
                needed.add(world.slot(j, number))
                oldest = max(oldest, acted[j] - number)
        if arrived is not None:
            held[0][e], held[1][e] = arrived, world.slot(j, arrived)
        needed.add(int(held[1][e]))
    used = np.zeros(world.rows, dtype=bool)
    found = kernels.mark_used(
        now, world.edges, acted, world.reach, world.rings, world.held, world.since, world.delays, world.faults, used
    )
    assert_same(world.held, held)
    assert set(np.flatnonzero(used)) == needed
    assert found == oldest


@given(worlds(laws=["few"], faulty=[False]))
def test_rows_in_use_if_all_newer_messages_are_needed(world):
    acted, needed, oldest = world.newest + 1, set(world.held[1].tolist()), 0
    for j, number in zip(world.sender, world.held[0], strict=True):
        needed |= {world.slot(j, later) for later in range(number + 1, acted[j])}
        oldest = max(oldest, acted[j] - 1 - number)
    used = np.zeros(world.rows, dtype=bool)
    assert kernels.mark_used_fast(world.edges, acted, world.rings, world.held, used) == oldest
    assert set(np.flatnonzero(used)) == needed


@pytest.mark.parametrize("place", range(3))
def test_tuples_of_other_arrays_are_refused(place):
    world = World(0, 3, 1.0)
    arrays = list(world.edges)
    used, acted = np.zeros(world.rows, dtype=bool), world.newest + 1
    for wrong in (arrays[:place] + arrays[place + 1 :], [*arrays, arrays[0]]):
        with pytest.raises(TypeError, match="mark_used_fast"):
            kernels.mark_used_fast(tuple(wrong), acted, world.rings, world.held, used)
    arrays[place] = arrays[place].astype(np.float32)
    with pytest.raises(TypeError, match="mark_used_fast"):
        kernels.mark_used_fast(tuple(arrays), acted, world.rings, world.held, used)
