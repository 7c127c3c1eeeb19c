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

**Neighbours that lie.** Whatever passes the checks on arrival (checks.py) leads to messages that pass them too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from barymesh.core import kernels, tree
from barymesh.decentralized.algorithm import Batch, ElasticAlgorithm, Floats, Indices, Nodes
from barymesh.decentralized.inbox import Inbox
from barymesh.decentralized.masks.sums import MaskedSums, Total
from barymesh.decentralized.tree.checks import Checks
from barymesh.decentralized.tree.masked_reports import ANSWERS, MaskedReports
from barymesh.decentralized.tree.recipients import SENT, recipients
from barymesh.decentralized.tree.state import TreeState
from barymesh.measures import Atoms
from barymesh.methods.base import UNKNOWN_ERROR, Answer, Contribution, Method, RoundMethod
from barymesh.methods.convergence import remaining_distance
from barymesh.network.topology import require_unweighted
from barymesh.record import TreePlaces
from barymesh.state import S

if TYPE_CHECKING:
    from barymesh.decentralized.masks.streams import Masks

# activations without a message from the parent until a node looks for another way to the root, and beats of the root
# that a child may be behind; they double where they prove too few. Every PATIENCE_BEATS activations the former are
# halved again: over months there are many failures, and each must be found out soon
PATIENCE, PATIENCE_BEATS = 100, 20_000
# the reports of children may weigh more than all nodes by this share, for rounding
ROUNDING = 1e-9
# the network turns to rounds if its distance from the barycenter, above NEGLIGIBLE, has not shrunk to the share
# PROGRESS of the least before for so many times round the loop
PROGRESS, STALLED, NEGLIGIBLE = 0.5, 20, 1e-9


class SpanningTree(ElasticAlgorithm[TreeState[S]]):
    """A method run over a spanning tree. ``tol``: nodes stop once all agree with the barycenter to this L1 distance; 0
    for never. ``masks``: those of the reports, for methods that work in rounds from the start; the nodes' weights and
    errors are then masked as well, and the header's WEIGHT counts nodes."""

    conserves = True

    def __init__(self, method: Method[S], nodes: Nodes, tol: float = 0.0, masks: Masks | None = None) -> None:
        require_unweighted(nodes.network, method.name)
        if nodes.declared is not None:
            method.restrict()
        self.name, self.method, self.nodes = method.name, method, nodes
        self.rounds = method if isinstance(method, RoundMethod) else None
        self.selective = self.rounds is not None
        # with samples that grow there is always more to learn
        self.tol = tol if method.final else 0.0
        # the node with the smallest key is the root: that in the centre of the network, so that no way is longer than
        # it must be. No key is 0, which stands for a message that has not come
        ranks = np.empty(nodes.size)
        ranks[nodes.network.by_centrality] = np.arange(nodes.size) - nodes.size
        self.keys = ranks[nodes.ids]
        # what all nodes together weigh; the weights are relative to their average
        self.total = max(float(nodes.size), float(nodes.weights.sum())) * (1.0 + ROUNDING)
        self._contribution_bounds, self._target_bounds = method.contribution_bounds(), method.target_bounds()
        # the size of the network, whether all nodes have one owner, and what they count in headers, for each row
        self._constants = [np.full(nodes.count, float(value)) for value in (nodes.size, nodes.declared is None)]
        self._constants.append(nodes.weights.astype(float) if masks is None else np.ones(nodes.count))
        self._views: tuple[TreeState[S], kernels.Tree] | None = None
        self.up, self.down = method.up, method.down
        self.masked: MaskedSums | None = None
        self.masked_reports: MaskedReports | None = None
        if masks is not None:
            limits = self.rounds.limits() if self.rounds is not None and self.rounds.in_rounds else None
            if self.rounds is None or limits is None:
                raise ValueError(
                    f"{method.name} has no contributions in rounds from the start, with limits, to be masked"
                )
            # the same to the last bit at all nodes, whose weights are relative to their average
            self.masked = MaskedSums(
                nodes.size, limits, self.rounds.precise, self.rounds.fixed, self.rounds.fixed_sizes,
                nodes.size * (1.0 + ROUNDING),
            )  # fmt: skip
            self.masked_reports = MaskedReports(masks, self.masked, nodes, method.down)
            self.opaque = True
            self.rounds.allow_for(self.masked.rounding, self.masked.fixed_rounding)
            # a target ends with the roll
            self.up, self.down = self.masked.up, method.down + nodes.size
            (lower, upper), none = self._target_bounds, np.zeros(nodes.size)
            self._target_bounds = np.concatenate([lower, none]), np.concatenate([upper, none + kernels.FAR])
        self.width = tree.HEADER + self.up + self.down
        self.private = slice(tree.HEADER, tree.HEADER + self.up)
        self.checks = Checks(
            nodes, ranks, self.total, self.private, self._contribution_bounds, self._target_bounds,
            method.contradiction, masked=masks is not None,
            in_rounds=self.rounds is not None and (method.final or self.rounds.in_rounds),
        )  # fmt: skip

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
            solved_epoch=filled(0), begun=filled(-1), pace=filled(np.inf), sent=np.full((k, SENT), -np.inf),
            number=filled(0), number_epoch=filled(-1), number_process=filled(-1), reported=np.full((k, 3), -np.inf),
            report=np.zeros((k, self.up if self.masked else 0), dtype=np.uint64), answers=filled(ANSWERS),
            heard=np.zeros((k, 2, int(self.nodes.degrees.max(initial=0)) if self.masked else 0)), missed=counts(-1),
            void=counts(),
        )  # fmt: skip

    def _tree(self, state: TreeState[S]) -> kernels.Tree:
        """What kernels see of the state. Its arrays stay where they are, so this is made once."""
        if self._views is None or self._views[0] is not state:
            fields: Any = [getattr(state, name) for name in tree.Tree._fields[2:-3]]
            arrays = tree.Tree(self.nodes.ids, self.keys, *fields, *self._constants)
            self._views = state, kernels.Tree(arrays)
        return self._views[1]

    def first_messages(self, state: TreeState[S]) -> Floats:
        count = self.nodes.count
        messages, findings = np.zeros((count, self.width)), np.zeros((len(kernels.FINDINGS), count), dtype=bool)
        messages[:, tree.OLDEST] = kernels.FAR
        batch = Batch(np.arange(count), np.full(count, -1), np.zeros(count, dtype=np.int64))
        sums, contribution = np.zeros((count, self.up)), self.method.first(state.own)
        self._complete(state, batch, sums, contribution, messages, findings)
        return messages

    def activate(self, state: TreeState[S], batch: Batch, inbox: Inbox) -> Floats:
        rows = batch.rows
        if np.count_nonzero(due := batch.counts % PATIENCE_BEATS == 0):
            patience = state.patience[rows[due]]
            state.patience[rows[due]] = np.where(patience > PATIENCE, patience // 2, patience)
        findings = np.empty((len(kernels.FINDINGS), rows.size), dtype=bool)
        messages, sums = np.empty((rows.size, self.width)), np.empty((rows.size, self.up))
        kernels.update_tree(
            self._tree(state), rows, batch.counts, inbox.first, inbox.last, inbox.slots, inbox.rows, state.target,
            self.total, messages, sums, self.masked is not None, findings,
        )  # fmt: skip
        if self.masked_reports:
            self.masked_reports.look_around(state, rows, inbox)
        in_rounds, fresh, known, moving = findings[: tree.EXCESSIVE]
        if np.count_nonzero(moving):
            self.method.approach(state.own, rows[moving], state.target)
        others = rows
        if not np.count_nonzero(in_rounds):
            contribution = local = self.method.local(state.own, rows, state.target, known)
        else:
            assert self.rounds is not None
            others = rows[~in_rounds]
            local = self.method.local(state.own, others, state.target, known[~in_rounds])
            answer = self.rounds.respond(state.own, rows[in_rounds], state.target, known[in_rounds], fresh[in_rounds])
            contribution = _merged(in_rounds, answer, local)
        self._complete(state, batch, sums, contribution, messages, findings)
        if others is not rows:
            self._confirm(state, rows[in_rounds])
        for place in np.flatnonzero(findings[tree.AT_ROOT]):
            act = self._next_round if in_rounds[place] else self._answer
            act(state, int(rows[place]), int(batch.counts[place]), messages[place])
        kernels.settle_nodes(self._tree(state), rows, findings)
        if np.count_nonzero(moving):
            self.method.advance(state.own, others, local, state.target, np.flatnonzero(moving[~in_rounds]))
        return messages

    def _confirm(self, state: TreeState[S], rows: Indices) -> None:
        """Whether what the nodes, which work in rounds, know themselves agrees with the decision to stop."""
        certified = rows[state.done[rows] > 0]
        if certified.size:
            assert self.rounds is not None
            state.agreed[certified] = self.rounds.agrees(state.own, certified, state.target)

    def _complete(
        self, state: TreeState[S], batch: Batch, sums: Floats, contribution: Contribution, messages: Floats,
        findings: NDArray[np.bool_],
    ) -> None:  # fmt: skip
        """The messages ``(b, width)``, of which the children's reports are known: with the nodes' own, and the last
        target."""
        rows, masked = batch.rows, self.masked_reports
        kernels.write_messages(
            self._tree(state), rows, batch.counts, contribution.errors, self.tol, contribution.parts, sums,
            *self._contribution_bounds, state.target, self.checks.largest_check, masked is not None, messages, findings,
        )  # fmt: skip
        if masked:
            own = masked.of(state, rows, batch.counts, self.nodes.weights[rows], contribution)
            messages[:, self.private] = (sums.view(np.uint64) + own).view(np.float64)

    def members(self, state: TreeState[S], row: int) -> list[int]:
        """The members of the sums, with masks, by their ids; none before the roll is known."""
        assert self.masked_reports is not None
        return self.masked_reports.members(state, row)

    def why_not(self, state: TreeState[S], row: int, named: Callable[[int], str] = "node {}".format) -> str:
        """Why the node does not contribute to sums with masks now; empty if it does. ``named``: what a node is
        called."""
        assert self.masked_reports is not None
        return self.masked_reports.why_not(state, row, named)

    def private_receivers(self, messages: Floats) -> NDArray[np.int64]:
        parent, sender = messages[:, tree.PARENT], messages[:, tree.SENDER]
        return np.where(parent == sender, -1, parent).astype(np.int64)

    def bounds(self) -> tuple[Floats, Floats]:
        return self.checks.bounds()

    def contradiction(self, sender: int, values: Floats) -> str:
        return self.checks.contradiction(sender, values)

    def recipients(self, state: TreeState[S], batch: Batch, inbox: Inbox, messages: Floats) -> NDArray[np.bool_] | None:
        if self.rounds is None or not np.count_nonzero(state.rounds[batch.rows]):
            return None
        return recipients(state, batch, inbox, messages)

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
        words = message[self.private].view(np.uint64)
        if self.masked_reports and self.masked_reports.needs_roll(state, row, words):
            self._call_roll(self.masked_reports, state, row, beat, message, whole)
            return
        total = self._total(state, row, message)
        if total is None:
            return

        def enough(left: float) -> bool:
            known = whole and np.isfinite(left)
            state.residual[row] = self._remaining(state, row, left) if known else UNKNOWN_ERROR
            return bool(self.tol > 0 and state.residual[row] <= self.tol)

        answer = self.rounds.order(
            state.own, row, total.average, state.target[row, : self.method.down] if state.stamp[row] >= 0 else None,
            total.weight, total.error, enough,
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
        self, masked: MaskedReports, state: TreeState[S], row: int, beat: int, message: Floats, whole: bool
    ) -> None:
        """A target without a step, with the roll of those who have reported that they are there: the first of an epoch,
        or because a node has come that is not in the last."""
        assert self.rounds is not None
        roll = message[self.private].view(np.uint64)[masked.sums.roll].astype(np.float64)
        if np.count_nonzero(roll) < masked.masks.min_members:
            return
        answer = self.rounds.begin(state.own, row, state.target[row, : self.method.down], 0.0, close=False)
        state.target[row, self.method.down :] = roll
        self._publish(state, row, beat, message, answer.target, whole)

    def _total(self, state: TreeState[S], row: int, message: Floats) -> Total | None:
        """What the reports of all nodes say to the root; None if that cannot be read."""
        if self.masked_reports is None:
            return Total(self._average(message), float(message[tree.WEIGHT]), float(message[tree.ERROR]))
        total = self.masked_reports.total(state, row, message[self.private].view(np.uint64))
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

    def places(self, state: TreeState[S]) -> TreePlaces:
        masked = np.full(self.nodes.count, self.masked is not None) & (state.away == 0)
        return TreePlaces(state.parent.astype(np.intp), state.epoch.copy(), state.rounds > 0, masked)

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
