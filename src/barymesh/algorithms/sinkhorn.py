"""The asynchronous decentralised Sinkhorn iteration: the right barycenter, and nothing to tune.

In x = lam/reg and ``h_i = log p_i(x_i)``, Sinkhorn's iteration is ``x_i += avg(h) - h_i``: all nodes need one average.
They get it over a spanning tree, which they find and mend themselves (tree_kernels.py): a node reports to its parent
the sums over its subtree,

    H_i = w_i h_i + sum of its children's H,   X_i = w_i x_i + sum of its children's X,   W_i = w_i + ...

as last received, and the root answers with a target, which every node passes on and moves towards:

    target = H/W - gain * response(X/W),      x_i += RELAXATION * (target - h_i)

A message holds the present state of all this, so a newer one replaces an older, and loss, delay, duplicates and
reordering only make it late. Where nothing moves any more, all h_i are equal, and ``response(X/W) = 0``, so the duals
sum to zero up to a constant: that is the barycenter, exactly.

``response`` (self_transport.py) predicts how avg(h) would answer if the sum of the duals were taken out at once.
Without it (``gain * X/W`` in its place) the loop root - nodes - root would need a gain small enough for its most
sluggish mode and its longest way round, and all others would crawl: see docs/explanation/sinkhorn.md. The prediction
can overshoot where measures differ much; then the correction turns round after each time round the loop, the root sees
it, and halves the gain.

**Stopping.** Reports also carry the sum of ``w_i |p_i - q|_1`` (q: the target's measure), the oldest target that any
of it refers to, and whether every neighbour of everybody is in the tree. So the root knows when all nodes are within
the tolerance of a target that no longer moves, and says so along with it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from barymesh.algorithms import tree_kernels as tree
from barymesh.algorithms.base import Batch, Elastic, Floats, State
from barymesh.algorithms.log_gradients import LogGradients
from barymesh.algorithms.self_transport import SelfTransport
from barymesh.inbox import Inbox
from barymesh.network.topology import Network, require_unweighted
from barymesh.problem import Problem

# the spectrum of the map is in [0, 1]: anything below 2 is stable for a node by itself
RELAXATION = 1.6
# a correction that turns round and keeps this share of its size in one time round the loop was too large
OVERSHOOT = 0.5
TURNED, STRAIGHT = -0.3, 0.3
SMALLEST_GAIN = 2.0**-10
# the largest L1 distance of two measures stands for one not known; a newcomer counts once it is as close as ARRIVED
UNKNOWN, ARRIVED = 2.0, 0.2
# for the frugal: news is what changes by more than this share of the node's error, or the node's place in the tree
WORTH_SAYING = 0.05
PLACE = [tree.EPOCH, tree.AWAY, tree.ROOT, tree.PARENT, tree.WHOLE, tree.DONE, tree.WEIGHT, tree.COVERED, tree.CHILDREN]
# activations without a word from the parent until a node looks for another way to the root; doubles every time
PATIENCE = 100
# the hub of a star must be its root: a larger degree comes first, then the smaller number
DEGREE_STEP = 2.0**32


@dataclass
class SinkhornState(State):
    """``x, target, correction (m, n)``; all others ``(m,)``.

    ``correction`` and ``checkpoint`` are a root's memory of the last time round the loop, ``moved`` how far its target
    went since, ``gain`` its gain. ``whole``: the target comes from a tree that covered everybody. ``settled``: it has
    had such a target at some time. ``away``: the node does not take part. ``newcomer``: it has yet to
    find its dual before it counts. ``measure``: the number of the measure it has. ``sent``: bytes
    it has sent. For the frugal: ``said (m, 3 n)`` and ``said_header (m, HEADER)``, the last message with vectors;
    ``carry (m, 2 n)``, what rounding has kept back of the sums.
    """

    x: Floats
    target: Floats
    correction: Floats
    epoch: Floats
    root: Floats
    distance: Floats
    parent: NDArray[np.int64]
    parent_beat: Floats
    stamp: Floats
    age: NDArray[np.int64]
    quiet: NDArray[np.int64]
    patience: NDArray[np.int64]
    whole: Floats
    done: Floats
    settled: Floats
    gain: Floats
    checkpoint: Floats
    moved: Floats
    away: Floats
    newcomer: Floats
    measure: NDArray[np.int64]
    sent: Floats
    carry: Floats
    said: Floats
    said_header: Floats


class Sinkhorn(Elastic[SinkhornState]):
    """``tol``: nodes stop once all agree with the barycenter to this mean L1 distance; 0 for never.

    ``frugal``: vectors go along the tree only, in float32, and only if there is news: see ``_economise``.
    """

    name = "sinkhorn"
    conserves = True

    def __init__(
        self,
        problem: Problem,
        network: Network,
        log_gradients: LogGradients,
        tol: float = 0.0,
        frugal: bool = False,
    ) -> None:
        require_unweighted(network, self.name)
        self.size, self.points = network.size, problem.support.size
        self.width = tree.HEADER + 3 * self.points
        # with samples that grow there is always more to learn
        self.log_gradients, self.tol, self.reg = log_gradients, tol if log_gradients.final else 0.0, problem.reg
        self.frugal = frugal
        self.weights = problem.weights[: network.size] * network.size
        self.transport, self.degrees = SelfTransport(problem), network.degrees
        self.keys = np.arange(network.size) - DEGREE_STEP * network.degrees

    def start(self) -> SinkhornState:
        m, shape = self.size, (self.size, self.points)
        kept = self.points if self.frugal else 0
        return SinkhornState(
            x=np.zeros(shape), target=np.zeros(shape), correction=np.zeros(shape),
            epoch=np.ones(m), root=self.keys.copy(), distance=np.zeros(m), parent=np.arange(m),
            parent_beat=np.full(m, -1.0), stamp=np.full(m, -1.0),
            age=np.zeros(m, dtype=np.int64), quiet=np.zeros(m, dtype=np.int64),
            patience=np.full(m, PATIENCE, dtype=np.int64),
            whole=np.zeros(m), done=np.zeros(m), settled=np.zeros(m), gain=np.ones(m),
            checkpoint=np.full(m, -1.0), moved=np.full(m, np.inf), away=np.zeros(m), newcomer=np.zeros(m),
            measure=np.arange(m), sent=np.zeros(m),
            carry=np.zeros((m, 2 * kept)), said=np.zeros((m, 3 * kept)),
            said_header=np.zeros((m, tree.HEADER if self.frugal else 0)),
        )  # fmt: skip

    def first_messages(self, state: SinkhornState) -> Floats:
        nodes = np.arange(self.size)
        h = self.log_gradients.at(state.x, nodes, np.zeros(self.size, dtype=np.int64))
        headers, sums = np.zeros((self.size, tree.HEADER)), np.zeros((self.size, 2 * self.points))
        headers[:, tree.OLDEST] = tree.FAR
        messages = self._messages(state, nodes, np.full(self.size, -1), headers, sums, h, np.full(self.size, UNKNOWN))
        self._count(state, nodes)
        return messages

    def activate(self, state: SinkhornState, batch: Batch, inbox: Inbox) -> Floats:
        nodes = batch.nodes
        headers, sums = np.empty((nodes.size, tree.HEADER)), np.empty((nodes.size, 2 * self.points))
        tree.listen(
            nodes, inbox.first, inbox.last, inbox.slots, inbox.rows, self.keys, state.epoch, state.root,
            state.distance, state.parent, state.parent_beat, state.stamp, state.age, state.quiet, state.patience,
            state.target, state.whole, state.done, state.away, self.frugal, headers, sums,
        )  # fmt: skip
        h = self.log_gradients.at(state.x[nodes], state.measure[nodes], batch.numbers + 1)
        known = state.stamp[nodes] >= 0
        errors = np.where(known, _distance(h, state.target[nodes]), UNKNOWN)
        state.newcomer[nodes[errors <= ARRIVED]] = 0.0
        messages = self._messages(state, nodes, batch.numbers, headers, sums, h, errors)
        for row in np.flatnonzero(state.parent[nodes] == nodes):
            self._answer(state, int(nodes[row]), int(batch.numbers[row]), messages[row])
        if self.frugal:
            self._economise(state, nodes, messages, errors)
        else:
            self._count(state, nodes)
        state.settled[nodes] = np.maximum(state.settled[nodes], state.whole[nodes])
        moving = (state.stamp[nodes] >= 0) & (state.done[nodes] == 0) & (state.away[nodes] == 0)
        step = RELAXATION * (state.target[nodes] - h)
        state.x[nodes] += np.where(moving[:, None], step - step.mean(axis=1, keepdims=True), 0.0)
        return messages

    def _messages(
        self, state: SinkhornState, nodes: NDArray[np.intp], beats: NDArray[np.int64], headers: Floats, sums: Floats,
        h: Floats, errors: Floats,
    ) -> Floats:  # fmt: skip
        """``(b, width)``: the children's reports with the node's own added, and the last word from the root."""
        n, weight = self.points, self.weights[nodes]
        alone = (state.parent[nodes] == nodes) & (headers[:, tree.WEIGHT] == 0)
        counted = np.where((state.newcomer[nodes] > 0) & ~alone, 0.0, weight)
        messages = np.empty((nodes.size, self.width))
        header = messages[:, : tree.HEADER]
        header[:] = headers
        for field, values in (
            (tree.SENDER, nodes), (tree.EPOCH, state.epoch[nodes]), (tree.AWAY, state.away[nodes]),
            (tree.ROOT, state.root[nodes]), (tree.DISTANCE, state.distance[nodes]),
            (tree.PARENT, state.parent[nodes]), (tree.BEAT, beats), (tree.STAMP, state.stamp[nodes]),
            (tree.WHOLE, state.whole[nodes]), (tree.DONE, state.done[nodes]),
        ):  # fmt: skip
            header[:, field] = values
        header[:, tree.WEIGHT] += counted
        header[:, tree.ERROR] += weight * errors
        header[:, tree.OLDEST] = np.minimum(header[:, tree.OLDEST], state.stamp[nodes])
        body = messages[:, tree.HEADER :]
        body[:, :n] = sums[:, :n] + counted[:, None] * h
        body[:, n : 2 * n] = sums[:, n:] + counted[:, None] * state.x[nodes]
        body[:, 2 * n :] = state.target[nodes]
        return messages

    def _count(self, state: SinkhornState, nodes: NDArray[np.intp]) -> None:
        """The target goes to all neighbours, the sums only to the parent, who alone reads them."""
        numbers = self.degrees[nodes] * (tree.HEADER + self.points) + 2 * self.points * (state.parent[nodes] != nodes)
        state.sent[nodes] += 8 * numbers

    def _economise(self, state: SinkhornState, nodes: NDArray[np.intp], messages: Floats, errors: Floats) -> None:
        """Send vectors only if they changed by more than a share of the node's own error, else the header alone, which
        lets the old ones stand. They are rounded to float32; what rounding keeps back of the sums goes with the next.

        A header that overtakes the vectors it refers to is taken to bring them: in virtual time they may be read up to
        a delay early.
        """
        n = self.points
        header, body = messages[:, : tree.HEADER], messages[:, tree.HEADER :]
        q = np.exp(body[:, 2 * n :] - body[:, 2 * n :].max(axis=1, keepdims=True))
        q /= q.sum(axis=1, keepdims=True)
        moved = np.abs(body - state.said[nodes]).reshape(-1, 3, n)
        moved[:, :2] /= np.where(header[:, tree.WEIGHT] > 0, header[:, tree.WEIGHT], 1.0)[:, None, None]
        change = (moved * q[:, None]).sum(axis=(1, 2))
        turned = (header[:, PLACE] != state.said_header[nodes][:, PLACE]).any(axis=1)
        news = turned | (change > WORTH_SAYING * errors)
        rounded = body.copy()
        rounded[:, : 2 * n] += state.carry[nodes]
        rounded = rounded.astype(np.float32).astype(float)
        speaking = nodes[news]
        state.carry[speaking] += body[news, : 2 * n] - rounded[news, : 2 * n]
        state.said[speaking], state.said_header[speaking] = rounded[news], header[news]
        body[:] = state.said[nodes]
        vectors = 2 * n * (state.parent[nodes] != nodes) + n * header[:, tree.CHILDREN]
        state.sent[nodes] += 8 * tree.HEADER * self.degrees[nodes] + 4 * news * vectors

    def bytes(self, state: SinkhornState, messages: int) -> int:
        return int(state.sent.sum())

    def _answer(self, state: SinkhornState, node: int, beat: int, message: Floats) -> None:
        """The root's part: a new target from the sums over the tree, into the state and the message."""
        n, header = self.points, message[: tree.HEADER]
        covered = header[tree.COVERED] > 0
        in_the_making = not covered and (state.settled[node] or state.newcomer[node])
        if state.away[node] or state.done[node] or in_the_making:
            # a tree that knows some nodes only: better the old target than one of theirs
            return
        body = message[tree.HEADER :] / header[tree.WEIGHT]
        average, correction = body[:n], self.transport.response(body[:n], body[n : 2 * n])
        q = np.exp(average - average.max())
        q /= q.sum()
        if header[tree.OLDEST] >= state.checkpoint[node]:
            self._look_back(state, node, correction, q)
            error = header[tree.ERROR] / header[tree.WEIGHT]
            still = state.moved[node] + error + float(q @ np.abs(correction)) <= self.tol
            state.done[node] = float(still and covered and state.whole[node] > 0)
            state.checkpoint[node], state.correction[node], state.moved[node] = beat, correction, 0.0
        target = average - state.gain[node] * correction
        if self.frugal:
            # its constant means nothing; float32 is finest near 0, so that is where the mass should be
            target = (target - target.max()).astype(np.float32).astype(float)
        state.moved[node] += float(_distance(target[None], state.target[node][None])[0])
        state.target[node], state.stamp[node], state.whole[node] = target, beat, float(covered)
        for field, values in ((tree.STAMP, beat), (tree.WHOLE, state.whole[node]), (tree.DONE, state.done[node])):
            header[field] = values
        message[tree.HEADER + 2 * n :] = target

    def _look_back(self, state: SinkhornState, node: int, correction: Floats, q: Floats) -> None:
        """Compare the correction with the one of a time round the loop ago, and set the gain by it."""
        before = state.correction[node]
        now_size, size = np.sqrt(q @ correction**2), np.sqrt(q @ before**2)
        if now_size * size == 0:
            return
        cosine = q @ (correction * before) / (now_size * size)
        if cosine < TURNED and now_size > OVERSHOOT * size:
            state.gain[node] = max(state.gain[node] / 2, SMALLEST_GAIN)
        elif cosine > STRAIGHT:
            state.gain[node] = min(state.gain[node] * 1.3, 1.0)

    def reset(self, state: SinkhornState, node: int) -> None:
        fresh = self.start()
        for name, values in fresh.saved().items():
            if name not in ("measure", "sent"):
                getattr(state, name)[node] = values[node]
        self.join(state, node)

    def leave(self, state: SinkhornState, node: int) -> None:
        state.away[node] = 1.0

    def join(self, state: SinkhornState, node: int) -> None:
        # epoch 0: it must not be taken for the node it may have been
        state.away[node], state.epoch[node], state.newcomer[node] = 0.0, 0.0, 1.0

    def absent(self, state: SinkhornState, node: int) -> None:
        state.away[node], state.epoch[node] = 1.0, 0.0

    def change(self, state: SinkhornState, node: int, measure: int) -> None:
        state.measure[node] = measure
        if state.done[node]:
            # the news must reach all who have stopped: a new epoch does
            epoch = state.epoch[node] + 1
            self.join(state, node)
            state.epoch[node], state.done[node], state.root[node] = epoch, 0.0, self.keys[node]
            state.distance[node], state.parent[node], state.stamp[node], state.age[node] = 0.0, node, -1.0, 0

    def stopped(self, state: SinkhornState) -> NDArray[np.bool_]:
        return (state.done > 0) | (state.away > 0)

    def duals(self, state: SinkhornState, steps: int) -> Floats:
        return state.x * self.reg


def _distance(log_p: Floats, log_q: Floats) -> Floats:
    """``sum_l |p_l - q_l|`` row by row for logarithms ``(b, n)`` of measures; the second need not be normalised."""
    top = log_q.max(axis=1, keepdims=True)
    q = np.exp(log_q - top)
    q /= q.sum(axis=1, keepdims=True)
    p = np.exp(log_p)
    return np.asarray(np.abs(p / p.sum(axis=1, keepdims=True) - q).sum(axis=1))
