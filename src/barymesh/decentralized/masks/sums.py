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

# the sums before those of the contributions
SCALARS = ("count", "weight", "error")
# averages may be off by this much at most: logarithms that are off by so much change an entropic barycenter by no more
# in TV
COARSEST = 1e-10
# numbers that are the same in every round get random words below this, half of them negative, the same in every round.
# How a sum of them is rounded would tell something of each, and noise that changes would be averaged away. It is in
# units of the last digit of a number of the usual size
NOISE = 2**7


@dataclass(frozen=True)
class Total:
    """Of all members: the ``average (up,)`` of their contributions, the sum of their weights, and that of their
    errors, which is at least the largest."""

    average: Floats
    weight: float
    error: float


class MaskedSums:
    """The reports of ``nodes`` whose contributions have numbers of at most ``limits (up,)``, of which those in
    ``precise`` decide how exact the result is, and those that are ``fixed`` do not change from round to round, and are
    usually of these ``sizes (k,)``. ``total``: no nodes weigh more together.

    A report has the numbers of those who are in it, one column for each node of the network, which all on the way may
    read; and, masked, the count of its members, and the sums of weights, errors and contributions. The count shows
    whether the masks have cancelled: a sum of members that were sent different targets has a random one.
    """

    def __init__(self, nodes: int, limits: Floats, precise: slice, fixed: slice, sizes: Floats, total: float) -> None:
        # errors are not weighed: every node counts
        self.weights = FixedPoint.create(np.ones(1), total, nodes)
        self._errors = FixedPoint.create(np.full(1, UNKNOWN_ERROR + 1e-9), float(nodes), nodes)
        self.parts = FixedPoint.create(limits, total, nodes)
        self.fixed, self.roll = fixed, slice(0, nodes)
        self.up = nodes + len(SCALARS) + limits.size
        # each node rounds by a unit and a half, and the weights are relative to their average
        self.rounding = float(1.5 / self.parts.scale[precise].min(initial=np.inf))
        units = np.maximum(np.spacing(sizes * self.parts.scale[fixed]), 1.0)
        self.noise = (NOISE * units).astype(np.uint64)
        self.fixed_rounding = (0.5 * NOISE + 1.0) * units / self.parts.scale[fixed]
        if self.rounding > COARSEST:
            raise OptionError(
                f"With masks averages would be off by up to {self.rounding:.1g}, more than {COARSEST:g}: reg is too "
                f"small compared with the costs on the support for so many nodes. Make it at least "
                f"{_times(self.rounding)} times as large, or do without masks."
            )

    def presence(self, node: int, number: float) -> Words:
        """``(up,)``: the report of a node that says that it is there, and nothing else."""
        words = np.zeros(self.up, dtype=np.uint64)
        words[node] = int(number)
        return words

    def report(
        self, masks: Masks, node: int, moment: Round, weight: float, error: float, parts: list[Floats],
        factor: float | None = None,
    ) -> Words:  # fmt: skip
        """``(up,)``: the contribution of a member, whose ``parts`` have not been multiplied by its weight, or by the
        ``factor`` that takes its place."""
        words, factor = self.presence(node, float(moment.roll[node])), weight if factor is None else factor
        values = factor * np.concatenate(parts)
        low_bits = masks.rounding_words(node, moment, self.up - self.roll.stop)
        parts_low = low_bits[len(SCALARS) :]
        parts_low[self.fixed] = 0
        numbers = self.parts.words(values, factor, parts_low)
        noise = masks.noise_words(node, numbers[self.fixed])
        numbers[self.fixed] += noise % self.noise - self.noise // np.uint64(2)
        words[self.roll.stop :] = np.concatenate(
            [
                np.ones(1, dtype=np.uint64),
                # public, and to the last digit the same in every round
                self.weights.words(np.array([weight]), weight, np.zeros(1, dtype=np.uint64)),
                self._errors.words(np.array([error]), 1.0, low_bits[2:3]),
                numbers,
            ]
        )
        words[self.roll.stop :] += masks.mask(node, moment, (1,) * len(SCALARS) + tuple(part.size for part in parts))
        return words

    def needs_roll(self, words: Words, roll: Floats) -> bool:
        """Whether all members of the last ``roll (m,)`` have reported, and others too, or with other numbers."""
        found = words[self.roll].astype(np.float64)
        return bool((found[roll > 0] > 0).all() and (found != roll).any())

    def complete(self, words: Words, roll: Floats) -> bool:
        """Whether the sum is one of the reports of all members of the ``roll (m,)``."""
        return bool((words[self.roll] == roll.astype(np.uint64)).all())

    def total(self, words: Words, roll: Floats, declared: Floats | None = None) -> Total | None:
        """What the sum of the reports of all members of the ``roll (m,)`` says. None if it is the sum of others, if
        their masks have not cancelled, or if they do not weigh what is ``declared (m,)`` of them, where that is known:
        then they were sent different targets, or one of them has lied."""
        count, weights, errors, parts = np.split(words[self.roll.stop :], range(1, len(SCALARS) + 1))
        if not self.complete(words, roll) or count[0] != np.count_nonzero(roll):
            return None
        weight, error = float(self.weights.numbers(weights)[0]), float(self._errors.numbers(errors)[0])
        if not weight > 0 or (declared is not None and not np.isclose(weight, declared[roll > 0].sum(), rtol=1e-9)):
            return None
        return Total(self.parts.numbers(parts) / weight, weight, max(error, 0.0))


def _times(rounding: float) -> int | str:
    """By what reg must be multiplied for averages that are exact enough: they are as exact as 1 in a power of 2."""
    if not np.isfinite(rounding):
        return "a great many"
    return 1 << int(np.ceil(np.log2(rounding / COARSEST) + 0.1))
