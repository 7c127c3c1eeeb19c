"""What an algorithm is: a pure state machine on a batch of nodes. No clock, no network, no file; engines have those."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from barymesh.decentralized.inbox import Inbox

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

# far beyond any potential, in units of the cost or of reg
LARGEST = 1e12
# activations of a node are numbered from a multiple of this, a larger one each time it begins without its memory
LIFE = 2**32


@dataclass(frozen=True)
class Batch:
    """Nodes that act now, each once.

    ``nodes (b,)``; ``numbers (b,)``: how often each has acted before, beyond a multiple of LIFE; ``steps (b,)``: how
    many activations there were before in the whole network.
    """

    nodes: Indices
    numbers: NDArray[np.int64]
    steps: NDArray[np.int64]


class State:
    """Base of the states: dataclasses of arrays of fixed shape, first axis the node."""

    def saved(self) -> dict[str, NDArray[Any]]:
        """The arrays by name."""
        return {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]

    @classmethod
    def restored(cls, stored: dict[str, NDArray[Any]]) -> Any:
        """The state that ``saved`` gave."""
        return cls(**{name: value.copy() for name, value in stored.items()})


S = TypeVar("S", bound=State)


class Method(ABC, Generic[S]):
    """What engines need to know of every algorithm. ``width`` numbers make a message.

    ``conserves``: whether the duals end feasible, ``sum_i w_i lam_i = 0``, whatever happens. ``elastic``: whether nodes
    may join, leave and change their measures.
    """

    name: str
    width: int
    conserves: bool
    elastic = False

    @abstractmethod
    def start(self) -> S:
        """All nodes as they begin."""

    @abstractmethod
    def reset(self, state: S, node: int) -> None:
        """The node forgets everything and begins again."""

    @abstractmethod
    def duals(self, state: S, steps: int) -> Floats:
        """``lam (m, n)`` after so many activations in all."""

    def bytes(self, state: S, messages: int) -> int:
        """What so many messages took: by default each its whole width, in float64."""
        return 8 * messages * self.width

    def stopped(self, state: S) -> NDArray[np.bool_]:
        """``(m,)``: the nodes that know that the network has converged, and have stopped."""
        return np.zeros(1, dtype=bool)

    def node_errors(self, state: S) -> Floats | None:
        """``(m,)``: how far each node believes to be from the barycenter, in L1, from its own residual and its
        neighbours' messages; None if nodes cannot know."""
        return None


class Algorithm(Method[S]):
    """An asynchronous algorithm. A newer message of a node replaces an older one."""

    @abstractmethod
    def first_messages(self, state: S) -> Floats:
        """``(m, width)``: what every node has told its neighbours before time 0."""

    @abstractmethod
    def activate(self, state: S, batch: Batch, inbox: Inbox) -> Floats:
        """Let the nodes of the batch act on what they have received: change their rows of the state, and return their
        messages ``(b, width)``."""

    def bounds(self) -> tuple[Floats, Floats]:
        """``lower, upper (width,)``: no node that works as it should sends numbers outside of these."""
        return np.full(self.width, -LARGEST), np.full(self.width, LARGEST)

    def recall(self, state: S, node: int, message: Floats) -> None:
        """Put into the node's row of the state what its ``message (width,)`` tells of it, as far as ``duals`` of its
        neighbours depend on it. For engines that have the states of some nodes only."""


class Elastic(Algorithm[S]):
    """An asynchronous algorithm whose nodes may come, go and change their measures."""

    elastic = True

    @abstractmethod
    def leave(self, state: S, node: int) -> None:
        """The node says goodbye: from its next message on its neighbours do without it."""

    @abstractmethod
    def join(self, state: S, node: int) -> None:
        """The node begins to take part."""

    @abstractmethod
    def absent(self, state: S, node: int) -> None:
        """The node does not take part from the start."""

    @abstractmethod
    def change(self, state: S, node: int, measure: int) -> None:
        """The node has the measure of this number from now on."""


class Rounds(Method[S]):
    """A synchronous algorithm: all nodes send, everybody waits for everything, all nodes update."""

    @abstractmethod
    def messages(self, state: S) -> Floats:
        """``(m, width)``: what every node sends in this round."""

    @abstractmethod
    def update(self, state: S, sent: Floats, totals: Floats) -> None:
        """End the round: ``totals (m, width)`` are the sums of the neighbours' messages, ``sent`` the node's own."""
