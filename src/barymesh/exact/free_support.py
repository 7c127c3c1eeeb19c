"""The free-support barycenter of all measures on one machine: the rounds of methods/free_support.py, with a loop over
the nodes in place of a network."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from barymesh.errors import NumericalError, OptionError
from barymesh.exact.certificate import certify
from barymesh.exact.certified import certified_result
from barymesh.history import History
from barymesh.interrupt import interruptible
from barymesh.methods.free_support import FreeSupportMethod, FreeSupportState
from barymesh.metrics import consensus_error
from barymesh.problem import Problem
from barymesh.progress import iteration_progress
from barymesh.record import Callback, Record
from barymesh.result import Result
from barymesh.status import Status
from barymesh.support.points import Support

Floats = NDArray[np.float64]
# the slowest rate of convergence that is allowed for is 1 less this; and no division by 0
LEAST_SHARE, TINY = 1e-3, 1e-300


def solve_free_support(
    problem: Problem, *, max_iter: int, tol: float, start: Result | None = None, callback: Callback | None = None,
    progress: bool = False,
) -> Result:  # fmt: skip
    """Move the points until they are stationary, and certify the objective there."""
    began = time.perf_counter()
    method = FreeSupportMethod(problem, pooled=True)
    weights, rows = problem.weights, np.arange(len(problem.measures))
    state, known = method.start(rows.size), np.ones(rows.size, dtype=bool)
    contribution = method.first(state)
    target = None if start is None else _continued(method, state, start)
    errors: list[float] = []
    duals: list[float] = []
    status, before = None, np.inf

    def enough(left: float) -> bool:
        """Whether all moves to come, if they keep shrinking at the last rate, add up to the tolerance."""
        nonlocal before
        rate, before = left / max(before, TINY), left
        return tol > 0 and left <= tol * max(1.0 - rate, LEAST_SHARE)

    with iteration_progress(tol, max_iter, progress, callback) as watch, interruptible() as interrupted:
        while status is None:
            if target is not None:
                targets = np.broadcast_to(target, (rows.size, target.size))
                contribution = method.respond(state, rows, targets, known, known)
            average = np.concatenate([weights @ part for part in contribution.parts])
            if not np.isfinite(average).all():
                raise NumericalError(
                    f"The iteration produced a number that is not finite at step {len(errors) + 1}. Check the measures "
                    "for extreme coordinates, or use a larger reg."
                )
            answer = method.order(state, 0, average, target, 1.0, float(contribution.errors.max()), enough)
            if target is not None:
                points, p = method.measure(target, average)
                errors.append(consensus_error(np.exp(state.h), p, weights))
                duals.append(problem.reg * float(weights @ state.value))
                record = _record(problem, state, points, p, errors[-1], duals[-1], len(errors), began)
                stop = watch is not None and watch(record)
                if answer.finished:
                    status = Status.STATIONARY
                elif stop:
                    status = Status.STOPPED
                elif interrupted():
                    status = Status.INTERRUPTED
                elif len(errors) >= max_iter:
                    status = Status.MAX_ITERATIONS
            target = answer.target
    placed = problem.placed(points)
    x = state.x - weights @ state.x if method.free.learned else state.x
    oracle = placed.float64_oracle
    log_p = oracle.evaluate(x)[1]
    return certified_result(
        p=p,
        support=placed.support,
        node_weights=np.exp(log_p),
        duals=problem.reg * x,
        weights=weights,
        reg=problem.reg,
        certificate=certify(oracle, weights, x, log_p, p, placed.product_costs),
        method=method.name,
        problem=placed.without_oracles(),
        status=status,
        iterations=len(errors),
        seconds=time.perf_counter() - began,
        history=History(
            {
                "iterations": np.arange(1, len(errors) + 1, dtype=float),
                "consensus": np.array(errors),
                "dual_objective": np.array(duals),
            }
        ),
    )


def _continued(method: FreeSupportMethod, state: FreeSupportState, start: Result) -> Floats:
    """The target that continues from a result, whose potentials the nodes take over."""
    expected = (*state.x.shape, method.d)
    if (*start.duals.shape, start.support.dimension) != expected:
        raise OptionError(
            f"The result to continue from (start=, or --resume) has {(*start.duals.shape, start.support.dimension)} "
            f"(measures, support points, dimensions); this problem has {expected}. Leave it out, or give the measures "
            "and the support it was computed with."
        )
    state.x[:] = start.duals / method.reg
    return method.target_at(start.support.points, np.log(np.maximum(start.weights, np.finfo(float).tiny)))


def _record(
    problem: Problem, state: FreeSupportState, points: Floats, p: Floats, error: float, dual: float, step: int,
    began: float,
) -> Record:  # fmt: skip
    return Record(
        step=step,
        time=time.perf_counter() - began,
        figures={"iterations": float(step), "consensus": error, "dual_objective": dual},
        weights=p,
        support=Support.scattered(points, reason=problem.support.reason, names=problem.support.names),
        size=len(state.x),
        find_estimates=lambda nodes: np.exp(state.h[nodes]),
    )
