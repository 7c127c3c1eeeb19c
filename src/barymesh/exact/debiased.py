"""The exact debiased barycenter of all measures.

In units of reg, with ``f = sum_i w_i x_i``, the measure p that the nodes agree on where their potentials sum to f, and
the measure of which f is the own potential (methods/debiasing.py), ``s(f) = log e^f K e^f``: at the debiased
barycenter ``log p = s(f)``. So the solver keeps f as long as the nodes disagree by more than a share of the distance
between the two, which is the entropic problem ``min_p sum_i w_i W_i(p) - reg <f, p>``, and then takes a step for f:

    f <- f + B (log p - s(f))

With ``B = 1/2`` this is the plain iteration, which crawls in the finest modes. ``OwnPlan.step`` has a better B:
Newton's step, damped. A step that does not lower an objective of f (``Debiasing.gain``) is undone and damped more; one
that lowers it as much as it promised, less.

**It cannot diverge.** The error is the mean distance of the measures ``p_i`` from p, and that of ``e^f K e^f``
(``OwnPlan.error``); it is 0 at the barycenter only. Where it does not shrink for long, the solver takes some steps that
are proven to converge: f becomes the own potential of p. The more often it has failed, the more such steps are taken,
so the error tends to 0 whatever the other steps do: docs/explanation/debiased.md has the proof.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from barymesh.errors import NumericalError
from barymesh.exact.nodes import NodeGroup
from barymesh.exact.solver import Iteration, Solution, solve
from barymesh.interrupt import interruptible
from barymesh.methods.debiasing import DAMPING, TINY, Debiasing, adapted
from barymesh.status import Status

Floats = NDArray[np.float64]
Watch = Callable[[Iteration], bool | None]

# the distance of the nodes from their common measure, at most: before there is an f, and then as a share of the error
FIRST_ERROR, AGREEMENT = 1e-2, 0.2
# of the mass of a start from another problem, how much is blurred at most
MOST_BLURRED = 0.1
# their share of the tolerance in the end
LAST_SHARE = 0.1
# the steps have failed if the error has not shrunk to this share in so many of them
SHARE, PATIENCE = 0.9, 20
# evaluations for one f, at most
INNER_MOST = 500


@dataclass(frozen=True)
class Agreement:
    """Potentials that sum to ``f (n,)``, where the nodes agree on the measure with the logarithms ``log_p (n,)``; the
    ``error`` there."""

    f: Floats
    log_p: Floats
    error: float


@dataclass
class Course:
    """What has been seen so far: the ``errors`` and the ``duals`` of all evaluations, and the ``least`` error of those
    places that were kept. ``status``: why to end, if there is a reason."""

    least: float = np.inf
    errors: list[float] = field(default_factory=list)
    duals: list[float] = field(default_factory=list)
    status: Status | None = None

    @property
    def count(self) -> int:
        return len(self.errors)


def solve_debiased(
    nodes: NodeGroup, debiasing: Debiasing, *, max_iter: int, tol: float, callback: Watch | None = None, before: int = 0
) -> Solution:
    """Iterate from the potentials that the nodes have until ``sum_i w_i |p_i - p|_1`` and the error of ``e^f K e^f``
    are ``tol`` at most, together. Every oracle call counts as an iteration; ``before``: those of an earlier stage,
    which their numbers follow. ``dual`` of the solution is ``sum_i w_i W*_i / reg``."""
    search = _Search(nodes, debiasing, max_iter, tol, callback, before)
    with interruptible() as interrupted:
        place = search.run(interrupted)
    seen = search.seen
    assert seen.status is not None
    nodes.restore()
    value = nodes.evaluate().value
    return Solution(
        nodes, place.log_p, seen.count, place.error, value, seen.status, np.array(seen.errors), np.array(seen.duals)
    )


class _Search:
    """The search for f; arguments as for ``solve_debiased``."""

    def __init__(
        self, nodes: NodeGroup, debiasing: Debiasing, max_iter: int, tol: float, callback: Watch | None, before: int
    ) -> None:
        self.nodes, self.debiasing, self.max_iter, self.tol = nodes, debiasing, max_iter, tol
        self.callback, self.before = callback, before
        self.seen = Course()

    def run(self, interrupted: Callable[[], bool]) -> Agreement:
        """The place where it ended, whose potentials the nodes have saved."""
        seen, damping, since, failures = self.seen, DAMPING, 0, 0
        start = self.nodes.total()
        # without potentials to begin with there is no f, and the entropic barycenter is the start
        proven, number = int(not np.ptp(start) > 0), 0
        now = self._agreed(start, FIRST_ERROR)
        if not proven and seen.status is None:
            # in another problem other points have mass, and those that have none gain it slowly
            log_q = self.debiasing.blurred(now.log_p, min(now.error, MOST_BLURRED))
            now = self._agreed(self.debiasing.potential(log_q), FIRST_ERROR)
        now = self._kept(now)
        while seen.status is None:
            least = seen.least
            if interrupted():
                seen.status = Status.INTERRUPTED
            elif proven > 0:
                proven, number = proven - 1, number + 1
                f = self.debiasing.potential(now.log_p)
                now = self._kept(self._agreed(f, AGREEMENT * least / number**2))
            else:
                step = self.debiasing.plan(now.f).step(now.log_p, damping)
                tried = self._agreed(now.f + step, AGREEMENT * now.error)
                finite = np.isfinite(tried.error)
                gain = self.debiasing.gain(now.f, now.log_p, tried.f, tried.log_p) if finite else -np.inf
                damping = adapted(damping, gain)
                if gain > 0.0 or seen.status is Status.CONVERGED:
                    now = self._kept(tried)
                else:
                    self.nodes.restore()
            since = 0 if seen.least <= SHARE * least else since + 1
            if since >= PATIENCE:
                failures, since = failures + 1, 0
                proven, number = failures, 0
        return now

    def _kept(self, place: Agreement) -> Agreement:
        """The place, to which ``restore`` leads back from now on."""
        self.nodes.save()
        self.seen.least = min(self.seen.least, place.error)
        return place

    def _agreed(self, f: Floats, error: float) -> Agreement:
        """Where the nodes agree, to this error, with potentials that sum to ``f (n,)``. It ends sooner if there is a
        reason to end altogether."""
        seen, plan, first = self.seen, self.debiasing.plan(f), self.seen.count

        def watch(now: Iteration) -> bool:
            total = now.error + plan.error(np.log(np.maximum(now.weights, TINY)))
            # evaluations of steps that were undone are not watched
            missed = first + now.number - 1 - seen.count
            seen.errors += [*seen.errors[-1:] * missed, total]
            seen.duals += [*seen.duals[-1:] * missed, now.dual]
            stop = self.callback and self.callback(replace(now, error=total, number=self.before + seen.count))
            # the value of the result exceeds the objective by as much as the nodes disagree
            if total <= self.tol and now.error <= LAST_SHARE * self.tol:
                seen.status = Status.CONVERGED
            elif stop:
                seen.status = Status.STOPPED
            return seen.status is not None

        try:
            found = solve(
                self.nodes, max_iter=min(self.max_iter - first, INNER_MOST), tol=error, offset=f, callback=watch
            )
        except NumericalError:
            if not np.isfinite(seen.least):
                raise
            return Agreement(f, np.full(f.shape, np.nan), np.inf)
        if seen.status is None:
            if found.status is Status.INTERRUPTED:
                seen.status = Status.INTERRUPTED
            elif seen.count >= self.max_iter:
                seen.status = Status.MAX_ITERATIONS
        return Agreement(f, found.log_p, seen.errors[-1])
