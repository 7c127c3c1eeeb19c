"""The exact debiased barycenter of all measures.

In units of reg, with ``f = sum_i w_i x_i``, ``h_i = log p_i(x_i)``, ``a = sum_i w_i h_i``, and the measure of which f
is the own potential (methods/debiasing.py), ``s(f) = log e^f K e^f``: at the debiased barycenter all ``h_i`` and s(f)
are equal. So the nodes move as for the entropic barycenter, and all of them together by a step for f:

    x_i <- x_i + (a - h_i) + B (a - s(f))

With ``B = 1/2`` this is the plain iteration, which crawls in the finest modes. ``OwnPlan.step`` has a better B, and
Anderson's acceleration works on top of both.

**It cannot diverge.** The error is the mean distance of the measures ``p_i`` from p, and that of ``e^f K e^f``
(``OwnPlan.error``); it is 0 at the barycenter only. If it grows, or does not shrink, the iteration goes back to where
it was least, is damped more, and takes some steps that are proven to converge: f becomes the own potential of p, and
the entropic problem ``min_p sum_i w_i W_i(p) - reg <f, p>`` is solved. The more often it has failed, the more such
steps are taken, so the error tends to 0 whatever the acceleration does: docs/explanation/debiased.md has the proof.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from barymesh.errors import NumericalError
from barymesh.exact.anderson import Anderson
from barymesh.exact.nodes import NodeGroup
from barymesh.exact.solver import Iteration, Solution, log_normalised, solve
from barymesh.interrupt import interruptible
from barymesh.methods.debiasing import Debiasing
from barymesh.status import Status

Floats = NDArray[np.float64]
Watch = Callable[[Iteration], bool | None]

# the damping of the step: at first, and what it is multiplied by when the iteration has failed
DAMPING, RISE = 0.3, 4.0
# it has failed if the error is so many times the least, or has not shrunk to this share of it in so many evaluations
GROWTH, SHARE, PATIENCE = 4.0, 0.9, 50
# a proven step solves its problem to this share of the least error, divided by the square of its number, in so many
# evaluations at most
INNER_SHARE, INNER_MOST = 0.2, 500


@dataclass
class Progress:
    """What has been seen so far: the ``errors`` and the ``duals`` of all evaluations, the ``least`` error, and
    ``log_p (n,)`` there; the nodes have saved their potentials."""

    log_p: Floats
    least: float = np.inf
    errors: list[float] = field(default_factory=list)
    duals: list[float] = field(default_factory=list)

    @property
    def count(self) -> int:
        return len(self.errors)


def solve_debiased(
    nodes: NodeGroup, debiasing: Debiasing, *, max_iter: int, tol: float, callback: Watch | None = None, before: int = 0
) -> Solution:
    """Iterate from the potentials that the nodes have until ``sum_i w_i |p_i - p|_1`` and the error of ``e^f K e^f``
    are ``tol`` at most, together. Every oracle call counts as an iteration; ``before``: those of an earlier stage,
    which their numbers follow. ``dual`` of the solution is ``sum_i w_i W*_i / reg``."""
    no_drift = np.zeros(nodes.size)
    seen = Progress(no_drift.copy())
    nodes.save()
    anderson, since, failures, damping = Anderson(nodes), 0, 0, DAMPING
    with interruptible() as interrupted:
        while True:
            sums = nodes.evaluate()
            mean, dual = sums.mean, sums.value
            finite = bool(np.isfinite(dual) and np.isfinite(mean).all() and np.isfinite(sums.drift).all())
            if finite:
                log_p = log_normalised(mean)
                p = np.exp(log_p)
                plan = debiasing.plan(sums.drift)
                error = nodes.residual(mean, p) + plan.error(log_p)
            elif seen.count == 0:
                raise NumericalError(
                    f"The first step gave a number that is not finite (dual value {dual}). Check the measures for "
                    "extreme coordinates, or use a larger reg."
                )
            else:
                error, dual = seen.errors[-1], seen.duals[-1]
            seen.errors.append(error)
            seen.duals.append(dual)
            since = 0 if finite and error <= SHARE * seen.least else since + 1
            if finite and error < seen.least:
                seen.least, seen.log_p[:] = error, log_p
                nodes.save()
            now = Iteration(before + seen.count, error, dual, p, nodes)
            stop = bool(finite and callback is not None and callback(now))
            status = _status(seen.least <= tol, stop, interrupted(), seen.count >= max_iter)
            if status is not None:
                break
            if finite and error <= GROWTH * seen.least and since < PATIENCE:
                nodes.adjust(plan.step(log_p, damping))
                anderson.step(no_drift, p)
                anderson.keep(good=True)
                continue
            failures, damping, since = failures + 1, RISE * damping, 0
            ended = _proven_steps(nodes, debiasing, seen, failures, max_iter, callback, before)
            anderson = Anderson(nodes)
            if ended is not None:
                status = ended
                break
    nodes.restore()
    value = nodes.evaluate().value
    return Solution(
        nodes, seen.log_p, seen.count, seen.least, value, status, np.array(seen.errors), np.array(seen.duals)
    )


def _proven_steps(
    nodes: NodeGroup,
    debiasing: Debiasing,
    seen: Progress,
    steps: int,
    max_iter: int,
    callback: Watch | None,
    before: int,
) -> Status | None:
    """So many steps that cannot fail, from where the error was least; and why to end, if there is a reason."""
    nodes.restore()
    log_p = seen.log_p
    for step in range(1, steps + 1):
        # the evaluation that follows is one of those allowed
        left = max_iter - seen.count - 1
        if left <= 0:
            break
        found = solve(
            nodes, max_iter=min(left, INNER_MOST), tol=INNER_SHARE * seen.least / step**2,
            offset=debiasing.potential(log_p), callback=callback, before=before + seen.count,
        )  # fmt: skip
        seen.errors += list(np.maximum(found.errors, seen.least))
        seen.duals += list(found.duals)
        log_p = found.log_p
        if found.status in (Status.STOPPED, Status.INTERRUPTED):
            return found.status
    return None


def _status(reached: bool, stopped: bool, interrupted: bool, over: bool) -> Status | None:
    """Why to stop now, or None to continue."""
    if reached:
        return Status.CONVERGED
    if stopped:
        return Status.STOPPED
    if interrupted:
        return Status.INTERRUPTED
    return Status.MAX_ITERATIONS if over else None
