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

**Rounds.** If the method can, the network may work in rounds: a node acts once on each target, and the root makes the
next one when all reports refer to the last. Then messages are sent only if there is news: a target to the children, a
report to the parent, and what concerns the tree to all neighbours. News that had no effect is sent again, and each node
shows from time to time that it is alive. A round that cannot be completed ends with its epoch.

**What is sent.** The sums are private: they go to the parent only. The header and the target go to all neighbours.

**Masks.** With masks (decentralized/masks) nobody can read what a node reports. An epoch begins with a *roll call*:
nodes report that they are there, each with a fresh number, and nothing else. The first target has the roll of the
members, and no step. From then on a report is a sum of masked contributions, which can be read only if each member is
in it. A node contributes once for each target, whatever happens to its measure, and sends that again until the next.

**Neighbours that lie.** Whatever passes the checks on arrival (``bounds``, ``contradiction``) leads to messages that
pass them too: docs/explanation/security.md has the proof, and says what a liar can still do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic

import numpy as np
from numpy.typing import NDArray

from barymesh.core import kernels, tree
from barymesh.decentralized.algorithm import Batch, ElasticAlgorithm, Floats, Indices, Nodes
from barymesh.decentralized.inbox import Inbox
from barymesh.decentralized.masks.fixed_point import Words
from barymesh.decentralized.masks.round import Round
from barymesh.decentralized.masks.sums import MaskedSums, Total
from barymesh.measures import Atoms
from barymesh.methods.base import UNKNOWN_ERROR, Answer, Contribution, Method, RoundMethod
from barymesh.methods.convergence import remaining_distance
from barymesh.network.topology import require_unweighted
from barymesh.state import S, State

if TYPE_CHECKING:
    from barymesh.decentralized.masks.streams import Masks

# a node that joins counts once its error is below this
ARRIVED = 0.2
# activations without a message from the parent until a node looks for another way to the root, and beats of the root
# that a child may be behind; they double where they prove too few
PATIENCE = 100
# in rounds, activations after which a node shows that it is alive to all neighbours, and to those in the tree, and so
# many more than a round takes after which it sends again what had no effect
HEARTBEAT, ALIVE, REPEAT = 64, 20, 8
# the reports of children may weigh more than all nodes by this share, for rounding
ROUNDING = 1e-9
# the checksum of a report that lacks children
MISSING_CHECK = 2.0**52
# the network turns to rounds if its distance from the barycenter, above NEGLIGIBLE, has not shrunk to the share
# PROGRESS of the least before for so many times round the loop
PROGRESS, STALLED, NEGLIGIBLE = 0.5, 20, 1e-9


@dataclass
class TreeState(State, Generic[S]):
    """``target (k, down)``, the ``own`` state of the method; all others ``(k,)``.

    The tree: ``epoch``, ``root``, ``distance``, ``parent``; ``parent_beat``, the parent's last, and ``quiet``, for how
    many activations it has been that; ``age``: activations with this root; ``patience``; ``lag``: how many beats a
    child may be behind, ``late`` and ``late_stamps``: how many are later, and the sum of their stamps; ``allowance``:
    how many epochs it may still begin or follow; ``changed``: the stamp when the measure last changed. ``away``: the
    node does not take part. ``newcomer``: it does not count yet.

    About the target: ``stamp``, ``whole``, ``done``, ``residual``; ``settled``: there was a whole target at some time;
    ``agreed``: the node's own error, or in rounds its own part of the certificate, agrees that it is done.

    Of a root, from the last time round the loop: ``checkpoint``, its beat then; ``moved``, how far the target went
    since; ``loop``, the beats that it took; ``left`` and ``rate``, see ``_remaining``; ``best`` and ``stalled``, see
    ``_turn``.

    In ``rounds``: ``waited``, activations without a sign of life from children that are awaited; ``solved``, the stamp
    that the contribution refers to, in which ``solved_epoch``; ``begun``, the beat when that target came, and ``pace``,
    the fewest beats that a round has taken in this epoch; ``sent (k, Sent)``, what was last sent.

    With masks the target ends with the roll. ``number`` of the node in the roll of ``number_epoch``; ``reported (k,
    3)``, the epoch, root and stamp of its last masked contribution, ``report (k, up)``.
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
    agreed: Floats
    checkpoint: Floats
    moved: Floats
    loop: Floats
    left: Floats
    rate: Floats
    best: Floats
    stalled: NDArray[np.int64]
    rounds: Floats
    waited: NDArray[np.int64]
    allowance: Floats
    solved: Floats
    solved_epoch: Floats
    begun: Floats
    pace: Floats
    sent: Floats
    number: Floats
    number_epoch: Floats
    reported: Floats
    report: Words


# the columns of ``sent``: fields of the last message that all neighbours got, and of the last report; the stamp of the
# last target that the children got; and the beats when each of these was sent
TREE_FIELDS = (tree.EPOCH, tree.ROOT, tree.DISTANCE, tree.PARENT, tree.AWAY)
REPORT_FIELDS = (tree.EPOCH, tree.PARENT, tree.OLDEST, tree.COVERED, tree.CHECK, tree.WEIGHT, tree.ROUNDS)
# the fields of the header that are whole numbers
WHOLE_FIELDS = (
    tree.SENDER, tree.AWAY, tree.ROOT, tree.DISTANCE, tree.PARENT, tree.BEAT, tree.STAMP, tree.WHOLE, tree.DONE,
    tree.ROUNDS, tree.OLDEST, tree.COVERED, tree.CHILDREN,
)  # fmt: skip
SENT_TREE = slice(0, len(TREE_FIELDS))
SENT_REPORT = slice(SENT_TREE.stop, SENT_TREE.stop + len(REPORT_FIELDS))
SENT_STAMP, ALL_BEAT, REPORT_BEAT, STAMP_BEAT, TREE_BEAT = range(SENT_REPORT.stop, SENT_REPORT.stop + 5)


class SpanningTree(ElasticAlgorithm[TreeState[S]]):
    """A method run over a spanning tree. ``tol``: nodes stop once all agree with the barycenter to this L1 distance; 0
    for never. ``masks``: those of the reports, for methods that work in rounds from the start; the nodes' weights and
    errors are then masked as well, and the header's WEIGHT counts nodes."""

    conserves = True

    def __init__(self, method: Method[S], nodes: Nodes, tol: float = 0.0, masks: Masks | None = None) -> None:
        require_unweighted(nodes.network, method.name)
        self.name, self.method, self.nodes = method.name, method, nodes
        self.rounds = method if isinstance(method, RoundMethod) else None
        self.selective = self.rounds is not None
        # with samples that grow there is always more to learn
        self.tol = tol if method.final else 0.0
        # the node with the smallest key is the root: that in the centre of the network, so that no way is longer than
        # it must be. No key is 0, which stands for a message that has not come
        ranks = np.empty(nodes.size)
        ranks[nodes.network.by_centrality] = np.arange(nodes.size) - nodes.size
        self.ranks, self.keys = ranks, ranks[nodes.ids]
        # what all nodes together weigh; the weights are relative to their average
        self.total = max(float(nodes.size), float(nodes.weights.sum())) * (1.0 + ROUNDING)
        self._contribution_bounds, self._target_bounds = method.contribution_bounds(), method.target_bounds()
        self.up, self.down = method.up, method.down
        self.masked: MaskedSums | None = None
        if masks is not None:
            limits = self.rounds.limits() if self.rounds is not None and self.rounds.in_rounds else None
            if self.rounds is None or limits is None:
                raise ValueError(
                    f"{method.name} has no contributions in rounds from the start, with limits, to be masked"
                )
            # the same to the last bit at all nodes, whose weights are relative to their average
            self.masked = MaskedSums(masks, limits, self.rounds.precise, nodes.size * (1.0 + ROUNDING))
            self.opaque = True
            self.rounds.rounding = self.masked.rounding
            # a target ends with the roll
            self.up, self.down = self.masked.up, method.down + nodes.size
            (lower, upper), none = self._target_bounds, np.zeros(nodes.size)
            self._target_bounds = np.concatenate([lower, none]), np.concatenate([upper, none + kernels.FAR])
        self.width = tree.HEADER + self.up + self.down
        self.private = slice(tree.HEADER, tree.HEADER + self.up)
        self._hops: dict[int, list[float]] = {}
        self._around: dict[int, frozenset[int]] = {}

    def start(self) -> TreeState[S]:
        k = self.nodes.count

        def filled(value: float) -> Floats:
            return np.full(k, float(value))

        def counts(value: int = 0) -> NDArray[np.int64]:
            return np.full(k, value, dtype=np.int64)

        return TreeState(
            own=self.method.start(k), target=np.zeros((k, self.down)), epoch=filled(1), root=self.keys.copy(),
            distance=filled(0), parent=self.nodes.ids.astype(np.int64), parent_beat=filled(-1), quiet=counts(),
            age=counts(), patience=counts(PATIENCE), lag=filled(PATIENCE), late=counts(), late_stamps=filled(0),
            changed=filled(kernels.NEVER_CHANGED), away=filled(0), newcomer=filled(0), stamp=filled(-1),
            whole=filled(0), done=filled(0), residual=filled(UNKNOWN_ERROR), settled=filled(0), agreed=filled(0),
            checkpoint=filled(-1),
            moved=filled(np.inf), loop=filled(0), left=filled(UNKNOWN_ERROR), rate=filled(1),
            best=filled(np.inf), stalled=counts(),
            rounds=filled(self.rounds is not None and self.rounds.in_rounds), waited=counts(),
            allowance=filled(np.inf), solved=filled(-1),
            solved_epoch=filled(0), begun=filled(-1), pace=filled(np.inf), sent=np.full((k, TREE_BEAT + 1), -np.inf),
            number=filled(0), number_epoch=filled(-1), reported=np.full((k, 3), -np.inf),
            report=np.zeros((k, self.up if self.masked else 0), dtype=np.uint64),
        )  # fmt: skip

    def _tree(self, state: TreeState[S]) -> tree.Tree:
        fields: Any = [getattr(state, name) for name in tree.Tree._fields[2:-2]]
        trusting = self.nodes.declared is None
        fields += [np.full(self.nodes.count, float(value)) for value in (self.nodes.size, trusting)]
        return tree.Tree(self.nodes.ids, self.keys, *fields)

    def first_messages(self, state: TreeState[S]) -> Floats:
        count = self.nodes.count
        headers, sums = np.zeros((count, tree.HEADER)), np.zeros((count, self.up))
        headers[:, tree.OLDEST] = kernels.FAR
        beats = np.full(count, -1, dtype=np.int64)
        return self._messages(state, np.arange(count), beats, headers, sums, self.method.first(state.own))

    def activate(self, state: TreeState[S], batch: Batch, inbox: Inbox) -> Floats:
        rows = batch.rows
        headers, sums = np.empty((rows.size, tree.HEADER)), np.empty((rows.size, self.up))
        kernels.update_tree(
            self._tree(state), rows, batch.counts, inbox.first, inbox.last, inbox.slots, inbox.rows, state.target,
            headers, sums, self.masked is not None,
        )  # fmt: skip
        excessive = headers[:, tree.WEIGHT] + self._public_weights(rows) > self.total
        if excessive.any():
            self._leave_out_children(headers, sums, excessive)
        in_rounds = state.rounds[rows] > 0
        fresh = self._note_targets(state, rows, batch.counts, in_rounds)
        known, others = state.stamp[rows] >= 0, rows[~in_rounds]
        free = others[self._moves(state, others)]
        if free.size:
            self.method.approach(state.own, free, state.target)
        if not in_rounds.any():
            contribution = local = self.method.local(state.own, rows, state.target, known)
        else:
            assert self.rounds is not None
            local = self.method.local(state.own, others, state.target, known[~in_rounds])
            answer = self.rounds.respond(state.own, rows[in_rounds], state.target, known[in_rounds], fresh[in_rounds])
            contribution = _merged(in_rounds, answer, local)
        self._compare(state, rows, in_rounds, contribution.errors)
        state.newcomer[rows[contribution.errors <= ARRIVED]] = 0.0
        messages = self._messages(state, rows, batch.counts, headers, sums, contribution)
        for place in np.flatnonzero((state.parent[rows] == self.nodes.ids[rows]) & ~excessive):
            act = self._next_round if in_rounds[place] else self._answer
            act(state, int(rows[place]), int(batch.counts[place]), messages[place])
        state.settled[rows] = np.maximum(state.settled[rows], state.whole[rows])
        # a root that has just turned to rounds has a target for that
        moving = self._moves(state, others) & (state.rounds[others] == 0)
        if moving.any():
            self.method.advance(state.own, others, local, state.target, np.flatnonzero(moving))
        return messages

    def _public_weights(self, rows: Indices) -> Floats:
        """``(b,)``: what nodes count in the header."""
        return np.ones(rows.size) if self.masked else self.nodes.weights[rows]

    def _moves(self, state: TreeState[S], rows: Indices) -> NDArray[np.bool_]:
        """``(b,)``: the nodes that move towards their targets: also those that are told to stop too early."""
        working = (state.done[rows] == 0) | (state.agreed[rows] == 0)
        return np.asarray(working & (state.stamp[rows] >= 0) & (state.away[rows] == 0))

    def _compare(self, state: TreeState[S], rows: Indices, in_rounds: NDArray[np.bool_], errors: Floats) -> None:
        """Whether what the nodes know themselves agrees with the decision to stop."""
        state.agreed[rows] = errors <= self.tol
        certified = rows[in_rounds & (state.done[rows] > 0)]
        if certified.size:
            assert self.rounds is not None
            state.agreed[certified] = self.rounds.agrees(state.own, certified, state.target)

    def _leave_out_children(self, headers: Floats, sums: Floats, chosen: NDArray[np.bool_]) -> None:
        """The children of the ``chosen (b,)`` nodes report more weight than all nodes of the network have. While a
        branch moves from one parent to another, that passes; otherwise one of them lies, and no sum is right."""
        headers[chosen] = 0.0
        headers[chosen, tree.OLDEST], headers[chosen, tree.CHECK] = -1.0, MISSING_CHECK
        sums[chosen] = 0.0

    def _note_targets(
        self, state: TreeState[S], rows: Indices, beats: NDArray[np.int64], in_rounds: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """``(b,)``: the nodes that have a new target to act on, in rounds. All contributions refer to the targets of
        their nodes from now on."""
        stamp, epoch = state.stamp[rows], state.epoch[rows]
        fresh = in_rounds & (stamp >= 0) & ((state.solved[rows] != stamp) | (state.solved_epoch[rows] != epoch))
        new_epoch = state.solved_epoch[rows] != epoch
        state.solved[rows], state.solved_epoch[rows] = stamp, epoch
        state.pace[rows[new_epoch]] = np.inf
        some = rows[fresh]
        # the first target of an epoch begins its first round
        took = np.where(new_epoch[fresh], np.inf, beats[fresh] - state.begun[some])
        state.pace[some], state.begun[some] = np.minimum(state.pace[some], took), beats[fresh]
        return np.asarray(fresh)

    def _messages(
        self, state: TreeState[S], rows: Indices, beats: NDArray[np.int64], headers: Floats, sums: Floats,
        contribution: Contribution,
    ) -> Floats:  # fmt: skip
        """``(b, width)``: the children's reports with the node's own added, and the last target."""
        ids = self.nodes.ids[rows]
        alone = (state.parent[rows] == ids) & (headers[:, tree.WEIGHT] == 0)
        # with masks nobody could know who counts; rounds may begin from any potentials
        uncounted = (state.newcomer[rows] > 0) & ~alone & (self.masked is None)
        counted = np.where(uncounted, 0.0, self.nodes.weights[rows])
        messages = np.empty((rows.size, self.width))
        header = messages[:, : tree.HEADER]
        header[:] = headers
        for field, values in (
            (tree.SENDER, ids), (tree.EPOCH, state.epoch[rows]), (tree.AWAY, state.away[rows]),
            (tree.ROOT, state.root[rows]), (tree.DISTANCE, state.distance[rows]),
            (tree.PARENT, state.parent[rows]), (tree.BEAT, beats), (tree.STAMP, state.stamp[rows]),
            (tree.WHOLE, state.whole[rows]), (tree.RESIDUAL, state.residual[rows]),
            (tree.DONE, state.done[rows]), (tree.ROUNDS, state.rounds[rows]),
        ):  # fmt: skip
            header[:, field] = values
        header[:, tree.WEIGHT] += 1.0 if self.masked else counted
        if self.masked is None:
            header[:, tree.ERROR] = np.maximum(header[:, tree.ERROR], contribution.errors)
        header[:, tree.OLDEST] = np.minimum(header[:, tree.OLDEST], state.stamp[rows])
        most = self._check_bound
        np.clip(header[:, tree.CHECK], -most, most, out=header[:, tree.CHECK])
        if self.masked:
            own = self._reports(self.masked, state, rows, beats, counted, contribution)
            messages[:, self.private] = (sums.view(np.uint64) + own).view(np.float64)
            messages[:, self.private.stop :] = state.target[rows]
            return messages
        kernels.write_sums_and_targets(rows, counted, sums, contribution.parts, state.target, messages)
        weight = header[:, tree.WEIGHT, None]
        lower, upper = self._contribution_bounds
        np.clip(messages[:, self.private], weight * lower, weight * upper, out=messages[:, self.private])
        return messages

    def _reports(
        self, masked: MaskedSums, state: TreeState[S], rows: Indices, beats: NDArray[np.int64], counted: Floats,
        contribution: Contribution,
    ) -> Words:  # fmt: skip
        """``(b, up)``: the nodes' own parts of their reports, with masks."""
        words = np.zeros((rows.size, self.up), dtype=np.uint64)
        for place, row in enumerate(rows.tolist()):
            if state.away[row]:
                continue
            node, epoch = int(self.nodes.ids[row]), float(state.epoch[row])
            if state.number_epoch[row] != epoch:
                state.number[row] = masked.masks.number(node, epoch, int(beats[place]))
                state.number_epoch[row] = epoch
            if self.why_not(state, row):
                words[place] = masked.presence(node, float(state.number[row]))
                continue
            target, roll = np.split(state.target[row], [self.method.down])
            now = (epoch, float(state.root[row]), float(state.stamp[row]))
            if not np.array_equal(state.reported[row], now):
                # once and for all: two contributions with the same masks would show their difference
                parts = [part[place] for part in contribution.parts]
                error, weight = float(contribution.errors[place]), float(counted[place])
                state.report[row] = masked.report(node, Round(*now, target, roll), weight, error, parts)
                state.reported[row] = now
            words[place] = state.report[row]
        return words

    def _roll(self, state: TreeState[S], row: int) -> Floats:
        """``(m,)``: the last roll; of zeros before there is one."""
        return state.target[row, self.method.down :] * float(state.stamp[row] >= 0)

    def members(self, state: TreeState[S], row: int) -> list[int]:
        """The members of the sums, with masks, by their ids; none before the roll is known."""
        return np.flatnonzero(self._roll(state, row)).tolist()

    def why_not(self, state: TreeState[S], row: int) -> str:
        """Why the node does not contribute to sums with masks now; empty if it does."""
        assert self.masked is not None
        if state.away[row]:
            return "it has left"
        members, least = self.members(state, row), self.masked.masks.min_members
        if not members:
            return f"there is no roll yet; it takes {least} members"
        if len(members) < least:
            return f"the roll has {len(members)} members, and it takes {least} to hide among"
        if state.target[row, self.method.down + self.nodes.ids[row]] != state.number[row]:
            return "the roll does not have this node with the number that it has drawn"
        return ""

    def private_receivers(self, messages: Floats) -> NDArray[np.int64]:
        parent, sender = messages[:, tree.PARENT], messages[:, tree.SENDER]
        return np.where(parent == sender, -1, parent).astype(np.int64)

    @property
    def _check_bound(self) -> float:
        # every link may lack a message, and every node its children
        return MISSING_CHECK * float(self.nodes.network.neighbours.size + self.nodes.size + 1)

    def bounds(self) -> tuple[Floats, Floats]:
        lower, upper = super().bounds()
        most, nodes = kernels.FAR, float(self.nodes.size)
        in_rounds = self.rounds is not None and (self.method.final or self.rounds.in_rounds)
        for field, least, largest in (
            (tree.SENDER, 0.0, nodes - 1), (tree.EPOCH, 0.0, kernels.LAST_EPOCH), (tree.AWAY, 0.0, 1.0),
            (tree.ROOT, -nodes, -1.0), (tree.DISTANCE, 0.0, nodes - 1), (tree.PARENT, 0.0, nodes - 1),
            (tree.BEAT, -1.0, most), (tree.STAMP, -1.0, most), (tree.WHOLE, 0.0, 1.0),
            (tree.RESIDUAL, 0.0, UNKNOWN_ERROR), (tree.DONE, 0.0, most), (tree.ROUNDS, 0.0, float(in_rounds)),
            (tree.ERROR, 0.0, UNKNOWN_ERROR + 1e-9), (tree.OLDEST, -1.0, most),
            (tree.COVERED, 0.0, 1.0), (tree.CHECK, -self._check_bound, self._check_bound),
            (tree.CHILDREN, 0.0, nodes - 1), (tree.WEIGHT, 0.0, self.total),
        ):  # fmt: skip
            lower[field], upper[field] = least, largest
        down = slice(self.private.stop, self.width)
        lower[down], upper[down] = self._target_bounds
        if self.masked is None:
            least_sum, most_sum = self._contribution_bounds
            lower[self.private], upper[self.private] = self.total * least_sum, self.total * most_sum
        return lower, upper

    def contradiction(self, sender: int, values: Floats) -> str:
        header = values[: tree.HEADER].tolist()
        for field in WHOLE_FIELDS:
            if not header[field].is_integer():
                return f"{kernels.HEADER_FIELDS[field]} is {header[field]:g}, not a whole number"
        if header[tree.SENDER] != sender:
            return f"SENDER is {header[tree.SENDER]:g}, and the message is from {sender}"
        graph, key = self.nodes.network, self.ranks[sender]
        root, distance, parent = header[tree.ROOT], header[tree.DISTANCE], int(header[tree.PARENT])
        if root == key:
            if distance != 0 or parent != sender:
                return f"it is its own root, with DISTANCE {distance:g} and PARENT {parent}"
        elif root > key:
            return f"ROOT is {root:g}, which comes after the sender's own {key:g}"
        elif parent not in self._neighbours(sender):
            return f"PARENT is {parent}, which is no neighbour of {sender}"
        elif distance < self._hops_to(int(graph.by_centrality[int(root) + graph.size]))[sender]:
            return f"DISTANCE is {distance:g}, less than the number of links to the root"
        if header[tree.CHILDREN] > len(self._neighbours(sender)):
            return f"CHILDREN is {header[tree.CHILDREN]:g}, more than it has neighbours"
        declared = None if self.nodes.declared is None else float(self.nodes.declared[sender])
        if declared is not None and not header[tree.CHILDREN] and header[tree.WEIGHT] not in (0.0, declared):
            return f"WEIGHT is {header[tree.WEIGHT]:g} without children, and the network file has {declared:g}"
        if header[tree.OLDEST] > header[tree.STAMP] or header[tree.DONE] > header[tree.STAMP] + 1:
            return "OLDEST or DONE refers to a later target than STAMP"
        if values.size == self.width and not self.masked:
            sums, weight = values[self.private], header[tree.WEIGHT]
            lower, upper = self._contribution_bounds
            if not ((sums >= weight * lower) & (sums <= weight * upper)).all():
                return f"the sums are larger than WEIGHT {weight:g} allows"
        return ""

    def _neighbours(self, node: int) -> frozenset[int]:
        if node not in self._around:
            self._around[node] = frozenset(self.nodes.network.neighbours_of(node).tolist())
        return self._around[node]

    def _hops_to(self, root: int) -> list[float]:
        """``(m,)``: the number of links on the shortest way from each node to the root."""
        if root not in self._hops:
            self._hops[root] = self.nodes.network.hops_from(root).tolist()
        return self._hops[root]

    def _answer(self, state: TreeState[S], row: int, beat: int, message: Floats) -> None:
        """The root's part: a new target from the sums over the tree, into the state and the message."""
        header = message[: tree.HEADER]
        covered = header[tree.COVERED] > 0
        incomplete = not covered and (state.settled[row] or state.newcomer[row])
        if state.away[row] or state.done[row] or incomplete:
            # the tree covers some nodes only: the old target is better than one from these
            return
        complete = bool(header[tree.OLDEST] >= state.checkpoint[row])
        average = self._average(message)
        answer = self.method.root(state.own, row, average, state.target[row], float(state.loop[row]), complete)
        if not _is_finite(answer):
            return
        if complete:
            left = state.moved[row] + header[tree.ERROR] + answer.remaining
            known = bool(header[tree.CHECK] == 0 and state.whole[row] > 0)
            state.residual[row] = self._remaining(state, row, float(left)) if known else UNKNOWN_ERROR
            # nodes that have stopped do not follow this move any more
            close = self.tol > 0 and state.residual[row] + answer.moved <= self.tol
            if self._turn(state, row, close, float(left), known):
                assert self.rounds is not None
                state.rounds[row] = 1.0
                weight = float(header[tree.WEIGHT])
                answer = self.rounds.begin(state.own, row, state.target[row], weight, close)
            elif close:
                state.done[row] = state.checkpoint[row] + 1.0
            state.loop[row] = beat - state.checkpoint[row]
            state.checkpoint[row], state.moved[row] = beat, 0.0
        state.moved[row] += answer.moved
        self._publish(state, row, beat, message, answer.target, bool(covered))

    def _turn(self, state: TreeState[S], row: int, close: bool, left: float, known: bool) -> bool:
        """Whether the network is to work in rounds from now on: to certify what it has found, or because it finds
        nothing. ``left``: the distance from the barycenter, estimated if all nodes are ``known``."""
        if self.rounds is None or not self.method.final:
            return False
        if not known:
            return close
        if left <= PROGRESS * state.best[row]:
            state.best[row], state.stalled[row] = left, 0
        else:
            state.stalled[row] += 1
        return close or (state.stalled[row] >= STALLED and left > NEGLIGIBLE)

    def _next_round(self, state: TreeState[S], row: int, beat: int, message: Floats) -> None:
        """The root's part in rounds: once all reports refer to its last target, the next one."""
        assert self.rounds is not None
        header = message[: tree.HEADER]
        late = header[tree.OLDEST] < state.stamp[row]
        if state.away[row] or state.done[row] or late or not header[tree.COVERED] > 0:
            return
        whole = bool(header[tree.CHECK] == 0)
        if self.masked and self.masked.needs_roll(message[self.private].view(np.uint64), self._roll(state, row)):
            self._call_roll(self.masked, state, row, beat, message, whole)
            return
        total = self._total(state, row, message)
        if total is None:
            return

        def enough(left: float) -> bool:
            known = whole and np.isfinite(left)
            state.residual[row] = self._remaining(state, row, left) if known else UNKNOWN_ERROR
            return bool(self.tol > 0 and state.residual[row] <= self.tol)

        answer = self.rounds.order(
            state.own, row, total.average, state.target[row] if state.stamp[row] >= 0 else None, total.weight,
            total.error, enough,
        )  # fmt: skip
        if not _is_finite(answer):
            return
        if answer.decided:
            # measures that change from now on were not part of the decision
            state.checkpoint[row] = state.stamp[row]
        if answer.finished and whole:
            if state.changed[row] >= state.checkpoint[row]:
                self.join(state, row)
                return
            state.done[row] = state.checkpoint[row] + 1.0
        self._publish(state, row, beat, message, answer.target, whole)

    def _call_roll(
        self, masked: MaskedSums, state: TreeState[S], row: int, beat: int, message: Floats, whole: bool
    ) -> None:
        """A target without a step, with the roll of those who have reported that they are there: the first of an epoch,
        or because a node has come that is not in the last."""
        assert self.rounds is not None
        roll = message[self.private].view(np.uint64)[masked.roll].astype(np.float64)
        if np.count_nonzero(roll) < masked.masks.min_members:
            return
        answer = self.rounds.begin(state.own, row, state.target[row], 0.0, close=False)
        state.target[row, self.method.down :] = roll
        self._publish(state, row, beat, message, answer.target, whole)

    def _total(self, state: TreeState[S], row: int, message: Floats) -> Total | None:
        """What the reports of all nodes say to the root; None if that cannot be read."""
        if self.masked is None:
            return Total(self._average(message), float(message[tree.WEIGHT]), float(message[tree.ERROR]))
        total = self.masked.total(message[self.private].view(np.uint64), self._roll(state, row))
        if total is None:
            return None
        return replace(total, average=np.clip(total.average, *self._contribution_bounds))

    def _publish(self, state: TreeState[S], row: int, beat: int, message: Floats, target: Floats, whole: bool) -> None:
        """The root has a new target: into its state, and into its message."""
        # with masks the roll of the members stays as it is
        target = np.clip(np.concatenate([target, state.target[row, self.method.down :]]), *self._target_bounds)
        state.target[row], state.stamp[row], state.whole[row] = target, beat, float(whole)
        message[[tree.STAMP, tree.WHOLE, tree.RESIDUAL, tree.DONE, tree.ROUNDS]] = (
            beat, state.whole[row], state.residual[row], state.done[row], state.rounds[row],
        )  # fmt: skip
        message[self.private.stop :] = target

    def _average(self, message: Floats) -> Floats:
        """The sums over the weight of all nodes in them; rounding may have moved it over its bounds."""
        return np.asarray(np.clip(message[self.private] / message[tree.WEIGHT], *self._contribution_bounds))

    def recipients(self, state: TreeState[S], batch: Batch, inbox: Inbox, messages: Floats) -> NDArray[np.bool_] | None:
        rows = batch.rows
        if self.rounds is None or not (state.rounds[rows] > 0).any():
            return None
        counts = inbox.last - inbox.first
        # for every link the place of its node in the batch, and what the neighbour has sent last
        owner = np.repeat(np.arange(rows.size), counts)
        links = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) + inbox.first[owner]
        received = inbox.rows[inbox.slots[links], : tree.HEADER].T
        epoch, root, distance = received[tree.EPOCH], received[tree.ROOT], received[tree.DISTANCE]
        own = messages[owner, : tree.HEADER].T
        beats, sent = batch.counts.astype(float), state.sent[rows]
        fields, report = messages[:, TREE_FIELDS], messages[:, REPORT_FIELDS]

        def silent(*when: int) -> Floats:
            """Activations since anything was sent to these."""
            return np.asarray(beats - sent[:, when].max(axis=1))

        # after as long as a round takes, what was sent had no effect
        again = np.where(np.isfinite(state.pace[rows]), np.minimum(state.pace[rows], ALIVE), 0.0) + REPEAT
        to_all = (sent[:, SENT_TREE] != fields).any(axis=1) | (silent(ALL_BEAT) >= HEARTBEAT)
        in_rounds = state.rounds[rows] > 0
        to_all |= ~in_rounds
        # neighbours that do not know of this epoch, or of the way to the root through this node
        closer = (own[tree.ROOT] < root) | ((own[tree.ROOT] == root) & (own[tree.DISTANCE] + 1.0 < distance))
        behind = (epoch < own[tree.EPOCH]) | ((epoch == own[tree.EPOCH]) & closer)
        behind &= (silent(ALL_BEAT, TREE_BEAT) >= REPEAT)[owner]
        ready = (messages[:, tree.OLDEST] >= messages[:, tree.STAMP]) & (state.done[rows] == 0)
        up = (sent[:, SENT_REPORT] != report).any(axis=1) | (ready & (silent(ALL_BEAT, REPORT_BEAT) >= again))
        up |= silent(ALL_BEAT, REPORT_BEAT) >= ALIVE
        down = (sent[:, SENT_STAMP] != messages[:, tree.STAMP]) | (silent(ALL_BEAT, STAMP_BEAT) >= ALIVE)
        child = (epoch == own[tree.EPOCH]) & (root == own[tree.ROOT]) & (received[tree.PARENT] == own[tree.SENDER])
        late = child & (received[tree.STAMP] < own[tree.STAMP]) & (silent(ALL_BEAT, STAMP_BEAT) >= again)[owner]
        to_parent = up[owner] & (epoch > 0) & (received[tree.SENDER] == own[tree.PARENT])
        to_children = child & (down[owner] | late)
        for what, values, when, where in (
            (SENT_TREE, fields, ALL_BEAT, to_all),
            (SENT_REPORT, report, REPORT_BEAT, up | to_all),
            (SENT_STAMP, messages[:, tree.STAMP], STAMP_BEAT, _any(to_children, owner, rows.size) | to_all),
            (None, None, TREE_BEAT, _any(behind, owner, rows.size)),
        ):
            noted = where & in_rounds
            if what is not None and values is not None:
                state.sent[rows[noted], what] = values[noted]
            state.sent[rows[noted], when] = beats[noted]
        return np.asarray(to_all[owner] | behind | to_parent | to_children)

    def _remaining(self, state: TreeState[S], row: int, left: float) -> float:
        """The remaining distance; that of one time round the loop ago has shrunk to ``left``."""
        state.rate[row], remaining = remaining_distance(left, float(state.left[row]), float(state.rate[row]))
        state.left[row] = left
        return remaining

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
        return (state.done > 0) & (state.agreed > 0) & (state.epoch > left_in) | (state.away > 0)

    def node_errors(self, state: TreeState[S]) -> Floats:
        """A node's own distance from the target, and what the root found when a target had last gone round the whole
        tree: how far the nodes were from it at most, how far it has moved since, and what it still has to go."""
        known = (state.stamp >= 0) & (state.away == 0)
        errors = np.minimum(self.method.errors(state.own) + state.residual, UNKNOWN_ERROR)
        return np.where(known, errors, UNKNOWN_ERROR)

    def duals(self, state: TreeState[S], steps: int, received: Inbox | None = None) -> Floats:
        return self.method.duals(state.own)

    def gaps(self, state: TreeState[S]) -> Floats:
        if self.rounds is None:
            return super().gaps(state)
        certified = (state.done > 0) & (state.rounds > 0)
        return np.where(certified, self.rounds.gaps(state.target), np.nan)

    def measures(self, state: TreeState[S]) -> NDArray[np.int64]:
        return self.method.measures(state.own)

    def placed(self, state: TreeState[S]) -> tuple[Floats, Floats, Floats] | None:
        return self.method.placed(state.own)

    def known_atoms(self, state: TreeState[S], rows: Indices) -> list[Atoms] | None:
        return self.method.known_atoms(state.own, rows)


def _is_finite(answer: Answer) -> bool:
    """Reports that no honest nodes can have made may have no answer."""
    return bool(np.isfinite(answer.target).all() and np.isfinite(answer.moved) and np.isfinite(answer.remaining))


def _merged(chosen: NDArray[np.bool_], some: Contribution, others: Contribution) -> Contribution:
    """The contributions of ``chosen (b,)`` nodes, and those of the others, in the order of all."""
    if chosen.all():
        return some
    parts = tuple(np.empty((chosen.size, part.shape[1])) for part in some.parts)
    errors = np.empty(chosen.size)
    for places, found in ((chosen, some), (~chosen, others)):
        errors[places] = found.errors
        for whole, part in zip(parts, found.parts, strict=True):
            whole[places] = part
    return Contribution(parts, errors)


def _any(links: NDArray[np.bool_], owner: Indices, count: int) -> NDArray[np.bool_]:
    """``(count,)``: whether any of the links of each owner is chosen."""
    return np.asarray(np.bincount(owner, links, count) > 0)
