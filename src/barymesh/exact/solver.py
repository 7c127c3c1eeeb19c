"""The exact entropic barycenter of all measures: Sinkhorn in the dual, safely accelerated.

In units of reg, x_i = lam_i / reg, the plain iteration is

    x_i <- x_i + a - log p_i(x_i),      a = sum_i w_i log p_i(x_i)

(iterative Bregman projections). It keeps ``sum_i w_i x_i = 0``, and lowers the dual function F = sum_i w_i W*_i / reg
by at least

    D = -log sum_l exp(a_l) = sum_i w_i KL(p | p_i) >= 0,       p = exp(a + D)

(Jensen's inequality), which the acceleration is checked against: an accelerated step that does not lower F by the D
of the point it left is undone, and the plain step taken in its place.

All that is known here of the nodes are sums (nodes.py), so it does not matter where they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from barymesh.errors import NumericalError
from barymesh.exact.anderson import DEPTH, Anderson
from barymesh.exact.nodes import NodeGroup
from barymesh.interrupt import interruptible
from barymesh.status import Status

Floats = NDArray[np.float64]
# F is a sum of numbers of its own size: differences below this share of it are rounding
ROUNDING = 1e-13
# once F changes by rounding only, the error must not grow beyond this multiple of the least seen
ERROR_GROWTH = 100.0


@dataclass(frozen=True)
class Iteration:
    """What the solver knows after an iteration.

    Attributes
    ----------
    number : int
        Counted from 1.
    error : float
        How far the measures' own estimates are from their common one, mean L1: what ``tol`` is compared with.
    dual : float
        The dual objective, in units of reg.
    weights : array (n,)
        The barycenter so far.
    nodes : NodeGroup
        The measures, as they are until the next iteration.
    """

    number: int
    error: float
    dual: float
    weights: Floats
    nodes: NodeGroup

    def estimates(self, numbers: NDArray[np.intp]) -> Floats:
        """The own estimates of some measures.

        Parameters
        ----------
        numbers : array (k,)
            The numbers of the measures.

        Returns
        -------
        array (k, n)
            A row for each.
        """
        return np.exp(self.nodes.log_estimates(numbers))


@dataclass(frozen=True)
class Solution:
    """The barycenter, its logarithms ``log_p (n,)``, how it went, and the ``nodes``, which have the potentials."""

    nodes: NodeGroup
    log_p: Floats
    iterations: int
    error: float
    dual: float
    status: Status
    errors: Floats
    duals: Floats

    @property
    def p(self) -> Floats:
        """``(n,)``: the barycenter."""
        return np.exp(self.log_p)

    @property
    def x(self) -> Floats:
        """``(m, n)``: the potentials of all nodes in units of reg, as they are now."""
        return self.nodes.potentials()


def solve(
    nodes: NodeGroup,
    *,
    max_iter: int,
    tol: float,
    depth: int = DEPTH,
    callback: Callable[[Iteration], bool | None] | None = None,
    before: int = 0,
    patience: int | None = None,
    offset: Floats | None = None,
) -> Solution:
    """Iterate from the potentials that the nodes have until ``sum_i w_i |p_i - p|_1 <= tol``. ``depth=0`` is plain
    iteration. Every oracle call counts as an iteration; ``before``: those of an earlier stage, which their numbers
    follow. ``patience``: give up after so many, or twice as many, four times as many and so on, if at the rate of the
    last half of them it would take more than twice as many again. ``offset (n,)``: what the potentials ``sum_i w_i
    x_i`` are to be in place of 0, which minimises ``sum_i w_i W_i(p) - reg <offset, p>``."""
    offset = np.zeros(nodes.size) if offset is None else offset
    nodes.shift(offset - nodes.total())
    anderson = Anderson(nodes, depth)
    errors: list[float] = []
    duals: list[float] = []
    goal, best = np.inf, np.inf
    with interruptible() as interrupted:
        while True:
            sums = nodes.evaluate()
            mean, drift = sums.mean, sums.drift - offset
            top = mean.max()
            with np.errstate(invalid="ignore"):
                decrease = float(-(top + np.log(np.exp(mean - top).sum())))
            p = np.exp(mean + decrease)
            # the rounded history lets sum_i w_i x_i drift, which would flatter the dual
            dual = sums.value - float((drift * p).sum())
            rounding = ROUNDING * (1.0 + abs(dual))
            # then the step is kept whatever the error, and nodes elsewhere need not wait for that
            clearly_lowered = dual <= goal - rounding
            last = len(errors) + 2 >= max_iter
            error = nodes.residual(mean, p, anderson.ahead() if clearly_lowered and not last else None)
            finite = math.isfinite(dual) and math.isfinite(error)
            lowered = clearly_lowered or (dual <= goal + rounding and error <= ERROR_GROWTH * best)
            if not anderson.keep(finite and lowered):
                errors.append(errors[-1])
                duals.append(duals[-1])
                continue
            if not finite:
                raise NumericalError(
                    f"The iteration produced a number that is not finite at step {len(errors) + 1} (dual value "
                    f"{dual}). "
                    "Check the measures for extreme coordinates, or use a larger reg."
                )
            errors.append(error)
            duals.append(dual)
            best = min(best, error)
            state = Iteration(before + len(errors), error, dual, p, nodes)
            status = _stop_reason(error, tol, len(errors), max_iter, interrupted, callback, state)
            if status is None and patience is not None and len(errors) >= patience:
                if _crawls(errors, tol):
                    status = Status.MAX_ITERATIONS
                patience *= 2
            if status is not None:
                break
            goal = dual - decrease
            # the last evaluation allowed must not be one that may be undone
            anderson.step(drift, p, plain=last)
    return Solution(nodes, mean + decrease, len(errors), error, dual, status, np.array(errors), np.array(duals))


def log_normalised(mean: Floats) -> Floats:
    """``mean (n,)`` less a constant, so that its exponentials sum to 1."""
    top = mean.max()
    return np.asarray(mean - top - np.log(np.exp(mean - top).sum()))


def _crawls(errors: list[float], tol: float) -> bool:
    """Whether the tolerance is more than twice as many iterations away as there were, at the rate of the last half."""
    count = len(errors)
    half = count // 2
    gained = np.log(errors[half - 1] / errors[-1])
    return bool(gained <= 0 or (count - half) * np.log(errors[-1] / tol) / gained > 2 * count)


def _stop_reason(
    error: float,
    tol: float,
    iterations: int,
    max_iter: int,
    interrupted: Callable[[], bool],
    callback: Callable[[Iteration], bool | None] | None,
    state: Iteration,
) -> Status | None:
    """Why to stop now, or None to continue."""
    stop = callback is not None and callback(state)
    if error <= tol:
        return Status.CONVERGED
    if stop:
        return Status.STOPPED
    if interrupted():
        return Status.INTERRUPTED
    return Status.MAX_ITERATIONS if iterations >= max_iter else None
