"""What the exact solver does where its iteration crawls, as it does at small regularisation.

It begins again with a larger reg, which it lowers in steps: each barycenter is a good start for the next. Where the
support is small, every step is one of Newton's (methods/rounds.py), which takes tens of evaluations where Sinkhorn's
iteration takes thousands; elsewhere the accelerated iteration runs at each reg.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from barymesh.exact.nodes import NodeGroup
from barymesh.exact.solver import Iteration, Solution, log_normalised, solve
from barymesh.gradients.logarithmic import ExactLogGradients
from barymesh.interrupt import interruptible
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
    how = _by_newton if method.newton else _by_stages
    return how(nodes, method, max_iter, tol, callback, before)


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
    return _at_last_reg(method, found, stage, np.concatenate(errors), np.concatenate(duals))


def _at_last_reg(method: Rounds, found: Solution, stage: int, errors: Floats, duals: Floats) -> Solution:
    """A solution with the last reg, though the iteration may have ended at an earlier one."""
    nodes, status = found.nodes, found.status
    if stage < method.last_stage:
        nodes.use(method.regs[-1])
        sums = nodes.evaluate()
        log_p = log_normalised(sums.mean)
        status = Status.MAX_ITERATIONS if status is Status.CONVERGED else status
        return Solution(nodes, log_p, errors.size, nodes.distance(np.exp(log_p)), sums.value, status, errors, duals)
    return replace(found, iterations=errors.size, errors=errors, duals=duals)


def _by_newton(
    nodes: NodeGroup, method: Rounds, max_iter: int, tol: float, callback: Watch | None, before: int
) -> Solution:
    """Newton's steps: the rounds of a network, with a sum in place of the tree."""
    state, target = method.start(1), None
    errors: list[float] = []
    duals: list[float] = []
    least, fruitless = np.inf, 0
    nodes.begin_rounds()
    with interruptible() as interrupted:
        while True:
            average = nodes.respond(target).average
            report = method.report(average)
            p = np.exp(report.log_q)
            error = nodes.distance(p)
            at_last = report.stage == method.last_stage
            if at_last and error < least:
                least, fruitless = error, 0
            elif at_last:
                fruitless += 1
            errors.append(error)
            duals.append(report.merit if at_last else np.nan)
            stop = callback is not None and callback(Iteration(before + len(errors), error, duals[-1], p, nodes))
            if at_last and error <= tol:
                status = Status.CONVERGED
            elif stop:
                status = Status.STOPPED
            elif interrupted():
                status = Status.INTERRUPTED
            elif len(errors) >= max_iter or fruitless >= FRUITLESS:
                status = Status.MAX_ITERATIONS
            else:
                target = method.order(state, 0, average, target, 1.0, error, lambda left: False).target
                continue
            break
    nodes.end_rounds()
    nodes.shift(-nodes.total())
    nodes.evaluate()
    found = Solution(nodes, report.log_q, len(errors), error, duals[-1], status, np.array(errors), np.array(duals))
    return _at_last_reg(method, found, report.stage, found.errors, found.duals)
