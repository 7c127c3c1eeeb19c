"""Which kind of rounds a problem on a fixed support has: entropic or debiased, with masks or without."""

from __future__ import annotations

from barymesh.gradients.logarithmic import ExactLogGradients
from barymesh.methods.debiased import DebiasedRounds
from barymesh.methods.rounds import Rounds
from barymesh.methods.solved_rounds import SolvedRounds, SolvedStartRounds
from barymesh.methods.stages import has_smooth_objective
from barymesh.problem import Problem


class DebiasedSolvedRounds(DebiasedRounds, SolvedRounds):
    """The debiased barycenter from solved transports: debiasing is the root's affair."""


class DebiasedSolvedStartRounds(DebiasedRounds, SolvedStartRounds):
    """The same with a small reg."""


def chosen_rounds(problem: Problem, nodes: int, *, masked: bool = False) -> Rounds:
    """Rounds from the start, for so many ``nodes`` in all, of which the measures may be elsewhere. ``masked``: a root
    that lies is to learn as little from the sums as can be. The choice depends on the support, the cost and reg only,
    so that all nodes make the same."""
    kind: type[Rounds] = Rounds
    if masked:
        kind = SolvedRounds if has_smooth_objective(problem) else SolvedStartRounds
    if problem.debias:
        kind = {
            Rounds: DebiasedRounds, SolvedRounds: DebiasedSolvedRounds, SolvedStartRounds: DebiasedSolvedStartRounds
        }[kind]  # fmt: skip
    return kind(problem, ExactLogGradients(problem), nodes, from_start=True)
