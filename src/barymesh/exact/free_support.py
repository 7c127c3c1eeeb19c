"""The free-support barycenter of all measures: the rounds of methods/free_support.py, with a sum over the nodes in
place of a network."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from barymesh.errors import NumericalError, OptionError
from barymesh.exact.certificate import completed
from barymesh.exact.certified import certified_result
from barymesh.exact.nodes import NodeGroup
from barymesh.exact.rows import Rows
from barymesh.history import History
from barymesh.interrupt import interruptible
from barymesh.methods.free_support import FreeSupportMethod
from barymesh.problem import Problem
from barymesh.progress import iteration_progress
from barymesh.record import Callback, Record
from barymesh.result import Result
from barymesh.status import Status
from barymesh.support.points import Support

Floats = NDArray[np.float64]


def solve_free_support(
    problem: Problem, nodes: NodeGroup | None = None, *, max_iter: int, tol: float, start: Result | None = None,
    callback: Callback | None = None, progress: bool = False, gather: bool = True,
) -> Result:  # fmt: skip
    """Move the points until they are stationary, and certify the objective there. ``nodes``: those of the problem, if
    they are elsewhere; ``gather``: whether the Result has the estimates and potentials of all nodes."""
    began = time.perf_counter()
    if nodes is None:
        nodes = Rows.of(problem)
    method = FreeSupportMethod(problem, drawn=nodes.draw)
    state, target = method.start(1), None
    if start is not None:
        target = _continued(method, nodes, start)
    nodes.begin_rounds(chosen=True)
    errors: list[float] = []
    duals: list[float] = []
    status = None

    def enough(left: float) -> bool:
        return tol > 0 and left <= tol

    with iteration_progress(tol, max_iter, progress, callback) as watch, interruptible() as interrupted:
        while status is None:
            sums = nodes.respond(target)
            average = sums.average
            if not np.isfinite(average).all():
                raise NumericalError(
                    f"The iteration produced a number that is not finite at step {len(errors) + 1}. Check the measures "
                    "for extreme coordinates, or use a larger reg."
                )
            answer = method.order(state, 0, average, target, 1.0, sums.error, enough)
            if target is not None:
                points, p = method.measure(target)
                errors.append(nodes.distance(p))
                duals.append(problem.reg * method.dual(average))
                record = _record(problem, nodes, points, p, errors[-1], duals[-1], len(errors), began)
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
    kept = None if status is Status.STATIONARY else method.kept(state, 0)
    if kept is not None:
        nodes.respond(kept)
        points, p = method.measure(kept)
    nodes.end_rounds(points)
    if method.free.learned:
        nodes.shift(-nodes.total())
    nodes.evaluate()
    placed, no_rows = problem.placed(points), np.empty((0, nodes.size))
    return certified_result(
        p=p,
        support=placed.support,
        node_weights=np.exp(nodes.log_estimates()) if gather else no_rows,
        duals=problem.reg * nodes.potentials() if gather else no_rows,
        consensus=nodes.distance(p),
        total=problem.reg * nodes.total(),
        reg=problem.reg,
        certificate=completed(nodes.bounds(p), p, problem.reg),
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
        measures=None if gather else nodes.count,
    )


def _continued(method: FreeSupportMethod, nodes: NodeGroup, start: Result) -> Floats:
    """The target that continues from a result, whose potentials the nodes take over."""
    expected = (nodes.count, nodes.size, method.d)
    if (*start.duals.shape, start.support.dimension) != expected:
        raise OptionError(
            f"The result to continue from (start=, or --resume) has {(*start.duals.shape, start.support.dimension)} "
            f"(measures, support points, dimensions); this problem has {expected}. Leave it out, or give the measures "
            "and the support it was computed with."
        )
    nodes.set_potentials(start.duals / method.reg)
    return method.target_at(start.support.points, np.log(np.maximum(start.weights, np.finfo(float).tiny)))


def _record(
    problem: Problem, nodes: NodeGroup, points: Floats, p: Floats, error: float, dual: float, step: int, began: float
) -> Record:
    return Record(
        step=step,
        time=time.perf_counter() - began,
        figures={"iterations": float(step), "consensus": error, "dual_objective": dual},
        weights=p,
        support=Support.scattered(points, reason=problem.support.reason, names=problem.support.names),
        size=nodes.count,
        find_estimates=lambda numbers: np.exp(nodes.log_estimates(numbers)),
    )
