"""What the exact solver does where its iteration crawls, as it does at small regularisation.

It begins again with a larger reg, which it lowers in steps: each barycenter is a good start for the next. Where the
support is small, every step is one of Newton's (methods/rounds.py), which takes tens of evaluations where Sinkhorn's
iteration takes thousands; elsewhere the accelerated iteration runs at each reg.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from barymesh.exact.solver import Iteration, Solution, solve
from barymesh.gradients.logarithmic import ExactLogGradients
from barymesh.interrupt import interruptible
from barymesh.methods.rounds import STAGE_ERROR, Rounds
from barymesh.problem import Problem
from barymesh.status import Status

Floats = NDArray[np.float64]
Watch = Callable[[Iteration], bool | None]

# iterations after which the solver looks whether it crawls
LOOK = 100
# evaluations without a smaller error after which Newton's steps are given up: what is left is rounding
FRUITLESS = 30


def solve_small_reg(problem: Problem, *, max_iter: int, tol: float, callback: Watch | None, before: int) -> Solution:
    """The barycenter by way of larger regularisations; ``before``: iterations that have been made."""
    method = Rounds(problem, ExactLogGradients(problem), len(problem.measures), from_start=True)
    how = _by_newton if method.newton else _by_stages
    return how(method, max_iter, tol, callback, before)


def _by_stages(method: Rounds, max_iter: int, tol: float, callback: Watch | None, before: int) -> Solution:
    """The accelerated iteration, reg by reg."""
    weights, x = method.problem.weights, None
    errors: list[Floats] = []
    duals: list[Floats] = []
    for stage, reg in enumerate(method.regs):
        last = stage == method.last_stage
        done = sum(some.size for some in errors)
        found = solve(
            method.transports.oracle(stage), weights, max_iter=max_iter - done, tol=tol if last else STAGE_ERROR,
            start=x, callback=callback, before=before + done,
        )  # fmt: skip
        errors.append(found.errors)
        duals.append(found.duals if last else np.full(found.iterations, np.nan))
        if last or found.status is not Status.CONVERGED or max_iter <= done + found.iterations:
            break
        x = found.x * (reg / method.regs[stage + 1])
    return _at_last_reg(method, found, stage, np.concatenate(errors), np.concatenate(duals))


def _at_last_reg(method: Rounds, found: Solution, stage: int, errors: Floats, duals: Floats) -> Solution:
    """A solution with the last reg, though the iteration may have ended at an earlier one."""
    x, weights = found.x * (method.regs[stage] / method.regs[-1]), method.problem.weights
    status = found.status
    if stage < method.last_stage:
        value, log_p = method.transports.oracle(method.last_stage).evaluate(x)
        mean = weights @ log_p
        p = np.exp(mean - mean.max())
        p /= p.sum()
        error = float(weights @ np.abs(np.exp(log_p) - p).sum(axis=1))
        status = Status.MAX_ITERATIONS if status is Status.CONVERGED else status
        return Solution(x, log_p, p, errors.size, error, float(weights @ value), status, errors, duals)
    return Solution(x, found.log_p, found.p, errors.size, found.error, found.dual, status, errors, duals)


def _by_newton(method: Rounds, max_iter: int, tol: float, callback: Watch | None, before: int) -> Solution:
    """Newton's steps: the rounds of a network, with a loop in place of the tree."""
    weights, count = method.problem.weights, len(method.problem.measures)
    state, rows, all_nodes = method.start(count), np.arange(count), np.ones(count, dtype=bool)
    contribution = method.first(state)
    targets: Floats = np.zeros((count, method.down))
    errors: list[float] = []
    duals: list[float] = []
    least, fruitless = np.inf, 0
    with interruptible() as interrupted:
        while True:
            average = np.concatenate([weights @ part for part in contribution.parts])
            report = method.report(average)
            error = float(weights @ np.abs(np.exp(state.h) - np.exp(report.log_q)).sum(axis=1))
            at_last = report.stage == method.last_stage
            if at_last and error < least:
                least, fruitless = error, 0
            elif at_last:
                fruitless += 1
            errors.append(error)
            duals.append(report.merit if at_last else np.nan)
            now = Iteration(
                before + len(errors), error, duals[-1], np.exp(report.log_q), report.mean, report.mean - state.h
            )
            stop = callback is not None and callback(now)
            if at_last and error <= tol:
                status = Status.CONVERGED
            elif stop:
                status = Status.STOPPED
            elif interrupted():
                status = Status.INTERRUPTED
            elif len(errors) >= max_iter or fruitless >= FRUITLESS:
                status = Status.MAX_ITERATIONS
            else:
                last = targets[0] if len(errors) > 1 else None
                answer = method.order(state, 0, average, last, 1.0, error, lambda left: False)
                targets[:] = answer.target
                contribution = method.respond(state, rows, targets, all_nodes, all_nodes)
                continue
            break
    found = Solution(
        state.x - weights @ state.x, state.h.copy(), np.exp(report.log_q), len(errors), error, duals[-1], status,
        np.array(errors), np.array(duals),
    )  # fmt: skip
    return _at_last_reg(method, found, report.stage, found.errors, found.duals)
