"""The entropic barycenter in rounds: safe for every regularisation and all weights.

In a round all contributions refer to one target, so the root can judge a step before it builds on it. With ``x_i =
lam_i / reg``, ``h_i = log p_i(x_i)``, averages ``a = avg(h)``, ``d = avg(x)`` and the dual function ``F =
avg(W*_i(x_i)) / reg``, the root knows after every round

    q = exp(a - d) / Z,    spread = avg KL(q | p_i) >= 0,    merit = F - <q, d>

**The plain step** ``x_i += a - d - h_i`` makes the potentials sum to zero, and lowers the dual by at least the spread
(Jensen's inequality): ``F_new <= F + log Z = merit - spread``. The spread is 0 at the barycenter only.

**Newton's step.** A node's estimate answers to its potential by ``dh = (I - S_i) dx`` (response.py). With ``G_i = ((1 +
damping) I - S_i + 1 p_i')^-1``, whose last term concerns constants only, a node moves to a target t by ``x_i += G_i (t
- h_i)``, and the potentials sum to zero after that for ``t = s + avg(G)^-1 avg(G_i (h_i - s) - x_i)`` with any s, such
as the last target: the averages of a matrix and of a vector. Where the matrices would be too large to send, a node
moves to t by itself, in several Sinkhorn steps, and ``t = a - K d`` with the response K of the barycenter's
self-transport in place of ``avg(G)^-1``.

**The safeguard.** A step is kept if it lowers the bound ``merit - spread``, what the plain step would make of it, by a
share of the spread. If not, the nodes go back, and take a shorter step, then the plain one, which passes always. So the
bound falls by a share of the spread again and again, and the nodes converge to the barycenter, wherever the targets
came from: docs/explanation/rounds.md has the proof. Newton's columns propose, and are not trusted.

**Small reg.** If reg is small, the root begins with a larger one and lowers it in steps, each time the nodes are close
to the barycenter of the last one.

**The certificate.** ``-(merit - spread)`` is a lower bound on the best objective. At the end every node solves its
transport to q to the last digits, and adds an upper bound on its cost to its contribution. Their sum is an upper bound
on the objective of q, and goes to all nodes with the last target.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from barymesh.core import kernels
from barymesh.gradients.logarithmic import LogGradients
from barymesh.methods.base import LARGEST, UNKNOWN_ERROR, Answer, Contribution, Enough, Floats, Indices, RoundMethod
from barymesh.methods.entropic import REACH, Entropic, EntropicState, potential_limit
from barymesh.methods.orders import Order, Phase, Report, RoundsState
from barymesh.methods.stages import needs_rounds, stages
from barymesh.methods.transports import LEAST_DAMPING, LOCAL_STEPS, Transports
from barymesh.oracle.bounds import transport_bounds
from barymesh.problem import Problem, support_cost

# matrices are sent on supports of so many points at most, and if all nodes together send so many numbers
MATRIX_POINTS, MATRIX_NUMBERS = 128, 4_000_000
# a step must lower the bound by this share of the spread
SHARE = 0.25
# differences of the bound below this share of it are rounding; then the spread must not grow by more than this factor
ROUNDING, SPREADING = 1e-13, 4.0
# the damping of Newton's step: at first, what it is divided and multiplied by after good and bad steps, its limit
DAMPING, RELIEF, RISE, MOST_DAMPING = 0.1, 4.0, 10.0, 10.0
SHORTER = 0.25
# the next stage of the regularisation begins when the mean error is below this
STAGE_ERROR = 0.05
# a plain step follows so many steps that were kept, if their potentials did not sum to zero
PLAIN_EVERY = 10
# what rounding may have done to the bounds of a certificate, as a share of them
CERTIFIED = 1e-14
# how many times the rounding of averages the two bounds can be off by: once each for the upper bound and the value; and
# for a and d, twice each, in Z and in the sum of the potentials after a plain step
FIXED_POINT = 6.0
# potentials whose mean is below this sum to zero, up to rounding
FEASIBLE = 1e-9


class Rounds(Entropic, RoundMethod[EntropicState]):
    """The entropic barycenter in rounds; see ``Entropic`` for the work between rounds. ``from_start``: there is no
    other work, and all measures are used as they are known from the start. ``nodes``: how many the network has.
    ``local_steps``: Newton's steps of a node in a round, at most; all but the first cost no message."""

    # of the contribution, after h and x: the value, the upper bound, the stage and its square
    SCALARS = 4

    def __init__(
        self, problem: Problem, log_gradients: LogGradients, nodes: int, *, from_start: bool = False,
        local_steps: int = LOCAL_STEPS,
    ) -> None:  # fmt: skip
        super().__init__(problem, log_gradients)
        self.in_rounds, self.local_steps = from_start, local_steps
        n = self.points
        self.newton = from_start and n <= MATRIX_POINTS and nodes * n * n <= MATRIX_NUMBERS
        self.precise = slice(0, 2 * n + self.SCALARS)
        self.up = self.precise.stop + (n + n * n if self.newton else 0)
        self.down = n + len(Order)
        lowered = from_start and self.lowers_reg(problem)
        self.regs = stages(problem.reg, support_cost(problem)) if lowered else [problem.reg]
        self.transports = Transports(problem, self.regs)

    @staticmethod
    def lowers_reg(problem: Problem) -> bool:
        """Whether to begin with a larger reg."""
        return needs_rounds(problem)

    @property
    def certificate_rounding(self) -> float:
        """What rounding in fixed point may have done to the bounds of a certificate."""
        return FIXED_POINT * self.rounding

    @property
    def last_stage(self) -> int:
        return len(self.regs) - 1

    def contribution_bounds(self) -> tuple[Floats, Floats]:
        lower, upper = super().contribution_bounds()
        stage, square = 2 * self.points + 2, 2 * self.points + 3
        lower[[stage, square]], upper[[stage, square]] = 0.0, (self.last_stage, self.last_stage**2)
        if self.newton:
            # G is a matrix with entries from 0 to 1/damping, less 1 p' times 1/(damping (1 + damping))
            first = self.precise.stop + self.points
            matrix = slice(first, first + self.points**2)
            lower[matrix], upper[matrix] = -1.0 / LEAST_DAMPING, 1.0 / LEAST_DAMPING
        return lower, upper

    def limits(self) -> Floats:
        n, found = self.points, np.full(self.up, potential_limit(self.problem))
        found[[2 * n + 2, 2 * n + 3]] = 1.0 + self.last_stage, (1.0 + self.last_stage) ** 2
        return found

    def target_bounds(self) -> tuple[Floats, Floats]:
        lower, upper = super().target_bounds()
        lower[self.points :], upper[self.points :] = 0.0, 1.0
        for name, most in (
            (Order.DAMPING, MOST_DAMPING), (Order.STAGE, float(self.last_stage)), (Order.GAP, LARGEST)
        ):  # fmt: skip
            upper[self.points + name] = most
        return lower, upper

    def start(self, count: int) -> RoundsState:
        n, sent = self.points, self.points if self.newton else 0
        # potentials to begin with are those of the last reg
        first = 0 if self.initial is None else self.last_stage

        def vectors() -> Floats:
            return np.zeros((count, n))

        def numbers(value: float = 0.0) -> Floats:
            return np.full(count, value)

        return RoundsState(
            **vars(super().start(count)), h=vectors(), base=vectors(), base_h=vectors(), base_mean=vectors(),
            base_drift=vectors(), value=numbers(), upper=numbers(), base_merit=numbers(), base_spread=numbers(),
            counted=numbers(), damping=numbers(DAMPING), base_damping=numbers(DAMPING),
            origin=np.zeros((count, sent)), move=np.zeros((count, sent)), matrix=np.zeros((count, sent, sent)),
            stage=np.full(count, first), valid=np.zeros(count, dtype=bool),
            phase=np.zeros(count, dtype=np.int64), kept=np.zeros(count, dtype=np.int64),
            base_stage=np.full(count, first), certified=np.full((count, n), np.nan),
        )  # fmt: skip

    # between rounds: as in Entropic, with nothing in the further columns

    def first(self, state: EntropicState) -> Contribution:
        assert isinstance(state, RoundsState)
        if not self.in_rounds:
            return self._padded(super().first(state))
        rows = np.arange(len(state.x))
        self._evaluate(state, rows)
        return self._contribution(state, rows)

    def local(self, state: EntropicState, rows: Indices, targets: Floats, known: NDArray[np.bool_]) -> Contribution:
        assert isinstance(state, RoundsState)
        state.valid[rows] = False
        return self._padded(super().local(state, rows, targets, known))

    def root(
        self, state: EntropicState, row: int, average: Floats, target: Floats, loop: float, complete: bool
    ) -> Answer:
        n = self.points
        answer = super().root(state, row, average[: 2 * n], target[:n], loop, complete)
        return replace(answer, target=np.concatenate([answer.target, np.zeros(len(Order))]))

    def _padded(self, contribution: Contribution) -> Contribution:
        nothing = np.zeros((len(contribution.errors), self.SCALARS))
        return Contribution((*contribution.parts, nothing), contribution.errors)

    # in rounds

    def respond(
        self, state: EntropicState, rows: Indices, targets: Floats, known: NDArray[np.bool_], fresh: NDArray[np.bool_]
    ) -> Contribution:
        assert isinstance(state, RoundsState)
        for row in rows[fresh]:
            self._obey(state, int(row), targets[row])
        if self.newton:
            # a node without a target refers to none
            lost = rows[~known & state.origin[rows].any(axis=1)]
            state.origin[lost], state.valid[lost] = 0.0, False
        self._evaluate(state, rows[~state.valid[rows]])
        errors = np.empty(rows.size)
        kernels.l1_distances(rows, known, UNKNOWN_ERROR, state.h[rows], targets, errors)
        state.error[rows] = errors
        return self._contribution(state, rows)

    def _contribution(self, state: RoundsState, rows: Indices) -> Contribution:
        stage = state.stage[rows].astype(float)
        scalars = np.stack([state.value[rows], state.upper[rows], stage, stage**2], axis=1)
        parts = [state.h[rows], state.x[rows], scalars]
        if self.newton:
            parts += [state.move[rows], state.matrix[rows].reshape(rows.size, -1)]
        return Contribution(tuple(parts), state.error[rows])

    def _obey(self, state: RoundsState, row: int, target: Floats) -> None:
        """Carry out an order: move x, and note that all that depends on it must be computed again."""
        n = self.points
        t, order = target[:n], target[n:]
        measure = int(state.measure[row])
        accepted = order[Order.ACCEPTED] > 0
        if accepted:
            if not state.valid[row]:
                self._evaluate(state, np.array([row]))
            state.base[row], state.base_h[row] = state.x[row], state.h[row]
            state.base_damping[row], state.base_stage[row] = state.damping[row], state.stage[row]
        stage = int(state.base_stage[row])
        x = state.base[row].copy()
        move = t - state.base_h[row]
        if order[Order.CERTIFY] > 0:
            x, _ = self.transports.solved(measure, stage, x, t)
        elif order[Order.PLAIN] > 0:
            x += move
        elif order[Order.LENGTH] > 0 and self.newton:
            damping, inverse = float(state.base_damping[row]), state.matrix[row] if accepted else None
            x = self.transports.moved(measure, stage, x, order[Order.LENGTH] * move, damping, self.local_steps, inverse)
        elif order[Order.LENGTH] > 0:
            x = self.transports.approached(measure, stage, x, t)
        new = int(np.clip(order[Order.STAGE], 0, self.last_stage))
        state.x[row] = self.within_reach(state, row, (x - x.mean()) * (self.regs[stage] / self.regs[new]), new)
        damping = float(np.clip(order[Order.DAMPING], LEAST_DAMPING, MOST_DAMPING))
        state.stage[row], state.damping[row], state.valid[row] = new, damping, False
        state.upper[row] = 0.0
        if self.newton:
            state.origin[row] = t
        if order[Order.CERTIFY] > 0:
            state.certified[row] = t
            self._evaluate(state, np.array([row]))
            oracle, one = self.transports.oracle(new), np.array([measure])
            p = np.exp(t - t.max())
            _, upper = transport_bounds(
                oracle, one, state.x[[row]], state.h[[row]], p / p.sum(), self.transports.measured.product_costs
            )
            state.upper[row] = upper[0]

    def within_reach(self, state: RoundsState, row: int, x: Floats, stage: int) -> Floats:
        """The potential ``x (n,)`` of a node, cut to what good steps lead to at this stage: a false target may lead
        beyond."""
        reach = min(self.largest, REACH * (1.0 + self.problem.largest_cost() / self.regs[stage]))
        return np.clip(x, -reach, reach)

    def _evaluate(self, state: RoundsState, rows: Indices) -> None:
        """All that depends on x, for some rows."""
        for stage in np.unique(state.stage[rows]):
            some = rows[state.stage[rows] == stage]
            measures = state.measure[some].astype(np.intp)
            state.value[some], state.h[some] = self.transports.oracle(int(stage)).evaluate(state.x[some], measures)
        if self.newton:
            for row in rows:
                reg = self.regs[state.stage[row]]
                inverse = self.transports.response.inverse(
                    int(state.measure[row]), state.x[row], reg, state.damping[row]
                )
                state.matrix[row] = inverse
                state.move[row] = inverse @ (state.h[row] - state.origin[row]) - state.x[row]
        state.valid[rows] = True

    def begin(self, state: EntropicState, row: int, target: Floats, weight: float, close: bool) -> Answer:
        assert isinstance(state, RoundsState)
        n = self.points
        order = {Order.ACCEPTED: 1.0, Order.DAMPING: DAMPING, Order.STAGE: float(state.stage[row])}
        if not close:
            state.phase[row] = Phase.NONE
            return self._answer(target[:n], order)
        state.phase[row], state.counted[row] = Phase.CLOSE, weight
        return self._answer(target[:n], order)

    def order(
        self, state: EntropicState, row: int, average: Floats, target: Floats | None, weight: float, error: float,
        enough: Enough,
    ) -> Answer:  # fmt: skip
        assert isinstance(state, RoundsState)
        n = self.points
        average = self.restored(average, target)
        if target is None:
            target = np.zeros(self.down)
            state.phase[row] = Phase.NONE
        stage, square = average[2 * n + 2], average[2 * n + 3]
        if abs(square - stage * stage) > 1e-6 * (1.0 + square):
            # after a change of epoch nodes may be at different stages
            return self.begin(state, row, target, weight, close=False)
        report = self.report(average, self.offset(state, row, self.stage(average)))
        phase, same = Phase(int(state.phase[row])), weight == state.counted[row]
        if not (np.isfinite(report.merit) and np.isfinite(report.spread)):
            kept = False
        else:
            tried = phase in (Phase.FULL, Phase.SHORT) and same
            kept = not tried or self._is_good(state, row, report)
        if not kept:
            return self._step_back(state, row, phase, target)
        if phase is Phase.CERTIFICATE and same:
            gap = self.problem.reg * self.gap(state, row, report, target[:n])
            # the nodes stay at the potentials that they have certified with
            certified = {Order.ACCEPTED: 1.0, Order.STAGE: float(report.stage), Order.GAP: gap}
            return replace(self._answer(target[:n], certified), finished=True)
        further, revised = self.revise(state, row, report)
        if revised:
            report = self.report(average, self.offset(state, row, report.stage))
        return self._step_on(state, row, report, target, weight, error + further, enough, revised)

    def restored(self, average: Floats, target: Floats | None) -> Floats:
        """What the ``average (up,)`` of contributions to the last target would be if nodes had not moved their
        measures, where they have."""
        return average

    def offset(self, state: RoundsState, row: int, stage: int) -> Floats | float:
        """What the potentials are to sum to at this stage: 0, or the ``(n,)`` numbers that the root has in its row."""
        return 0.0

    def stage(self, average: Floats) -> int:
        """The stage of the nodes, from the ``average (up,)`` of their contributions."""
        return round(float(average[2 * self.points + 2]))

    def further_error(self, state: RoundsState, row: int, report: Report) -> float:
        """How far the offset is from what it should be at the barycenter, in L1."""
        return 0.0

    def revise(self, state: RoundsState, row: int, report: Report) -> tuple[float, bool]:
        """The further error, and whether the root has revised the offset, because the nodes agree well enough."""
        return 0.0, False

    def gap(self, state: RoundsState, row: int, report: Report, target: Floats) -> float:
        """The certificate of the measure with logarithms ``target (n,)``, in units of reg: the upper bound less the
        better of two lower ones, that of the last step and that of the potentials whose transports are solved, and what
        rounding may have done to these."""
        lower = max(-(report.merit - report.spread), -(float(state.base_merit[row]) - float(state.base_spread[row])))
        rounding = CERTIFIED * (1.0 + abs(report.upper) + abs(lower)) + self.certificate_rounding
        return max(report.upper - lower, 0.0) + rounding

    def report(self, average: Floats, offset: Floats | float = 0.0) -> Report:
        """What the root learns from the ``average (up,)`` of the contributions; ``offset``: what the potentials are to
        sum to."""
        n = self.points
        mean, drift, rest = average[:n], average[n : 2 * n] - offset, average[2 * n :]
        (value, upper, stage, _), rest = rest[: self.SCALARS], rest[self.SCALARS :]
        matrix = rest[n:].reshape(n, n) if self.newton else np.empty((0, 0))
        log_q = mean - drift
        with np.errstate(over="ignore", invalid="ignore"):
            top = log_q.max()
            log_q = log_q - top - np.log(np.exp(log_q - top).sum())
            q = np.exp(log_q)
            spread = max(float(q @ (log_q - mean)), 0.0)
            merit = float(value - q @ drift)
        move = rest[:n] + offset if self.newton else rest[:n]
        return Report(mean, drift - q @ drift, float(upper), round(float(stage)), move, matrix, log_q, spread, merit)

    def _is_good(self, state: RoundsState, row: int, report: Report) -> bool:
        """Whether the last step is kept."""
        spread = float(state.base_spread[row])
        before, now = float(state.base_merit[row]) - spread, report.merit - report.spread
        # what does not change from round to round does nothing to this comparison
        fixed_point = FIXED_POINT * self.rounding
        wanted, rounding = SHARE * min(spread, report.spread), ROUNDING * (1.0 + abs(now)) + fixed_point
        resolved = wanted > rounding or report.spread <= SPREADING * max(spread, fixed_point)
        return resolved and now - before <= rounding - wanted

    def _step_back(self, state: RoundsState, row: int, phase: Phase, target: Floats) -> Answer:
        """The last step was no good: a shorter one to the same target, or the plain one."""
        n = self.points
        damping = min(float(target[n + Order.DAMPING]) * RISE, MOST_DAMPING)
        order = {Order.DAMPING: damping, Order.STAGE: float(target[n + Order.STAGE])}
        if self.newton and phase is Phase.FULL:
            state.phase[row] = Phase.SHORT
            return self._answer(target[:n], order | {Order.LENGTH: SHORTER})
        state.phase[row] = Phase.SURE
        return self._answer(state.base_mean[row] - state.base_drift[row], order | {Order.PLAIN: 1.0})

    def _step_on(
        self, state: RoundsState, row: int, report: Report, target: Floats, weight: float, error: float, enough: Enough,
        revised: bool,
    ) -> Answer:  # fmt: skip
        """The last step is kept; the next begins where it ended. ``revised``: the offset is another now."""
        n, known = self.points, state.phase[row] not in (Phase.NONE, Phase.CLOSE)
        before = state.base_mean[row] - state.base_drift[row]
        moved = kernels.l1_distance(report.log_q, before) if known else UNKNOWN_ERROR
        counted = float(state.counted[row])
        state.base_merit[row], state.base_spread[row], state.counted[row] = report.merit, report.spread, weight
        state.base_mean[row], state.base_drift[row] = report.mean, report.drift
        damping = max(float(target[n + Order.DAMPING]) / RELIEF, LEAST_DAMPING) if known else DAMPING
        order = {Order.ACCEPTED: 1.0, Order.LENGTH: 1.0, Order.DAMPING: damping, Order.STAGE: float(report.stage)}
        left = moved + error + report.infeasibility
        if state.phase[row] == Phase.CLOSE and weight == counted:
            # the nodes have not moved since they were found to be close; a measure may have changed
            left = error + report.infeasibility
        # values for different offsets cannot be compared
        state.phase[row] = Phase.SURE if revised else Phase.FULL
        if report.stage < self.last_stage:
            if np.sqrt(2.0 * report.spread) <= STAGE_ERROR:
                state.phase[row] = Phase.SURE
                order |= {Order.STAGE: report.stage + 1.0, Order.DAMPING: max(damping, DAMPING / 10.0)}
        elif enough(left):
            state.phase[row] = Phase.CERTIFICATE
            return replace(self._answer(report.log_q, order | {Order.CERTIFY: 1.0}), moved=moved, decided=True)
        state.kept[row] = 0 if report.infeasibility <= FEASIBLE else state.kept[row] + 1
        if state.phase[row] == Phase.FULL and state.kept[row] >= PLAIN_EVERY:
            # after a plain step the potentials sum to zero: the proof needs that again and again
            state.phase[row], state.kept[row] = Phase.SURE, 0
            return replace(self._answer(report.mean - report.drift, order | {Order.PLAIN: 1.0}), moved=moved)
        return replace(self._answer(self._next_target(report, target[:n]), order), moved=moved)

    def _next_target(self, report: Report, last: Floats) -> Floats:
        """Where the nodes are to move: to where the potentials sum to zero, as far as can be foreseen. ``last``: the
        target that they have."""
        if self.newton:
            try:
                found = last + np.linalg.solve(report.matrix, report.move)
            except np.linalg.LinAlgError:
                # honest matrices have an inverse, and so has their average
                found = np.full(self.points, np.nan)
            if np.isfinite(found).all():
                return np.asarray(found)
        return report.mean - self.transports.self_transport(report.stage).response(report.mean, report.drift)

    def _answer(self, t: Floats, order: dict[Order, float]) -> Answer:
        target = np.zeros(self.down)
        target[: self.points] = t
        for name, value in order.items():
            target[self.points + name] = value
        return Answer(target, 0.0, 0.0)

    def change(self, state: EntropicState, row: int, measure: int) -> None:
        assert isinstance(state, RoundsState)
        super().change(state, row, measure)
        # it begins anew from the potential that it has, and nothing is certified of the new measure
        state.valid[row], state.certified[row] = False, np.nan

    def agrees(self, state: EntropicState, rows: Indices, targets: Floats) -> NDArray[np.bool_]:
        assert isinstance(state, RoundsState)
        return np.asarray((state.certified[rows] == targets[rows, : self.points]).all(axis=1))

    def duals(self, state: EntropicState) -> Floats:
        assert isinstance(state, RoundsState)
        return np.asarray(state.x * np.array(self.regs)[state.stage, None])

    def gaps(self, targets: Floats) -> Floats:
        return targets[:, self.points + Order.GAP]
