"""The exact debiased barycenter of all measures on one machine.

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

from barymesh.core import kernels
from barymesh.errors import NumericalError
from barymesh.exact.anderson import Anderson
from barymesh.exact.solver import Iteration, Solution, solve
from barymesh.interrupt import interruptible
from barymesh.methods.debiasing import Debiasing
from barymesh.oracle.base import Oracle
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
    """What has been seen so far: the ``errors`` and the ``duals`` of all evaluations, the ``least`` error, and ``x (m,
    n)`` and ``log_p (n,)`` there."""

    x: Floats
    log_p: Floats
    least: float = np.inf
    errors: list[float] = field(default_factory=list)
    duals: list[float] = field(default_factory=list)

    @property
    def count(self) -> int:
        return len(self.errors)


def solve_debiased(
    oracle: Oracle, weights: Floats, debiasing: Debiasing, *, max_iter: int, tol: float, start: Floats | None = None,
    callback: Watch | None = None, before: int = 0,
) -> Solution:  # fmt: skip
    """Iterate until ``sum_i w_i |p_i - p|_1`` and the error of ``e^f K e^f`` are ``tol`` at most, together. Every
    oracle call counts as an iteration; ``before``: those of an earlier stage, which their numbers follow. ``dual`` of
    the solution is ``sum_i w_i W*_i / reg``."""
    x = np.zeros((oracle.count, oracle.size)) if start is None else np.array(start, dtype=float)
    node_errors, mean, f, no_drift = np.empty(oracle.count), *(np.zeros(oracle.size) for _ in range(3))
    residual = np.empty_like(x)
    seen = Progress(x.copy(), mean.copy())
    anderson, since, failures, damping = Anderson((oracle.count, oracle.size)), 0, 0, DAMPING
    with interruptible() as interrupted:
        while True:
            value, _ = oracle.evaluate(x, out=residual)
            kernels.weighted_mean(residual, weights, mean)
            kernels.weighted_mean(x, weights, f)
            dual = float((weights * value).sum())
            finite = bool(np.isfinite(dual) and np.isfinite(mean).all() and np.isfinite(f).all())
            if finite:
                log_p = _normalised(mean)
                p = np.exp(log_p)
                kernels.residual(residual, mean, p, node_errors)
                plan = debiasing.plan(f)
                error = float((weights * node_errors).sum()) + plan.error(log_p)
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
                seen.least, seen.x[:], seen.log_p[:] = error, x, log_p
            now = Iteration(before + seen.count, error, dual, p, mean, residual)
            stop = bool(finite and callback is not None and callback(now))
            status = _status(seen.least <= tol, stop, interrupted(), seen.count >= max_iter)
            if status is not None:
                break
            if finite and error <= GROWTH * seen.least and since < PATIENCE:
                residual += plan.step(log_p, damping)
                anderson.step(x, residual, no_drift, weights, p)
                anderson.keep(x, good=True)
                continue
            failures, damping, since = failures + 1, RISE * damping, 0
            anderson = Anderson((oracle.count, oracle.size))
            x[:], ended = _proven_steps(oracle, weights, debiasing, seen, failures, max_iter, callback, before)
            if ended is not None:
                status = ended
                break
    value, log_p_nodes = oracle.evaluate(seen.x)
    return Solution(
        seen.x, log_p_nodes, np.exp(seen.log_p), seen.count, seen.least, float(weights @ value), status,
        np.array(seen.errors), np.array(seen.duals),
    )  # fmt: skip


def _proven_steps(
    oracle: Oracle, weights: Floats, debiasing: Debiasing, seen: Progress, steps: int, max_iter: int,
    callback: Watch | None, before: int,
) -> tuple[Floats, Status | None]:  # fmt: skip
    """So many steps that cannot fail, from where the error was least; and why to end, if there is a reason."""
    x, log_p = seen.x, seen.log_p
    for step in range(1, steps + 1):
        # the evaluation that follows is one of those allowed
        left = max_iter - seen.count - 1
        if left <= 0:
            break
        found = solve(
            oracle, weights, max_iter=min(left, INNER_MOST), tol=INNER_SHARE * seen.least / step**2, start=x,
            offset=debiasing.potential(log_p), callback=callback, before=before + seen.count,
        )  # fmt: skip
        seen.errors += list(np.maximum(found.errors, seen.least))
        seen.duals += list(found.duals)
        x, log_p = found.x, weights @ found.log_p
        if found.status in (Status.STOPPED, Status.INTERRUPTED):
            return x, found.status
    return x, None


def _normalised(mean: Floats) -> Floats:
    top = mean.max()
    return np.asarray(mean - top - np.log(np.exp(mean - top).sum()))


def _status(reached: bool, stopped: bool, interrupted: bool, over: bool) -> Status | None:
    """Why to stop now, or None to continue."""
    if reached:
        return Status.CONVERGED
    if stopped:
        return Status.STOPPED
    if interrupted:
        return Status.INTERRUPTED
    return Status.MAX_ITERATIONS if over else None
