"""A round of masked sums: what all members agree on, and who masks with whom."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# if this share of the members collude, the others are split with a probability of at most 2^-SAFETY, also if the
# colluders try 2^TRIALS numbers of their own until the ring suits them
COLLUDING, SAFETY, TRIALS = 1 / 3, 40, 80


def partner_count(members: int) -> int:
    """How many partners each member has: all others, or an even number k that is enough.

    The members stand on a ring in random order, and each is the partner of the k / 2 next on either side. If some
    collude, the others are split into two groups, whose sums the colluders could then read, only if there are two runs
    of k / 2 colluders on the ring. The chance of that is at most ``members^2 / 2 * COLLUDING^k``, for two places of the
    runs, and at most COLLUDING for each of the k places to have a colluder.

    The order follows from numbers that the members draw. Colluders who see those of the others first can try their own.
    Each trial is another ring, in an order as random as any, so the chance that one of ``2^TRIALS`` suits them is at
    most so many times as large; and that is to be at most ``2^-SAFETY``.
    """
    enough = (SAFETY + TRIALS + 2.0 * np.log2(max(members, 2)) - 1.0) / np.log2(1.0 / COLLUDING)
    return min(2 * int(np.ceil(enough / 2.0)), max(members - 1, 0))


@dataclass(frozen=True, eq=False)
class Round:
    """What all who mask for one sum agree on: ``epoch``, the ``root``'s key, ``stamp`` and ``target`` of the tree, and
    the ``roll (m,)``."""

    epoch: float
    root: float
    stamp: float
    target: Floats
    roll: Floats

    @cached_property
    def digest(self) -> bytes:
        place = struct.pack("<ddd", self.epoch, self.root, self.stamp)
        return _digest(place + _digest(_raw(self.roll)) + _raw(self.target))

    @cached_property
    def ring(self) -> list[int]:
        """The members, in an order that the roll determines."""
        seed = _digest(_raw(self.roll))
        members = np.flatnonzero(self.roll).tolist()
        return sorted(members, key=lambda member: hashlib.blake2b(struct.pack("<q", member), key=seed).digest())

    def partners(self, node: int) -> list[int]:
        """Those that a member masks with."""
        size, place = len(self.ring), self.ring.index(node)
        count = partner_count(size)
        ahead = count // 2
        # where all are partners of all, their number may be odd
        return [self.ring[(place + step) % size] for step in range(ahead - count, ahead + 1) if step]


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=32).digest()


def _raw(values: Floats) -> bytes:
    return np.ascontiguousarray(values, dtype="<f8").tobytes()
