"""The transport of the simulation: what each node has received by when, without storing a vector for an edge.

Which message arrives when does not depend on the numbers in it. So this is computed for a slab of activations at a time
(``find_received``), before any of them is executed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barymesh.core import kernels
from barymesh.core.aligned import aligned
from barymesh.core.times import whole_ticks
from barymesh.decentralized.algorithm import Batch
from barymesh.decentralized.inbox import NO_MESSAGE, Inbox, ListedInbox
from barymesh.decentralized.transport import Transport, padded
from barymesh.network.topology import Network
from barymesh.resources import memory
from barymesh.scenario.delays import Delay
from barymesh.scenario.faults import FaultTable

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

FIRST_RING = 16
# the size of a ring over the number of messages in transit: larger rings need fewer collections
RING_ROOM = 8
# the size of the pool over what is in use, for a small and for a large pool, in numbers: a larger one needs fewer
# collections
POOL_ROOM, LARGE_POOL_ROOM = 4.0, 2.0
LARGE_POOL = 10_000_000


@dataclass(frozen=True)
class ReceivedSlab:
    """What the activations of a slab have received: activation a the rows ``slots[first[a]:last[a]]`` of the pool; its
    own message, the node's ``numbers[a]``-th, goes into row ``own[a]``. Activations of one ``level`` are independent;
    ``order`` sorts all by node, for the locality of memory access."""

    numbers: NDArray[np.int64]
    first: Indices
    last: Indices
    slots: NDArray[np.int32]
    own: NDArray[np.int32]
    order: Indices
    level: Indices
    levels: int


class Delivery(Transport):
    """Messages of ``width`` numbers on a network with delays and faults, which are drawn from ``seed``."""

    def __init__(self, network: Network, width: int, delays: Delay, faults: FaultTable, seed: int) -> None:
        self.network, self.width, self.faults = network, width, faults
        edges, size = network.neighbours.size, network.size
        self.columns, self.offsets = padded(width), network.offsets
        table = delays.table(network)
        self.shortest = table.shortest
        self.fast = table.simple and not (faults.touches_messages or faults.resets)
        # all receivers share one copy of a message. Those that it is not meant for do not act on what is new in it; but
        # where messages are lost, it would stand in for one that was meant for them: so it is sent to all, and counted
        self.broadcasts = faults.touches_messages
        streams = np.empty(edges, dtype=np.uint64)
        receiver = np.repeat(np.arange(size), np.diff(network.offsets))
        kernels.edge_streams(seed % 2**64, network.neighbours, receiver, streams)
        # the kernels' view of the network, its delays and faults: see core/messages.h
        self.edges = (network.offsets, network.neighbours.astype(np.uint32), streams)
        self.delays = (table.law, table.offset, table.trace)
        self.fault_arrays = (faults.rates, faults.crashed, faults.crashed_first, faults.cut, faults.cut_first)
        self.held_number: NDArray[np.int32] = np.full(edges, -1, dtype=np.int32)
        self.held_slot: NDArray[np.int32] = np.zeros(edges, dtype=np.int32)
        self.since = np.zeros(size)
        self.acted: NDArray[np.int64] = np.zeros(size, dtype=np.int64)
        self._make_rings(FIRST_RING)
        self.pool: Floats = aligned((1, self.columns), float)
        self.free: NDArray[np.int32] = np.empty(0, dtype=np.int32)
        # kept between slabs, because allocating it would take longer than the lookup
        self.buffer: NDArray[np.int32] = np.empty((2, 0), dtype=np.int32)
        self.sent_since_collection = 0
        self.slab: ReceivedSlab | None = None

    def _make_rings(self, length: int) -> None:
        size = self.network.size
        self.ring_time: Floats = np.zeros((size, length))
        self.ring_slot: NDArray[np.int32] = np.zeros((size, length), dtype=np.int32)

    @property
    def rings(self) -> tuple[Floats, NDArray[np.int32]]:
        """The ring buffers of all nodes: when they sent their last messages, and the rows of the pool these are in."""
        return self.ring_time, self.ring_slot

    @property
    def held(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The newest message received on every edge: its number among those of the sender, and its row of the pool."""
        return self.held_number, self.held_slot

    def deliver_first(self, messages: Floats) -> None:
        """Deliver the first messages ``(m, width)`` of all nodes to their neighbours, before time 0."""
        rows = self._allocate(self.network.size, 0.0)
        kernels.store_messages(rows, messages, self.pool)
        self.held_slot[:] = rows[self.network.neighbours]

    def find_received(self, nodes: Indices, times: Floats, now: float) -> ReceivedSlab:
        """What these activations have received. They are in the order of time, and later than all earlier ones, which
        have been executed up to time ``now``."""
        count, size = nodes.size, self.network.size
        order, number, starts = np.empty(count, np.intp), np.empty(count, np.intp), np.empty(count + 1, np.intp)
        group, newest = np.empty(size + 1, np.intp), np.empty(size, np.intp)
        most = kernels.sort_by_node(nodes, self.acted, self.offsets, order, group, starts, number, newest)
        if self.sent_since_collection + most > self.ring_time.shape[1] // 2:
            self._collect(now, most)
        own = self._allocate(count, now)
        kernels.record_sent(nodes, number, times, own, self.rings)
        reach = self.sent_since_collection + most
        independent = count == 0 or times[0] + self.shortest > times[-1]
        # if every node acts at most once, it receives what it holds from now on: no need for a copy
        once = self.fast and most <= 1 and independent
        total = 0 if once else int(starts[-1])
        if self.buffer.shape[1] < total:
            self.buffer = np.empty((2, total), dtype=np.int32)
        numbers, slots = self.buffer[:, :total]
        slab = (nodes, times, order, group, starts)
        if self.fast:
            kernels.find_newest_fast(
                slab, self.edges, newest, reach, self.rings, self.held, self.delays[0], (numbers, slots)
            )
        else:
            kernels.find_newest(
                slab, self.edges, newest, reach, self.rings, self.held, self.since, self.delays, self.shortest,
                self.fault_arrays, (numbers, slots),
            )  # fmt: skip
        level = np.zeros(count, dtype=np.intp)
        levels = 1 if count else 0
        if not independent:
            levels = kernels.execution_levels(slab, self.edges, self.acted, numbers, level)
        elif most > 1:
            level[:] = number - self.acted[nodes]
            levels = most
        self.acted = newest + 1
        self.sent_since_collection += most
        if once:
            first, last = self.offsets[nodes], self.offsets[nodes + 1]
            self.slab = ReceivedSlab(number, first, last, self.held_slot, own, order, level, levels)
        else:
            self.slab = ReceivedSlab(number, starts[:-1], starts[1:], slots, own, order, level, levels)
        return self.slab

    def receive(self, batch: Batch) -> Inbox:
        """What the activations ``batch.places`` of the last slab have received."""
        slab, places = self.slab, batch.places
        assert slab is not None
        return ListedInbox(self.pool, self.width, slab.slots, slab.first[places], slab.last[places])

    def send(
        self, batch: Batch, messages: Floats, receivers: NDArray[np.int64], links: NDArray[np.bool_] | None = None
    ) -> None:
        """Store the messages. The private columns stay in: algorithms do not read those of other nodes, and so all
        receivers share one copy of a message. Likewise a message that is sent over some links is delivered over all;
        see ``broadcasts``. One that is sent over none never arrives."""
        assert self.slab is not None
        kernels.store_messages(self.slab.own[batch.places], messages, self.pool)
        if links is not None:
            owner = np.repeat(np.arange(batch.rows.size), np.diff(self.offsets)[batch.rows])
            silent = np.bincount(owner, links, batch.rows.size) == 0
            numbers = self.slab.numbers[batch.places][silent] & (self.ring_time.shape[1] - 1)
            self.ring_time[batch.rows[silent], numbers] = kernels.FOREVER

    def round(self, number: int, start: float) -> tuple[float, int]:
        """All nodes send their message ``number`` to all neighbours, at time ``start`` or as soon as they can: the time
        at which the last one has arrived, and how many were sent."""
        ends, sent = np.empty(self.network.size), np.empty(self.network.size, dtype=np.intp)
        idle = (self.faults.idle, self.faults.idle_first)
        kernels.round_ends(number, start, self.edges, self.delays, self.fault_arrays, idle, ends, sent)
        return float(ends.max()), int(sent.sum())

    def exchange(self, messages: Floats) -> Floats:
        """The sums ``(m, width)`` of the neighbours' messages ``(m, width)``, all received."""
        size, neighbours = self.network.size, self.network.neighbours
        if neighbours.size == size * (size - 1):
            # a complete graph
            return np.asarray(messages.sum(axis=0) - messages)
        if len(self.pool) <= size:
            self.pool = aligned((size + 1, self.columns), float)
        kernels.store_messages(np.arange(1, size + 1, dtype=np.int32), messages, self.pool)
        slots = (neighbours + 1).astype(np.int32)
        return ListedInbox(self.pool, self.width, slots, self.offsets[:-1], self.offsets[1:]).sum()[0]

    def forget(self, node: int, time: float) -> None:
        """The node loses all that it has received; from now on it receives only newer messages."""
        self._collect(time, 0)
        self.held_slot[self.offsets[node] : self.offsets[node + 1]] = NO_MESSAGE
        self.since[node] = time

    def staleness(self, now: float) -> Floats:
        """Seconds, at ``now``, since the message that each receiver last found from each neighbour was sent,
        ``(edges,)``. Changes nothing."""
        number = self.held_number
        sender, length = self.network.neighbours, self.ring_time.shape[1]
        # a message that is no longer in the ring is at least as old as the oldest there
        seen = np.maximum(number, self.acted[sender] - length)
        return np.asarray(now - np.where(seen < 0, 0.0, self.ring_time[sender, seen & (length - 1)]))

    def _allocate(self, count: int, now: float) -> NDArray[np.int32]:
        """``count`` free rows of the pool."""
        if self.free.size < count:
            used = self._collect(now, 0)
            self.free = np.flatnonzero(~used).astype(np.int32)
            needed = int(used.sum()) + count
            wanted = (
                int((POOL_ROOM if POOL_ROOM * needed * self.columns < LARGE_POOL else LARGE_POOL_ROOM) * needed) + 1
            )
            if len(self.pool) < 0.7 * wanted:
                memory.require(
                    8 * (wanted + len(self.pool)) * self.columns,
                    f"Keeping the last messages of {self.network.size} nodes, {self.width} numbers each,",
                    "Use a smaller network or support, or shorter delays.",
                )
                pool = aligned((max(wanted, len(self.pool)), self.columns), float)
                pool[: len(self.pool)] = self.pool
                self.free = np.concatenate([self.free, np.arange(len(self.pool), len(pool), dtype=np.int32)])
                self.pool = pool
        rows, self.free = self.free[:count], self.free[count:]
        return rows

    def _collect(self, now: float, upcoming: int) -> NDArray[np.bool_]:
        """Update every edge to time ``now``, so that old messages can be overwritten; returns which rows of the pool
        are in use.

        The rings grow until they hold every message in transit and ``upcoming`` more.
        """
        used = np.zeros(len(self.pool), dtype=bool)
        used[NO_MESSAGE] = True
        if self.fast:
            nodes, group = np.arange(self.network.size), np.arange(self.network.size + 1)
            slab = (nodes, np.full(nodes.size, whole_ticks(now)), nodes, group, self.offsets)
            nothing = np.empty(0, dtype=np.int32)
            kernels.find_newest_fast(
                slab, self.edges, self.acted - 1, self.sent_since_collection, self.rings, self.held, self.delays[0],
                (nothing, nothing),
            )  # fmt: skip
            oldest = kernels.mark_used_fast(self.edges, self.acted, self.rings, self.held, used)
        else:
            oldest = kernels.mark_used(
                now, self.edges, self.acted, self.sent_since_collection, self.rings, self.held, self.since, self.delays,
                self.fault_arrays, used,
            )  # fmt: skip
        self.sent_since_collection = oldest
        length = self.ring_time.shape[1]
        wanted = length
        while RING_ROOM * (oldest + max(upcoming, 1)) > wanted:
            wanted *= 2
        if wanted > length:
            self._grow(wanted)
        return used

    def _grow(self, length: int) -> None:
        times, slots = self.ring_time, self.ring_slot
        old = times.shape[1]
        self._make_rings(length)
        nodes = np.arange(self.network.size)
        for back in range(1, old + 1):
            number = self.acted - back
            there = number >= 0
            self.ring_time[nodes[there], number[there] & (length - 1)] = times[nodes[there], number[there] & (old - 1)]
            self.ring_slot[nodes[there], number[there] & (length - 1)] = slots[nodes[there], number[there] & (old - 1)]

    def saved(self) -> dict[str, NDArray[Any]]:
        """Everything that changes, as arrays."""
        counts = np.array([self.sent_since_collection])
        streams = ("held_number", "held_slot", "since", "acted", "ring_time", "ring_slot", "pool", "free")
        return {**{name: getattr(self, name) for name in streams}, "counts": counts}

    def restore(self, stored: dict[str, NDArray[Any]]) -> None:
        """Continue from what ``saved`` returned."""
        stored = dict(stored)
        self.sent_since_collection = int(stored.pop("counts")[0])
        pool = stored.pop("pool")
        self.pool = aligned(pool.shape, float)
        self.pool[:] = pool
        for name, value in stored.items():
            setattr(self, name, value.copy())
