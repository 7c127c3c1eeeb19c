"""The asynchronous decentralised Sinkhorn iteration: the right barycenter, and nothing to tune.

In x = lam/reg and ``h_i = log p_i(x_i)``, Sinkhorn's iteration is ``x_i += avg(h) - h_i``: all nodes need one average.
They get it over a spanning tree, which they find and mend themselves (tree_kernels.py): a node reports to its parent
the sums over its subtree,

    H_i = w_i h_i + sum of its children's H,   X_i = w_i x_i + sum of its children's X,   W_i = w_i + ...

as last received, and the root answers with a target, which every node passes on and moves towards:

    target = H/W - gain * response(X/W),      x_i += relaxation_i * (target - h_i)

A message holds the present state of all this, so a newer one replaces an older, and loss, delay, duplicates and
reordering only make it late. Where nothing moves any more, all h_i are equal, and ``response(X/W) = 0``, so the duals
sum to zero up to a constant: that is the barycenter, exactly.

``response`` (self_transport.py) predicts how avg(h) would answer if the sum of the duals were taken out at once.
Without it (``gain * X/W`` in its place) the loop root - nodes - root would need a gain small enough for its most
sluggish mode and its longest way round, and all others would crawl: see docs/explanation/sinkhorn.md. The prediction
can overshoot where measures differ much; then the correction turns round after each time round the loop, the root sees
it, and halves the gain. And it can be too small: where the barycenter's own mass hardly mixes, it is next to nothing.
So a small share of X/W itself is added, as much as the time round the loop allows.

**Stopping.** Reports also carry the largest ``|p_i - q|_1`` (q: the target's measure), the oldest target that any of it
refers to, and a check of whether everybody is in the sums. So the root knows when all nodes are within the tolerance of
a target that no longer moves, and says so along with it. If a node is missing, nobody stops.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from barymesh.core import sinkhorn as kernels
from barymesh.core import tree
from barymesh.decentralized.algorithm import LARGEST, Batch, Elastic, Floats, State
from barymesh.decentralized.inbox import Inbox
from barymesh.decentralized.log_gradients import LogGradients
from barymesh.methods.self_transport import SelfTransport
from barymesh.network.topology import Network, require_unweighted
from barymesh.problem import Problem

# the spectrum of the map is in [0, 1]: anything below 2 is stable for a node by itself, but only 1 for nodes that act
# in step and hear of the target equally late, and their errors then grow at every other step or more often. So a step
# is LESS where the last one made the error larger, and MORE where not: these balance at 0.42 of all steps
RELAXATION, LEAST_RELAXATION = 1.6, 0.8
LESS, MORE = 0.875, 1.1
# a correction that turns round and keeps this share of its size in one time round the loop was too large
OVERSHOOT = 0.5
TURNED, STRAIGHT = -0.3, 0.3
SMALLEST_GAIN = 2.0**-10
# the share of the sum of the duals in the correction, times the root's activations in a time round the loop: 0.4 is
# stable for what a node's gradient does not answer to at all; less is better where there is no such thing. It grows
# while the sum keeps more than SLUGGISH of its size in a time round the loop
LEAST_SHARE, MOST_SHARE = 0.1, 0.4
SLUGGISH, BRISK = 0.8, 0.5
# the largest L1 distance of two measures stands for one not known; a newcomer counts once it is as close as ARRIVED
UNKNOWN, ARRIVED = 2.0, 0.2
# how fast a slow rate of convergence is forgotten, and the slowest that is believed
FORGETTING, SLOWEST, TINY = 0.9, 1.0 - 1e-3, 1e-300
# for the frugal: news is what changes by more than this share of the node's error, or the node's place in the tree
WORTH_SAYING = 0.05
PLACE = [
    tree.EPOCH, tree.AWAY, tree.ROOT, tree.PARENT, tree.WHOLE, tree.DONE, tree.WEIGHT, tree.COVERED, tree.CHECK,
    tree.CHILDREN,
]  # fmt: skip
# activations without a word from the parent until a node looks for another way to the root, and beats of the root that
# a child may lag behind; they double where they prove too few
PATIENCE = 100
# the hub of a star must be its root: a larger degree comes first, then the smaller number
DEGREE_STEP = 2.0**32


@dataclass
class SinkhornState(State):
    """``x, target, correction (m, n)``; all others ``(m,)``.

    The tree: ``epoch``, ``root``, ``distance``, ``parent``; ``parent_beat``, the parent's last, and ``quiet``, for how
    many activations it has been that; ``age``: activations with this root; ``patience``; ``lag``: how many beats a
    child may be behind, ``late`` and ``late_stamps``: how many are later, and their stamps added up; ``changed``: the
    stamp when the measure last changed. ``away``: the node does not take part. ``newcomer``: it has yet to find its
    dual before it counts.

    The root's word: ``stamp``, ``whole``, ``done``, ``residual``; ``settled``: there was a whole target at some time.

    A root's memory of the last time round the loop: ``correction``, ``checkpoint`` (its beat then), ``moved`` (how far
    the target went since), ``loop`` (beats that it took), ``drift`` (the size of X/W), ``left`` and ``rate`` (see
    ``_all_that_is_left``); ``gain`` and ``share`` are set by it.

    ``error``: the distance of the node's measure from the target, in L1; ``relaxation``: the size of its steps.
    ``measure``: the number of the measure it has, ``drawn``: batches drawn from it. ``sent`` and ``posted``: bytes and
    messages sent.

    For the frugal: ``said (m, 3 n)`` and ``said_header (m, HEADER)``, the last message with vectors; ``carry (m, 2
    n)``, what rounding has kept back of the sums.
    """

    x: Floats
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
    correction: Floats
    checkpoint: Floats
    moved: Floats
    loop: Floats
    share: Floats
    drift: Floats
    left: Floats
    rate: Floats
    gain: Floats
    error: Floats
    relaxation: Floats
    measure: NDArray[np.int64]
    drawn: NDArray[np.int64]
    sent: Floats
    posted: Floats
    said: Floats
    said_header: Floats
    carry: Floats


class Sinkhorn(Elastic[SinkhornState]):
    """``tol``: nodes stop once all agree with the barycenter to this L1 distance; 0 for never.

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
        none, counts = np.zeros(m), np.zeros(m, dtype=np.int64)
        state = SinkhornState(
            x=np.zeros(shape), target=np.zeros(shape), epoch=np.ones(m), root=self.keys, distance=none,
            parent=np.arange(m), parent_beat=np.full(m, -1.0), quiet=counts, age=counts,
            patience=np.full(m, PATIENCE), lag=np.full(m, float(PATIENCE)), late=counts, late_stamps=none,
            changed=np.full(m, tree.NEVER_CHANGED), away=none, newcomer=none, stamp=np.full(m, -1.0), whole=none,
            done=none, residual=np.full(m, UNKNOWN), settled=none, correction=np.zeros(shape),
            checkpoint=np.full(m, -1.0), moved=np.full(m, np.inf), loop=none,
            share=np.full(m, LEAST_SHARE), drift=np.full(m, np.inf), left=np.full(m, UNKNOWN),
            rate=np.ones(m), gain=np.ones(m), error=np.full(m, UNKNOWN), relaxation=np.full(m, RELAXATION),
            measure=np.arange(m), drawn=counts,
            sent=none, posted=none, said=np.zeros((m, 3 * kept)),
            said_header=np.zeros((m, tree.HEADER if self.frugal else 0)), carry=np.zeros((m, 2 * kept)),
        )  # fmt: skip
        # every field its own array
        return SinkhornState.restored(state.saved())  # type: ignore[no-any-return]

    def _tree(self, state: SinkhornState) -> tree.Tree:
        fields = (getattr(state, name) for name in tree.Tree._fields[1:])
        return tree.Tree(self.keys, *fields)

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
            self._tree(state), nodes, batch.numbers, inbox.first, inbox.last, inbox.slots, inbox.rows, state.target,
            self.frugal, headers, sums,
        )  # fmt: skip
        state.drawn[nodes] += 1
        h = self.log_gradients.at(state.x[nodes], state.measure[nodes], state.drawn[nodes])
        known = state.stamp[nodes] >= 0
        errors = np.empty(nodes.size)
        kernels.distances(nodes, known, UNKNOWN, h, state.target, errors)
        factor = np.where(errors > state.error[nodes], LESS, MORE)
        state.relaxation[nodes] = np.clip(factor * state.relaxation[nodes], LEAST_RELAXATION, RELAXATION)
        state.error[nodes] = errors
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
        kernels.move(nodes[moving], state.relaxation, h if moving.all() else h[moving], state.target, state.x)
        return messages

    def _messages(
        self, state: SinkhornState, nodes: NDArray[np.intp], beats: NDArray[np.int64], headers: Floats, sums: Floats,
        h: Floats, errors: Floats,
    ) -> Floats:  # fmt: skip
        """``(b, width)``: the children's reports with the node's own added, and the last word from the root."""
        weight = self.weights[nodes]
        alone = (state.parent[nodes] == nodes) & (headers[:, tree.WEIGHT] == 0)
        counted = np.where((state.newcomer[nodes] > 0) & ~alone, 0.0, weight)
        messages = np.empty((nodes.size, self.width))
        header = messages[:, : tree.HEADER]
        header[:] = headers
        for field, values in (
            (tree.SENDER, nodes), (tree.EPOCH, state.epoch[nodes]), (tree.AWAY, state.away[nodes]),
            (tree.ROOT, state.root[nodes]), (tree.DISTANCE, state.distance[nodes]),
            (tree.PARENT, state.parent[nodes]), (tree.BEAT, beats), (tree.STAMP, state.stamp[nodes]),
            (tree.WHOLE, state.whole[nodes]), (tree.RESIDUAL, state.residual[nodes]), (tree.DONE, state.done[nodes]),
        ):  # fmt: skip
            header[:, field] = values
        header[:, tree.WEIGHT] += counted
        header[:, tree.ERROR] = np.maximum(header[:, tree.ERROR], errors)
        header[:, tree.OLDEST] = np.minimum(header[:, tree.OLDEST], state.stamp[nodes])
        kernels.fill(nodes, counted, sums, h, state.x, state.target, tree.HEADER, messages)
        return messages

    def _count(self, state: SinkhornState, nodes: NDArray[np.intp]) -> None:
        """The target goes to all neighbours, the sums only to the parent, who alone reads them."""
        numbers = self.degrees[nodes] * (tree.HEADER + self.points) + 2 * self.points * (state.parent[nodes] != nodes)
        state.sent[nodes] += 8 * numbers
        state.posted[nodes] += self.degrees[nodes]

    def _economise(self, state: SinkhornState, nodes: NDArray[np.intp], messages: Floats, errors: Floats) -> None:
        """Send vectors only if they changed by more than a share of the node's own error, else the header alone, which
        lets the old ones stand. They are rounded to float32; what rounding keeps back of the sums goes with the next.

        This is for links that deliver what they are given, as TCP does: in virtual time a header stands for the vectors
        it refers to, even if it overtook them, or the message that brought them was lost.
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
        state.posted[nodes] += self.degrees[nodes]

    def bounds(self) -> tuple[Floats, Floats]:
        lower, upper = super().bounds()
        most, nodes = 2.0**53, float(self.size)
        for field, least, largest in (
            (tree.SENDER, 0.0, nodes - 1), (tree.EPOCH, 0.0, most), (tree.AWAY, 0.0, 1.0), (tree.ROOT, -most, most),
            (tree.DISTANCE, 0.0, nodes), (tree.PARENT, 0.0, nodes - 1), (tree.BEAT, -1.0, most),
            (tree.STAMP, -1.0, most), (tree.WHOLE, 0.0, 1.0), (tree.RESIDUAL, 0.0, UNKNOWN), (tree.DONE, 0.0, most),
            (tree.ERROR, 0.0, UNKNOWN + 1e-9), (tree.OLDEST, -1.0, tree.FAR), (tree.COVERED, 0.0, 1.0),
            (tree.CHECK, -most, most * nodes), (tree.CHILDREN, 0.0, nodes), (tree.WEIGHT, 0.0, LARGEST),
        ):  # fmt: skip
            lower[field], upper[field] = least, largest
        return lower, upper

    def bytes(self, state: SinkhornState, messages: int) -> int:
        # the network may have made copies, which nodes know nothing of
        return round(float(state.sent.sum()) * messages / max(float(state.posted.sum()), 1.0))

    def _answer(self, state: SinkhornState, node: int, beat: int, message: Floats) -> None:
        """The root's part: a new target from the sums over the tree, into the state and the message."""
        n, header = self.points, message[: tree.HEADER]
        covered = header[tree.COVERED] > 0
        in_the_making = not covered and (state.settled[node] or state.newcomer[node])
        if state.away[node] or state.done[node] or in_the_making:
            # a tree that knows some nodes only: better the old target than one of theirs
            return
        body = message[tree.HEADER :] / header[tree.WEIGHT]
        average, drift = body[:n], body[n : 2 * n]
        q = np.exp(average - average.max())
        q /= q.sum()
        drift = drift - q @ drift
        share = state.share[node] / state.loop[node] if state.loop[node] > 0 else 0.0
        correction = (1.0 - share) * self.transport.response(average, drift) + share * drift
        if header[tree.OLDEST] >= state.checkpoint[node]:
            size = float(q @ np.abs(drift))
            self._look_back(state, node, correction, size, q)
            left = state.moved[node] + header[tree.ERROR] + size
            known = header[tree.CHECK] == 0 and state.whole[node] > 0
            state.residual[node] = self._all_that_is_left(state, node, left) if known else UNKNOWN
            if self.tol > 0 and state.residual[node] <= self.tol:
                state.done[node] = state.checkpoint[node] + 1.0
            state.loop[node] = beat - state.checkpoint[node]
            state.checkpoint[node], state.correction[node], state.moved[node] = beat, correction, 0.0
        target = average - state.gain[node] * correction
        if self.frugal:
            # its constant means nothing; float32 is finest near 0, so that is where the mass should be
            target = (target - target.max()).astype(np.float32).astype(float)
        state.moved[node] += float(kernels.distance(target, state.target[node]))
        state.target[node], state.stamp[node], state.whole[node] = target, beat, float(covered)
        header[[tree.STAMP, tree.WHOLE, tree.RESIDUAL, tree.DONE]] = (
            beat, state.whole[node], state.residual[node], state.done[node],
        )  # fmt: skip
        message[tree.HEADER + 2 * n :] = target

    def _look_back(self, state: SinkhornState, node: int, correction: Floats, drift: float, q: Floats) -> None:
        """Compare the correction, and the size of the drift, with those of a time round the loop ago, and set the gain
        and the share by it."""
        if drift > SLUGGISH * state.drift[node]:
            state.share[node] = min(1.5 * state.share[node], MOST_SHARE)
        elif drift < BRISK * state.drift[node]:
            state.share[node] = max(state.share[node] / 1.5, LEAST_SHARE)
        state.drift[node] = drift
        before = state.correction[node]
        now_size, size = np.sqrt(q @ correction**2), np.sqrt(q @ before**2)
        if now_size * size == 0:
            return
        cosine = q @ (correction * before) / (now_size * size)
        if cosine < TURNED and now_size > OVERSHOOT * size:
            state.gain[node] = max(state.gain[node] / 2, SMALLEST_GAIN)
        elif cosine > STRAIGHT:
            state.gain[node] = min(state.gain[node] * 1.3, 1.0)

    def _all_that_is_left(self, state: SinkhornState, node: int, left: float) -> float:
        """What was left to do a time round the loop ago shrank to ``left``: if it goes on shrinking like that, all
        steps to come add up to ``left / (1 - rate)``. Where the iteration crawls, ``left`` alone is far too little."""
        ratio = left / max(state.left[node], TINY)
        state.rate[node] = min(max(ratio, FORGETTING * state.rate[node]), SLOWEST)
        state.left[node] = left
        return min(left / (1.0 - float(state.rate[node])), UNKNOWN)

    def reset(self, state: SinkhornState, node: int) -> None:
        away, fresh = state.away[node], self.start()
        for name, values in fresh.saved().items():
            if name not in ("measure", "sent", "posted"):
                getattr(state, name)[node] = values[node]
        (self.absent if away else self.join)(state, node)

    def leave(self, state: SinkhornState, node: int) -> None:
        state.away[node] = 1.0

    def join(self, state: SinkhornState, node: int) -> None:
        # epoch 0: it must not be taken for the node it may have been
        tree.stand_alone(self._tree(state), node, 0.0)
        state.away[node], state.newcomer[node] = 0.0, 1.0

    def absent(self, state: SinkhornState, node: int) -> None:
        state.away[node], state.epoch[node] = 1.0, 0.0

    def change(self, state: SinkhornState, node: int, measure: int) -> None:
        state.measure[node], state.drawn[node], state.changed[node] = measure, 0, state.stamp[node]
        if state.done[node] > 0:
            # the news must reach all who have stopped: a new epoch does
            self.join(state, node)

    def stopped(self, state: SinkhornState) -> NDArray[np.bool_]:
        # who has heard of a goodbye is in a later epoch than it was said in
        goodbye = np.max(state.epoch[state.away > 0], initial=0.0)
        return (state.done > 0) & (state.epoch > goodbye) | (state.away > 0)

    def node_errors(self, state: SinkhornState) -> Floats:
        """A node's own distance from the target, and what the root found when a target had gone round the whole tree
        last: how far the nodes were from it on average, how far it has moved since, and the correction still to make.
        """
        known = (state.stamp >= 0) & (state.away == 0)
        return np.where(known, np.minimum(state.error + state.residual, UNKNOWN), UNKNOWN)

    def duals(self, state: SinkhornState, steps: int) -> Floats:
        return state.x * self.reg
