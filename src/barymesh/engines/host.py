"""The nodes of one peer: their rows of the algorithm's state, what their neighbours last said, and what they say.

No clock, no socket, no file: the runtime has those. The algorithm is the simulator's, untouched. Its state has a row
for every node of the network; a peer uses those of its own nodes and leaves the others as they began.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Generic

import numpy as np
from numpy.typing import NDArray

from barymesh.core.inbox import LANES
from barymesh.decentralized.algorithm import LIFE, Algorithm, Batch, Floats, S
from barymesh.decentralized.build import build_algorithm
from barymesh.decentralized.inbox import NOWHERE, ListedInbox
from barymesh.errors import FileError, OptionError
from barymesh.network.topology import Network
from barymesh.problem import Problem

# so many lives can be told apart by the numbers of activations
LIVES = 2**20
DIGEST = 16


def local_algorithm(
    method: str, problem: Problem, network: Network, nodes: Sequence[int], weights: Floats, **options: Any
) -> Algorithm[Any]:
    """The method for the ``nodes`` alone, whose measures the problem has, in this order, and whose ``weights`` are
    relative to the average of all nodes. ``options`` as for ``build_algorithm``."""
    everybody = np.full(network.size, 1.0 / network.size)
    everybody[list(nodes)] = weights / network.size
    known = replace(problem, weights=everybody)
    choice = {"step": None, "batch": None, "staleness": 0, **options}
    algorithm = build_algorithm(method, known, network, own=np.array(nodes, dtype=np.intp), **choice)
    if not isinstance(algorithm, Algorithm):
        raise OptionError(
            f"{method} is synchronous: its nodes wait for one another. Real networks need another method."
        )
    return algorithm


class Host(Generic[S]):
    """``nodes``: those of this peer. ``incarnation``: larger each time the peer begins without its memory; 1 if it
    cannot have been there before. ``about``: what tells this run from others, for what is kept."""

    def __init__(
        self, algorithm: Algorithm[S], network: Network, nodes: Sequence[int], incarnation: int, about: str
    ) -> None:
        self.algorithm, self.network, self.incarnation = algorithm, network, incarnation
        self.nodes: NDArray[np.intp] = np.array(sorted(nodes), dtype=np.intp)
        self.own, self.size = frozenset(self.nodes.tolist()), network.size
        self.state: S = algorithm.start()
        if incarnation > 1:
            for node in self.own:
                # the others may know it from before, and have gone on without it
                algorithm.reset(self.state, node)
        self.numbers = np.full(self.nodes.size, (incarnation % LIVES) * LIFE, dtype=np.int64)
        self.sequence = 0
        heard_of = np.concatenate([self.nodes, *(network.neighbours_of(int(i)) for i in self.nodes)])
        known = np.unique(heard_of)
        # row 0 is zero, and stands for those not heard of
        self.row = {int(node): 1 + k for k, node in enumerate(known)}
        self.rows = np.zeros((1 + known.size, -(-algorithm.width // LANES) * LANES))
        self.heard = np.zeros(1 + known.size, dtype=bool)
        # incarnation and sequence of the newest message of each, to tell old ones after a restart too
        self.newest = np.full((1 + known.size, 2), -1, dtype=np.int64)
        places = [[self.row[int(j)] for j in network.neighbours_of(int(i))] for i in self.nodes]
        self.places = np.array([place for line in places for place in line], dtype=np.int32)
        ends = np.cumsum([len(line) for line in places])
        self.first, self.last = ends - [len(line) for line in places], ends
        layout = [(name, str(array.dtype), array.shape[1:]) for name, array in self.state.saved().items()]
        self._about = hashlib.blake2b(repr((about, layout, self.nodes.tolist())).encode(), digest_size=DIGEST).digest()

    def hear(self, sender: int, vector: Floats, mark: tuple[int, int] = (-1, -1)) -> None:
        """The newest message ``(width,)`` of a node, with its (incarnation, sequence); those of nodes that are no
        neighbours are of no use."""
        place = self.row.get(sender)
        if place is None:
            return
        self.rows[place, : self.algorithm.width] = vector
        self.heard[place], self.newest[place] = True, mark
        if sender not in self.own:
            self.algorithm.recall(self.state, sender, vector)

    def act(self, usual: int) -> dict[int, Floats]:
        """All nodes of the peer act once, on what they have heard. Returns what they say, by node.

        ``usual``: how often a node of the network has acted by now, as far as can be told from a clock; accelerated
        methods need to agree on it.
        """
        slots = np.where(self.heard[self.places], self.places, NOWHERE).astype(np.int32)
        inbox = ListedInbox(self.rows, self.algorithm.width, slots, self.first, self.last)
        steps = usual * self.size + self.nodes
        messages = self.algorithm.activate(self.state, Batch(self.nodes, self.numbers, steps), inbox)
        self.numbers += 1
        self.sequence += 1
        said = {int(node): message.copy() for node, message in zip(self.nodes, messages, strict=True)}
        for node, message in said.items():
            self.hear(node, message)
        return said

    @property
    def activations(self) -> int:
        """How often each node has acted."""
        return int(self.numbers[0] % LIFE)

    @property
    def stopped(self) -> bool:
        """Whether all nodes of the peer know that the network has converged."""
        return bool(np.resize(self.algorithm.stopped(self.state), self.size)[self.nodes].all())

    def duals(self, usual: int) -> Floats:
        """``(k, n)`` of the nodes of the peer; ``usual`` as for ``act``."""
        return self.algorithm.duals(self.state, usual * self.size)[self.nodes]

    @property
    def marks(self) -> dict[int, tuple[int, int]]:
        """(incarnation, sequence) of the newest message heard from each node of others."""
        heard = {node: self.newest[place].tolist() for node, place in self.row.items() if node not in self.own}
        return {node: (life, number) for node, (life, number) in heard.items() if life >= 0}

    def rehearse(self) -> Floats:
        """All that an activation does, on a copy that is thrown away: it compiles what is not compiled yet. Returns the
        duals ``(k, n)``."""
        twin = Host(self.algorithm, self.network, self.nodes.tolist(), 0, "")
        twin.act(0)
        twin.act(1)
        return twin.duals(1)

    def saved(self) -> bytes:
        """All that the nodes must remember to go on as if nothing had been."""
        parts = [array[self.nodes].tobytes() for array in self.state.saved().values()]
        counts = np.array([self.incarnation, self.sequence, *self.numbers], dtype="<i8")
        return b"".join([self._about, counts.tobytes(), self.newest.astype("<i8").tobytes(), *parts])

    def restore(self, kept: bytes) -> None:
        """Go on from what ``saved`` gave; with the incarnation it had."""
        if kept[:DIGEST] != self._about:
            raise FileError(
                "What is kept belongs to another run: other data, weight, nodes, network, support, reg or method. Name "
                "another folder, or remove the old one; keep its privacy.json, if there is one."
            )
        counts = np.frombuffer(kept, "<i8", 2 + self.nodes.size, DIGEST)
        self.incarnation, self.sequence = int(counts[0]), int(counts[1])
        self.numbers = counts[2:].astype(np.int64)
        place = DIGEST + counts.nbytes
        newest = np.frombuffer(kept, "<i8", self.newest.size, place)
        self.newest = newest.reshape(self.newest.shape).astype(np.int64)
        place += newest.nbytes
        arrays: dict[str, NDArray[Any]] = self.state.saved()
        for array in arrays.values():
            rows = np.frombuffer(kept, array.dtype, self.nodes.size * int(np.prod(array.shape[1:])), place)
            array[self.nodes] = rows.reshape(self.nodes.size, *array.shape[1:])
            place += rows.nbytes
