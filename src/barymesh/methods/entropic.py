"""The entropic barycenter, ``min_p sum_i w_i W_i(p)``, by Sinkhorn iteration in the dual.

In ``x_i = lam_i / reg`` and ``h_i = log p_i(x_i)`` the iteration is ``x_i += avg(h) - h_i``. So

    local:   x_i += target - h_i  a few times,  contribution (h_i, x_i),  x_i += relaxation_i * (target - h_i)
    root:    target = avg(h) - gain * correction(avg(x))

Where nothing moves any more, all ``h_i`` are equal and the correction is 0, so the potentials sum to zero up to a
constant: that is the barycenter, exactly.

**The correction.** ``response`` (self_transport.py) predicts how ``avg(h)`` would answer if the sum of the potentials
were removed at once. With ``gain * avg(x)`` in its place, the loop from the root to the nodes and back would need a
gain small enough for its slowest mode and its longest way, and all others would crawl (docs/explanation/sinkhorn.md).
The prediction can be too large where measures differ much; then the correction changes its sign after each time round
the loop, the root sees it, and halves the gain. And it can be too small: where the barycenter's own mass hardly mixes,
it is next to nothing. So a small share of ``avg(x)`` itself is added, as much as the time round the loop allows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from barymesh.core import kernels
from barymesh.errors import MeasureError
from barymesh.gradients.logarithmic import LogGradients
from barymesh.measures import Atoms
from barymesh.methods.base import FARTHEST, LARGEST, UNKNOWN_ERROR, Answer, Contribution, Floats, Indices, Method
from barymesh.methods.self_transport import SelfTransport
from barymesh.problem import Problem, support_cost
from barymesh.state import State

# the spectrum of the map is in [0, 1]: anything below 2 is stable for a node by itself, but only 1 for nodes that act
# in step and learn of the target equally late, and their errors then grow at every other step or more often. So a step
# is LESS where the last one made the error larger, and MORE where not: these balance at 0.42 of all steps
RELAXATION, LEAST_RELAXATION = 1.6, 0.8
LESS, MORE = 0.875, 1.1
# plain steps to the target before a node contributes: they cost no message
LOCAL_STEPS = 4
# a correction that changes its sign and keeps this share of its size in one time round the loop was too large
OVERSHOOT = 0.5
OPPOSITE, ALIKE = -0.3, 0.3
SMALLEST_GAIN = 2.0**-10
# the share of the sum of the potentials in the correction, times the root's activations in a time round the loop: 0.4
# is stable for what a node's gradient does not answer to at all; less is better where there is no such thing. It grows
# while the sum keeps more than SLOW of its size in a time round the loop
LEAST_SHARE, MOST_SHARE = 0.1, 0.4
SLOW, FAST = 0.8, 0.5
# potentials and logarithms are below so many times the largest cost on the support, in units of reg, where there is a
# bound on them
REACH = 64.0
# if no record costs more than so many times the largest cost on the support, they are well below: potentials have no
# larger range than that cost, and logarithms of estimates one of twice that
WITHIN_LIMITS = REACH / 4.0
# what rounding may have done to sums, as a share of the numbers in them
ROUNDED = 1e-6


@dataclass
class EntropicState(State):
    """``x, correction (k, n)``; all others ``(k,)``.

    Of every node: ``error``, the distance of its measure from the target, in L1; ``relaxation``, the size of its steps;
    ``measure``, the number of the measure it has; ``drawn``, batches drawn from it.

    Of a root, from the last time round the loop: its ``correction``, and ``drift``, the size of ``avg(x)``; ``gain``
    and ``share`` are set by them.
    """

    x: Floats
    error: Floats
    relaxation: Floats
    measure: NDArray[np.int64]
    drawn: NDArray[np.int64]
    correction: Floats
    drift: Floats
    gain: Floats
    share: Floats


class Entropic(Method[EntropicState]):
    """The entropic barycenter. The measures of the problem are those of the nodes, in the order of their rows, and
    perhaps others that nodes change to."""

    name = "sinkhorn"
    # the potentials x (k, n) that nodes begin with, 0 by default
    initial: Floats | None = None
    # the largest potential, and the largest difference between two numbers of ``h - x``, where these are restricted
    largest, spread = LARGEST, np.inf

    def __init__(self, problem: Problem, log_gradients: LogGradients) -> None:
        self.points, self.reg, self.problem = problem.support.size, problem.reg, problem
        self.up, self.down = 2 * self.points, self.points
        self.log_gradients, self.final = log_gradients, log_gradients.final
        self.transport = SelfTransport(problem)

    def restrict(self) -> None:
        """``h - x = log sum_j exp(a_j - c_j/reg)`` with some numbers a_j, whatever x is, and c_j the cost from an atom
        to the support: so no two numbers of it differ by more than the largest cost over reg. And h has the logarithms
        of probabilities: ``log sum exp(h) = 0``, and at most 0 for averages, by Jensen's inequality."""
        self.largest = potential_limit(self.problem)
        self.spread = FARTHEST * support_cost(self.problem) / self.reg

    def contribution_bounds(self) -> tuple[Floats, Floats]:
        lower, upper = super().contribution_bounds()
        if self.centred:
            n = self.points
            lower[:n], upper[:n] = -(2.0 * self.largest + self.spread + np.log(n)), 0.0
            lower[n : 2 * n], upper[n : 2 * n] = -self.largest, self.largest
        return lower, upper

    def contradiction(self, average: Floats, single: bool) -> str:
        h, x = average[: self.points], average[self.points : 2 * self.points]
        differences = h - x
        rounding = ROUNDED * (1.0 + float(max(-h.min(), np.abs(x).max())))
        if differences.max() - differences.min() > self.spread + rounding:
            return "the sums are those of a measure farther away than any may be"
        mass = float(h.max() + np.log(np.exp(h - h.max()).sum()))
        if mass > rounding or (single and mass < -rounding):
            return "the sums are not those of logarithms of probabilities"
        return ""

    @property
    def centred(self) -> bool:
        """Whether constants in the potentials, which mean nothing, are removed: where potentials are restricted."""
        return self.spread < np.inf

    def start(self, count: int) -> EntropicState:
        return EntropicState(
            x=np.zeros((count, self.points)) if self.initial is None else self.initial.copy(),
            error=np.full(count, UNKNOWN_ERROR),
            relaxation=np.full(count, RELAXATION),
            measure=np.arange(count),
            drawn=np.zeros(count, dtype=np.int64),
            correction=np.zeros((count, self.points)),
            drift=np.full(count, np.inf),
            gain=np.ones(count),
            share=np.full(count, LEAST_SHARE),
        )

    def first(self, state: EntropicState) -> Contribution:
        h = self.log_gradients.at(state.x, state.measure.astype(np.intp), state.drawn)
        return Contribution((h, state.x), np.full(len(h), UNKNOWN_ERROR))

    def approach(self, state: EntropicState, rows: Indices, targets: Floats) -> None:
        # what is known by samples is computed from all of them, which takes long, and grows with every activation
        if self.final:
            self.problem.oracle.approach(
                state.x, rows, state.measure[rows], targets, LOCAL_STEPS, self.largest, centred=self.centred
            )

    def local(self, state: EntropicState, rows: Indices, targets: Floats, known: NDArray[np.bool_]) -> Contribution:
        state.drawn[rows] += 1
        h = self.log_gradients.at(state.x[rows], state.measure[rows], state.drawn[rows])
        errors = np.empty(rows.size)
        kernels.l1_distances(rows, known, UNKNOWN_ERROR, h, targets, errors)
        kernels.adapt_relaxations(rows, errors, LESS, MORE, LEAST_RELAXATION, RELAXATION, state.error, state.relaxation)
        return Contribution((h, state.x[rows]), errors)

    def advance(
        self, state: EntropicState, rows: Indices, contribution: Contribution, targets: Floats, moving: Indices
    ) -> None:
        h = contribution.parts[0]
        if moving.size < rows.size:
            h, rows = h[moving], rows[moving]
        kernels.move_potentials(rows, state.relaxation, h, targets, self.largest, self.centred, state.x)

    def root(
        self, state: EntropicState, row: int, average: Floats, target: Floats, loop: float, complete: bool
    ) -> Answer:
        mean = average[: self.points]
        drift = average[self.points :] - self.sum_of_potentials(mean)
        q = np.exp(mean - mean.max())
        q /= q.sum()
        drift = drift - q @ drift
        share = state.share[row] / loop if loop > 0 else 0.0
        correction = (1.0 - share) * self.transport.response(mean, drift) + share * drift
        remaining = float(q @ np.abs(drift))
        if complete:
            self._adapt(state, row, correction, remaining, q)
            state.correction[row] = correction
        new = np.clip(mean - state.gain[row] * correction, -LARGEST, LARGEST)
        return Answer(new, kernels.l1_distance(new, target), remaining)

    def sum_of_potentials(self, log_q: Floats) -> Floats:
        """``(n,)``: what ``avg(x)`` is where the measure with logarithms ``log_q (n,)``, not normalised, is the
        barycenter, up to a constant."""
        return np.zeros(self.points)

    def _adapt(self, state: EntropicState, row: int, correction: Floats, drift: float, q: Floats) -> None:
        """Compare the correction, and the size of the drift, with those of a time round the loop ago, and set the gain
        and the share by it."""
        if drift > SLOW * state.drift[row]:
            state.share[row] = min(1.5 * state.share[row], MOST_SHARE)
        elif drift < FAST * state.drift[row]:
            state.share[row] = max(state.share[row] / 1.5, LEAST_SHARE)
        state.drift[row] = drift
        before = state.correction[row]
        now_size, size = np.sqrt(q @ correction**2), np.sqrt(q @ before**2)
        if now_size * size == 0:
            return
        cosine = q @ (correction * before) / (now_size * size)
        if cosine < OPPOSITE and now_size > OVERSHOOT * size:
            state.gain[row] = max(state.gain[row] / 2, SMALLEST_GAIN)
        elif cosine > ALIKE:
            state.gain[row] = min(state.gain[row] * 1.3, 1.0)

    def errors(self, state: EntropicState) -> Floats:
        return state.error

    def duals(self, state: EntropicState) -> Floats:
        return state.x * self.reg

    def change(self, state: EntropicState, row: int, measure: int) -> None:
        state.measure[row], state.drawn[row] = measure, 0

    def measures(self, state: EntropicState) -> NDArray[np.int64]:
        return state.measure

    def known_atoms(self, state: EntropicState, rows: Indices) -> list[Atoms] | None:
        return None if self.final else self.log_gradients.known_atoms(state.measure[rows], state.drawn[rows])


def potential_limit(problem: Problem) -> float:
    """What potentials and logarithms are cut to in size, in units of reg, where there is a bound on them: all nodes
    know it, and those that are close to the barycenter are far below it."""
    return REACH * (1.0 + support_cost(problem) / problem.reg)


def require_reach(problem: Problem, farthest: float = FARTHEST) -> None:
    """MeasureError if a measure is so far from the support that neighbours would take what follows from it for a lie;
    with WITHIN_LIMITS, that potentials or logarithms would be cut. A support whose points move has a reach of its
    own."""
    if problem.free is not None:
        return
    largest, support = problem.largest_cost(), support_cost(problem)
    if largest > farthest * support:
        raise MeasureError(
            f"The largest cost from a record to the support is {largest:.4g}, more than {farthest:g} times the largest "
            f"between two points of the support, {support:.4g}: what follows from it would be cut, or refused by "
            "neighbours. Remove the records that are so far away, or choose a wider support, the same at all nodes."
        )
