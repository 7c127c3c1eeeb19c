"""A transport in memory that loses messages and delivers others late."""

from __future__ import annotations

import numpy as np

from barymesh.decentralized.transport import MemoryTransport


class Unreliable(MemoryTransport):
    """Loses some messages on some links, and delivers others later: any of the ``reach`` oldest ones comes next."""

    def __init__(self, network, algorithm, rng, reach=1):
        super().__init__(network, algorithm.width, algorithm.private)
        self.rng, self.reach, self.waiting = rng, reach, []

    def receive(self, batch):
        while self.waiting and self.rng.random() < 0.7:
            self._deliver(*self.waiting.pop(int(self.rng.integers(min(self.reach, len(self.waiting))))))
        return super().receive(batch)

    def send(self, batch, messages, receivers, links=None):
        self.waiting.append((batch, messages.copy(), receivers, links))

    def _deliver(self, batch, messages, receivers, links):
        rows, slots = self.rows.copy(), self.slots.copy()
        super().send(batch, messages, receivers, links)
        lost = np.flatnonzero(self.rng.random(slots.size) < 0.2)
        self.rows[1 + lost], self.slots[lost] = rows[1 + lost], slots[lost]
