"""The interface between nodes and the transport of their messages.

Three transports implement it: virtual delivery in a simulation (engines/delivery.py), sockets between processes and
organisations (engines/socket_transport.py), and memory, below. The code that runs a node is the same for all: see
``Host``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from barymesh.core.kernels import MESSAGE_COLUMNS
from barymesh.decentralized.algorithm import Batch, Floats
from barymesh.decentralized.inbox import NO_MESSAGE, Inbox, ListedInbox
from barymesh.network.topology import Network

Links = NDArray[np.bool_]


class Transport(ABC):
    """Carries the newest message of every node to its neighbours. ``broadcasts``: a message that is sent to some of
    them is sent to all."""

    broadcasts = False

    @abstractmethod
    def receive(self, batch: Batch) -> Inbox:
        """What the nodes of the batch have received by now."""

    @abstractmethod
    def send(self, batch: Batch, messages: Floats, receivers: NDArray[np.int64], links: Links | None = None) -> None:
        """Send the messages ``(b, width)`` of the nodes of the batch to their neighbours, the private columns of each
        only to the neighbour with the id ``receivers (b,)``, -1 for none. ``links``: over which, one node's neighbours
        after the other's; None for all."""


class MemoryTransport(Transport):
    """All nodes of a ``network`` in one process: what is sent has arrived. Messages have ``width`` numbers; every link
    has its own copy of the last one, with zeros in the columns ``private`` unless it is meant for the receiver."""

    def __init__(self, network: Network, width: int, private: slice = slice(0, 0)) -> None:
        self.network, self.width, self.private = network, width, private
        # row 0 is zero, and stands for a message that was never sent
        self.rows = np.zeros((1 + network.neighbours.size, padded(width)))
        self.slots = np.full(network.neighbours.size, NO_MESSAGE, dtype=np.int32)

    def receive(self, batch: Batch) -> Inbox:
        first, last = self.network.offsets[batch.rows], self.network.offsets[batch.rows + 1]
        return ListedInbox(self.rows, self.width, self.slots, first, last)

    def send(self, batch: Batch, messages: Floats, receivers: NDArray[np.int64], links: Links | None = None) -> None:
        chosen = chosen_links(links, self.network.offsets[batch.rows + 1] - self.network.offsets[batch.rows])
        for node, message, receiver, over in zip(batch.rows, messages, receivers, chosen, strict=True):
            outgoing = np.arange(self.network.offsets[node], self.network.offsets[node + 1])[over]
            # over the link from the node to j, row ``reverse`` of the list of what j receives
            reached = self.network.reverse[outgoing]
            self.rows[1 + reached, : self.width] = message
            others = reached[self.network.neighbours[outgoing] != receiver]
            self.rows[1 + others, self.private] = 0.0
            self.slots[reached] = 1 + reached


def chosen_links(links: Links | None, counts: NDArray[np.intp]) -> list[Links]:
    """For every node of a batch with so many neighbours ``(b,)`` the part of ``links`` that is its own."""
    if links is None:
        return [np.ones(count, dtype=bool) for count in counts]
    return np.split(links, np.cumsum(counts)[:-1])


def padded(width: int) -> int:
    """Columns of a table of messages: the sums over messages take whole vectors of numbers."""
    return -(-width // MESSAGE_COLUMNS) * MESSAGE_COLUMNS
