"""The transport of the simulation: what each node has received by when, without keeping a vector for an edge.

Who receives what does not depend on the numbers in the messages. So it is looked up for a slab of activations at a time
(``look``), before any of them is carried out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from barymesh.core import delivery as kernels
from barymesh.core import faults as fault_kernels
from barymesh.core import inbox as inbox_kernels
from barymesh.core.aligned import aligned
from barymesh.core.times import TICKS, whole_ticks
from barymesh.decentralized.algorithm import Batch
from barymesh.decentralized.inbox import NOWHERE, Inbox, ListedInbox
from barymesh.decentralized.transport import Transport, padded
from barymesh.network.topology import Network
from barymesh.resources import memory
from barymesh.scenario.delays import Delay
from barymesh.scenario.faults import FaultTable

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

FIRST_RING = 16
# a ring holds so many times the messages on their way, so that it seldom needs to be settled
ROOM = 8
# how much larger the pool is than what is in use, so that rows are seldom collected: less for a pool of many numbers
ROOMY, TIGHT = 4.0, 2.0
MANY_NUMBERS = 10_000_000


@dataclass(frozen=True)
class Found:
    """What the activations of a slab have received: activation a the rows ``slots[first[a]:last[a]]`` of the pool; its
    own message, the node's ``numbers[a]``-th, goes into row ``own[a]``. Activations of one ``level`` do not depend on
    one another; ``order`` lists all by node, which is kindest to the memory."""

    numbers: NDArray[np.int64]
    first: Indices
    last: Indices
    slots: NDArray[np.int32]
    own: NDArray[np.int32]
    order: Indices
    level: Indices
    levels: int


class Delivery(Transport):
    """Messages of ``width`` numbers on a network with delays and faults; ``seed`` decides the fate of every one."""

    def __init__(self, network: Network, width: int, delays: Delay, faults: FaultTable, seed: int) -> None:
        self.network, self.width, self.faults = network, width, faults
        edges, size = network.neighbours.size, network.size
        # parts of the work, for the threads to share
        self.shares = 2 * numba.get_num_threads()
        self.columns = padded(width)
        self.offsets = network.offsets
        self.neighbours = network.neighbours.astype(np.uint32)
        table = delays.table(network)
        self.least, self.most = table.least, table.most
        self.delay = (table.law, table.offset, table.trace)
        self.fast = table.simple and not (faults.touches_messages or faults.resets)
        count, low, step = table.law[1:4] if self.fast else (1, 0, 0)
        self.spacing = np.int32(low * TICKS), np.int32(step * TICKS), np.uint32(count)
        self.fate = (faults.rates, faults.deaf, faults.deaf_first, faults.cut, faults.cut_first)
        self.names: NDArray[np.uint64] = np.empty(edges, dtype=np.uint64)
        receiver = np.repeat(np.arange(size), np.diff(network.offsets))
        fault_kernels.name_edges(np.uint64(seed % 2**64), network.neighbours, receiver, self.names)
        self.edge_keys = (self.names >> np.uint64(32)).astype(np.uint32)
        self.held_number: NDArray[np.int32] = np.full(edges, -1, dtype=np.int32)
        self.held_slot: NDArray[np.int32] = np.zeros(edges, dtype=np.int32)
        self.since = np.zeros(size)
        self.acted: NDArray[np.int64] = np.zeros(size, dtype=np.int64)
        self._make_rings(FIRST_RING)
        self.pool: Floats = aligned((1, self.columns), float)
        self.free: NDArray[np.int32] = np.empty(0, dtype=np.int32)
        # what the last look found: kept, because new memory for every slab would cost more than the look
        self.found: NDArray[np.int32] = np.empty((2, 0), dtype=np.int32)
        self.sent_since_settled = 0
        self.looked_up: Found | None = None

    def _make_rings(self, length: int) -> None:
        size = self.network.size
        self.ring_time: Floats = np.zeros((size, length))
        self.ring_slot: NDArray[np.int32] = np.zeros((size, length), dtype=np.int32)
        self.place_of: NDArray[np.int32] = np.zeros((size, length), dtype=np.int32)

    def hand_out(self, messages: Floats) -> None:
        """Give everybody the first message ``(m, width)`` of all its neighbours, as before time 0."""
        rows = self._take(self.network.size, 0.0)
        inbox_kernels.deposit(rows, messages, self.pool)
        self.held_slot[:] = rows[self.network.neighbours]

    def look(self, nodes: Indices, times: Floats, now: float) -> Found:
        """What these activations, in the order of time and later than any before, find in their mail.

        ``now``: the time up to which all earlier ones have been carried out.
        """
        count = nodes.size
        order, group, number, starts, newest, most = kernels.sort_by_node(nodes, self.acted, self.offsets)
        if self.sent_since_settled + most > self.ring_time.shape[1] // 2:
            self._settle(now, most)
        own = self._take(count, now)
        kernels.announce(nodes, number, times, own, self.ring_time, self.ring_slot)
        reach = self.sent_since_settled + most
        independent = count == 0 or times[0] + self.least > times[-1]
        # a node that acts once finds what it holds from now on: no need for a copy
        once = self.fast and most <= 1 and independent
        total = 0 if once else int(starts[-1])
        if self.found.shape[1] < total:
            self.found = np.empty((2, total), dtype=np.int32)
        numbers, slots = self.found[:, :total]
        if self.fast:
            self._look_fast(reach, order, group, nodes, times, starts, newest, numbers, slots)
        else:
            kernels.look(
                self.shares, order, group, nodes, times, starts, self.offsets, self.neighbours, self.names, newest,
                reach, self.ring_time, self.ring_slot, self.held_number, self.held_slot, self.since, *self.delay,
                self.least, *self.fate, numbers, slots,
            )  # fmt: skip
        level = np.zeros(count, dtype=np.intp)
        levels = 1 if count else 0
        if not independent:
            self.place_of[nodes, number & (self.ring_time.shape[1] - 1)] = np.arange(count)
            levels = kernels.levels_of(
                nodes, starts, self.offsets, self.neighbours, self.acted, self.place_of, numbers, level
            )
        elif most > 1:
            level[:] = number - self.acted[nodes]
            levels = most
        self.acted = newest + 1
        self.sent_since_settled += most
        if once:
            first, last = self.offsets[nodes], self.offsets[nodes + 1]
            self.looked_up = Found(number, first, last, self.held_slot, own, order, level, levels)
        else:
            self.looked_up = Found(number, starts[:-1], starts[1:], slots, own, order, level, levels)
        return self.looked_up

    def _look_fast(
        self, reach: int, order: Indices, group: Indices, nodes: Indices, times: Floats, starts: Indices,
        newest: Indices, numbers: NDArray[np.int32], slots: NDArray[np.int32],
    ) -> None:  # fmt: skip
        base = float(times[0]) if times.size else 0.0
        ages = kernels.ages_that_matter(newest, reach, self.ring_time, base - self.most)
        shape = (self.network.size, -(-ages // 8) * 8)
        sent, keys = aligned(shape, np.int32), aligned(shape, np.uint32)
        kernels.recent(newest, self.ring_time, base, sent, keys)
        kernels.look_fast(
            self.shares, order, group, nodes, times, starts, self.offsets, self.neighbours, self.edge_keys, newest,
            base, sent, keys,
            *self.spacing, self.held_number, self.held_slot, self.ring_slot, numbers, slots,
        )  # fmt: skip

    def receive(self, batch: Batch) -> Inbox:
        """What the activations ``batch.places`` of those last looked up have received."""
        found, places = self.looked_up, batch.places
        assert found is not None
        return ListedInbox(self.pool, self.width, found.slots, found.first[places], found.last[places], self.shares)

    def send(self, batch: Batch, messages: Floats, receivers: NDArray[np.int64]) -> None:
        """Take the messages. The private columns are left in: algorithms do not read those of others, and one copy of
        a message serves all receivers."""
        assert self.looked_up is not None
        inbox_kernels.deposit(self.looked_up.own[batch.places], messages, self.pool)

    def round(self, number: int, start: float) -> tuple[float, int]:
        """Everybody sends its message ``number`` to all neighbours at time ``start`` or as soon as it can: when the
        last one has arrived, and how many were sent."""
        end, sent = fault_kernels.round_end(
            number, start, self.offsets, self.neighbours, self.names, *self.delay, *self.fate,
            self.faults.idle, self.faults.idle_first,
        )  # fmt: skip
        return float(end), int(sent)

    def exchange(self, messages: Floats) -> Floats:
        """The sums ``(m, width)`` of the neighbours' messages ``(m, width)``, all received."""
        size = self.network.size
        if self.neighbours.size == size * (size - 1):
            # everybody's neighbours are all the others
            return np.asarray(messages.sum(axis=0) - messages)
        if len(self.pool) <= size:
            self.pool = aligned((size + 1, self.columns), float)
        inbox_kernels.deposit(np.arange(1, size + 1), messages, self.pool)
        slots = (self.neighbours + 1).astype(np.int32)
        return ListedInbox(self.pool, self.width, slots, self.offsets[:-1], self.offsets[1:], self.shares).sum()[0]

    def forget(self, node: int, time: float) -> None:
        """The node loses all it ever received; of each neighbour it takes only messages newer than those."""
        self._settle(time, 0)
        self.held_slot[self.offsets[node] : self.offsets[node + 1]] = NOWHERE
        self.since[node] = time

    def staleness(self, now: float) -> Floats:
        """Seconds, at ``now``, since the message that each receiver last found from each neighbour was sent,
        ``(edges,)``. Changes nothing."""
        number = self.held_number
        sender, length = self.network.neighbours, self.ring_time.shape[1]
        # one that has left the ring is at least as old as the oldest there
        seen = np.maximum(number, self.acted[sender] - length)
        return np.asarray(now - np.where(seen < 0, 0.0, self.ring_time[sender, seen & (length - 1)]))

    def _take(self, count: int, now: float) -> NDArray[np.int32]:
        """Free rows of the pool."""
        if self.free.size < count:
            used = self._settle(now, 0)
            self.free = np.flatnonzero(~used).astype(np.int32)
            needed = int(used.sum()) + count
            wanted = int((ROOMY if ROOMY * needed * self.columns < MANY_NUMBERS else TIGHT) * needed) + 1
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

    def _settle(self, now: float, coming: int) -> NDArray[np.bool_]:
        """Bring every edge up to date, so that rings may turn; returns which rows of the pool are needed.

        The rings grow until they hold every message on its way and as many to come.
        """
        used = np.zeros(len(self.pool), dtype=bool)
        used[NOWHERE] = True
        if self.fast:
            everybody = np.arange(self.network.size)
            nothing = np.empty(0, dtype=np.int32)
            self._look_fast(
                self.sent_since_settled, everybody, np.arange(self.network.size + 1), everybody,
                np.full(self.network.size, whole_ticks(now)), self.offsets, self.acted - 1, nothing, nothing,
            )  # fmt: skip
            oldest = kernels.keep_recent(
                self.neighbours, self.acted, self.held_number, self.held_slot, self.ring_slot, used
            )
        else:
            oldest = kernels.settle(
                now, self.offsets, self.neighbours, self.names, self.acted, self.sent_since_settled, self.ring_time,
                self.ring_slot, self.held_number, self.held_slot, self.since, *self.delay, *self.fate, used,
            )  # fmt: skip
        self.sent_since_settled = oldest
        length = self.ring_time.shape[1]
        wanted = length
        while ROOM * (oldest + max(coming, 1)) > wanted:
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
        """All that changes, as arrays."""
        counts = np.array([self.sent_since_settled])
        names = ("held_number", "held_slot", "since", "acted", "ring_time", "ring_slot", "pool", "free")
        return {**{name: getattr(self, name) for name in names}, "counts": counts}

    def restore(self, stored: dict[str, NDArray[Any]]) -> None:
        """Go on from what ``saved`` gave."""
        stored = dict(stored)
        self.sent_since_settled = int(stored.pop("counts")[0])
        pool = stored.pop("pool")
        self.pool = aligned(pool.shape, float)
        self.pool[:] = pool
        for name, value in stored.items():
            setattr(self, name, value.copy())
        self.place_of = np.zeros(self.ring_slot.shape, dtype=np.int32)
