"""The entropic barycenter in rounds in which nodes tell of nothing but transports that they have solved.

A target is a measure p, and a node that gets it solves its own transport to p, to the last digits. It then contributes

    x_i = grad W_i(p) / reg,       W_i(p) / reg,       and on small supports  G_i = dx_i / dlog p

So whatever the root asks for, what it gets is the objective ``F(p) = avg W_i(p) / reg`` with its first and second
derivatives, and nothing else of a node than its part in these sums. That is why masked sums are made of them
(docs/explanation/privacy.md). A node that cannot solve its transport contributes zeros, and goes on solving when it is
asked again.

**The step.** With ``d = avg(x)``, the gradient, a step ``log p -= step`` is one of

    Newton's     (avg(G) + damping)^-1 d                   where matrices are sent
    foreseen     length * K d                              K: the response of the self-transport of p
    plain        length * d                                mirror descent: p exp(-length d) / Z

The damping falls after good steps and rises after bad ones (Levenberg and Marquardt): with much of it Newton's step is
a short plain one.

**The safeguard.** F is convex. In the geometry of the entropy its curvature is at least 1, and bounded. A plain step is
sure if ``F(p') <= F(p) + <d, p' - p> + KL(p' | p) / length``, which holds for every length below some number: it then
lowers F by ``KL(p | p') / length``. Any other step is kept if it lowers F by a share of what its slope promises. Steps
that are not kept are shortened, and after some trials they are plain. A sure step follows at the latest after ten
others that have not halved the spread. So F falls to its minimum: docs/explanation/rounds.md has the proof.

**The certificate.** ``log sum p exp(<d, p> - d)`` bounds ``F(p)`` less its minimum; see rounds.py.

**Small reg.** There F is close to a function with kinks, and steps on it crawl. ``SolvedStartRounds`` are the rounds of
rounds.py, in which a node begins with the solved transport to the uniform measure in place of the potential 0. A root
can learn more from them than F, but not where the records of a node are: for squared distances, a shift of the records
of all nodes that leaves their mean where it is changes no sum, here and above.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from barymesh.core import kernels
from barymesh.methods.base import UNKNOWN_ERROR, Answer, Contribution, Enough, Floats, Indices, Method
from barymesh.methods.entropic import EntropicState, potential_limit
from barymesh.methods.orders import Order, Phase, Report, RoundsState
from barymesh.methods.rounds import (
    DAMPING,
    FIXED_POINT,
    MOST_DAMPING,
    PLAIN_EVERY,
    RELIEF,
    RISE,
    ROUNDING,
    SHORTER,
    SPREADING,
    Rounds,
)
from barymesh.methods.sinkhorn import ROUNDED
from barymesh.methods.transports import LEAST_DAMPING
from barymesh.oracle.bounds import transport_bounds
from barymesh.problem import Problem

# how often a node takes up a transport that it has not solved, in a round
TRIES = 5
# a step must lower the objective by this share of its slope
ARMIJO = 0.05
# after steps shorter than this, plain ones are tried
SHORTEST = 0.01
# the longest step, as the root of the mean square of the change of log p
LONGEST = 2.0
# the next stage of the regularisation begins when the spread is below this
STAGE_SPREAD = 0.1
# what the length of a step is multiplied by after one that was kept
LONGER = 2.0


class SolvedRounds(Rounds):
    """The entropic barycenter from transports that are solved; arguments as for ``Rounds``, from the start."""

    # a contribution has x, and two numbers: the value of the dual function, and the upper bound on the cost
    VECTORS, SCALARS = 1, 2

    @staticmethod
    def lowers_reg(problem: Problem) -> bool:
        return True

    @property
    def newton_columns(self) -> int:
        return self.points**2

    @property
    def lowest(self) -> float:
        """Targets have no logarithms further below the largest: so potentials stay within their limits, since ``x - log
        p`` has no larger range than the costs from a record, of which none is beyond the reach."""
        return 0.5 * potential_limit(self.problem)

    def contribution_bounds(self) -> tuple[Floats, Floats]:
        lower, upper = Method.contribution_bounds(self)
        lower[self.precise.stop :], upper[self.precise.stop :] = -1.0 / LEAST_DAMPING, 1.0 / LEAST_DAMPING
        return lower, upper

    def limits(self) -> Floats:
        found = np.full(self.up, potential_limit(self.problem))
        # the largest that an entry can be: nothing is cut, and what masks need follows from what is public
        found[self.precise.stop :] = 1.0 / LEAST_DAMPING
        return found

    def contradiction(self, average: Floats, single: bool) -> str:
        return ""

    def start(self, count: int) -> RoundsState:
        state = super().start(count)
        # potentials to begin with are of no use: nodes begin at home, and the root with the uniform measure
        state.stage[:] = 0
        return state

    # a node

    def first(self, state: EntropicState) -> Contribution:
        return self._contribution(state, np.arange(len(state.x)))

    def respond(
        self, state: EntropicState, rows: Indices, targets: Floats, known: NDArray[np.bool_], fresh: NDArray[np.bool_]
    ) -> Contribution:
        assert isinstance(state, RoundsState)
        # nodes whose measure has changed answer their last target anew
        for row in rows[known & (fresh | ~state.valid[rows])]:
            self._solve(state, int(row), targets[row])
        # a node without a target has nothing to tell
        state.error[rows[~known]], state.valid[rows[~known]] = UNKNOWN_ERROR, False
        return self._contribution(state, rows)

    def _contribution(self, state: EntropicState, rows: Indices) -> Contribution:
        """Of transports that are solved; of others zeros."""
        assert isinstance(state, RoundsState)
        solved = state.error[rows] < UNKNOWN_ERROR
        parts = [state.x[rows], np.stack([state.value[rows], state.upper[rows]], axis=1)]
        if self.newton:
            parts.append(state.matrix[rows].reshape(rows.size, -1))
        return Contribution(tuple(np.where(solved[:, None], part, 0.0) for part in parts), state.error[rows])

    def _solve(self, state: RoundsState, row: int, target: Floats) -> None:
        """The node's transport to the target. It begins at home, not at the potential that an earlier target has led
        to: what it contributes depends on the target alone, to the last bit."""
        t, stage = target[: self.points], int(np.clip(target[self.points + Order.STAGE], 0, self.last_stage))
        again = bool(state.valid[row]) and stage == state.stage[row] and np.array_equal(t, state.base[row])
        if again and state.error[row] < UNKNOWN_ERROR:
            return
        log_p = _normalised(t)
        measure, reg = int(state.measure[row]), self.regs[stage]
        state.stage[row], state.base[row], state.valid[row] = stage, t, True
        state.error[row], state.certified[row] = UNKNOWN_ERROR, np.nan
        if not log_p.min() >= -self.lowest:
            # it is not one of an honest root
            return
        # one that has been asked for and not been solved is gone on with
        x = state.x[row] if again else self.transports.home(measure, stage, log_p)
        for _ in range(TRIES):
            x, left = self.transports.solved(measure, stage, x, log_p)
            if not np.isfinite(x).all():
                state.valid[row] = False
                return
            if left <= ROUNDED:
                break
        state.x[row] = x - np.exp(log_p) @ x
        if not left <= ROUNDED:
            return
        oracle, one = self.transports.oracle(stage), np.array([measure])
        value, h = oracle.evaluate(state.x[[row]], one)
        _, upper = transport_bounds(oracle, one, state.x[[row]], h, np.exp(log_p), self.problem.product_costs)
        state.value[row], state.upper[row], state.error[row], state.certified[row] = value[0], upper[0], left, t
        if self.newton:
            state.matrix[row] = self.transports.response.inverse(measure, state.x[row], reg, LEAST_DAMPING)

    # the root

    def order(
        self, state: EntropicState, row: int, average: Floats, target: Floats | None, weight: float, error: float,
        enough: Enough,
    ) -> Answer:  # fmt: skip
        assert isinstance(state, RoundsState)
        if target is None:
            return self.begin(state, row, np.zeros(self.down), weight, close=False)
        tried = state.phase[row] == Phase.FULL and weight == state.counted[row]
        if error >= UNKNOWN_ERROR:
            # a node has not solved its transport: a shorter step, or the same again
            if tried:
                return self._shorten(state, row, target)
            return self._answer(target[: self.points], _order(target))
        stage = int(target[self.points + Order.STAGE])
        report = self.report(average, self.offset(state, row, stage), target)
        if not (np.isfinite(report.merit) and np.isfinite(report.spread)):
            if tried:
                return self._shorten(state, row, target)
            return self.begin(state, row, target, weight, close=False)
        if tried and not self._lowers(state, row, report, target):
            return self._shorten(state, row, target)
        return self._go_on(state, row, report, average, target, weight, error, enough)

    def report(self, average: Floats, offset: Floats | float = 0.0, target: Floats | None = None) -> Report:
        assert target is not None
        n = self.points
        x, (value, upper), rest = np.split(average, [n, self.precise.stop])
        matrix = rest.reshape(n, n) if self.newton else np.empty((0, 0))
        stage = int(target[n + Order.STAGE])
        return self.judged(_normalised(target[:n]), x - offset, float(value), float(upper), stage, np.empty(0), matrix)

    def _lowers(self, state: RoundsState, row: int, report: Report, target: Floats) -> bool:
        """Whether the last step is kept."""
        before, now, slope = np.exp(state.base_mean[row]), np.exp(report.mean), state.base_drift[row]
        rise = _objective(report.mean, report.drift, report.merit) - _objective(
            state.base_mean[row], slope, float(state.base_merit[row])
        )
        fixed_point = FIXED_POINT * self.rounding
        rounding = ROUNDING * (1.0 + abs(report.merit)) + fixed_point
        promised = float((now - before) @ slope)
        if target[self.points + Order.PLAIN] > 0:
            length = float(target[self.points + Order.LENGTH])
            divergence = float(now @ (report.mean - state.base_mean[row]))
            if rise <= promised + divergence / length + rounding:
                state.length[row], state.kept[row] = length, 0
                return True
            # it is a good step all the same, but not one of those that the proof needs again and again
            state.length[row] = SHORTER * length
            return rise <= ARMIJO * promised
        step = report.mean - state.base_mean[row]
        wanted = ARMIJO * float((before * (slope - before @ slope)) @ step)
        size, new_size = (float(np.sqrt(p @ (d - p @ d) ** 2)) for p, d in ((before, slope), (now, report.drift)))
        resolved = -wanted > rounding or new_size <= SPREADING * max(size, fixed_point)
        return bool(resolved and rise <= min(wanted, 0.0) + rounding)

    def _shorten(self, state: RoundsState, row: int, target: Floats) -> Answer:
        """The last step was no good: a shorter one, at last a plain one."""
        n, order = self.points, _order(target)
        order[Order.LENGTH] *= SHORTER
        state.damping[row] = min(state.damping[row] * RISE, MOST_DAMPING)
        if order[Order.PLAIN] > 0 or order[Order.LENGTH] < SHORTEST:
            order[Order.PLAIN] = 1.0
            return self._step(state, row, order[Order.LENGTH] * state.base_drift[row], order)
        return self._step(state, row, SHORTER * (state.base_mean[row] - _normalised(target[:n])), order)

    def _go_on(
        self, state: RoundsState, row: int, report: Report, average: Floats, target: Floats, weight: float,
        error: float, enough: Enough,
    ) -> Answer:  # fmt: skip
        """The last step is kept: the next one, or the end."""
        n, order, tried = self.points, _order(target), state.phase[row] == Phase.FULL
        p = np.exp(report.mean)
        further = self.further_error(state, row, report)
        left = float(p @ np.abs(report.drift - p @ report.drift)) + error + further
        halved = report.spread <= 0.5 * state.base_spread[row]
        state.base_merit[row], state.base_spread[row] = report.merit, report.spread
        if report.stage == self.last_stage and enough(left):
            gap = self.problem.reg * self.gap(state, row, report, report.mean)
            last = {Order.STAGE: float(report.stage), Order.GAP: gap}
            return replace(self._answer(target[:n], last), decided=True, finished=True)
        _, revised = self.revise(state, row, report)
        if revised:
            report = self.report(average, self.offset(state, row, report.stage), target)
        state.base_mean[row], state.base_drift[row] = report.mean, report.drift
        state.base_merit[row], state.base_spread[row], state.counted[row] = report.merit, report.spread, weight
        plain = order[Order.PLAIN] > 0
        length = min(LONGER * order[Order.LENGTH], 1.0) if tried and not plain else 1.0
        if not tried:
            state.damping[row], state.length[row] = DAMPING, 1.0
        elif not plain and order[Order.LENGTH] == 1.0:
            state.damping[row] = max(state.damping[row] / RELIEF, LEAST_DAMPING)
        state.phase[row], state.kept[row] = Phase.FULL, state.kept[row] + (0 if halved else 1)
        new = {Order.LENGTH: length, Order.STAGE: float(report.stage)}
        if state.kept[row] >= PLAIN_EVERY:
            # each of these comes closer to the optimum by a share, whatever the others do
            length = min(LONGER * float(state.length[row]), 1.0)
            new |= {Order.PLAIN: 1.0, Order.LENGTH: length}
            return self._step(state, row, length * report.drift, new)
        if report.stage < self.last_stage and report.spread <= STAGE_SPREAD:
            # objectives of different regs cannot be compared
            state.phase[row] = Phase.NONE
            new[Order.STAGE] += 1.0
        return self._step(state, row, self._newton_step(state, row, report, new), new)

    def _newton_step(self, state: RoundsState, row: int, report: Report, order: dict[Order, float]) -> Floats:
        """``(n,)``: what log p is to be lowered by; the foreseen step of the length of the order, where no matrices are
        sent, or they have no inverse, as those of a liar."""
        if self.newton:
            order[Order.LENGTH] = 1.0
            matrix = report.matrix + state.damping[row] * np.eye(self.points)
            try:
                found = np.linalg.solve(matrix, report.drift)
            except np.linalg.LinAlgError:
                found = np.full(self.points, np.nan)
            if np.isfinite(found).all():
                return np.asarray(found)
        response = self.transports.self_transport(report.stage).response(report.mean, report.drift)
        return np.asarray(order[Order.LENGTH] * response)

    def _step(self, state: RoundsState, row: int, step: Floats, order: dict[Order, float]) -> Answer:
        """The target that lowers log p by the ``step (n,)``, from where the last one that was kept has led."""
        base = state.base_mean[row]
        p = np.exp(base)
        step = step - p @ step
        if not order.get(Order.PLAIN):
            step = step * min(1.0, LONGEST / max(float(np.sqrt(p @ step**2)), LONGEST))
        t = _normalised(np.maximum(base - step - (base - step).max(), -0.9 * self.lowest))
        return replace(self._answer(t, order), moved=kernels.l1_distance(t, base))

    def agrees(self, state: EntropicState, rows: Indices, targets: Floats) -> NDArray[np.bool_]:
        assert isinstance(state, RoundsState)
        return super().agrees(state, rows, targets) & (state.error[rows] < UNKNOWN_ERROR)


class SolvedStartRounds(Rounds):
    """Rounds whose nodes begin with solved transports to the uniform measure; arguments as for ``Rounds``."""

    @staticmethod
    def lowers_reg(problem: Problem) -> bool:
        return True

    def first(self, state: EntropicState) -> Contribution:
        self._place(state, np.arange(len(state.x)))
        return super().first(state)

    def respond(
        self, state: EntropicState, rows: Indices, targets: Floats, known: NDArray[np.bool_], fresh: NDArray[np.bool_]
    ) -> Contribution:
        self._place(state, rows)
        return super().respond(state, rows, targets, known, fresh)

    def change(self, state: EntropicState, row: int, measure: int) -> None:
        super().change(state, row, measure)
        # the potential that it had would tell where the new measure is from the old one
        state.x[row] = 0.0

    def _place(self, state: EntropicState, rows: Indices) -> None:
        """Where nodes begin, and where a step that is not accepted leads back to."""
        assert isinstance(state, RoundsState)
        new = rows[~state.x[rows].any(axis=1)]
        for row in new:
            measure, stage = int(state.measure[row]), int(state.stage[row])
            uniform = np.zeros(self.points)
            x, _ = self.transports.solved(measure, stage, self.transports.home(measure, stage, uniform), uniform)
            state.x[row] = x - x.mean()
        self._evaluate(state, new)
        state.base[new], state.base_h[new] = state.x[new], state.h[new]
        state.base_stage[new], state.base_damping[new] = state.stage[new], state.damping[new]


def _objective(log_p: Floats, drift: Floats, merit: float) -> float:
    """``F(p) = <d, p> - avg W*(x)``, from what a report has."""
    return float(np.exp(log_p) @ drift) - merit


def _order(target: Floats) -> dict[Order, float]:
    return {name: float(target[name - len(Order)]) for name in Order}


def _normalised(log_p: Floats) -> Floats:
    log_p = log_p - log_p.max()
    return np.asarray(log_p - np.log(np.exp(log_p).sum()))
