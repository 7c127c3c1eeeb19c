"""Rounds for masked sums, which do not tell where the records of a node are.

A root gets sums over all nodes only, but it chooses the targets, and with them what is summed. So what a node computes
is not to depend on where its records are:

    shift the records of every node by s_i, such that the weighted mean of all shifts is 0

For squared distances a node works with its measure in the middle of the support (centring.py), so it does the same in
both worlds, to the last bit. By how much the measure was moved, it sends beside that, the same in every round; and of
that the root gets the weighted mean of all, which is the same too. So nothing in the sums tells which of these worlds
is the real one, at any targets, in any order.

This does not hide the shape of the records. So that one sum does not show it at once, a node begins with the *solved
transport* to the uniform measure: at the potential 0, where nodes begin otherwise, its estimate is a blurred image of
its records.

Potentials that a root that lies leads to are cut, at a place that all nodes know.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from barymesh.gradients.logarithmic import LogGradients
from barymesh.methods.base import Contribution, Floats, Indices
from barymesh.methods.centring import around_support
from barymesh.methods.entropic import REACH, EntropicState, potential_limit
from barymesh.methods.orders import Order, RoundsState
from barymesh.methods.rounds import Rounds
from barymesh.methods.transports import CentredTransports
from barymesh.problem import Problem, support_cost


class MaskedRounds(Rounds):
    """Rounds whose sums are masked; arguments as for ``Rounds``. A contribution ends with the shift of the node's
    measure, ``(d,)``."""

    def __init__(self, problem: Problem, log_gradients: LogGradients, nodes: int, *, from_start: bool = False) -> None:
        super().__init__(problem, log_gradients, nodes, from_start=from_start)
        self.centring = around_support(problem)
        self.transports = CentredTransports(self.centring, self.regs)
        # where the numbers of the centring are: after those that all rounds have
        self.fixed = slice(self.up, self.up + self.centring.size)
        self.up, self.fixed_sizes = self.fixed.stop, self.centring.sizes

    @staticmethod
    def lowers_reg(problem: Problem) -> bool:
        # from the uniform measure, larger regs lead to the barycenter sooner
        return True

    def allow_for(self, rounding: float, fixed_rounding: Floats) -> None:
        self.centring.check(fixed_rounding)
        super().allow_for(rounding, fixed_rounding)

    @property
    def certificate_rounding(self) -> float:
        return super().certificate_rounding + self.centring.gap_rounding(self.fixed_rounding)

    def contribution_bounds(self) -> tuple[Floats, Floats]:
        lower, upper = super().contribution_bounds()
        most = self.centring.limits(potential_limit(self.problem))
        lower[self.fixed], upper[self.fixed] = -most, most
        return lower, upper

    def limits(self) -> Floats:
        found = super().limits()
        found[self.fixed] = self.centring.limits(potential_limit(self.problem))
        return found

    def start(self, count: int) -> RoundsState:
        state = super().start(count)
        # nodes without a potential begin where others do
        given = state.measure[state.x.any(axis=1)]
        if given.size:
            state.x[given] -= self.centring.potentials(given, self.problem.support.points) / self.reg
        return state

    def first(self, state: EntropicState) -> Contribution:
        self._place(state, np.arange(len(state.x)))
        return super().first(state)

    def respond(
        self, state: EntropicState, rows: Indices, targets: Floats, known: NDArray[np.bool_], fresh: NDArray[np.bool_]
    ) -> Contribution:
        self._place(state, rows)
        return super().respond(state, rows, targets, known, fresh)

    def _contribution(self, state: RoundsState, rows: Indices) -> Contribution:
        found = super()._contribution(state, rows)
        return Contribution((*found.parts, self.centring.columns(state.measure[rows])), found.errors)

    def restored(self, average: Floats, target: Floats | None) -> Floats:
        """From ``(up,)`` to ``(up - d,)``: ``avg(x) = avg(x') - 2 z.avg(s) / reg``, and what has this in it."""
        n, found = self.points, average[: self.fixed.start].copy()
        stage = min(max(self.stage(average), 0), self.last_stage)
        added = self.centring.added(average[self.fixed], self.problem.support.points)
        added *= self.reg / self.regs[stage]
        found[n : 2 * n] += added
        if target is not None:
            # the bound is one on the cost to this measure
            p = np.exp(target[:n] - target[:n].max())
            found[2 * n + 1] += float(p @ added) / p.sum()
        if self.newton:
            # Newton's column has the potential in it, with the other sign
            found[self.precise.stop : self.precise.stop + n] -= added
        return found

    def duals(self, state: EntropicState) -> Floats:
        return super().duals(state) + self.centring.potentials(state.measure, self.problem.support.points)

    def change(self, state: EntropicState, row: int, measure: int) -> None:
        assert isinstance(state, RoundsState)
        super().change(state, row, measure)
        # it begins anew
        state.x[row], state.base_h[row] = 0.0, 0.0

    def _obey(self, state: RoundsState, row: int, target: Floats) -> None:
        # a large constant would round potentials to a few digits
        t, most = target[: self.points], potential_limit(self.problem)
        super()._obey(state, row, np.concatenate([np.maximum(t - t.max(), -most), target[self.points :]]))
        if target[self.points + Order.CERTIFY] > 0:
            state.certified[row] = t

    def within_reach(self, state: RoundsState, row: int, x: Floats, stage: int) -> Floats:
        # by what all nodes know
        most = REACH * (1.0 + support_cost(self.problem) / self.regs[stage])
        return np.asarray(np.clip(np.where(np.isfinite(x), x, 0.0), -most, most))

    def _place(self, state: EntropicState, rows: Indices) -> None:
        """Where nodes begin, and where a step that is not accepted leads back to."""
        assert isinstance(state, RoundsState)
        new = rows[~(state.x[rows].any(axis=1) | state.base_h[rows].any(axis=1))]
        for row in new:
            home = self.regs[0] / self.regs[state.stage[row]] * self.transports.home(int(state.measure[row]))
            state.x[row] = self.within_reach(state, int(row), home, int(state.stage[row]))
        self._evaluate(state, new)
        state.base[new], state.base_h[new] = state.x[new], state.h[new]
        state.base_stage[new], state.base_damping[new] = state.stage[new], state.damping[new]
