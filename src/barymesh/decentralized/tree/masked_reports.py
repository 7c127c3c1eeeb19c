"""What nodes report with masks: that they are there, and once for each target a masked contribution."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from barymesh.decentralized.algorithm import Floats, Indices, Nodes
from barymesh.decentralized.masks.fixed_point import Words
from barymesh.decentralized.masks.round import Round
from barymesh.decentralized.masks.sums import MaskedSums, Total
from barymesh.decentralized.tree.state import TreeState
from barymesh.methods.base import Contribution
from barymesh.state import S


class MaskedReports:
    """The reports of the ``nodes`` to the ``sums``. A target has ``down`` numbers of the method, and ends with the roll
    of the members: a number for each node of the network, 0 for those that are no members."""

    def __init__(self, sums: MaskedSums, nodes: Nodes, down: int) -> None:
        self.sums, self.nodes, self.down = sums, nodes, down

    def of(
        self, state: TreeState[S], rows: Indices, beats: NDArray[np.int64], weights: Floats, contribution: Contribution
    ) -> Words:
        """``(b, up)``: the nodes' own parts of their reports. ``beats (b,)``, ``weights (b,)``: those of the nodes."""
        words = np.zeros((rows.size, self.sums.up), dtype=np.uint64)
        for place, row in enumerate(rows.tolist()):
            if state.away[row]:
                continue
            node, epoch = int(self.nodes.ids[row]), float(state.epoch[row])
            if state.number_epoch[row] != epoch:
                state.number[row] = self.sums.masks.number(node, epoch, int(beats[place]))
                state.number_epoch[row] = epoch
            if self.why_not(state, row):
                words[place] = self.sums.presence(node, float(state.number[row]))
                continue
            target, roll = np.split(state.target[row], [self.down])
            now = (epoch, float(state.root[row]), float(state.stamp[row]))
            if not np.array_equal(state.reported[row], now):
                # once and for all: two contributions with the same masks would show their difference
                parts = [part[place] for part in contribution.parts]
                error, weight = float(contribution.errors[place]), float(weights[place])
                state.report[row] = self.sums.report(node, Round(*now, target, roll), weight, error, parts)
                state.reported[row] = now
            words[place] = state.report[row]
        return words

    def roll(self, state: TreeState[S], row: int) -> Floats:
        """``(m,)``: the last roll; of zeros before there is one."""
        return state.target[row, self.down :] * float(state.stamp[row] >= 0)

    def needs_roll(self, state: TreeState[S], row: int, words: Words) -> bool:
        """Whether a new roll is to be called, after the sum ``words (up,)`` of reports at the root."""
        return self.sums.needs_roll(words, self.roll(state, row))

    def total(self, state: TreeState[S], row: int, words: Words) -> Total | None:
        """What the sum ``words (up,)`` of the reports of all members says; None if it is the sum of others."""
        return self.sums.total(words, self.roll(state, row))

    def members(self, state: TreeState[S], row: int) -> list[int]:
        """The members of the sums, by their ids; none before the roll is known."""
        return np.flatnonzero(self.roll(state, row)).tolist()

    def why_not(self, state: TreeState[S], row: int) -> str:
        """Why the node does not contribute now; empty if it does."""
        if state.away[row]:
            return "it has left"
        members, least = self.members(state, row), self.sums.masks.min_members
        if not members:
            return f"there is no roll yet; it takes {least} members"
        if len(members) < least:
            return f"the roll has {len(members)} members, and it takes {least} to hide among"
        if state.target[row, self.down + self.nodes.ids[row]] != state.number[row]:
            return "the roll does not have this node with the number that it has drawn"
        return ""
