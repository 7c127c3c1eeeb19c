"""Which kind of rounds a problem on a fixed support has: entropic or debiased, with masks or without."""

from __future__ import annotations

from barymesh.gradients.logarithmic import ExactLogGradients
from barymesh.methods.debiased import DebiasedRounds
from barymesh.methods.masked_rounds import MaskedRounds
from barymesh.methods.rounds import Rounds
from barymesh.problem import Problem


class DebiasedMaskedRounds(DebiasedRounds, MaskedRounds):
    """The debiased barycenter with masks: debiasing is the root's affair."""


def chosen_rounds(problem: Problem, nodes: int, *, masked: bool = False) -> Rounds:
    """Rounds from the start, for so many ``nodes`` in all, of which the measures may be elsewhere. ``masked``: sums are
    not to tell where the records of a node are."""
    if problem.debias:
        kind: type[Rounds] = DebiasedMaskedRounds if masked else DebiasedRounds
    else:
        kind = MaskedRounds if masked else Rounds
    return kind(problem, ExactLogGradients(problem), nodes, from_start=True)
