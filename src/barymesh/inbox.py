"""What a batch of nodes has received: the newest message of each neighbour. Engines fill it, algorithms read it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

# the row that stands for no message at all; it is zero
NOWHERE = 0


@dataclass(frozen=True)
class Inbox:
    """Messages are rows of ``rows``, their first ``width`` columns. Activation k of the batch has received the rows
    ``slots[first[k]:last[k]]``, in the order of its neighbours; NOWHERE is a neighbour not heard of.

    ``shares``: parts of the work, for the threads to share.
    """

    rows: Floats
    width: int
    slots: NDArray[np.int32]
    first: Indices
    last: Indices
    shares: int = 1

    def sum(self) -> tuple[Floats, NDArray[np.int64]]:
        """Sums ``(b, width)`` of the newest messages, and from how many neighbours ``(b,)`` they came."""
        from barymesh import inbox_kernels

        totals, heard = np.empty((self.first.size, self.width)), np.empty(self.first.size, dtype=np.int64)
        inbox_kernels.receive(self.shares, self.first, self.last, self.slots, self.rows, NOWHERE, totals, heard)
        return totals, heard
