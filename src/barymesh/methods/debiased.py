"""The debiased barycenter, ``min_p sum_i w_i W_i(p) - V(p) / 2``, on a network.

What nodes do, and what they send, is the same as for the entropic barycenter: there the potentials sum to zero, here
they sum to f, the own potential of the barycenter (debiasing.py), which the root computes from what it knows already.

**Between rounds** the correction is that of ``avg(x) - f(q)``, with the present estimate q.

**In rounds** the sum f is an *offset* that the root keeps, and for which the rounds are those of the problem ``min_p
sum_i w_i W_i(p) - reg <f, p>``: all that is proven of rounds holds for it. Once the nodes agree more closely than
``e^f K e^f`` agrees with them, the root takes a step for f (``OwnPlan.step``). A step that does not lower an objective
of f is undone, and damped more. If the distance does not shrink for long, the root takes some steps that cannot fail: f
becomes the own potential of q. The more often it has failed, the more of these it takes (docs/explanation/debiased.md
has the proof).

**The certificate** is that of exact/certificate.py, from the averages that the root has.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from barymesh.gradients.logarithmic import LogGradients
from barymesh.methods.base import Answer, Floats
from barymesh.methods.debiasing import DAMPING, Debiasing, adapted
from barymesh.methods.entropic import EntropicState
from barymesh.methods.orders import Phase, Report, RoundsState
from barymesh.methods.rounds import CERTIFIED, Rounds
from barymesh.problem import Problem

# the nodes agree if their distance is this share of the error of f, or this small
AGREEMENT, AGREED = 0.2, 1e-10
# the steps for f have failed if the error has not shrunk to this share of the least in so many of them
SHRUNK, PATIENCE = 0.9, 20
# a gap that is not known, as a number that can be sent
NO_GAP = 1e11


@dataclass
class DebiasedState(RoundsState):
    """Of a root: ``offset (k, n)``, f; the last f that was kept, ``kept_offset (k, n)``, and ``kept_log_q (k, n)``
    there; the ``least_error (k,)`` that was seen; ``own_damping`` of the steps, how often they have ``failed``, for how
    many steps the error has ``stayed``, and how many ``proven`` steps are to come, each ``(k,)``."""

    offset: Floats = field(kw_only=True)
    kept_offset: Floats = field(kw_only=True)
    kept_log_q: Floats = field(kw_only=True)
    least_error: Floats = field(kw_only=True)
    own_damping: Floats = field(kw_only=True)
    failed: NDArray[np.int64] = field(kw_only=True)
    stayed: NDArray[np.int64] = field(kw_only=True)
    proven: NDArray[np.int64] = field(kw_only=True)


class DebiasedRounds(Rounds):
    """The debiased barycenter, with and without rounds; arguments as for ``Rounds``."""

    def __init__(self, problem: Problem, log_gradients: LogGradients, nodes: int, *, from_start: bool = False) -> None:
        super().__init__(problem, log_gradients, nodes, from_start=from_start)
        self.debiasing = Debiasing(problem)

    def start(self, count: int) -> DebiasedState:
        def counts() -> NDArray[np.int64]:
            return np.zeros(count, dtype=np.int64)

        return DebiasedState(
            **vars(super().start(count)), offset=np.zeros((count, self.points)),
            kept_offset=np.zeros((count, self.points)), kept_log_q=np.zeros((count, self.points)),
            least_error=np.full(count, np.inf), own_damping=np.full(count, DAMPING), failed=counts(),
            stayed=counts(), proven=counts(),
        )  # fmt: skip

    def sum_of_potentials(self, log_q: Floats) -> Floats:
        return self.debiasing.potential(log_q)

    def begin(self, state: EntropicState, row: int, target: Floats, weight: float, close: bool) -> Answer:
        assert isinstance(state, DebiasedState)
        state.offset[row], state.least_error[row] = self.debiasing.potential(target[: self.points]), np.inf
        return super().begin(state, row, target, weight, close)

    def offset(self, state: RoundsState, row: int, stage: int) -> Floats | float:
        assert isinstance(state, DebiasedState)
        if state.phase[row] == Phase.NONE:
            # what was seen in another epoch may have been of other nodes
            state.least_error[row] = np.inf
        return state.offset[row] if stage == self.last_stage else 0.0

    def further_error(self, state: RoundsState, row: int, report: Report) -> float:
        assert isinstance(state, DebiasedState)
        if report.stage < self.last_stage:
            return 0.0
        return self.debiasing.plan(state.offset[row]).error(report.log_q)

    def revise(self, state: RoundsState, row: int, report: Report) -> tuple[float, bool]:
        assert isinstance(state, DebiasedState)
        error = self.further_error(state, row, report)
        if report.stage < self.last_stage:
            return error, False
        distance = np.sqrt(2.0 * report.spread) + report.infeasibility
        if distance > max(AGREEMENT * error, AGREED):
            return error, False
        first = not np.isfinite(state.least_error[row])
        state.stayed[row] = 0 if error <= SHRUNK * state.least_error[row] else state.stayed[row] + 1
        state.least_error[row] = min(error, state.least_error[row])
        gain = np.inf
        if state.proven[row] == 0 and not first:
            gain = self.debiasing.gain(state.kept_offset[row], state.kept_log_q[row], state.offset[row], report.log_q)
            state.own_damping[row] = adapted(float(state.own_damping[row]), gain)
        if gain > 0.0:
            state.kept_offset[row], state.kept_log_q[row] = state.offset[row], report.log_q
        if state.stayed[row] >= PATIENCE:
            state.failed[row] += 1
            state.proven[row], state.stayed[row] = state.failed[row], 0
        log_q = state.kept_log_q[row]
        if first or state.proven[row] > 0:
            state.proven[row] = max(state.proven[row] - 1, 0)
            state.offset[row] = self.debiasing.potential(log_q)
        else:
            step = self.debiasing.plan(state.kept_offset[row]).step(log_q, float(state.own_damping[row]))
            state.offset[row] = state.kept_offset[row] + step
        return error, True

    def gap(self, state: RoundsState, row: int, report: Report, target: Floats) -> float:
        assert isinstance(state, DebiasedState)
        log_q = target - target.max()
        q = np.exp(log_q) / np.exp(log_q).sum()
        lower = self.debiasing.lower(report.mean - report.drift - state.offset[row], state.offset[row]) - report.merit
        upper = report.upper + self.debiasing.upper(q)
        rounding = CERTIFIED * (1.0 + abs(report.upper) + abs(report.merit)) + self.certificate_rounding
        gap = max(upper - lower, 0.0) + rounding
        return float(min(gap, NO_GAP / self.reg)) if np.isfinite(gap) else NO_GAP / self.reg

    def gaps(self, targets: Floats) -> Floats:
        found = super().gaps(targets)
        return np.where(found >= 0.5 * NO_GAP, np.inf, found)
