"""Rounds without a network: those of methods/rounds.py, with a sum over the nodes in place of the tree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from barymesh.exact.nodes import NodeGroup
from barymesh.exact.solver import Iteration, Solution, log_normalised
from barymesh.interrupt import interruptible
from barymesh.methods.rounds import Rounds
from barymesh.status import Status

Floats = NDArray[np.float64]
Watch = Callable[[Iteration], bool | None]


def solve_rounds(
    nodes: NodeGroup, method: Rounds, *, max_iter: int, tol: float, callback: Watch | None, before: int = 0,
    chosen: bool = True, patience: float = np.inf,
) -> Solution:  # fmt: skip
    """Rounds from the potentials that the nodes have, until ``sum_i w_i |p_i - p|_1 <= tol``. Every round counts as an
    iteration; ``before``: those of an earlier stage, which their numbers follow. ``chosen``: see
    ``NodeGroup.begin_rounds``. ``patience``: rounds without a smaller error after which what is left is rounding."""
    state, target = method.start(1), None
    errors: list[float] = []
    duals: list[float] = []
    least, fruitless = np.inf, 0
    nodes.begin_rounds(chosen)
    with interruptible() as interrupted:
        while True:
            average = nodes.respond(target).average
            report = method.report(average, method.offset(state, 0, method.stage(average)))
            p = np.exp(report.log_q)
            error = nodes.distance(p) + method.further_error(state, 0, report)
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
            elif len(errors) >= max_iter or fruitless >= patience:
                status = Status.MAX_ITERATIONS
            else:
                target = method.order(state, 0, average, target, 1.0, error, lambda left: False).target
                continue
            break
    nodes.end_rounds()
    nodes.shift(method.offset(state, 0, report.stage) - nodes.total())
    nodes.evaluate()
    found = Solution(nodes, report.log_q, len(errors), error, duals[-1], status, np.array(errors), np.array(duals))
    return at_last_reg(method, found, report.stage, found.errors, found.duals)


def at_last_reg(method: Rounds, found: Solution, stage: int, errors: Floats, duals: Floats) -> Solution:
    """A solution with the last reg, though the iteration may have ended at an earlier ``stage``; with the ``errors``
    and ``duals`` of all iterations."""
    nodes, status = found.nodes, found.status
    if stage < method.last_stage:
        nodes.use(method.regs[-1])
        sums = nodes.evaluate()
        log_p = log_normalised(sums.mean)
        status = Status.MAX_ITERATIONS if status is Status.CONVERGED else status
        return Solution(nodes, log_p, errors.size, nodes.distance(np.exp(log_p)), sums.value, status, errors, duals)
    return replace(found, iterations=errors.size, errors=errors, duals=duals)
