"""The transport of real networks: messages to other processes go through sockets, those within one through memory."""

from __future__ import annotations

from collections.abc import Callable
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from barymesh.decentralized.algorithm import Batch, Floats, Nodes
from barymesh.decentralized.inbox import NO_MESSAGE, ListedInbox
from barymesh.decentralized.transport import Transport, chosen_links, padded
from barymesh.transport.sockets import Links, Publication
from barymesh.transport.wire import NONE, Message


class SocketTransport(Transport):
    """Keeps the newest message ``(width,)`` of every neighbour of the hosted ``nodes``.

    ``sequence``: how often the nodes have sent; messages are identified by (incarnation, sequence). ``observer``:
    called with the sender and its message, whenever one is used or sent.
    """

    def __init__(self, nodes: Nodes, links: Links, width: int, incarnation: int) -> None:
        self.nodes, self.links, self.width = nodes, links, width
        self.incarnation, self.sequence = incarnation, 0
        self.observer: Callable[[int, Floats], None] | None = None
        around = [nodes.network.neighbours_of(int(node)) for node in nodes.ids]
        known = np.unique(np.concatenate([nodes.ids, *around]))
        self.hosted = frozenset(nodes.ids.tolist())
        # row 0 is zero, and stands for a message that has not arrived
        self.row = {int(node): 1 + k for k, node in enumerate(known)}
        self.rows = np.zeros((1 + known.size, padded(width)))
        self.arrived = np.zeros(1 + known.size, dtype=bool)
        # incarnation and sequence of the newest message of each, to recognise old ones after a restart too
        self.newest = np.full((1 + known.size, 2), -1, dtype=np.int64)
        self.around = [one.tolist() for one in around]
        self.slots = np.array([self.row[int(j)] for one in around for j in one], dtype=np.int32)
        # these, with NO_MESSAGE for what has not arrived; None if that has changed
        self._filled: NDArray[np.int32] | None = None
        self.ends = np.concatenate([[0], np.cumsum([len(one) for one in around])]).astype(np.intp)

    def begin(self, incarnation: int) -> None:
        """Begin without memory of what was sent, in this incarnation."""
        self.incarnation, self.sequence = incarnation, 0

    def receive(self, batch: Batch) -> ListedInbox:
        for message in self.links.newest().values():
            self.deliver(message)
        return self.inbox(batch.rows)

    def inbox(self, rows: NDArray[np.intp]) -> ListedInbox:
        """What the nodes in these rows of the state have received before."""
        if self._filled is None:
            self._filled = np.where(self.arrived[self.slots], self.slots, NO_MESSAGE).astype(np.int32)
        return ListedInbox(self.rows, self.width, self._filled, self.ends[rows], self.ends[rows + 1])

    def drop(self) -> None:
        """Forget what has arrived."""
        self.arrived[:], self._filled = False, None

    def check(self, batch: Batch, messages: Floats) -> None:
        """NumericalError unless neighbours would accept the messages ``(b, width)``."""
        self.links.format.require_sendable(self.nodes.ids[batch.rows].tolist(), messages)

    def send(
        self, batch: Batch, messages: Floats, receivers: NDArray[np.int64], links: NDArray[np.bool_] | None = None
    ) -> None:
        self.sequence += 1
        outgoing = [
            Publication(node, message, None if receiver < 0 else receiver, to)
            for node, message, receiver, to in zip(
                self.nodes.ids[batch.rows].tolist(), messages, receivers.tolist(), self._to(batch, links), strict=True
            )
            if to
        ]
        for node, message, *_ in outgoing:
            self.deliver(Message(node, self.incarnation, self.sequence, message, NONE))
        self.links.publish_all(outgoing, self.incarnation, self.sequence)

    def _to(self, batch: Batch, links: NDArray[np.bool_] | None) -> list[list[int]]:
        """For every node of the batch the neighbours that it sends to."""
        around = [self.around[row] for row in batch.rows]
        if links is None:
            return around
        chosen = chosen_links(links, self.ends[batch.rows + 1] - self.ends[batch.rows])
        return [list(compress(ids, over)) for ids, over in zip(around, chosen, strict=True)]

    def deliver(self, message: Message) -> None:
        """The newest message of a node."""
        place = self.row.get(message.sender)
        if place is not None:
            row, gap, sent = self.rows[place], message.missing, message.values
            row[: gap.start], row[gap], row[gap.stop : self.width] = sent[: gap.start], 0.0, sent[gap.start :]
            self.newest[place] = message.mark
            if not self.arrived[place]:
                self.arrived[place], self._filled = True, None
            if self.observer is not None:
                self.observer(message.sender, row[: self.width])

    @property
    def marks(self) -> dict[int, tuple[int, int]]:
        """(incarnation, sequence) of the newest message received from each node that is hosted elsewhere."""
        found = {node: self.newest[place].tolist() for node, place in self.row.items() if node not in self.hosted}
        return {node: (life, number) for node, (life, number) in found.items() if life >= 0}
