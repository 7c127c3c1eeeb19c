"""A self-healing spanning tree that adds up contributions and passes targets on. It does not know what is summed.

A node reports to its parent the sums over its subtree: its own contribution times its weight, and its children's
reports as last received. The root makes a target of the average (``Method.root``), which every node passes on and works
towards (``Method.local``, ``Method.advance``). A message holds the present state of all this, so a newer one replaces
an older, and loss, delay, duplicates and reordering only make it late.

**The tree** is found and mended by the nodes themselves, from the headers of their neighbours' messages; see ``attach``
in core/tree.cpp. Every change that could make parents form a ring (a node leaves, joins, loses its memory or is silent)
begins a new epoch, in which all nodes choose their parents anew.

**Stopping.** Reports also carry the largest error of a node, the oldest target that any of it refers to, and a check of
whether all nodes are in the sums. So the root knows when all nodes are within the tolerance of a target that no longer
moves, and sends that along with it. While a node is missing, no node stops.

**What is sent.** The sums are private: they go to the parent only. The header and the target go to all neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic

import numpy as np
from numpy.typing import NDArray

from barymesh.core import kernels, tree
from barymesh.decentralized.algorithm import LARGEST, Batch, ElasticAlgorithm, Floats, Indices, Nodes
from barymesh.decentralized.inbox import Inbox
from barymesh.measures import Atoms
from barymesh.methods.base import UNKNOWN_ERROR, Contribution, Method
from barymesh.network.topology import require_unweighted
from barymesh.state import S, State

# a node that joins counts once its error is below this
ARRIVED = 0.2
# how fast a slow rate of convergence is forgotten, and the slowest that is assumed
FORGETTING, SLOWEST, TINY = 0.9, 1.0 - 1e-3, 1e-300
# activations without a message from the parent until a node looks for another way to the root, and beats of the root
# that a child may be behind; they double where they prove too few
PATIENCE = 100
# the hub of a star must be its root: a larger degree comes first, then the smaller id
DEGREE_STEP = 2.0**32


@dataclass
class TreeState(State, Generic[S]):
    """``target (k, down)``, the ``own`` state of the method; all others ``(k,)``.

    The tree: ``epoch``, ``root``, ``distance``, ``parent``; ``parent_beat``, the parent's last, and ``quiet``, for how
    many activations it has been that; ``age``: activations with this root; ``patience``; ``lag``: how many beats a
    child may be behind, ``late`` and ``late_stamps``: how many are later, and the sum of their stamps; ``changed``: the
    stamp when the measure last changed. ``away``: the node does not take part. ``newcomer``: it does not count yet.

    About the target: ``stamp``, ``whole``, ``done``, ``residual``; ``settled``: there was a whole target at some time.

    Of a root, from the last time round the loop: ``checkpoint``, its beat then; ``moved``, how far the target went
    since; ``loop``, the beats that it took; ``left`` and ``rate``, see ``_remaining``.
    """

    own: S
    target: Floats
    epoch: Floats
    root: Floats
    distance: Floats
    parent: NDArray[np.int64]
    parent_beat: Floats
    quiet: NDArray[np.int64]
    age: NDArray[np.int64]
    patience: NDArray[np.int64]
    lag: Floats
    late: NDArray[np.int64]
    late_stamps: Floats
    changed: Floats
    away: Floats
    newcomer: Floats
    stamp: Floats
    whole: Floats
    done: Floats
    residual: Floats
    settled: Floats
    checkpoint: Floats
    moved: Floats
    loop: Floats
    left: Floats
    rate: Floats


class SpanningTree(ElasticAlgorithm[TreeState[S]]):
    """A method run over a spanning tree. ``tol``: nodes stop once all agree with the barycenter to this L1 distance; 0
    for never."""

    conserves = True

    def __init__(self, method: Method[S], nodes: Nodes, tol: float = 0.0) -> None:
        require_unweighted(nodes.network, method.name)
        self.name, self.method, self.nodes = method.name, method, nodes
        self.width = tree.HEADER + method.up + method.down
        self.private = slice(tree.HEADER, tree.HEADER + method.up)
        # with samples that grow there is always more to learn
        self.tol = tol if method.final else 0.0
        self.keys = nodes.ids - DEGREE_STEP * nodes.degrees

    def start(self) -> TreeState[S]:
        k = self.nodes.count

        def filled(value: float) -> Floats:
            return np.full(k, float(value))

        def counts(value: int = 0) -> NDArray[np.int64]:
            return np.full(k, value, dtype=np.int64)

        return TreeState(
            own=self.method.start(k), target=np.zeros((k, self.method.down)), epoch=filled(1), root=self.keys.copy(),
            distance=filled(0), parent=self.nodes.ids.astype(np.int64), parent_beat=filled(-1), quiet=counts(),
            age=counts(), patience=counts(PATIENCE), lag=filled(PATIENCE), late=counts(), late_stamps=filled(0),
            changed=filled(kernels.NEVER_CHANGED), away=filled(0), newcomer=filled(0), stamp=filled(-1),
            whole=filled(0), done=filled(0), residual=filled(UNKNOWN_ERROR), settled=filled(0), checkpoint=filled(-1),
            moved=filled(np.inf), loop=filled(0), left=filled(UNKNOWN_ERROR), rate=filled(1),
        )  # fmt: skip

    def _tree(self, state: TreeState[S]) -> tree.Tree:
        fields: Any = (getattr(state, name) for name in tree.Tree._fields[2:])
        return tree.Tree(self.nodes.ids, self.keys, *fields)

    def first_messages(self, state: TreeState[S]) -> Floats:
        count = self.nodes.count
        headers, sums = np.zeros((count, tree.HEADER)), np.zeros((count, self.method.up))
        headers[:, tree.OLDEST] = kernels.FAR
        beats = np.full(count, -1, dtype=np.int64)
        return self._messages(state, np.arange(count), beats, headers, sums, self.method.first(state.own))

    def activate(self, state: TreeState[S], batch: Batch, inbox: Inbox) -> Floats:
        rows = batch.rows
        headers, sums = np.empty((rows.size, tree.HEADER)), np.empty((rows.size, self.method.up))
        kernels.update_tree(
            self._tree(state), rows, batch.counts, inbox.first, inbox.last, inbox.slots, inbox.rows, state.target,
            headers, sums,
        )  # fmt: skip
        contribution = self.method.local(state.own, rows, state.target, state.stamp[rows] >= 0)
        state.newcomer[rows[contribution.errors <= ARRIVED]] = 0.0
        messages = self._messages(state, rows, batch.counts, headers, sums, contribution)
        for place in np.flatnonzero(state.parent[rows] == self.nodes.ids[rows]):
            self._answer(state, int(rows[place]), int(batch.counts[place]), messages[place])
        state.settled[rows] = np.maximum(state.settled[rows], state.whole[rows])
        moving = (state.stamp[rows] >= 0) & (state.done[rows] == 0) & (state.away[rows] == 0)
        self.method.advance(state.own, rows, contribution, state.target, np.flatnonzero(moving))
        return messages

    def _messages(
        self, state: TreeState[S], rows: Indices, beats: NDArray[np.int64], headers: Floats, sums: Floats,
        contribution: Contribution,
    ) -> Floats:  # fmt: skip
        """``(b, width)``: the children's reports with the node's own added, and the last target."""
        ids = self.nodes.ids[rows]
        alone = (state.parent[rows] == ids) & (headers[:, tree.WEIGHT] == 0)
        counted = np.where((state.newcomer[rows] > 0) & ~alone, 0.0, self.nodes.weights[rows])
        messages = np.empty((rows.size, self.width))
        header = messages[:, : tree.HEADER]
        header[:] = headers
        for field, values in (
            (tree.SENDER, ids), (tree.EPOCH, state.epoch[rows]), (tree.AWAY, state.away[rows]),
            (tree.ROOT, state.root[rows]), (tree.DISTANCE, state.distance[rows]),
            (tree.PARENT, state.parent[rows]), (tree.BEAT, beats), (tree.STAMP, state.stamp[rows]),
            (tree.WHOLE, state.whole[rows]), (tree.RESIDUAL, state.residual[rows]),
            (tree.DONE, state.done[rows]),
        ):  # fmt: skip
            header[:, field] = values
        header[:, tree.WEIGHT] += counted
        header[:, tree.ERROR] = np.maximum(header[:, tree.ERROR], contribution.errors)
        header[:, tree.OLDEST] = np.minimum(header[:, tree.OLDEST], state.stamp[rows])
        kernels.write_sums_and_targets(rows, counted, sums, contribution.parts, state.target, messages)
        return messages

    def private_receivers(self, messages: Floats) -> NDArray[np.int64]:
        parent, sender = messages[:, tree.PARENT], messages[:, tree.SENDER]
        return np.where(parent == sender, -1, parent).astype(np.int64)

    def bounds(self) -> tuple[Floats, Floats]:
        lower, upper = super().bounds()
        most, nodes = 2.0**53, float(self.nodes.size)
        for field, least, largest in (
            (tree.SENDER, 0.0, nodes - 1), (tree.EPOCH, 0.0, most), (tree.AWAY, 0.0, 1.0),
            (tree.ROOT, -most, most), (tree.DISTANCE, 0.0, nodes), (tree.PARENT, 0.0, nodes - 1),
            (tree.BEAT, -1.0, most), (tree.STAMP, -1.0, most), (tree.WHOLE, 0.0, 1.0),
            (tree.RESIDUAL, 0.0, UNKNOWN_ERROR), (tree.DONE, 0.0, most),
            (tree.ERROR, 0.0, UNKNOWN_ERROR + 1e-9), (tree.OLDEST, -1.0, kernels.FAR),
            (tree.COVERED, 0.0, 1.0), (tree.CHECK, -most, most * nodes), (tree.CHILDREN, 0.0, nodes),
            (tree.WEIGHT, 0.0, LARGEST),
        ):  # fmt: skip
            lower[field], upper[field] = least, largest
        return lower, upper

    def _answer(self, state: TreeState[S], row: int, beat: int, message: Floats) -> None:
        """The root's part: a new target from the sums over the tree, into the state and the message."""
        header = message[: tree.HEADER]
        covered = header[tree.COVERED] > 0
        incomplete = not covered and (state.settled[row] or state.newcomer[row])
        if state.away[row] or state.done[row] or incomplete:
            # the tree covers some nodes only: the old target is better than one from these
            return
        complete = bool(header[tree.OLDEST] >= state.checkpoint[row])
        average = message[self.private] / header[tree.WEIGHT]
        answer = self.method.root(state.own, row, average, state.target[row], float(state.loop[row]), complete)
        if complete:
            left = state.moved[row] + header[tree.ERROR] + answer.remaining
            known = header[tree.CHECK] == 0 and state.whole[row] > 0
            state.residual[row] = self._remaining(state, row, float(left)) if known else UNKNOWN_ERROR
            # nodes that have stopped do not follow this move any more
            if self.tol > 0 and state.residual[row] + answer.moved <= self.tol:
                state.done[row] = state.checkpoint[row] + 1.0
            state.loop[row] = beat - state.checkpoint[row]
            state.checkpoint[row], state.moved[row] = beat, 0.0
        state.moved[row] += answer.moved
        state.target[row], state.stamp[row], state.whole[row] = answer.target, beat, float(covered)
        header[[tree.STAMP, tree.WHOLE, tree.RESIDUAL, tree.DONE]] = (
            beat, state.whole[row], state.residual[row], state.done[row],
        )  # fmt: skip
        message[self.private.stop :] = answer.target

    def _remaining(self, state: TreeState[S], row: int, left: float) -> float:
        """The remaining distance, one time round the loop ago, has shrunk to ``left``. If it keeps shrinking at this
        rate, all steps to come add up to ``left / (1 - rate)``. Where the iteration crawls, ``left`` alone is far too
        little."""
        ratio = left / max(state.left[row], TINY)
        state.rate[row] = min(max(ratio, FORGETTING * state.rate[row]), SLOWEST)
        state.left[row] = left
        return min(left / (1.0 - float(state.rate[row])), UNKNOWN_ERROR)

    def reset(self, state: TreeState[S], row: int) -> None:
        away, arrays = state.away[row], state.saved()
        for name, values in self.start().saved().items():
            if name != "own.measure":
                arrays[name][row] = values[row]
        (self.absent if away else self.join)(state, row)

    def leave(self, state: TreeState[S], row: int) -> None:
        state.away[row] = 1.0

    def join(self, state: TreeState[S], row: int) -> None:
        # epoch 0: it must not be taken for the node it may have been
        kernels.become_root(self._tree(state), row, 0.0)
        state.away[row], state.newcomer[row] = 0.0, 1.0

    def absent(self, state: TreeState[S], row: int) -> None:
        state.away[row], state.epoch[row] = 1.0, 0.0

    def change(self, state: TreeState[S], row: int, measure: int) -> None:
        self.method.change(state.own, row, measure)
        state.changed[row] = state.stamp[row]
        if state.done[row] > 0:
            # all nodes that have stopped must be informed: a new epoch reaches them
            self.join(state, row)

    def stopped(self, state: TreeState[S]) -> NDArray[np.bool_]:
        # a node that knows that another has left is in a later epoch than that node was in
        left_in = np.max(state.epoch[state.away > 0], initial=0.0)
        return (state.done > 0) & (state.epoch > left_in) | (state.away > 0)

    def node_errors(self, state: TreeState[S]) -> Floats:
        """A node's own distance from the target, and what the root found when a target had last gone round the whole
        tree: how far the nodes were from it at most, how far it has moved since, and what it still has to go."""
        known = (state.stamp >= 0) & (state.away == 0)
        errors = np.minimum(self.method.errors(state.own) + state.residual, UNKNOWN_ERROR)
        return np.where(known, errors, UNKNOWN_ERROR)

    def duals(self, state: TreeState[S], steps: int, received: Inbox | None = None) -> Floats:
        return self.method.duals(state.own)

    def measures(self, state: TreeState[S]) -> NDArray[np.int64]:
        return self.method.measures(state.own)

    def known_atoms(self, state: TreeState[S], rows: Indices) -> list[Atoms] | None:
        return self.method.known_atoms(state.own, rows)
