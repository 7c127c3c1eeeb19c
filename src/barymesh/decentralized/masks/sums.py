"""Contributions as words that are masked, and sums of these as averages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from barymesh.decentralized.masks.fixed_point import FixedPoint, Floats, Words
from barymesh.decentralized.masks.round import Round
from barymesh.errors import OptionError
from barymesh.methods.base import UNKNOWN_ERROR

if TYPE_CHECKING:
    from barymesh.decentralized.masks.streams import Masks

# averages may be off by this much at most: logarithms that are off by so much change a measure by no more in TV
COARSEST = 1e-10


@dataclass(frozen=True)
class Total:
    """Of all members: the ``average (up,)`` of their contributions, the sum of their weights, and that of their
    errors, which is at least the largest."""

    average: Floats
    weight: float
    error: float


class MaskedSums:
    """The reports of nodes whose contributions have numbers of at most ``limits (up,)``, of which those in ``precise``
    decide how exact the result is. ``total``: no nodes weigh more together.

    A report has the numbers of those who are in it, one column for each node of the network, which everybody on the
    way may read; and, masked, the sums of weights, errors and contributions.
    """

    def __init__(self, masks: Masks, limits: Floats, precise: slice, total: float) -> None:
        self.masks, nodes = masks, masks.size
        if nodes < masks.min_members:
            raise OptionError(
                f"Sums over fewer than {masks.min_members} members are not sent, and the network has {nodes} nodes. "
                "Do without masks, or let more nodes take part."
            )
        # errors are not weighed: every node counts
        self._weights = FixedPoint.create(np.ones(1), total, nodes)
        self._errors = FixedPoint.create(np.full(1, UNKNOWN_ERROR + 1e-9), float(nodes), nodes)
        self._parts = FixedPoint.create(limits, total, nodes)
        self.roll = slice(0, nodes)
        self.up = nodes + 2 + limits.size
        # each node rounds by half a unit, and the weights are relative to their average
        self.rounding = float(1.0 / self._parts.scale[precise].min())
        if self.rounding > COARSEST:
            raise OptionError(
                f"With masks averages would be off by up to {self.rounding:.1g}, more than {COARSEST:g}: reg is too "
                "small compared with the costs on the support for so many nodes. Raise reg, or do without masks."
            )

    def presence(self, node: int, number: float) -> Words:
        """``(up,)``: the report of a node that says that it is there, and nothing else."""
        words = np.zeros(self.up, dtype=np.uint64)
        words[node] = int(number)
        return words

    def report(self, node: int, moment: Round, weight: float, error: float, parts: list[Floats]) -> Words:
        """``(up,)``: the contribution of a member, whose ``parts`` have not been multiplied by its weight."""
        words = self.presence(node, float(moment.roll[node]))
        words[self.roll.stop :] = np.concatenate(
            [
                self._weights.words(np.array([weight]), weight),
                self._errors.words(np.array([error]), 1.0),
                self._parts.words(weight * np.concatenate(parts), weight),
            ]
        )
        words[self.roll.stop :] += self.masks.mask(node, moment, (1, 1, *(part.size for part in parts)))
        return words

    def needs_roll(self, words: Words, roll: Floats) -> bool:
        """Whether all members of the last ``roll (m,)`` have reported, and others too, or with other numbers."""
        found = words[self.roll].astype(np.float64)
        return bool((found[roll > 0] > 0).all() and (found != roll).any())

    def total(self, words: Words, roll: Floats) -> Total | None:
        """What the sum of the reports of all members of the ``roll (m,)`` says; None if it is the sum of others."""
        if not (words[self.roll] == roll.astype(np.uint64)).all():
            return None
        first = self.roll.stop
        weight = float(self._weights.numbers(words[first : first + 1])[0])
        error = float(self._errors.numbers(words[first + 1 : first + 2])[0])
        if not weight > 0:
            return None
        return Total(self._parts.numbers(words[first + 2 :]) / weight, weight, max(error, 0.0))
