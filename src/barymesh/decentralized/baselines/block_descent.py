"""Accelerated stochastic block descent on stale information: ASBCDS, and its one-block-a-step form PASBCDS.

Both minimise a smooth convex ``phi`` of a point ``(m, d)``: m blocks of d numbers. Step k = 0, 1, ... uses theta_{k+1}
(see ThetaSequence), chooses a block i, and sees block p as it was after ``j_p <= k`` steps.

ASBCDS, with the sequences eta, zeta, lambda:

    lambda_{k+1}   = theta_{k+1} zeta_k + (1 - theta_{k+1}) eta_k
    omega^[p]      = e  after  e <- theta_{l+1} zeta_{j_p} + (1 - theta_{l+1}) e  for l = j_p..k,  from  e = eta_{j_p}
    zeta_{k+1}^[i] = zeta_k^[i] - gamma/(m theta_{k+1}) g,          g: gradient of phi at omega, block i
    eta_{k+1}      = lambda_{k+1} + m theta_{k+1} (zeta_{k+1} - zeta_k)

PASBCDS, with the sequences u, v, of which only block i changes:

    omega^[p] = u_{j_p}^[p] + theta_{k+1}^2 v_{j_p}^[p],            delta = gamma/(m theta_{k+1}) g
    u^[i] -= delta,     v^[i] += (1 - m theta_{k+1})/theta_{k+1}^2 delta,       eta_{k+1} = u + theta_{k+1}^2 v

They make the same points eta. The closed form of omega printed for ASBCDS lacks a term; the recursion above is meant.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from barymesh.checks import as_floats, real_number, whole_number
from barymesh.decentralized.baselines.theta import ThetaSequence, square_change
from barymesh.errors import NumericalError, OptionError
from barymesh.random import addressed_generator

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Gradient = Callable[[Floats, int, int], ArrayLike]
Staleness = Callable[[int], ArrayLike]
Blocks = Callable[[int], int]


@dataclass(frozen=True)
class BlockDescentResult:
    """``point (m, d)``: the last eta. ``trajectory (r, m, d)``: eta after ``steps (r,)`` steps, where recorded."""

    point: Floats
    steps: Indices
    trajectory: Floats


def asbcds(
    gradient: Gradient,
    start: ArrayLike,
    *,
    step: float,
    iterations: int,
    staleness: Staleness | None = None,
    longest: int = 0,
    blocks: Blocks | None = None,
    seed: int = 0,
    record: int = 0,
) -> BlockDescentResult:
    """Minimise by ASBCDS, in which all blocks change at every step: the form the theory speaks about.

    Parameters
    ----------
    gradient
        ``gradient(point (m, d), block, k) -> (d,)``: an estimate of the gradient of ``phi`` with respect to one block.
    start
        The first point, ``(m, d)``.
    step
        gamma; ``theoretical_step`` gives one that is safe.
    iterations
        How many steps, each with one gradient.
    staleness
        ``staleness(k) -> (m,)``: how many steps old each block is when step k sees it. 0 is fresh, the default; what
        would be older than the start is the start.
    longest
        The largest number ``staleness`` returns; so many steps are remembered.
    blocks
        ``blocks(k)``: the block that step k changes. By default drawn uniformly from ``seed``.
    record
        Keep the point after every ``record`` steps; 0 keeps none.
    """
    run = _Run(gradient, start, step, iterations, staleness, longest, blocks, seed, record)
    m = run.m
    past: deque[tuple[Floats, Floats]] = deque([(run.start, run.start)], maxlen=run.longest + 1)
    thetas: deque[float] = deque(maxlen=run.longest + 1)
    for k, excess in run.steps():
        theta = 1.0 / (0.5 * k + m + excess)
        thetas.append(theta)
        eta, zeta = past[-1]
        eta, zeta = theta * zeta + (1.0 - theta) * eta, zeta.copy()
        ages = run.ages(k)
        omega = np.array([past[-1 - age][0][p] for p, age in enumerate(ages)])
        old_zeta = np.array([past[-1 - age][1][p] for p, age in enumerate(ages)])
        for age in range(ages.max(), -1, -1):
            weight = np.where(ages >= age, thetas[-1 - age], 0.0)[:, None]
            omega = weight * old_zeta + (1.0 - weight) * omega
        block = run.block(k)
        delta = run.step / (m * theta) * run.gradient(omega, block, k)
        zeta[block] -= delta
        eta[block] -= m * theta * delta
        past.append((eta, zeta))
        if run.recorded(k):
            run.record(k, eta)
    return run.result(past[-1][0])


class _Version(NamedTuple):
    """What a block was after ``since`` steps, until ``until``: its omega and momentum ``(d,)`` at theta_since."""

    since: int
    until: int
    omega: Floats
    momentum: Floats
    excess: float


def pasbcds(
    gradient: Gradient,
    start: ArrayLike,
    *,
    step: float,
    iterations: int,
    staleness: Staleness | None = None,
    longest: int = 0,
    blocks: Blocks | None = None,
    seed: int = 0,
    record: int = 0,
) -> BlockDescentResult:
    """Minimise by PASBCDS, in which one block changes at every step. Parameters as for ``asbcds``.

    u and v may grow without bound while ``u + theta^2 v`` does not, so their sum would lose its digits. Kept instead,
    for every block, are the point ``omega = u + theta^2 v`` and the momentum ``theta^2 v``, both at the theta of the
    block's last change; ``carried`` and ``stepped`` are the two things that happen to them.
    """
    run = _Run(gradient, start, step, iterations, staleness, longest, blocks, seed, record)
    m = run.m
    omega, momentum = run.start.copy(), np.zeros_like(run.start)
    # a block that never changed has no momentum, so that any theta would do for it
    since, last_excess = np.zeros(m, dtype=np.intp), np.zeros(m)
    older: list[deque[_Version]] = [deque() for _ in range(m)]
    for k, excess in run.steps():
        ages = run.ages(k)
        point = _all_carried(omega, momentum, k + 1, excess, since, last_excess)
        for p in np.flatnonzero(since > k - ages):
            version = next(version for version in reversed(older[p]) if version.since <= k - ages[p])
            old_change = square_change(k + 1, excess, version.since, version.excess, m)
            point[p], _ = carried(version.omega, version.momentum, old_change)
        i = run.block(k)
        g = run.gradient(point, i, k)
        older[i].append(_Version(int(since[i]), k + 1, omega[i].copy(), momentum[i].copy(), float(last_excess[i])))
        while older[i] and older[i][0].until <= k + 1 - run.longest:
            older[i].popleft()
        change = square_change(k + 1, excess, since[i], last_excess[i], m)
        omega[i], momentum[i] = carried(omega[i], momentum[i], change)
        omega[i], momentum[i] = stepped(omega[i], momentum[i], g, 1.0 / (0.5 * k + m + excess), run.step, m)
        since[i], last_excess[i] = k + 1, excess
        if run.recorded(k):
            run.record(k, _all_carried(omega, momentum, k + 1, excess, since, last_excess))
    return run.result(_all_carried(omega, momentum, run.iterations, excess, since, last_excess))


def _all_carried(
    omega: Floats, momentum: Floats, step: int, excess: float, since: Indices, last_excess: Floats
) -> Floats:
    """``u + theta^2 v (m, d)`` at theta_step."""
    return carried(omega, momentum, square_change(step, excess, since, last_excess, len(omega))[:, None])[0]


def carried(omega: Floats, momentum: Floats, change: Any) -> tuple[Floats, Floats]:
    """``u + theta^2 v`` and ``theta^2 v`` for a later theta, u and v as before; ``change`` by ``square_change``."""
    return omega + change * momentum, momentum + change * momentum


def stepped(
    omega: Floats, momentum: Floats, gradient: Floats, theta: float, step: float, m: int
) -> tuple[Floats, Floats]:
    """``u + theta^2 v`` and ``theta^2 v`` after the step ``u -= delta``, ``v += (1 - m theta)/theta^2 delta`` with
    ``delta = step/(m theta) gradient``."""
    return omega - step * gradient, momentum + (1.0 - m * theta) * step / (m * theta) * gradient


class _Run:
    """The inputs, checked, with what both methods ask of them at every step, and the points recorded."""

    def __init__(
        self,
        gradient: Gradient,
        start: ArrayLike,
        step: float,
        iterations: int,
        staleness: Staleness | None,
        longest: int,
        blocks: Blocks | None,
        seed: int,
        record: int,
    ) -> None:
        self.start = np.array(as_floats(start, "The start", OptionError))
        if self.start.ndim != 2 or self.start.size == 0:
            raise OptionError(f"The start has shape {self.start.shape}; give one row for each block, (m, d).")
        if not np.isfinite(self.start).all():
            raise OptionError("The start has numbers that are not finite; give a point of finite numbers.")
        gamma = real_number(step)
        if gamma is None or gamma <= 0:
            raise OptionError(f"step is {step!r}; it must be a positive finite number.")
        self.m, self.step = len(self.start), gamma
        self.iterations = whole_number("iterations", iterations, 1)
        self.longest = whole_number("longest", longest, 0)
        self.every = whole_number("record", record, 0)
        self._gradient, self._staleness = gradient, staleness
        rng = addressed_generator(whole_number("seed", seed), 0)
        self._blocks: Blocks = blocks or (lambda k: int(rng.integers(self.m)))
        self._points: list[Floats] = []
        self._steps: list[int] = []

    def steps(self) -> Iterator[tuple[int, float]]:
        """Every step k, with the excess r_{k+1} of ``1/theta_{k+1}`` over ``k/2 + m``; see ThetaSequence."""
        return zip(range(self.iterations), ThetaSequence(self.m), strict=False)

    def ages(self, k: int) -> Indices:
        """``k - j_p (m,)``: how many steps late step k sees each block."""
        if self._staleness is None:
            return np.zeros(self.m, dtype=np.intp)
        ages = np.asarray(self._staleness(k))
        if ages.shape != (self.m,) or ages.dtype.kind not in "iu":
            raise OptionError(
                f"The staleness at step {k} is {ages!r}; give a whole number of steps for each of the {self.m} blocks."
            )
        if ages.min() < 0 or ages.max() > self.longest:
            raise OptionError(
                f"The staleness at step {k} goes from {ages.min()} to {ages.max()} steps; it must lie between 0 and "
                f"longest={self.longest}. Raise longest to remember more."
            )
        return np.minimum(ages.astype(np.intp), k)

    def block(self, k: int) -> int:
        block = whole_number(f"The block of step {k}", self._blocks(k), 0)
        if block >= self.m:
            raise OptionError(f"The block of step {k} is {block}; the {self.m} blocks are numbered from 0.")
        return block

    def gradient(self, point: Floats, block: int, k: int) -> Floats:
        g = as_floats(self._gradient(point, block, k), "The gradient", OptionError)
        if g.shape != self.start.shape[1:]:
            raise OptionError(f"The gradient has shape {g.shape} at step {k}; a block has {self.start.shape[1:]}.")
        if not np.isfinite(g).all():
            raise NumericalError(
                f"The gradient of block {block} is not finite at step {k}. If the points before grew, use a smaller "
                f"step than {self.step:g}."
            )
        return g

    def recorded(self, k: int) -> bool:
        return self.every > 0 and (k + 1) % self.every == 0

    def record(self, k: int, point: Floats) -> None:
        self._steps.append(k + 1)
        self._points.append(point.copy())

    def result(self, point: Floats) -> BlockDescentResult:
        trajectory = np.array(self._points).reshape(-1, *self.start.shape)
        return BlockDescentResult(point, np.array(self._steps, dtype=np.intp), trajectory)
