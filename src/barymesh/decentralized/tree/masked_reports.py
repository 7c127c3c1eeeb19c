"""What nodes report with masks: that they are there, and once for each target a masked contribution."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from barymesh.core import tree
from barymesh.decentralized.algorithm import Floats, Indices, Nodes
from barymesh.decentralized.inbox import Inbox
from barymesh.decentralized.masks.fixed_point import Words
from barymesh.decentralized.masks.round import Round
from barymesh.decentralized.masks.sums import MaskedSums, Total
from barymesh.decentralized.tree.state import TreeState
from barymesh.methods.base import Contribution
from barymesh.state import S

if TYPE_CHECKING:
    from barymesh.decentralized.masks.streams import Masks


# a node contributes to so many targets at once, and to one in so many activations from then on
ANSWERS, ANSWER_BEATS = 2000.0, 100.0


class MaskedReports:
    """The reports of the ``nodes`` to the ``sums``. A target has ``down`` numbers of the method, and ends with the roll
    of the members: a number for each node of the network, 0 for those that are no members."""

    def __init__(self, masks: Masks, sums: MaskedSums, nodes: Nodes, down: int) -> None:
        self.masks, self.sums, self.nodes, self.down = masks, sums, nodes, down

    def look_around(self, state: TreeState[S], rows: Indices, inbox: Inbox) -> None:
        """Note which neighbour is there, and lacks in the roll: the sum without it could be compared with one that it
        is in. It is there if it is in the same tree, or has not been silent for longer than the patience of the node.
        An honest root waits as long before it calls the roll without it; a false one may have told it of another tree,
        or of this one too late."""
        state.answers[rows] = np.minimum(state.answers[rows] + 1.0 / ANSWER_BEATS, ANSWERS)
        for place, row in enumerate(rows.tolist()):
            around = inbox.rows[inbox.slots[inbox.first[place] : inbox.last[place]], : tree.HEADER].T
            beats, silent = state.heard[row, :, : around.shape[1]]
            silent[:] = np.where(around[tree.BEAT] == beats, silent + 1.0, 0.0)
            beats[:] = around[tree.BEAT]
            there = (around[tree.EPOCH] == state.epoch[row]) & (around[tree.ROOT] == state.root[row])
            there |= silent <= state.patience[row]
            neighbours = self.nodes.network.neighbours_of(int(self.nodes.ids[row]))
            lacking = neighbours[there & (around[tree.AWAY] == 0) & (self.roll(state, row)[neighbours] == 0)]
            state.missed[row] = lacking[0] if lacking.size else -1

    def of(
        self, state: TreeState[S], rows: Indices, beats: NDArray[np.int64], weights: Floats, contribution: Contribution
    ) -> Words:
        """``(b, up)``: the nodes' own parts of their reports. ``beats (b,)``, ``weights (b,)``: those of the nodes."""
        words = np.zeros((rows.size, self.sums.up), dtype=np.uint64)
        for place, row in enumerate(rows.tolist()):
            if state.away[row]:
                continue
            node, epoch = int(self.nodes.ids[row]), float(state.epoch[row])
            now = (epoch, float(state.root[row]), float(state.stamp[row]))
            fresh = state.number_epoch[row] == epoch and state.number_process[row] == self.masks.process
            if not fresh or _goes_back(state.reported[row], now):
                state.number[row] = self.masks.number(node, epoch, int(beats[place]))
                state.number_epoch[row], state.number_process[row] = epoch, self.masks.process
                state.reported[row] = -np.inf
            target, roll = np.split(state.target[row], [self.down])
            if np.array_equal(state.reported[row], now):
                words[place] = state.report[row]
                continue
            if self.why_not(state, row):
                words[place] = self.sums.presence(node, float(state.number[row]))
                continue
            # once and for all: two contributions with the same masks would show their difference
            parts = [part[place] for part in contribution.parts]
            error, weight = float(contribution.errors[place]), float(weights[place])
            words[place] = self.sums.report(self.masks, node, Round(*now, target, roll), weight, error, parts)
            state.report[row], state.reported[row] = words[place], now
            state.answers[row] -= 1.0
        return words

    def roll(self, state: TreeState[S], row: int) -> Floats:
        """``(m,)``: the last roll; of zeros before there is one."""
        return state.target[row, self.down :] * float(state.stamp[row] >= 0)

    def needs_roll(self, state: TreeState[S], row: int, words: Words) -> bool:
        """Whether a new roll is to be called, after the sum ``words (up,)`` of reports at the root."""
        return self.sums.needs_roll(words, self.roll(state, row))

    def total(self, state: TreeState[S], row: int, words: Words) -> Total | None:
        """What the sum ``words (up,)`` of the reports of all members says; None if it cannot be read."""
        roll = self.roll(state, row)
        found = self.sums.total(words, roll, self.nodes.declared)
        if found is None and self.sums.complete(words, roll):
            # of all members, and yet their masks do not cancel, or one has claimed another weight
            state.void[row] += 1
        return found

    def members(self, state: TreeState[S], row: int) -> list[int]:
        """The members of the sums, by their ids; none before the roll is known."""
        return np.flatnonzero(self.roll(state, row)).tolist()

    def why_not(self, state: TreeState[S], row: int, named: Callable[[int], str] = "node {}".format) -> str:
        """Why the node does not contribute now; empty if it does. ``named``: what a node is called."""
        if state.away[row]:
            return "it has left"
        members, least = self.members(state, row), self.masks.min_members
        if not members:
            return f"there is no roll of members; it takes {least}"
        if len(members) < least:
            return f"the roll has {len(members)} members, and it takes {least} to hide among"
        if state.target[row, self.down + self.nodes.ids[row]] != state.number[row]:
            return "the roll does not have this node with the number that it has drawn"
        if state.missed[row] >= 0:
            return f"the roll lacks {named(int(state.missed[row]))}, a neighbour that is there"
        if state.answers[row] < 1.0:
            return f"it has contributed to {ANSWERS:g} targets, and waits {ANSWER_BEATS:g} activations for each other"
        return ""


def _goes_back(reported: Floats, now: tuple[float, float, float]) -> bool:
    """Whether a node that has last contributed to the round ``reported (3,)`` is in an earlier one of that epoch. Roots
    only get smaller in an epoch, and stamps larger; but the last epoch of all may begin again."""
    epoch, root, stamp = reported.tolist()
    return now[0] == epoch and (-now[1], now[2]) < (-root, stamp)
