"""The exact solver from a Problem to a certified Result."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from barymesh.exact.certificate import completed
from barymesh.exact.certified import certified_result
from barymesh.exact.coarse import coarse_start
from barymesh.exact.debiased import solve_debiased
from barymesh.exact.nodes import NodeGroup
from barymesh.exact.rounds import solve_rounds
from barymesh.exact.rows import Rows
from barymesh.exact.small_reg import LOOK, STAGE_ERROR, solve_small_reg
from barymesh.exact.solver import Iteration, Solution, solve
from barymesh.exact.start import start_potentials
from barymesh.history import History
from barymesh.methods.chosen_rounds import chosen_rounds
from barymesh.methods.debiasing import Debiasing, debiasing_of
from barymesh.methods.stages import needs_rounds
from barymesh.problem import Problem
from barymesh.progress import iteration_progress
from barymesh.record import Callback, Record
from barymesh.result import Result
from barymesh.status import Status
from barymesh.support.points import Support

Floats = NDArray[np.float64]
# what float32 can reach, whatever the problem; the rest is left to float64
LOW_PRECISION_TOL = 1e-5
Watch = Callable[[Iteration], bool | None]


def solve_problem(
    problem: Problem, *, max_iter: int, tol: float, start: Result | None = None,
    callback: Callback | None = None, progress: bool = False, method: str = "sinkhorn",
) -> Result:  # fmt: skip
    """Solve the problem and certify the answer, the certificate always in float64. ``method``: "sinkhorn", the
    solver; or "rounds", as on a network."""
    began = time.perf_counter()
    nodes = Rows.of(problem)
    first = start_potentials(start, problem)
    if first is not None:
        nodes.set_potentials(first / problem.reg)
    found = solve_nodes(
        nodes, problem.support, problem,
        max_iter=max_iter, tol=tol, anew=start is None, callback=callback, progress=progress, method=method,
    )  # fmt: skip
    return replace(found, seconds=time.perf_counter() - began, problem=problem.without_oracles())


def solve_nodes(
    nodes: NodeGroup, support: Support, problem: Problem | None = None, *, max_iter: int, tol: float, anew: bool = True,
    callback: Callback | None = None, progress: bool = False, gather: bool = True, method: str = "sinkhorn",
) -> Result:  # fmt: skip
    """The same for nodes wherever they are. ``problem``: theirs, if they are known by more than an oracle; its measures
    are not used here. ``anew``: their potentials are no start that is worth keeping. ``gather``: whether the Result has
    the estimates and potentials of all nodes."""
    began = time.perf_counter()
    with iteration_progress(tol, max_iter, progress, callback) as watch:
        seen = None if watch is None else _recording(watch, nodes, support, began)
        debiasing = None if problem is None else debiasing_of(problem)
        if problem is not None and method == "rounds":
            rounds = chosen_rounds(problem, nodes.count)
            solution = solve_rounds(nodes, rounds, max_iter=max_iter, tol=tol, callback=seen)
        elif problem is not None and debiasing is not None:
            solution = _solve_debiased(nodes, problem, debiasing, max_iter, tol, anew, seen)
        else:
            low = problem is not None and problem.precision != "float64"
            # tol 0 says that there is no tolerance
            rough = max(tol, LOW_PRECISION_TOL) if low and tol > 0 else tol
            solution = _solve_entropic(nodes, problem, max_iter, rough, anew, seen)
            if problem is not None and low:
                solution = _finished(solution, problem, max_iter=max_iter, tol=tol, callback=seen)
    nodes.end_history()
    p = solution.p
    no_rows = np.empty((0, nodes.size))
    return certified_result(
        p=p,
        support=support,
        node_weights=np.exp(nodes.log_estimates()) if gather else no_rows,
        duals=nodes.reg * nodes.potentials() if gather else no_rows,
        consensus=nodes.distance(p),
        total=nodes.reg * nodes.total(),
        reg=nodes.reg,
        certificate=completed(nodes.bounds(p), p, nodes.reg, debiasing),
        debiasing=debiasing,
        method=method,
        status=solution.status,
        iterations=solution.iterations,
        seconds=time.perf_counter() - began,
        history=History(
            {
                "iterations": np.arange(1, solution.iterations + 1, dtype=float),
                "consensus": solution.errors,
                "dual_objective": nodes.reg * solution.duals,
            }
        ),
        measures=None if gather else nodes.count,
    )


def _solve_entropic(
    nodes: NodeGroup, problem: Problem | None, max_iter: int, tol: float, anew: bool, callback: Watch | None
) -> Solution:
    # without a tolerance there is nothing to be in time for
    patience, interrupted = None, False
    if problem is not None and anew and tol > 0:
        patience = LOOK
        interrupted = coarse_start(nodes, problem.support, problem.cost, tol=tol, max_iter=max_iter)
    solution = solve(
        nodes, max_iter=1 if interrupted else max_iter, tol=tol, callback=callback, patience=patience
    )  # fmt: skip
    if interrupted:
        solution = replace(solution, status=Status.INTERRUPTED)
    left = max_iter - solution.iterations
    if problem is None or solution.status is not Status.MAX_ITERATIONS or left <= 0:
        return solution
    nodes.save()
    solution = _closer(
        solution, solve_small_reg(nodes, problem, max_iter=left, tol=tol, callback=callback, before=solution.iterations)
    )
    left = max_iter - solution.iterations
    if solution.status is not Status.MAX_ITERATIONS or left <= 0:
        return solution
    return _continued(solution, solve(nodes, max_iter=left, tol=tol, callback=callback, before=solution.iterations))


def _closer(first: Solution, then: Solution) -> Solution:
    """The second solution, or the first, which the nodes have saved, if that is closer to the barycenter; with the
    iterations of both."""
    found = _continued(first, then)
    if then.status is Status.CONVERGED or then.error <= first.error:
        return found
    first.nodes.restore()
    first.nodes.evaluate()
    return replace(found, log_p=first.log_p, error=first.error, dual=first.dual)


def _continued(first: Solution, then: Solution) -> Solution:
    """The second solution, with the iterations of both."""
    return replace(
        then,
        iterations=first.iterations + then.iterations,
        errors=np.concatenate([first.errors, then.errors]),
        duals=np.concatenate([first.duals, then.duals]),
    )


def _finished(rough: Solution, problem: Problem, *, max_iter: int, tol: float, callback: Watch | None) -> Solution:
    """The solution of low precision, continued in float64 until it has converged by its standards too, which takes an
    iteration or a few."""
    nodes = rough.nodes
    nodes.use(problem.reg)
    left = max_iter - rough.iterations
    if rough.status is Status.CONVERGED and left > 0:
        return _continued(rough, solve(nodes, max_iter=left, tol=tol, callback=callback, before=rough.iterations))
    nodes.evaluate()
    missed = rough.status is Status.CONVERGED and not nodes.distance(rough.p) <= tol
    return replace(rough, status=Status.MAX_ITERATIONS if missed else rough.status)


def _solve_debiased(
    nodes: NodeGroup,
    problem: Problem,
    debiasing: Debiasing,
    max_iter: int,
    tol: float,
    anew: bool,
    callback: Watch | None,
) -> Solution:
    """In the precision of the problem first, then in float64. If reg is small, it begins with the entropic
    barycenter, which is close then."""
    done = None
    if anew and max_iter > 2 and needs_rounds(problem):
        done = _solve_entropic(nodes, problem, max_iter // 2, max(tol, STAGE_ERROR), True, callback)
    passes = 1 if problem.precision == "float64" else 2
    for place in range(1, passes + 1):
        before = done.iterations if done else 0
        left = max_iter - before - (passes - place)
        ended = done is not None and done.status in (Status.STOPPED, Status.INTERRUPTED)
        if place < passes and (ended or left < 1):
            continue
        if place == passes:
            nodes.use(problem.reg)
        found = solve_debiased(
            nodes, debiasing, max_iter=1 if ended else left, tol=0.0 if ended else tol,
            callback=None if ended else callback, before=before,
        )  # fmt: skip
        if done is not None:
            found = _continued(done, replace(found, status=done.status if ended else found.status))
        done = found
    assert done is not None
    return done


def _recording(callback: Callback, nodes: NodeGroup, support: Support, began: float) -> Watch:
    """The callback, called with a Record of each iteration."""
    reg = nodes.reg

    def see(now: Iteration) -> bool | None:
        figures = {"iterations": float(now.number), "consensus": now.error, "dual_objective": reg * now.dual}
        return callback(
            Record(
                step=now.number,
                time=time.perf_counter() - began,
                figures=figures,
                weights=now.weights,
                support=support,
                size=nodes.count,
                find_estimates=now.estimates,
            )
        )

    return see
