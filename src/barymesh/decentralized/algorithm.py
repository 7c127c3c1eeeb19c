"""What a decentralised algorithm is: a pure state machine on a batch of nodes. No clock, no network, no file.

The state has a row for each node that this process hosts, and for no other: all nodes in a simulation, some in a
worker, one at a peer. Nodes are known by two numbers. The *row* of a hosted node is its place in the state; its *id* is
its number in the network, and the one that messages carry.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic

import numpy as np
from numpy.typing import NDArray

from barymesh.decentralized.inbox import Inbox
from barymesh.methods.base import LARGEST
from barymesh.network.topology import Network
from barymesh.record import TreePlaces
from barymesh.state import S, State

if TYPE_CHECKING:
    from barymesh.measures import Atoms

__all__ = ["LARGEST", "LIFE", "Algorithm", "AsynchronousAlgorithm", "Batch", "ElasticAlgorithm", "Nodes", "S", "State"]

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

# activations of a node are counted from a multiple of this, a larger one each time it begins without its memory
LIFE = 2**32


@dataclass(frozen=True, eq=False)
class Nodes:
    """The nodes of the ``network`` that one process hosts: their ``ids (k,)`` in ascending order, and their ``weights
    (k,)``, relative to the average over all nodes of the network. ``declared (m,)``: those of all nodes, where they are
    public."""

    network: Network
    ids: Indices
    weights: Floats
    declared: Floats | None = None

    @classmethod
    def all_of(cls, network: Network, weights: Floats) -> Nodes:
        """All nodes of the network; ``weights (m,)`` sum to 1."""
        return cls(network, np.arange(network.size), weights[: network.size] * network.size)

    @property
    def size(self) -> int:
        """Nodes of the whole network, m."""
        return self.network.size

    @property
    def count(self) -> int:
        """Nodes hosted here, k."""
        return int(self.ids.size)

    @property
    def degrees(self) -> Floats:
        """``(k,)``: the neighbours of each hosted node."""
        return self.network.degrees[self.ids]


@dataclass(frozen=True)
class Batch:
    """Nodes that act now, each once.

    ``rows (b,)`` of the state; ``counts (b,)``: how often each has acted before, beyond a multiple of LIFE; ``steps
    (b,)``: how many activations there were before in the whole network. ``places (b,)``: which of the activations that
    the transport has looked up, for transports that look ahead.
    """

    rows: Indices
    counts: NDArray[np.int64]
    steps: NDArray[np.int64]
    places: Indices | None = None


class Algorithm(ABC, Generic[S]):
    """The interface of all algorithms for engines. A message has ``width`` numbers.

    ``conserves``: whether the duals end feasible, ``sum_i w_i lam_i = 0``, whatever happens. ``elastic``: whether nodes
    may join, leave and change their measures.
    """

    name: str
    nodes: Nodes
    width: int
    conserves: bool
    elastic = False

    @abstractmethod
    def start(self) -> S:
        """The hosted nodes as they begin."""

    @abstractmethod
    def reset(self, state: S, row: int) -> None:
        """The node loses its memory and begins again."""

    @abstractmethod
    def duals(self, state: S, steps: int, received: Inbox | None = None) -> Floats:
        """``lam (k, n)`` after so many activations in the whole network. ``received``: what the hosted nodes have
        received, where some nodes are hosted elsewhere."""

    def measures(self, state: S) -> NDArray[np.int64]:
        """``(k,)``: the numbers of the measures that the nodes have, in the problem."""
        return np.arange(self.nodes.count)

    def known_atoms(self, state: S, rows: Indices) -> list[Atoms] | None:
        """What the nodes in the ``rows (b,)`` know of their measures by now; None if they know the atoms that the
        problem has."""
        return None

    def placed(self, state: S) -> tuple[Floats, Floats, Floats] | None:
        """Where the support's points move: those that the nodes have, ``(k, n, d)``, and there the values ``(k,)`` of
        their dual functions and their estimates ``(k, n)``; None where the points stay."""
        return None

    def stopped(self, state: S) -> NDArray[np.bool_]:
        """``(k,)``: the nodes that know that the network has converged, and have stopped."""
        return np.zeros(self.nodes.count, dtype=bool)

    def node_errors(self, state: S) -> Floats | None:
        """``(k,)``: each node's estimate of its L1 distance from the barycenter, from its own residual and its
        neighbours' messages; None if the method has none."""
        return None

    def gaps(self, state: S) -> Floats:
        """``(k,)``: the certified gap that each node knows; NaN if it knows none."""
        return np.full(self.nodes.count, np.nan)

    def places(self, state: S) -> TreePlaces | None:
        """Where the hosted nodes are in the tree; None if the method has none."""
        return None


class AsynchronousAlgorithm(Algorithm[S]):
    """Nodes act on the messages they have received by then. A newer message of a node replaces an older one.

    ``private``: the columns of a message that are meant for one receiver only, see ``private_receivers``. ``opaque``:
    these are masked, and may have any bits.
    ``selective``: messages may go to some neighbours only, or to none, see ``recipients``.
    """

    private = slice(0, 0)
    opaque = False
    selective = False

    @abstractmethod
    def first_messages(self, state: S) -> Floats:
        """``(k, width)``: the messages of the nodes before any of them has acted."""

    @abstractmethod
    def activate(self, state: S, batch: Batch, inbox: Inbox) -> Floats:
        """Let the nodes of the batch act on what they have received: change their rows of the state, and return their
        messages ``(b, width)``."""

    def private_receivers(self, messages: Floats) -> NDArray[np.int64]:
        """``(b,)``: the id of the neighbour that gets the private columns of each message ``(b, width)``, -1 for
        none."""
        return np.full(len(messages), -1, dtype=np.int64)

    def recipients(self, state: S, batch: Batch, inbox: Inbox, messages: Floats) -> NDArray[np.bool_] | None:
        """For the messages ``(b, width)`` that the batch has just made of the ``inbox``: over which links they are
        sent, in the order of ``inbox.slots``, one node's neighbours after the other's; None for all. What a message
        tells neighbours that do not get it is nothing that they act on."""
        return None

    def bounds(self) -> tuple[Floats, Floats]:
        """``lower, upper (width,)``: no node that works as it should sends numbers outside of these."""
        return np.full(self.width, -LARGEST), np.full(self.width, LARGEST)

    def contradiction(self, sender: int, values: Floats) -> str:
        """What is impossible in a message of the node ``sender`` whose numbers are within the bounds; empty if nothing
        is. ``values``: all of the message ``(width,)``, or all but its private columns."""
        return ""


class ElasticAlgorithm(AsynchronousAlgorithm[S]):
    """An asynchronous algorithm whose nodes may join, leave and change their measures."""

    elastic = True

    @abstractmethod
    def leave(self, state: S, row: int) -> None:
        """The node leaves: from its next message on its neighbours do without it."""

    @abstractmethod
    def join(self, state: S, row: int) -> None:
        """The node begins to take part."""

    @abstractmethod
    def absent(self, state: S, row: int) -> None:
        """The node does not take part from the start."""

    @abstractmethod
    def change(self, state: S, row: int, measure: int) -> None:
        """The node has the measure of this number from now on."""


class SynchronousAlgorithm(Algorithm[S]):
    """All nodes send, all wait for everything, all update."""

    @abstractmethod
    def messages(self, state: S) -> Floats:
        """``(m, width)``: what every node sends in this round."""

    @abstractmethod
    def update(self, state: S, sent: Floats, totals: Floats) -> None:
        """End the round: ``totals (m, width)`` are the sums of the neighbours' messages, ``sent`` the node's own."""
