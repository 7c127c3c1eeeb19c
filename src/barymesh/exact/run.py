"""The exact solver from a Problem to a certified Result."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from barymesh.errors import OptionError
from barymesh.exact.certificate import certify
from barymesh.exact.certified import certified_result
from barymesh.exact.coarse import coarse_start
from barymesh.exact.debiased import solve_debiased
from barymesh.exact.small_reg import LOOK, solve_small_reg
from barymesh.exact.solver import Iteration, Solution, solve
from barymesh.history import History
from barymesh.methods.debiasing import Debiasing, debiasing_of
from barymesh.methods.rounds import STAGE_ERROR
from barymesh.methods.stages import needs_rounds
from barymesh.metrics import consensus_error
from barymesh.oracle.base import Oracle
from barymesh.oracle.bounds import ProductCosts
from barymesh.problem import Problem
from barymesh.progress import iteration_progress
from barymesh.record import Callback, Record
from barymesh.result import Result
from barymesh.status import Status
from barymesh.support.points import Support

Floats = NDArray[np.float64]


def solve_problem(
    problem: Problem, *, max_iter: int, tol: float, start: Result | None = None,
    callback: Callback | None = None, progress: bool = False,
) -> Result:  # fmt: skip
    """Solve the problem and certify the answer, the certificate always in float64."""
    began = time.perf_counter()
    first = None
    if start is not None:
        expected = (len(problem.measures), problem.support.size)
        if start.duals.shape != expected:
            raise OptionError(
                f"The result to continue from (start=, or --resume) has {start.duals.shape} (measures, support "
                f"points); this problem has {expected}. Leave it out, or give the measures and the support it was "
                "computed with."
            )
        first = start.duals / problem.reg
    found = solve_oracle(
        problem.oracle, problem.weights, problem.support, problem.product_costs,
        max_iter=max_iter, tol=tol, start=first, callback=callback, progress=progress,
        problem=problem,
    )  # fmt: skip
    return replace(found, seconds=time.perf_counter() - began, problem=problem.without_oracles())


def solve_oracle(
    oracle: Oracle, weights: Floats, support: Support, costs: ProductCosts, *,
    max_iter: int, tol: float, start: Floats | None = None, callback: Callback | None = None, progress: bool = False,
    problem: Problem | None = None,
) -> Result:  # fmt: skip
    """The same for nodes known by their oracle only. ``start (m, n)``: potentials in units of reg to begin with;
    ``problem``: that of the oracle, if it has one, with the oracle for the certificate, and the way by larger
    regularisations where the iteration crawls."""
    began = time.perf_counter()
    with iteration_progress(tol, max_iter, progress, callback) as watch:
        seen = None if watch is None else _recording(watch, oracle.reg, support, began)
        judge = oracle if problem is None else problem.float64_oracle
        debiasing = None if problem is None else debiasing_of(problem)
        if problem is not None and debiasing is not None:
            solution = _solve_debiased(problem, debiasing, max_iter, tol, start, seen)
        else:
            solution = _solve_entropic(oracle, weights, max_iter, tol, start, seen, problem)
        if debiasing is None and judge is not oracle:
            solution = _finished(solution, judge, weights, max_iter=max_iter, tol=tol, callback=seen)
    log_p = solution.log_p
    certificate = certify(judge, weights, solution.x, log_p, solution.p, costs, debiasing)
    return certified_result(
        p=solution.p,
        support=support,
        node_weights=np.exp(log_p),
        duals=oracle.reg * solution.x,
        weights=weights,
        reg=oracle.reg,
        certificate=certificate,
        debiasing=debiasing,
        method="sinkhorn",
        status=solution.status,
        iterations=solution.iterations,
        seconds=time.perf_counter() - began,
        history=History(
            {
                "iterations": np.arange(1, solution.iterations + 1, dtype=float),
                "consensus": solution.errors,
                "dual_objective": oracle.reg * solution.duals,
            }
        ),
    )


def _solve_entropic(
    oracle: Oracle, weights: Floats, max_iter: int, tol: float, start: Floats | None,
    callback: Callable[[Iteration], bool | None] | None, problem: Problem | None,
) -> Solution:  # fmt: skip
    # without a tolerance there is nothing to be in time for
    patience, interrupted = None, False
    if problem is not None and start is None and tol > 0:
        patience = LOOK
        start, interrupted = coarse_start(problem, tol=tol, max_iter=max_iter)
    solution = solve(
        oracle, weights, max_iter=1 if interrupted else max_iter, tol=tol, start=start, callback=callback,
        patience=patience,
    )  # fmt: skip
    if interrupted:
        solution = replace(solution, status=Status.INTERRUPTED)
    left = max_iter - solution.iterations
    if problem is None or solution.status is not Status.MAX_ITERATIONS or left <= 0:
        return solution
    solution = _closer(
        solution, solve_small_reg(problem, max_iter=left, tol=tol, callback=callback, before=solution.iterations)
    )
    left = max_iter - solution.iterations
    if solution.status is not Status.MAX_ITERATIONS or left <= 0:
        return solution
    more = solve(
        oracle, weights, max_iter=left, tol=tol, start=solution.x, callback=callback, before=solution.iterations
    )
    return _continued(solution, more)


def _closer(first: Solution, then: Solution) -> Solution:
    """The second solution, or the first if that is closer to the barycenter, with the iterations of both."""
    found = _continued(first, then)
    if then.status is Status.CONVERGED or then.error <= first.error:
        return found
    return replace(found, x=first.x, log_p=first.log_p, p=first.p, error=first.error, dual=first.dual)


def _continued(first: Solution, then: Solution) -> Solution:
    """The second solution, with the iterations of both."""
    return replace(
        then,
        iterations=first.iterations + then.iterations,
        errors=np.concatenate([first.errors, then.errors]),
        duals=np.concatenate([first.duals, then.duals]),
    )


def _finished(
    rough: Solution, judge: Oracle, weights: Floats, *, max_iter: int, tol: float,
    callback: Callable[[Iteration], bool | None] | None,
) -> Solution:  # fmt: skip
    """The solution of an oracle of low precision, continued with the ``judge`` of high precision until it has converged
    by its standards too, which takes an iteration or a few."""
    left = max_iter - rough.iterations
    if rough.status is Status.CONVERGED and left > 0:
        fine = solve(judge, weights, max_iter=left, tol=tol, start=rough.x, callback=callback, before=rough.iterations)
        return _continued(rough, fine)
    log_p = judge.evaluate(rough.x)[1]
    reached = consensus_error(np.exp(log_p), rough.p, weights) <= tol
    missed = rough.status is Status.CONVERGED and not reached
    return replace(rough, log_p=log_p, status=Status.MAX_ITERATIONS if missed else rough.status)


def _solve_debiased(
    problem: Problem, debiasing: Debiasing, max_iter: int, tol: float, start: Floats | None,
    callback: Callable[[Iteration], bool | None] | None,
) -> Solution:  # fmt: skip
    """In the precision of the problem first, then in float64. If reg is small, it begins with the entropic
    barycenter, which is close then."""
    weights, done = problem.weights, None
    if start is None and max_iter > 2 and needs_rounds(problem):
        rough = max(tol, STAGE_ERROR)
        done = _solve_entropic(problem.oracle, weights, max_iter // 2, rough, None, callback, problem)
    oracles = list(dict.fromkeys((problem.oracle, problem.float64_oracle)))
    for place, oracle in enumerate(oracles, start=1):
        before = done.iterations if done else 0
        left = max_iter - before - (len(oracles) - place)
        ended = done is not None and done.status in (Status.STOPPED, Status.INTERRUPTED)
        if place < len(oracles) and (ended or left < 1):
            continue
        found = solve_debiased(
            oracle, weights, debiasing, max_iter=1 if ended else left, tol=0.0 if ended else tol,
            start=done.x if done else start, callback=None if ended else callback, before=before,
        )  # fmt: skip
        if done is not None:
            found = _continued(done, replace(found, status=done.status if ended else found.status))
        done = found
    assert done is not None
    return done


def _recording(callback: Callback, reg: float, support: Support, began: float) -> Callable[[Iteration], bool | None]:
    """The callback, called with a Record of each iteration."""

    def see(now: Iteration) -> bool | None:
        figures = {"iterations": float(now.number), "consensus": now.error, "dual_objective": reg * now.dual}
        return callback(
            Record(
                step=now.number,
                time=time.perf_counter() - began,
                figures=figures,
                weights=now.weights,
                support=support,
                size=len(now.residual),
                find_estimates=now.estimates,
            )
        )

    return see
