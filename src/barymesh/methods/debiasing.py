"""The transport of a measure on the support to itself, which debiasing subtracts.

The debiased barycenter minimises the Sinkhorn divergences (docs/explanation/debiased.md)

    sum_i w_i W_i(p) - V(p) / 2,       V(p) = min_pi <C, pi> + reg * sum pi log pi  over plans with both marginals p

With ``K = exp(-c/reg)`` between the points of the support, in units of reg and for any ``f`` and ``q``,

    -V(q) / 2  =  min_f -<f, q> + log(e^f' K e^f) / 2

The minimum is where ``f + log K e^f = log q`` up to a constant: at the *own potential* of q. Any f gives an upper
bound. A lower bound that is linear in q exists if K is positive semidefinite: then ``u'Ku >= 2 v'Ku - v'Kv`` for all u
and v, so

    -V(q) / 2 + <q, log q>  >=  <log K v, q> - log(v' K v) / 2
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from barymesh.cost import EUCLIDEAN, SEPARABLE
from barymesh.methods.base import UNKNOWN_ERROR
from barymesh.oracle.base import Floats
from barymesh.oracle.gibbs import smoothing
from barymesh.problem import Problem

TINY = 1e-300
# the symmetric iteration at least halves its error each time; the move that counts as none, on average
POTENTIAL_STEPS, POTENTIAL_MOVE = 60, 1e-13
# of the conjugate gradients for a step, which only shape it: at most so many, until this share of the square is left
STEPS, LEFT = 30, 1e-6
# the damping of the steps, at first and its limits; and what it is multiplied by where a step lowers the objective by
# more than a share of what it promised, and by less than a share
DAMPING, LEAST_DAMPING, MOST_DAMPING = 0.1, 1e-4, 1e3
GOOD, FALL = 0.6, 0.5
BAD, RISE = 0.2, 4.0
# the largest change of a potential in one step: beyond it nothing is linear any more
LONGEST = 2.0
# of the two parts of the error: the second counts every point alone, and is larger by the points within a blur
RAISED_SHARE = 0.1
# beyond it a ratio is just large
LARGEST_EXPONENT = 100.0
# of the quadratic programme for the lower bound: faces, conjugate gradients on each, and halvings of a step; it ends
# when the objective falls by less than this share
FACES, FACE_STEPS, HALVINGS, SETTLED = 40, 25, 12, 1e-10
ONE = np.ones(())
# kernels that are positive definite for every support: exp(-|x - y|^a), 0 < a <= 2, and products of these
POSITIVE_DEFINITE = {*SEPARABLE, EUCLIDEAN}
# others are looked at on supports of so many points; eigenvalues of K below 0 by less than this are rounding
MOST_POINTS, ROUNDING = 2000, 1e-10


@dataclass(frozen=True)
class OwnPlan:
    """The plan ``u K u`` with ``u = e^f (n,)`` and ``sums = K u (n,)``; ``log_rows (n,)``: the logarithms of its sums
    over rows, ``u K u``, not normalised."""

    smooth: Callable[[Floats], Floats]
    u: Floats
    sums: Floats
    log_rows: Floats

    @cached_property
    def rows(self) -> Floats:
        """``(n,)``, with sum 1."""
        return _normalised(self.log_rows)

    def error(self, log_p: Floats) -> float:
        """How far the plan is from that of the debiased barycenter, if the nodes agree on the measure with logarithms
        ``log_p (n,)``; 0 only if it is that.

        It is the distance of the rows from p in L1, or, if it is larger, a share of what the lower bound lacks, 2 at
        most: with ``t = p / u``, the bound needs ``K v >= t``, and ``v = u + max(t - K u, 0)`` in place of u raises
        ``v' K v``. This sees where the barycenter should have mass and p has none.
        """
        p = _normalised(log_p)
        short = log_p - self.log_rows
        level = float(self.rows @ short)
        missing = self.sums * np.expm1(np.clip(short - level, 0.0, LARGEST_EXPONENT))
        raised = 2.0 * (missing @ self.sums) + missing @ self.smooth(missing)
        lacking = min(RAISED_SHARE * raised / (self.u @ self.sums), UNKNOWN_ERROR)
        return float(max(np.abs(p - self.rows).sum(), lacking))

    def step(self, log_p: Floats, damping: float) -> Floats:
        """How f is to change ``(n,)`` so that the rows of the plan come closer to p, which itself answers to f.

        With the Markov operator ``S v = K(u v) / K u`` the rows answer by ``I + S``, and p by about ``I - S^2`` if the
        measures are spread like p. So Newton's step would be ``(S + S^2)^-1 (log_p - log_rows)``. It is damped: ``(1 +
        damping) (S + S^2 + 2 damping)^-1``, which for a large damping is half the difference, the step of the plain
        iteration.
        """
        weights = np.maximum(self.rows, TINY)
        short = log_p - self.log_rows
        short = short - weights @ short

        def answer(v: Floats) -> Floats:
            once = self.smooth(self.u * v) / self.sums
            return np.asarray(once + self.smooth(self.u * once) / self.sums + 2.0 * damping * v)

        found = (1.0 + damping) * _conjugate_gradients(answer, short, weights)
        return np.clip(found, -LONGEST, LONGEST)


class Debiasing:
    """The term ``-V(p) / 2``, for measures on the support of a problem."""

    def __init__(self, problem: Problem) -> None:
        self.size = problem.support.size
        self.smooth, self._matrix = _kernel(problem)
        self._known = problem.cost.name in POSITIVE_DEFINITE and self._matrix is None
        self._problem = problem

    def potential(self, log_q: Floats) -> Floats:
        """The own potential ``(n,)`` of the measure with logarithms ``log_q (n,)``, which need not be normalised."""
        q = _normalised(log_q)
        log_mass: Floats = log_q - log_q.max()
        f: Floats = 0.5 * log_mass
        for _ in range(POTENTIAL_STEPS):
            new = 0.5 * (f + log_mass - self._log_smooth(f))
            moved = float(q @ np.abs(new - f))
            f = new
            if moved <= POTENTIAL_MOVE:
                break
        return f

    def blurred(self, log_q: Floats, share: float) -> Floats:
        """The logarithms ``(n,)`` of the measure with logarithms ``log_q (n,)``, this share of whose mass is spread by
        K."""
        q = _normalised(log_q)
        spread = self.smooth(q)
        return np.asarray(np.log(np.maximum((1.0 - share) * q + share * spread / spread.sum(), TINY)))

    def plan(self, f: Floats) -> OwnPlan:
        """The plan ``e^f K e^f`` for a potential ``f (n,)``."""
        f = f - f.max()
        u = np.exp(f)
        sums = np.maximum(self.smooth(u), TINY)
        return OwnPlan(self.smooth, u, sums, f + np.log(sums))

    def gain(self, f: Floats, log_p: Floats, new_f: Floats, new_log_p: Floats) -> float:
        """By how much the step from f to ``new_f (n,)`` lowers

            M(f) = min_p [sum_i w_i W_i(p)/reg - <f, p>] + log(e^f' K e^f) / 2

        as a share of what it promised, half of the slope at its beginning; ``log_p (n,)``: the logarithms of the p that
        is least there, and ``new_log_p`` of that at its end. M is least at the barycenter, and has the gradient of the
        rows of the plan less p. So the mean of the slopes at both ends tells, without M itself, which is known only as
        closely as the nodes agree.
        """
        step = new_f - f
        slope, new = (
            float((_normalised(logs) - self.plan(own).rows) @ step) for own, logs in ((f, log_p), (new_f, new_log_p))
        )
        return 1.0 + new / slope if slope > 0 else -np.inf

    def upper(self, p: Floats) -> float:
        """An upper bound on ``-V(p) / 2``, from the own potential of ``p (n,)``, in units of reg."""
        log_p = np.log(np.maximum(p, TINY))
        f = self.potential(log_p)
        top = f.max()
        u = np.exp(f - top)
        return float(-(p @ f) + top + 0.5 * np.log(u @ self.smooth(u)))

    def lower(self, ratio: Floats, f: Floats) -> float:
        """The largest c, as far as is found, with ``-V(q)/2 + <q, log q - ratio> >= c`` for all measures q, in units of
        reg; ``ratio (n,)``: any numbers, ``f (n,)``: a potential to begin with.

        By the bound above, ``c = -log(v' K v) / 2`` for every v with ``log K v >= ratio``: a quadratic programme, whose
        dual is ``max t'y - y'Ky/2`` over ``y >= 0``, ``t = exp(ratio)``. What its solution lacks of ``K v >= t``
        somewhere is added to v there, since no entry of K is negative.
        """
        top = float(ratio.max())
        t = np.exp(ratio - top)
        y = np.exp(f - f.max())
        y *= (t @ y) / max(float(y @ self.smooth(y)), TINY)

        y = _quadratic_programme(self.smooth, t, y)
        v = y + np.maximum(t - self.smooth(y), 0.0) / self._diagonal + TINY
        return float(-0.5 * np.log(v @ self.smooth(v)) - top) - self.defect

    def infeasibility(self, p: Floats, total: Floats) -> float:
        """How far ``total (n,)``, the weighted sum of the nodes' potentials, is from the own potential of ``p (n,)`` up
        to a constant, on average under p."""
        apart = total - self.potential(np.log(np.maximum(p, TINY)))
        return float(p @ np.abs(apart - p @ apart))

    @cached_property
    def defect(self) -> float:
        """The most by which the lower bound can be wrong, in units of reg: 0 for a positive semidefinite K; infinite if
        that is not known. With ``u'Ku = v'Kv = 1`` it is the size of the least eigenvalue, divided by the least number
        on the diagonal."""
        if self._known:
            return 0.0
        if self.size > MOST_POINTS:
            return np.inf
        matrix = np.array([self.smooth(row) for row in np.eye(self.size)]) if self._matrix is None else self._matrix
        least = float(np.linalg.eigvalsh(matrix)[0])
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(np.nan_to_num(max(-least, 0.0) / self._diagonal.min(), nan=np.inf))

    @property
    def convex(self) -> bool:
        """Whether the objective is known to be convex, so that a stationary point is a minimum."""
        return self.defect <= ROUNDING

    @cached_property
    def _diagonal(self) -> Floats:
        if self._known:
            return np.ones(self.size)
        if self._matrix is not None:
            return np.asarray(np.diag(self._matrix))
        points, cost = self._problem.support.points, self._problem.cost
        costs = np.array([cost.matrix(points[[k]], points[[k]])[0, 0] for k in range(self.size)])
        return np.exp(-costs / self._problem.reg)

    def _log_smooth(self, f: Floats) -> Floats:
        top = f.max()
        return np.asarray(top + np.log(np.maximum(self.smooth(np.exp(f - top)), TINY)))


def adapted(damping: float, gain: float) -> float:
    """The damping after a step with this gain (Levenberg and Marquardt)."""
    factor = FALL if gain > GOOD else RISE if gain < BAD else 1.0
    return min(max(factor * damping, LEAST_DAMPING), MOST_DAMPING)


def debiasing_of(problem: Problem) -> Debiasing | None:
    """What debiases the barycenter of the problem, if it is to be."""
    return Debiasing(problem) if problem.debias else None


def _kernel(problem: Problem) -> tuple[Callable[[Floats], Floats], Floats | None]:
    """``v -> K v``, and K itself where the cost is a matrix between the support and itself."""
    given = problem.cost.matrix_given
    if given is None:
        return smoothing(problem.support, problem.cost, problem.reg), None
    matrix = np.exp(-given / problem.reg)
    return lambda v: np.asarray(matrix @ v), matrix


def _normalised(log_q: Floats) -> Floats:
    q = np.exp(log_q - log_q.max())
    return np.asarray(q / q.sum())


def _conjugate_gradients(
    operator: Callable[[Floats], Floats], right: Floats, weights: Floats, steps: int = STEPS
) -> Floats:
    """An approximate solution of ``operator x = right`` after so many steps at most; the operator is symmetric in the
    inner product with these weights."""
    x, r = np.zeros_like(right), right.copy()
    direction, size = r.copy(), float((weights * r**2).sum())
    first = size
    for _ in range(steps):
        image = operator(direction)
        curvature = float((weights * direction * image).sum())
        if not curvature > 0:
            break
        length = size / curvature
        x, r = x + length * direction, r - length * image
        new = float((weights * r**2).sum())
        if new <= LEFT * first:
            break
        direction, size = r + (new / size) * direction, new
    return x


def _quadratic_programme(smooth: Callable[[Floats], Floats], t: Floats, y: Floats) -> Floats:
    """A ``y (n,) >= 0`` with a small ``y'Ky/2 - t'y``, from the one given: conjugate gradients on the face where y is
    free, cut off at its boundary (Moré and Toraldo 1991)."""
    sums = smooth(y)
    value = 0.5 * float(y @ sums) - float(t @ y)
    for _ in range(FACES):
        gradient = sums - t
        free = (y > 0.0) | (gradient < 0.0)
        direction = _conjugate_gradients(partial(_on_face, smooth, free), -gradient * free, ONE, FACE_STEPS)
        length, before = 1.0, value
        for _ in range(HALVINGS):
            tried = np.maximum(y + length * direction, 0.0)
            tried_sums = smooth(tried)
            lower = 0.5 * float(tried @ tried_sums) - float(t @ tried)
            if lower < value:
                y, sums, value = tried, tried_sums, lower
                break
            length *= 0.5
        if before - value <= SETTLED * abs(value):
            break
    return y


def _on_face(smooth: Callable[[Floats], Floats], free: NDArray[np.bool_], v: Floats) -> Floats:
    return np.asarray(free * smooth(v))
