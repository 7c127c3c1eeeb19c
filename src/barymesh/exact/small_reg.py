"""What the exact solver does where its iteration crawls, as it does at small regularisation.

It begins again with a larger reg, which it lowers in steps: each barycenter is a good start for the next. Where the
support is small, every step is one of Newton's (methods/rounds.py), which takes tens of evaluations where Sinkhorn's
iteration takes thousands; elsewhere the accelerated iteration runs at each reg.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from barymesh.exact.nodes import NodeGroup
from barymesh.exact.rounds import at_last_reg, solve_rounds
from barymesh.exact.solver import Iteration, Solution, solve
from barymesh.gradients.logarithmic import ExactLogGradients
from barymesh.methods.rounds import Rounds
from barymesh.problem import Problem
from barymesh.status import Status

Floats = NDArray[np.float64]
Watch = Callable[[Iteration], bool | None]

# the accelerated iteration goes on to the next reg when its error is below this
STAGE_ERROR = 1e-2
# iterations after which the solver looks whether it crawls
LOOK = 100
# evaluations without a smaller error after which Newton's steps are given up: what is left is rounding
FRUITLESS = 30


def solve_small_reg(
    nodes: NodeGroup, problem: Problem, *, max_iter: int, tol: float, callback: Watch | None, before: int
) -> Solution:
    """The barycenter by way of larger regularisations; ``before``: iterations that have been made. Of the ``problem``
    everything is used but the measures."""
    method = Rounds(problem, ExactLogGradients(problem), nodes.count, from_start=True)
    nodes.reset()
    if method.newton:
        return solve_rounds(
            nodes, method, max_iter=max_iter, tol=tol, callback=callback, before=before, chosen=False,
            patience=FRUITLESS,
        )  # fmt: skip
    return _by_stages(nodes, method, max_iter, tol, callback, before)


def _by_stages(
    nodes: NodeGroup, method: Rounds, max_iter: int, tol: float, callback: Watch | None, before: int
) -> Solution:
    """The accelerated iteration, reg by reg."""
    errors: list[Floats] = []
    duals: list[Floats] = []
    for stage, reg in enumerate(method.regs):
        last = stage == method.last_stage
        done = sum(some.size for some in errors)
        nodes.use(reg)
        found = solve(
            nodes, max_iter=max_iter - done, tol=tol if last else STAGE_ERROR, callback=callback, before=before + done
        )
        errors.append(found.errors)
        duals.append(found.duals if last else np.full(found.iterations, np.nan))
        if last or found.status is not Status.CONVERGED or max_iter <= done + found.iterations:
            break
    return at_last_reg(method, found, stage, np.concatenate(errors), np.concatenate(duals))
