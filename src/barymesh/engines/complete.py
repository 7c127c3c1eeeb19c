"""The simulated mail of a complete network where nothing goes wrong: a byte for every pair of nodes.

It is a faster way to the same numbers as ``mail.Mail`` takes, for the case where everybody hears from everybody, at
most seven ages of messages matter, and nobody acts twice: see ``complete_kernels``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numba
import numpy as np
from numpy.typing import NDArray

from barymesh.core import complete as kernels
from barymesh.core.aligned import aligned
from barymesh.decentralized.inbox import Floats, Indices
from barymesh.network.topology import Network
from barymesh.scenario.ticks import TICKS

LANES = 8


@dataclass(frozen=True)
class Ages:
    """What the activations of a slab, of ``nodes (b,)``, have received: from node j the message ``codes[a, j]``, which
    is in row ``slots[j, code]`` of the pool."""

    nodes: Indices
    codes: NDArray[np.uint8]
    slots: NDArray[np.int32]


class CompleteLook:
    """Who has received what on a complete network. ``edge_keys (edges,)``: the keys of the edges' delays, which are
    ``low + step k`` ticks with k drawn from ``count`` numbers; ``least`` and ``most`` are their bounds in seconds."""

    def __init__(
        self, size: int, edge_keys: NDArray[np.uint32], spacing: tuple[np.int32, np.int32, np.uint32],
        least: float, most: float, shares: int,
    ) -> None:  # fmt: skip
        self.size, self.least, self.most, self.shares = size, least, most, shares
        self.low, self.step, self.count = spacing
        self.padded = -(-size // LANES) * LANES
        self.edge_keys: NDArray[np.uint32] = aligned((size, self.padded), np.uint32)
        self.edge_keys[:, :size][~np.eye(size, dtype=bool)] = edge_keys
        self.codes: NDArray[np.uint8] = aligned((size, self.padded), np.uint8)

    @staticmethod
    def applies(network: Network, least: float) -> bool:
        """Whether everybody hears from everybody, and messages sent at the moment of looking are not seen anyway."""
        return network.neighbours.size == network.size * (network.size - 1) and network.size > 1 and least > 0

    def look(
        self, nodes: Indices, times: Floats, newest: Indices, ring_time: Floats, ring_slot: NDArray[np.int32],
    ) -> Ages | None:  # fmt: skip
        """What these activations, one of a node, have received; None if too many ages of messages matter."""
        base, latest = float(times[0]), float(times[-1])
        first, last = kernels.span_of_ages(newest, ring_time, base, latest, self.least, self.most)
        ages = last - first + 1
        if last < 0 or ages > kernels.NOTHING:
            return None
        arrivals, keys = aligned((ages, self.padded), np.int32), aligned((ages, self.padded), np.uint32)
        slots = np.zeros((self.size, kernels.CODES), dtype=np.int32)
        kernels.recent(newest, ring_time, ring_slot, base, first, self.low, arrivals, keys, slots)
        nows = ((times - base) * TICKS).astype(np.int32)
        kernels.look(self.shares, nodes, nows, self.edge_keys, arrivals, keys, self.step, self.count, self.codes)
        return Ages(nodes, self.codes, slots)

    def keep(
        self, newest: Indices, now: float, ring_time: Floats, ring_slot: NDArray[np.int32], used: NDArray[np.bool_],
    ) -> int:  # fmt: skip
        """Mark the rows of the pool that somebody may still look at: of the youngest age at which all messages have
        arrived by ``now``, and younger. Returns that age, or -1 if there is none yet."""
        _, last = kernels.span_of_ages(newest, ring_time, now, now, self.least, self.most)
        for age in range(last + 1):
            used[ring_slot[np.arange(self.size), (newest - age) & (ring_slot.shape[1] - 1)]] = True
        return int(last)


@dataclass(frozen=True)
class CompleteInbox:
    """An Inbox of the activations ``batch`` of a slab, as bytes."""

    rows: Floats
    width: int
    ages: Ages
    batch: Indices

    @cached_property
    def slots(self) -> NDArray[np.int32]:
        ages = self.ages
        out = np.empty((self.batch.size, len(ages.slots) - 1), dtype=np.int32)
        kernels.rows_of(self.batch, ages.nodes, ages.codes, ages.slots, out)
        return out.ravel()

    @property
    def first(self) -> Indices:
        return np.arange(self.batch.size) * (len(self.ages.slots) - 1)

    @property
    def last(self) -> Indices:
        return self.first + (len(self.ages.slots) - 1)

    def sum(self) -> tuple[Floats, NDArray[np.int64]]:
        totals = np.empty((self.batch.size, self.width))
        scratch = aligned((numba.get_num_threads(), kernels.FEW_SENDERS * kernels.CODES * kernels.WIDE), float)
        kernels.add_up(self.batch, self.ages.codes, self.ages.slots, self.rows, scratch, totals)
        return totals, np.full(self.batch.size, len(self.ages.slots) - 1)
