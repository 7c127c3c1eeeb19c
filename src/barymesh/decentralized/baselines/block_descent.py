"""Accelerated stochastic block descent on stale information: ASBCDS, and PASBCDS, which changes one block a step.

Both minimise a smooth convex ``phi`` of a point ``(m, d)``: m blocks of d numbers. Step k = 0, 1, ... uses theta_{k+1}
(see ThetaSequence), changes a block i, and sees block p as it was after ``j_p <= k`` steps.

ASBCDS, with the sequences eta, zeta, lambda:

    lambda_{k+1}   = theta_{k+1} zeta_k + (1 - theta_{k+1}) eta_k
    omega^[p]      = e  after  e <- theta_{l+1} zeta_{j_p} + (1 - theta_{l+1}) e  for l = j_p..k,  from  e = eta_{j_p}
    zeta_{k+1}^[i] = zeta_k^[i] - gamma/(m theta_{k+1}) g,          g: gradient of phi at omega, block i
    eta_{k+1}      = lambda_{k+1} + m theta_{k+1} (zeta_{k+1} - zeta_k)

PASBCDS, with the sequences u, v, of which only block i changes:

    omega^[p] = u_{j_p}^[p] + theta_{k+1}^2 v_{j_p}^[p],            delta = gamma/(m theta_{k+1}) g
    u^[i] -= delta,     v^[i] += (1 - m theta_{k+1})/theta_{k+1}^2 delta,       eta_{k+1} = u + theta_{k+1}^2 v

They compute the same points eta. The closed form of omega that the paper prints for ASBCDS lacks a term; the recursion
above is what it means.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from barymesh.checks import as_floats, positive_number, whole_number
from barymesh.decentralized.baselines.theta import ThetaSequence, square_change
from barymesh.errors import NumericalError, OptionError
from barymesh.random import addressed_generator

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Gradient = Callable[[Floats, int], ArrayLike]


@dataclass(frozen=True)
class BlockDescentResult:
    """What ``asbcds`` and ``pasbcds`` return.

    Attributes
    ----------
    point : array (m, d)
        The point after the last step.
    steps : array (r,)
        The numbers of steps after which points were recorded.
    trajectory : array (r, m, d)
        These points.
    """

    point: Floats
    steps: Indices
    trajectory: Floats


def asbcds(
    gradient: Gradient,
    start: ArrayLike,
    *,
    step: float,
    iterations: int,
    staleness: ArrayLike = 0,
    blocks: ArrayLike | None = None,
    seed: int = 0,
    record_every: int = 0,
) -> BlockDescentResult:
    """Minimise a smooth convex function by ASBCDS, accelerated block descent on stale information.

    All blocks of the iterates change at every step: the form that the theory is about. ``pasbcds`` computes the same
    points, and changes one block a step.

    Parameters
    ----------
    gradient : callable
        ``gradient(point, block)`` returns the gradient of the function with respect to one block, ``(d,)``, or an
        unbiased estimate of it. ``point`` is an array ``(m, d)``, ``block`` a number from 0 to m - 1. It is called once
        in each step.
    start : array (m, d)
        The point to start from: m blocks of d numbers.
    step : float
        The step size gamma. ``theoretical_step`` is small enough for every function of a given smoothness.
    iterations : int
        The number of steps.
    staleness : int or array (iterations, m), optional
        How many steps old each block is when a step sees it. 0, the default, means that it is up to date; another
        number, that all ages from 0 up to it are equally likely. Nothing is older than the start.
    blocks : array (iterations,), optional
        The block that each step changes. By default each is drawn with equal probability.
    seed : int, optional
        Seed of everything that is drawn.
    record_every : int, optional
        Keep the point after every so many steps. 0, the default, keeps none.

    Returns
    -------
    BlockDescentResult
        The last point, and those recorded.

    Raises
    ------
    OptionError
        An argument has a wrong shape or value.
    NumericalError
        The gradient is not finite: the step is too large for this function and this staleness.

    Examples
    --------
    A system of linear equations as a minimisation; every unknown is a block:

    >>> import numpy as np
    >>> from barymesh.block_descent import asbcds
    >>> matrix, right = np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([1.0, 2.0])
    >>> found = asbcds(lambda x, block: matrix[block] @ x - right[block], np.zeros((2, 1)), step=0.1, iterations=400)
    >>> bool(np.allclose(matrix @ found.point[:, 0], right, atol=1e-3))
    True
    """
    run = _Run(gradient, start, step, iterations, staleness, blocks, seed, record_every)
    m = run.m
    past: deque[tuple[Floats, Floats]] = deque([(run.start, run.start)], maxlen=run.oldest + 1)
    thetas: deque[float] = deque(maxlen=run.oldest + 1)
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
    """A block as it was after ``since`` steps, and before ``until``: omega and momentum ``(d,)`` at theta_since."""

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
    staleness: ArrayLike = 0,
    blocks: ArrayLike | None = None,
    seed: int = 0,
    record_every: int = 0,
) -> BlockDescentResult:
    """Minimise a smooth convex function by PASBCDS, accelerated block descent in which a step changes one block.

    It computes the points of ``asbcds``, with less work in each step. Digits are not lost in long runs either: u and v
    may grow without bound while ``u + theta^2 v`` does not, so ``omega = u + theta^2 v`` and the momentum ``theta^2 v``
    are kept instead of them, both at the theta of the block's last change.

    Parameters
    ----------
    gradient : callable
        ``gradient(point, block)`` returns the gradient of the function with respect to one block, ``(d,)``, or an
        unbiased estimate of it. ``point`` is an array ``(m, d)``, ``block`` a number from 0 to m - 1. It is called once
        in each step.
    start : array (m, d)
        The point to start from: m blocks of d numbers.
    step : float
        The step size gamma. ``theoretical_step`` is small enough for every function of a given smoothness.
    iterations : int
        The number of steps.
    staleness : int or array (iterations, m), optional
        How many steps old each block is when a step sees it; see ``asbcds``.
    blocks : array (iterations,), optional
        The block that each step changes. By default each is drawn with equal probability.
    seed : int, optional
        Seed of everything that is drawn.
    record_every : int, optional
        Keep the point after every so many steps. 0, the default, keeps none.

    Returns
    -------
    BlockDescentResult
        The last point, and those recorded.

    Raises
    ------
    OptionError
        An argument has a wrong shape or value.
    NumericalError
        The gradient is not finite: the step is too large for this function and this staleness.

    Examples
    --------
    The same, where every step sees unknowns that are up to five steps old:

    >>> import numpy as np
    >>> from barymesh.block_descent import pasbcds
    >>> matrix, right = np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([1.0, 2.0])
    >>> found = pasbcds(
    ...     lambda x, block: matrix[block] @ x - right[block], np.zeros((2, 1)), step=0.02, iterations=2000, staleness=5
    ... )
    >>> bool(np.allclose(matrix @ found.point[:, 0], right, atol=1e-3))
    True
    """
    run = _Run(gradient, start, step, iterations, staleness, blocks, seed, record_every)
    m = run.m
    omega, momentum = run.start.copy(), np.zeros_like(run.start)
    # a block that never changed has no momentum, so that any theta is right for it
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
        while older[i] and older[i][0].until <= k + 1 - run.oldest:
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
    """The checked arguments, with the operations on them that both methods share, and the recorded points.

    ``oldest``: the largest age that a block can have.
    """

    def __init__(
        self,
        gradient: Gradient,
        start: ArrayLike,
        step: float,
        iterations: int,
        staleness: ArrayLike,
        blocks: ArrayLike | None,
        seed: int,
        record_every: int,
    ) -> None:
        self.start = np.array(as_floats(start, "The start", OptionError))
        if self.start.ndim != 2 or self.start.size == 0:
            raise OptionError(f"The start has shape {self.start.shape}; give one row for each block, (m, d).")
        if not np.isfinite(self.start).all():
            raise OptionError("The start has numbers that are not finite; give a point of finite numbers.")
        self.m, self.step = len(self.start), positive_number("step", step)
        self.iterations = whole_number("iterations", iterations, 1)
        self.every = whole_number("record_every", record_every, 0)
        self._gradient = gradient
        seed = whole_number("seed", seed)
        self._draws = [addressed_generator(seed, purpose) for purpose in range(2)]
        self._blocks = None if blocks is None else _table(blocks, "blocks", (self.iterations,), self.m - 1)
        self._ages: Indices | None = None
        if np.isscalar(staleness):
            self.oldest = whole_number("staleness", staleness, 0)
        else:
            self._ages = _table(staleness, "staleness", (self.iterations, self.m))
            self.oldest = int(self._ages.max())
        self._points: list[Floats] = []
        self._steps: list[int] = []

    def steps(self) -> Iterator[tuple[int, float]]:
        """Every step k, with the excess r_{k+1} of ``1/theta_{k+1}`` over ``k/2 + m``; see ThetaSequence."""
        return zip(range(self.iterations), ThetaSequence(self.m), strict=False)

    def ages(self, k: int) -> Indices:
        """``k - j_p (m,)``: how old each block is when step k sees it."""
        if self._ages is None and self.oldest == 0:
            return np.zeros(self.m, dtype=np.intp)
        ages = self._draws[1].integers(self.oldest + 1, size=self.m) if self._ages is None else self._ages[k]
        return np.minimum(ages, k).astype(np.intp)

    def block(self, k: int) -> int:
        """The block that step k changes."""
        return int(self._draws[0].integers(self.m) if self._blocks is None else self._blocks[k])

    def gradient(self, point: Floats, block: int, k: int) -> Floats:
        g = as_floats(self._gradient(point, block), "The gradient", OptionError)
        if g.shape != self.start.shape[1:]:
            raise OptionError(f"The gradient has shape {g.shape} at step {k}; a block has {self.start.shape[1:]}.")
        if not np.isfinite(g).all():
            raise NumericalError(
                f"The gradient of block {block} is not finite at step {k}. If the points before it grew, use a smaller "
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


def _table(values: ArrayLike, name: str, shape: tuple[int, ...], largest: int | None = None) -> Indices:
    """An array of whole numbers from 0 to ``largest``, in this shape."""
    try:
        found = np.asarray(values)
    except ValueError as cause:
        raise OptionError(f"{name} is not an array ({cause}); give whole numbers of shape {shape}.") from cause
    if found.shape != shape or found.dtype.kind not in "iu":
        raise OptionError(f"{name} is {found.dtype} of shape {found.shape}; give whole numbers of shape {shape}.")
    if found.min() < 0 or (largest is not None and found.max() > largest):
        limits = "must not be negative" if largest is None else f"must lie between 0 and {largest}"
        raise OptionError(f"{name} has values from {found.min()} to {found.max()}; they {limits}.")
    return found.astype(np.intp)
