"""The free-support barycenter: points that move, ``min_z sum_i w_i W_i(z, a)``, with uniform or learned weights a.

For the squared Euclidean cost the gradient in a point is ``2 a_l (z_l - avg T_i(z_l))``, with the barycentric
projection T_i of node i (oracle/moving.py). So a point moves to the average of its projections, which lowers the cost
of the plans that gave them as far as can be:

    local:   solve the transport to (z, a) (sinkhorn.py),  contribution (T_i(z), x_i, ...)
    root:    z = avg(T(z)), and beyond, with momentum

**Weights.** Uniform ones stay. The gradient in learned ones is ``avg(x)``, and the root steps along it in the metric of
the transport of (z, a) to itself (self_transport.py): ``log a -= K avg(x)``. Points farther apart than the blur of reg
exchange nothing in that transport, though the atoms between them change sides. So K is a sum over several
regularisations r, from the squared distance of neighbours up to that of the farthest points: ``K = sum_r reg/r K_r``.
The root knows the objective of every target. Where it has risen the points lose their momentum, and there, and where
the last step of the weights went beyond the lowest place on its way, these steps become shorter.

**Where it ends.** The problem is not convex in z. Where nothing moves any more the points are stationary, and the
weights, if they are learned, are optimal for these points, which the certificate shows: no others would gain more than
``a avg(x) - min avg(x)``. With several starts the one with the lowest objective is kept.

**With masks** a node works with its measure moved to the origin (centring.py), so that sums do not tell where its
records are, as in masked_rounds.py. It solves its transport anew for every target, to the last digits, from one at a
large reg that its data determine, so that its answer does not depend on earlier targets. Targets beyond the reach are
not answered.

**The start** is given, or made by the root (support/free.py) of averages: every contribution has the node's mean and
mean squares, coordinate by coordinate. They are also the unit in which moves are measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from barymesh.errors import SupportError
from barymesh.measures import Atoms
from barymesh.methods.base import UNKNOWN_ERROR, Answer, Contribution, Enough, Floats, Indices, RoundMethod
from barymesh.methods.centring import Centring
from barymesh.methods.entropic import REACH
from barymesh.methods.free_orders import FreeOrder, FreeSupportState, FreeTarget
from barymesh.methods.self_transport import SelfTransport
from barymesh.methods.sinkhorn import solved
from barymesh.methods.stages import stages
from barymesh.oracle.bounds import transport_bounds
from barymesh.oracle.moving import MovingOracle
from barymesh.problem import Problem
from barymesh.support.free import normal_draws

# a node's steps to uniform weights in a round, at most, and for the certificate
STEPS, LAST_STEPS = 20, 100
# and with masks, where it begins anew for every target
MASKED_STEPS = 300
# its distance from them that is close enough: at first, and as a share of the last move of the points
FIRST_ACCURACY, ACCURACY, LAST_ACCURACY = 1e-2, 0.1, 1e-12
# what the steps of learned weights are multiplied by after steps that raised the objective, and after others
SHORTER, LONGER = 0.5, 1.1
# the most by which the logarithm of a learned weight changes in a step, and by what the regularisations of K grow
MOST_CHANGE, COARSER = 1.0, 4.0
# differences of the objective below this share of it are rounding
ROUNDING = 1e-12
# what rounding may have done to the bounds of a certificate, as a share of them
CERTIFIED = 1e-14
# how many times the rounding of averages the bounds of a certificate can be off by
FIXED_POINT = 4.0
# with masks no weight has a smaller logarithm, less this: projections of points without mass are not known, and where
# that begins depends on the node
LOWEST_WEIGHT = 45.0
# log 0, near enough
NO_MASS = -1e12
# what the weights of a target may sum to, less 1
MASS_ERROR = 1e-9


class FreeSupportMethod(RoundMethod[FreeSupportState]):
    """Points that move. The measures of the problem are those of the nodes, in the order of their rows, and perhaps
    others that nodes change to. ``drawn``: for a root that may have draws from all measures, among which the points
    start: ``drawn(shares, start)`` has so many of each. ``masked``: sums are not to tell where the records of a node
    are."""

    name = "free_support"
    final = True
    in_rounds = True

    def __init__(
        self, problem: Problem, *, drawn: Callable[[NDArray[np.int64], int], Floats] | None = None, masked: bool = False
    ) -> None:
        assert problem.free is not None
        self.masked = masked
        self.problem, self.free, self.reg, self.drawn = problem, problem.free, problem.reg, drawn
        self.n, self.d = problem.support.points.shape
        # projections and x; the objective's dual, the upper bound; means and mean squares
        self.up = self.n * self.d + self.n + 2 + 2 * self.d
        self.down = self.n * self.d + self.n + len(FreeOrder)
        self.centring = Centring(problem, np.zeros(self.d if masked else 0), self.free.reach or 1.0)
        self.shift_columns = slice(self.up, self.up + self.centring.size)
        self.up = self.shift_columns.stop
        # the moments, and the shifts
        self.fixed = slice(self.shift_columns.start - 2 * self.d, self.up)
        reach = self.free.reach or 1.0
        self.fixed_sizes = np.concatenate([np.repeat([reach, reach**2], self.d), self.centring.sizes])
        self._oracles: dict[bytes, MovingOracle] = {}

    @cached_property
    def moments(self) -> Floats:
        """``(m, 2 d)``: of the measures, none of which may be beyond the reach of the support."""
        reach = np.inf if self.free.reach is None else self.free.reach
        for measure, atoms in zip(self.problem.measures, self.problem.atoms, strict=True):
            largest = float(np.abs(atoms.points).max(initial=0.0))
            if largest > reach:
                raise SupportError(
                    f"A {type(measure).__name__} has a coordinate of {largest:g}, beyond the reach {reach:g} of the "
                    "free support. Give a larger reach, the same at all nodes."
                )
        return np.array([_moments(atoms) for atoms in self.problem.atoms])

    def limits(self) -> Floats | None:
        """What the reach of the support allows: coordinates, potentials, and mean squares."""
        reach, n, d = self.free.reach, self.n, self.d
        if reach is None:
            return None
        potential = REACH * (1.0 + 4.0 * d * reach**2 / self.reg)
        parts = ((n * d, reach), (n + 2, potential), (d, reach), (d, reach**2))
        return np.concatenate([np.full(count, limit) for count, limit in parts] + [self.centring.limits(potential)])

    def allow_for(self, rounding: float, fixed_rounding: Floats) -> None:
        self.centring.check(fixed_rounding)
        super().allow_for(rounding, fixed_rounding)

    def start(self, count: int) -> FreeSupportState:
        n, wide = self.n, self.n * self.d
        return FreeSupportState(
            x=np.zeros((count, n)), h=np.zeros((count, n)), points=np.zeros((count, wide)),
            projections=np.zeros((count, wide)), value=np.zeros(count), upper=np.zeros(count),
            error=np.full(count, UNKNOWN_ERROR), measure=np.arange(count), valid=np.zeros(count, dtype=bool),
            best=np.full(count, np.inf), best_points=np.zeros((count, wide)), best_weights=np.zeros((count, n)),
            tried=np.zeros(count, dtype=np.int64), last_places=np.zeros((count, wide)),
            moves=np.zeros(count, dtype=np.int64), last_objective=np.full(count, np.inf),
            last_weights=np.full((count, n), -np.log(n)), length=np.ones(count),
        )  # fmt: skip

    def first(self, state: FreeSupportState) -> Contribution:
        return self._contribution(state, np.arange(len(state.x)))

    def respond(
        self, state: FreeSupportState, rows: Indices, targets: Floats, known: NDArray[np.bool_],
        fresh: NDArray[np.bool_],
    ) -> Contribution:  # fmt: skip
        known = known & targets[rows, : self.down].any(axis=1)
        # nodes whose measure has changed answer their last target anew
        again = rows[known & (fresh | ~state.valid[rows])]
        for same in _alike(targets, again):
            self._obey(state, same, self._read(targets[same[0]]), bool(fresh[np.isin(rows, same)].any()))
        state.error[rows[~known]] = UNKNOWN_ERROR
        return self._contribution(state, rows)

    def _obey(self, state: FreeSupportState, rows: Indices, target: FreeTarget, fresh: bool) -> None:
        """The nodes in these rows carry out the order that they all have."""
        if target.order[FreeOrder.GAP] > 0 and state.valid[rows].all() and not self.masked:
            # the nodes stay at the potentials that they have certified with
            return
        measures = state.measure[rows]
        oracle = self._oracle(measures)
        order, log_a = target.order, target.log_weights
        a = np.exp(log_a)
        certify = order[FreeOrder.CERTIFY] > 0 or self.masked
        # of a root that lies; all nodes see that alike
        if abs(a.sum() - 1.0) > MASS_ERROR or (self.masked and not self._is_within_reach(target)):
            state.error[rows] = UNKNOWN_ERROR
            return
        if self.masked:
            x = self._anew(oracle, target)
        else:
            if order[FreeOrder.RESET] > 0:
                state.x[rows] = 0.0
            oracle.place(target.points, self.reg)
            accuracy, steps = (LAST_ACCURACY, LAST_STEPS) if certify else (float(order[FreeOrder.ACCURACY]), STEPS)
            x = solved(oracle, state.x[rows], log_a, accuracy, steps)
        x -= x @ a[:, None]
        state.x[rows] = x
        state.value[rows], state.h[rows] = oracle.evaluate(x)
        places, _ = oracle.projections(x)
        # a point without mass stays
        places = np.where(np.isfinite(places), places, target.points)
        state.projections[rows], state.points[rows] = places.reshape(rows.size, -1), target.points.ravel()
        state.error[rows] = np.minimum(np.abs(np.exp(state.h[rows]) - a).sum(axis=1), UNKNOWN_ERROR)
        state.upper[rows], state.valid[rows] = 0.0, True
        if certify:
            certified = self.measured.placed(target.points)
            for row, measure in zip(rows, measures, strict=True):
                one = np.array([measure], dtype=np.intp)
                state.upper[row] = transport_bounds(
                    certified.float64_oracle, one, state.x[[row]], state.h[[row]], a / a.sum(), certified.product_costs
                )[1][0]

    def _anew(self, oracle: MovingOracle, target: FreeTarget) -> Floats:
        """``(b, n)``: the potentials of the solved transports to a target, whatever the nodes had before: by way of
        larger regs, from one at which the data determine all of them to the last digits."""
        assert self.free.reach is not None
        regs = stages(self.reg, 4.0 * self.d * self.free.reach**2, 1.0)
        x, before = np.zeros((len(oracle.offsets) - 1, self.n)), regs[0]
        for reg in regs:
            oracle.place(target.points, reg)
            x, before = solved(oracle, x * (before / reg), target.log_weights, LAST_ACCURACY, MASKED_STEPS), reg
        # where there is next to no mass, this step alone is exact
        return np.asarray(x + target.log_weights - oracle.evaluate(x)[1])

    def _is_within_reach(self, target: FreeTarget) -> bool:
        """Whether an honest root can have made the target, so that nothing that follows from it is cut."""
        logs, reach = target.log_weights, self.free.reach or np.inf
        return bool((np.abs(target.points) <= reach).all() and np.ptp(logs) <= self._lowest and logs.max() <= 0.0)

    @property
    def _lowest(self) -> float:
        """With masks no logarithm of a weight is further below the largest."""
        reach = self.free.reach or np.inf
        return float(min(0.5 * REACH * (1.0 + 4.0 * self.d * reach**2 / self.reg), LOWEST_WEIGHT))

    def _oracle(self, measures: NDArray[np.int64]) -> MovingOracle:
        """That of some nodes together, in this order."""
        key = measures.tobytes()
        if key not in self._oracles:
            if len(self._oracles) > 2 * len(self.problem.measures):
                self._oracles.clear()
            self._oracles[key] = MovingOracle([self.measured.atoms[k] for k in measures])
        return self._oracles[key]

    @property
    def measured(self) -> Problem:
        """The problem with the measures that nodes work with."""
        return self.centring.problem

    def _contribution(self, state: FreeSupportState, rows: Indices) -> Contribution:
        scalars = np.stack([state.value[rows], state.upper[rows]], axis=1)
        measures = state.measure[rows]
        fixed = self.moments[measures], self.centring.columns(measures)
        return Contribution((state.projections[rows], state.x[rows], scalars, *fixed), state.error[rows])

    def restored(self, average: Floats, target: FreeTarget) -> Floats:
        """What the ``average (up,)`` of contributions to the last target would be if nodes had not moved their
        measures, without the shifts: ``avg(T) = avg(T') + avg(s)``, ``avg(x) = avg(x') - 2 z.avg(s) / reg``."""
        n, wide, shift = self.n, self.n * self.d, average[self.shift_columns]
        found = average[: self.shift_columns.start].copy()
        if shift.size:
            found[:wide] += np.tile(self.centring.shift(shift), n)
        added = self.centring.added(shift, target.points)
        # potentials have mean 0 under the weights, as those of the nodes have: a constant would round them
        mean = float(np.exp(target.log_weights) @ added)
        found[wide : wide + n] += added - mean
        found[wide + n] -= mean
        found[wide + n + 1] += mean
        return found

    @property
    def certificate_rounding(self) -> float:
        """What rounding in fixed point may have done to the bounds of a certificate."""
        return FIXED_POINT * self.rounding + self.centring.gap_rounding(self.fixed_rounding)

    # the root

    def order(
        self, state: FreeSupportState, row: int, average: Floats, target: Floats | None, weight: float, error: float,
        enough: Enough,
    ) -> Answer:  # fmt: skip
        n, wide = self.n, self.n * self.d
        last = None if target is None or not target.any() else self._read(target)
        average = average[: self.shift_columns.start] if last is None else self.restored(average, last)
        places, drift, (value, upper), moments = np.split(average, np.cumsum([wide, n, 2]))
        centre, spread = moments[: self.d], np.sqrt(np.maximum(moments[self.d :] - moments[: self.d] ** 2, 0.0))
        if last is None:
            state.best[row], state.tried[row], state.moves[row] = np.inf, 0, 0
            return self._answer(self._begin(centre, spread, 0))
        a, number = np.exp(last.log_weights), int(last.order[FreeOrder.START])
        # potentials count up to constants, so that of the average is left out too
        objective = float(a @ drift - value)
        if last.order[FreeOrder.CERTIFY] > 0:
            gap = upper - (float(drift.min()) - value)
            rounding = CERTIFIED * (1.0 + abs(upper) + abs(value)) + self.certificate_rounding
            gap = self.reg * (max(float(gap), 0.0) + rounding)
            order = last.order.copy()
            order[FreeOrder.CERTIFY], order[FreeOrder.RESET], order[FreeOrder.GAP] = 0.0, 0.0, gap
            return replace(self._answer(replace(last, order=order)), finished=True)
        rounding = ROUNDING * (1.0 + abs(objective)) + FIXED_POINT * self.rounding
        rose = objective > state.last_objective[row] + rounding
        if rose:
            state.moves[row] = 0
        # near the end an objective that rises is lost in rounding, but not a slope that does
        beyond = float(drift @ (a - np.exp(state.last_weights[row]))) > 0
        state.length[row] = SHORTER * state.length[row] if rose or beyond else min(LONGER * state.length[row], 1.0)
        state.last_objective[row], state.last_weights[row] = objective, last.log_weights
        log_a = self._next_weights(last, drift, float(state.length[row])) if self.free.learned else last.log_weights
        points = places.reshape(n, self.d)
        size = float(np.sqrt((spread**2).sum())) or 1.0
        moved = float(np.sqrt((a @ (points - last.points) ** 2).sum())) / size
        change = float(np.abs(np.exp(log_a) - a).sum())
        # what the best weights on these points would gain, as a share of the squared spread
        gain = self.reg * float(a @ drift - drift.min()) / size**2 if self.free.learned else 0.0
        left = moved + change + gain + error
        order = np.zeros(len(FreeOrder))
        order[FreeOrder.ACCURACY] = min(FIRST_ACCURACY, ACCURACY * (moved + change))
        points = self._beyond(state, row, last.points, points)
        order[FreeOrder.START] = number
        moved = min(moved, UNKNOWN_ERROR)
        if not enough(min(left, UNKNOWN_ERROR)):
            return replace(self._answer(FreeTarget(points, log_a, order)), moved=moved)
        if state.tried[row] < number + 1 < self.free.starts or number + 1 == self.free.starts > 1:
            after = self._after_start(state, row, last, objective, centre, spread)
            if after is not None:
                return self._answer(after)
        order[FreeOrder.CERTIFY] = 1.0
        # what was judged are the last points and weights
        return replace(self._answer(FreeTarget(last.points, last.log_weights, order)), moved=moved, decided=True)

    def _next_weights(self, last: FreeTarget, drift: Floats, length: float) -> Floats:
        """The logarithms ``(n,)`` of better weights on the last points. The objective has the gradient ``drift`` in the
        weights; how that answers to them is foreseen from the transport of the weights to themselves."""
        placed, step = self.problem.placed(last.points), np.zeros(self.n)
        for reg in _regs(placed):
            step += self.reg / reg * SelfTransport(replace(placed, reg=reg)).response(last.log_weights, drift)
        log_a = last.log_weights - min(length, MOST_CHANGE / max(float(np.abs(step).max()), MOST_CHANGE)) * step
        log_a = np.maximum(log_a - log_a.max(), NO_MASS)
        return np.asarray(log_a - np.log(np.exp(log_a).sum()))

    def _beyond(self, state: FreeSupportState, row: int, points: Floats, places: Floats) -> Floats:
        """``(n, d)``: where the points go whose projections are ``places``: beyond them, by momentum (Nesterov's), as
        long as that does not lead away from them."""
        before, state.last_places[row] = state.last_places[row].reshape(places.shape).copy(), places.ravel()
        if state.moves[row] > 0 and np.vdot(places - points, places - before) < 0:
            state.moves[row] = 0
        state.moves[row] += 1
        return np.asarray(places + _momentum(int(state.moves[row])) * (places - before))

    def _after_start(
        self, state: FreeSupportState, row: int, found: FreeTarget, objective: float, centre: Floats, spread: Floats
    ) -> FreeTarget | None:
        """What follows a start of several that has converged: the next one, or the best again; None if this is it."""
        number = int(found.order[FreeOrder.START])
        better = objective < state.best[row]
        if better:
            state.best[row] = objective
            state.best_points[row], state.best_weights[row] = found.points.ravel(), found.log_weights
        state.tried[row] = number + 1
        state.moves[row] = 0
        if number + 1 < self.free.starts:
            return self._begin(centre, spread, number + 1)
        if better:
            return None
        return self._best(state, row)

    def _best(self, state: FreeSupportState, row: int) -> FreeTarget:
        """The target with what the best start has found."""
        order = self._first_order(self.free.starts)
        return FreeTarget(state.best_points[row].reshape(self.n, self.d), state.best_weights[row].copy(), order)

    def kept(self, state: FreeSupportState, row: int) -> Floats | None:
        """For a root that has to end before its last start has: the target with the best of the others, if any."""
        if state.tried[row] == 0:
            return None
        best = self._best(state, row)
        best.order[FreeOrder.CERTIFY] = 1.0
        return best.as_array

    def measure(self, target: Floats) -> tuple[Floats, Floats]:
        """The points ``(n, d)`` and weights ``(n,)`` of a target."""
        last = self._read(target)
        return last.points, np.exp(last.log_weights)

    def dual(self, average: Floats) -> float:
        """The average of the nodes' dual functions, in units of reg."""
        return float(average[self.n * self.d + self.n])

    def target_at(self, points: Floats, log_weights: Floats) -> Floats:
        """The target that begins from these points and weights, with the potentials that the nodes have."""
        order = self._first_order(self.free.starts - 1)
        order[FreeOrder.RESET] = 0.0
        return FreeTarget(points, log_weights, order).as_array

    def _begin(self, centre: Floats, spread: Floats, number: int) -> FreeTarget:
        """The first target of a start."""
        return FreeTarget(
            self.start_points(centre, spread, number), np.full(self.n, -np.log(self.n)), self._first_order(number)
        )

    def start_points(self, centre: Floats, spread: Floats, number: int) -> Floats:
        """``(n, d)``: where the points start, from the averages of the nodes."""
        if self.free.points is not None:
            return self.free.points
        if self.drawn is not None:
            return self.problem.start_points(number, self.drawn)
        return centre + spread * normal_draws(self.free, self.d, number)

    def _first_order(self, number: int) -> Floats:
        order = np.zeros(len(FreeOrder))
        order[FreeOrder.ACCURACY], order[FreeOrder.START], order[FreeOrder.RESET] = FIRST_ACCURACY, number, 1.0
        return order

    def _read(self, target: Floats) -> FreeTarget:
        wide = self.n * self.d
        points, log_weights, order = np.split(target[: self.down], [wide, wide + self.n])
        return FreeTarget(points.reshape(self.n, self.d), log_weights, order)

    def _answer(self, target: FreeTarget) -> Answer:
        if self.masked and self.free.reach is not None:
            logs = np.maximum(target.log_weights, target.log_weights.max() - 0.9 * self._lowest)
            logs = np.minimum(logs - np.log(np.exp(logs).sum()), 0.0)
            target = replace(target, points=np.clip(target.points, -self.free.reach, self.free.reach), log_weights=logs)
        return Answer(target.as_array, UNKNOWN_ERROR, 0.0)

    def agrees(self, state: FreeSupportState, rows: Indices, targets: Floats) -> NDArray[np.bool_]:
        return np.asarray((state.points[rows] == targets[rows, : self.n * self.d]).all(axis=1))

    def gaps(self, targets: Floats) -> Floats:
        return targets[:, self.n * self.d + self.n + FreeOrder.GAP]

    # the network works in rounds from the start

    def local(self, state: FreeSupportState, rows: Indices, targets: Floats, known: NDArray[np.bool_]) -> Contribution:
        return self._contribution(state, rows)

    def advance(
        self, state: FreeSupportState, rows: Indices, contribution: Contribution, targets: Floats, moving: Indices
    ) -> None:
        """Nodes move when they respond."""

    def root(
        self, state: FreeSupportState, row: int, average: Floats, target: Floats, loop: float, complete: bool
    ) -> Answer:
        return Answer(target, 0.0, UNKNOWN_ERROR)

    def begin(self, state: FreeSupportState, row: int, target: Floats, weight: float, close: bool) -> Answer:
        return Answer(target, 0.0, UNKNOWN_ERROR)

    def errors(self, state: FreeSupportState) -> Floats:
        return state.error

    def duals(self, state: FreeSupportState) -> Floats:
        each = zip(state.measure, state.points.reshape(-1, self.n, self.d), strict=True)
        added = np.array([self.centring.potentials(measure, points) for measure, points in each])
        return np.asarray(state.x * self.reg + added)

    def placed(self, state: FreeSupportState) -> tuple[Floats, Floats, Floats]:
        """The points ``(k, n, d)`` that the nodes have, and there the values ``(k,)`` of their dual functions and their
        estimates ``(k, n)`` of the weights."""
        values = self.reg * state.value - self.centring.constants(state.measure)
        return state.points.reshape(-1, self.n, self.d), values, np.exp(state.h)

    def change(self, state: FreeSupportState, row: int, measure: int) -> None:
        state.measure[row], state.valid[row] = measure, False

    def measures(self, state: FreeSupportState) -> NDArray[np.int64]:
        return state.measure

    def known_atoms(self, state: FreeSupportState, rows: Indices) -> list[Atoms] | None:
        return None


def _regs(problem: Problem) -> list[float]:
    """Regularisations at which the points of the support exchange mass: from the mean squared distance of a point to
    its neighbour, or reg if that is larger, up to the largest squared distance."""
    points = problem.support.points
    between = problem.cost.matrix(points, points)
    farthest = float(between.max())
    np.fill_diagonal(between, np.inf)
    regs = [max(problem.reg, float(between.min(axis=1).mean()) if farthest > 0 else 0.0)]
    while regs[-1] < farthest:
        regs.append(COARSER * regs[-1])
    return regs


def _momentum(steps: int) -> float:
    """Nesterov's, after so many steps since it was last given up."""
    return (steps - 1.0) / (steps + 2.0)


def _moments(atoms: Atoms) -> Floats:
    """``(2 d,)``: the mean and the mean square of every coordinate."""
    return np.concatenate([atoms.weights @ atoms.points, atoms.weights @ atoms.points**2])


def _alike(targets: Floats, rows: Indices) -> Iterator[Indices]:
    """The rows in groups that have the same target."""
    while rows.size:
        same = (targets[rows] == targets[rows[0]]).all(axis=1)
        yield rows[same]
        rows = rows[~same]
