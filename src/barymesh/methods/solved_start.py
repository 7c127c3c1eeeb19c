"""Rounds for masked sums, which do not tell where the records of a node are.

A root gets sums over all nodes only, but it chooses the targets, and with them what is summed. At the potential
0, where nodes begin otherwise, the estimate of a node is a blurred image of its records. Here a node begins with the
*solved transport* to the uniform measure, and moves from there:

    shift the records of every node by s_i, such that the weighted mean of all shifts is 0

For squared distances, ``|z - y - s|^2 = |z - y|^2 - 2 z.s + 2 y.s + |s|^2``, this adds ``a_i = -2 z.s_i / reg`` to the
potential that node i begins with, and nothing to its estimate there. A node moves by what its estimate and the target
say, so it is at a potential that differs by ``a_i`` after every round too. And in sums over all nodes the ``a_i``
cancel: no sum changes, at any targets, in any order, but for one constant in the dual values. So nothing in the sums
tells which of these worlds is the real one.

Nothing else may depend on where the records are. So potentials are cut by how far they are from where they began, not
by their size; and Newton's column is sent without the potential in it, which the root knows from its own column.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from barymesh.methods.base import Contribution, Floats, Indices
from barymesh.methods.entropic import EntropicState, potential_limit
from barymesh.methods.orders import Order, Report, RoundsState
from barymesh.methods.rounds import Rounds
from barymesh.problem import Problem

# how far potentials may be from where they began, as a share of their limit: with what they begin with, they are below
# the limit, so that nothing is cut in fixed point
FARTHEST_MOVE = 0.5


class SolvedStartRounds(Rounds):
    """Rounds whose nodes begin with solved transports to the uniform measure; arguments as for ``Rounds``."""

    @staticmethod
    def lowers_reg(problem: Problem) -> bool:
        # from the uniform measure, larger regs lead to the barycenter sooner
        return True

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
        if not self.newton:
            return found
        h, x, scalars, move, matrix = found.parts
        return Contribution((h, x, scalars, move + x, matrix), found.errors)

    def report(self, average: Floats, offset: Floats | float = 0.0) -> Report:
        if self.newton:
            n, average = self.points, average.copy()
            average[self.precise.stop : self.precise.stop + n] -= average[n : 2 * n]
        return super().report(average, offset)

    def change(self, state: EntropicState, row: int, measure: int) -> None:
        assert isinstance(state, RoundsState)
        super().change(state, row, measure)
        # the potential that it had would tell where the new measure is from the old one
        state.x[row], state.base_h[row] = 0.0, 0.0

    def _obey(self, state: RoundsState, row: int, target: Floats) -> None:
        # a large constant would round potentials to a few digits, and which these are depends on where records are
        t, most = target[: self.points], potential_limit(self.problem)
        super()._obey(state, row, np.concatenate([np.maximum(t - t.max(), -most), target[self.points :]]))
        if target[self.points + Order.CERTIFY] > 0:
            state.certified[row] = t

    def within_reach(self, state: RoundsState, row: int, x: Floats, stage: int) -> Floats:
        home = self._home(int(state.measure[row])) / self.regs[stage]
        most = FARTHEST_MOVE * potential_limit(self.problem) * self.problem.reg / self.regs[stage]
        moved = np.where(np.isfinite(x), x - home, 0.0)
        return np.asarray(home + np.clip(moved, -most, most))

    def _place(self, state: EntropicState, rows: Indices) -> None:
        """Where nodes begin, and where a step that is not accepted leads back to."""
        assert isinstance(state, RoundsState)
        new = rows[~(state.x[rows].any(axis=1) | state.base_h[rows].any(axis=1))]
        for row in new:
            state.x[row] = self._home(int(state.measure[row])) / self.regs[state.stage[row]]
        self._evaluate(state, new)
        state.base[new], state.base_h[new] = state.x[new], state.h[new]
        state.base_stage[new], state.base_damping[new] = state.stage[new], state.damping[new]

    def _home(self, measure: int) -> Floats:
        """``(n,)``: the potential of the solved transport to the uniform measure with the first reg, in units of the
        cost."""
        return self.regs[0] * self.transports.home(measure)
