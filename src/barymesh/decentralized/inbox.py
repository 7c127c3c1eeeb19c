"""The messages that a batch of nodes has received: the newest of each neighbour. Engines fill it, algorithms read
it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from barymesh.core import kernels

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

# the row that stands for a missing message; it is zero
NO_MESSAGE = 0


class Inbox(Protocol):
    """Messages are rows of ``rows``, their first ``width`` columns. Activation k of the batch has received the rows
    ``slots[first[k]:last[k]]``, in the order of its neighbours; NO_MESSAGE is a neighbour without a message yet."""

    @property
    def rows(self) -> Floats: ...
    @property
    def width(self) -> int: ...
    @property
    def slots(self) -> NDArray[np.int32]: ...
    @property
    def first(self) -> Indices: ...
    @property
    def last(self) -> Indices: ...

    def sum(self) -> tuple[Floats, NDArray[np.int64]]:
        """Sums ``(b, width)`` of the newest messages, in the order of the neighbours, and the number ``(b,)`` of
        neighbours they came from."""


@dataclass(frozen=True)
class ListedInbox:
    """An Inbox that lists its rows."""

    rows: Floats
    width: int
    slots: NDArray[np.int32]
    first: Indices
    last: Indices

    def sum(self) -> tuple[Floats, NDArray[np.int64]]:
        totals, counts = np.empty((self.first.size, self.width)), np.empty(self.first.size, dtype=np.int64)
        kernels.sum_messages(self.first, self.last, self.slots, self.rows, NO_MESSAGE, totals, counts)
        return totals, counts
