"""The block descent solvers: where they converge, what they store, and how many digits they keep."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import barymesh as bm
from barymesh.block_descent import asbcds, pasbcds, theoretical_step
from barymesh.decentralized.baselines.block_descent import carried, stepped
from barymesh.decentralized.baselines.theta import ThetaSequence, square_change
from barymesh.errors import NumericalError, OptionError

METHODS = [asbcds, pasbcds]
both = pytest.mark.parametrize("method", METHODS)


class Quadratic:
    """``phi(x) = x'Ax/2 - b'x`` on m blocks of d numbers, with its block gradient."""

    def __init__(self, seed, m=4, d=2):
        rng = np.random.default_rng(seed)
        factor = rng.normal(size=(m * d, m * d))
        self.shape = (m, d)
        self.hessian = factor @ factor.T / (m * d) + 0.2 * np.eye(m * d)
        self.slope = rng.normal(size=m * d)
        self.smoothness = float(np.linalg.eigvalsh(self.hessian)[-1])
        self.optimum = np.linalg.solve(self.hessian, self.slope).reshape(m, d)
        self.start = rng.normal(size=(m, d))

    def gradient(self, point, block):
        return (self.hessian @ point.ravel() - self.slope).reshape(self.shape)[block]


@both
@given(seed=st.integers(0, 2**32), m=st.integers(1, 4), d=st.integers(1, 2), staleness=st.integers(0, 3))
@settings(max_examples=5, deadline=None)
def test_random_quadratics_are_minimised(method, seed, m, d, staleness):
    """The closed form of the optimum is the solution of a linear system."""
    problem = Quadratic(seed, m, d)
    step = 0.3 / problem.smoothness / (1 + staleness)
    found = method(problem.gradient, problem.start, step=step, iterations=4000, staleness=staleness, seed=seed)
    start, end = (np.abs(point - problem.optimum).max() for point in (problem.start, found.point))
    assert end < 0.02 * max(start, 1)


@given(seed=st.integers(0, 2**32), m=st.integers(1, 5), staleness=st.integers(0, 6))
@settings(max_examples=25, deadline=None)
def test_the_two_agree_step_by_step(seed, m, staleness):
    """With all that is drawn from one seed."""
    problem = Quadratic(seed, m)
    options = {"step": 0.1 / problem.smoothness, "iterations": 60, "staleness": staleness, "seed": seed}
    one, other = (method(problem.gradient, problem.start, record_every=1, **options) for method in METHODS)
    scale = max(1.0, np.abs(one.trajectory).max())
    np.testing.assert_allclose(other.trajectory, one.trajectory, atol=1e-12 * scale)


@both
def test_a_staleness_that_is_drawn_lies_between_0_and_the_largest(method):
    """Seen through a gradient that does not look at the point, so that the ages can be told from what was seen."""
    m, n, largest = 3, 300, 2
    seen = []

    def gradient(point, block):
        seen.append(point.copy())
        return np.ones(1)

    options = {"step": 0.1, "iterations": n, "seed": 4}
    method(gradient, np.zeros((m, 1)), staleness=largest, **options)
    drawn, by_age = seen, []
    for age in range(largest + 1):
        seen = []
        method(gradient, np.zeros((m, 1)), staleness=np.full((n, m), age), **options)
        by_age.append(seen)
    fits = np.isclose(np.array(drawn)[None], np.array(by_age), rtol=1e-12, atol=0)[:, largest:, :, 0]
    assert fits.any(axis=0).all()
    # where the ages differ in what they show, all of them occur
    apart = fits.sum(axis=0) == 1
    counts = [int((fits[age] & apart).sum()) for age in range(largest + 1)]
    assert min(counts) > 0


@both
def test_one_block_without_staleness_is_nesterovs_method(method):
    """With m = 1 the steps are ``y = x + theta_{k+1}(1/theta_k - 1)(x - x_before)``, ``x = y - gamma grad(y)``."""
    problem = Quadratic(3, m=1, d=5)
    step = 0.5 / problem.smoothness
    x = before = problem.start
    theta = ThetaSequence(1).at(np.arange(1, 41))
    expected = []
    for k in range(40):
        y = x + theta[k] * (1 / theta[k - 1] - 1) * (x - before) if k else x
        before, x = x, y - step * problem.gradient(y, 0)
        expected.append(x)
    found = method(problem.gradient, problem.start, step=step, iterations=40, record_every=1)
    np.testing.assert_allclose(found.trajectory, expected, rtol=1e-11, atol=1e-12)


@both
def test_what_a_step_sees_is_as_old_as_asked(method):
    """The gradient does not look at the point, so the past is known: what was seen can be rebuilt from u and v."""
    m, n, longest = 3, 40, 5
    rng = np.random.default_rng(5)
    ages, chosen, forces = rng.integers(0, longest + 1, (n, m)), rng.integers(m, size=n), rng.normal(size=(n, 2))
    start = rng.normal(size=(m, 2))
    seen = []

    def gradient(point, block):
        k = len(seen)
        assert block == chosen[k]
        seen.append(point)
        return forces[k]

    method(gradient, start, step=0.1, iterations=n, staleness=ages, blocks=chosen)
    theta = ThetaSequence(m).at(np.arange(1, n + 1))
    u, v = [start], [np.zeros((m, 2))]
    for k in range(n):
        delta = 0.1 / (m * theta[k]) * forces[k]
        u.append(u[-1].copy())
        v.append(v[-1].copy())
        u[-1][chosen[k]] -= delta
        v[-1][chosen[k]] += (1 - m * theta[k]) / theta[k] ** 2 * delta
    for k in range(n):
        then = np.maximum(k - ages[k], 0)
        expected = [u[then[p]][p] + theta[k] ** 2 * v[then[p]][p] for p in range(m)]
        np.testing.assert_allclose(seen[k], expected, atol=1e-12)


@both
def test_no_more_is_stored_than_the_largest_staleness_needs(method):
    def peak(iterations):
        tracemalloc.start()
        ages = np.tile([4, 0, 4], (iterations, 1))
        method(lambda point, block: point[block], np.ones((3, 5000)), step=0.1, iterations=iterations, staleness=ages)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    assert peak(200) < 1.2 * peak(50)


@both
def test_runs_repeat_and_seeds_differ(method):
    problem = Quadratic(7)

    def run(seed):
        return method(problem.gradient, problem.start, step=0.1, iterations=50, seed=seed).point

    np.testing.assert_array_equal(run(3), run(3))
    assert not np.array_equal(run(3), run(4))
    assert np.isfinite(run(-1)).all()


@both
def test_blocks_are_drawn_uniformly_by_default(method):
    counts = np.zeros(4)

    def gradient(point, block):
        counts[block] += 1
        return np.zeros(1)

    method(gradient, np.zeros((4, 1)), step=1.0, iterations=4000)
    assert np.abs(counts - 1000).max() < 5 * math.sqrt(4000 * 0.25 * 0.75)


@both
def test_recorded_points(method):
    problem = Quadratic(8)
    every = method(problem.gradient, problem.start, step=0.1, iterations=20, record_every=1)
    some = method(problem.gradient, problem.start, step=0.1, iterations=20, record_every=6)
    assert every.steps.tolist() == list(range(1, 21))
    assert some.steps.tolist() == [6, 12, 18]
    np.testing.assert_array_equal(some.trajectory, every.trajectory[[5, 11, 17]])
    np.testing.assert_array_equal(every.trajectory[-1], every.point)
    assert len({point.tobytes() for point in every.trajectory}) == 20


@both
def test_the_start_is_not_changed(method):
    start = np.ones((2, 1))
    method(lambda point, block: point[block], start, step=0.1, iterations=5)
    np.testing.assert_array_equal(start, np.ones((2, 1)))


@given(seed=st.integers(0, 2**32), m=st.integers(1, 6), tau=st.integers(0, 5))
@settings(max_examples=20)
def test_the_theoretical_step_never_diverges(seed, m, tau):
    problem = Quadratic(seed, m, 2)
    step = theoretical_step(problem.smoothness, tau, m)
    found = pasbcds(problem.gradient, problem.start, step=step, iterations=300, staleness=tau)
    start, end = (np.linalg.norm(point - problem.optimum) for point in (problem.start, found.point))
    assert end < 1.5 * start


@both
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"start": np.zeros(3)}, ["(3,)", "(m, d)"]),
        ({"start": np.zeros((0, 2))}, ["(0, 2)", "(m, d)"]),
        ({"start": [[math.nan]]}, ["start", "finite"]),
        ({"step": 0}, ["step is 0", "positive"]),
        ({"step": math.inf}, ["step is inf", "finite"]),
        ({"iterations": 0}, ["iterations is 0", "at least 1"]),
        ({"iterations": 2.5}, ["iterations is 2.5", "whole number"]),
        ({"record_every": -1}, ["record_every is -1", "at least 0"]),
        ({"seed": 0.5}, ["seed is 0.5", "whole number"]),
        ({"staleness": -1}, ["staleness is -1", "at least 0"]),
        ({"staleness": 1.5}, ["staleness is 1.5", "whole number"]),
        ({"staleness": np.full((3, 2), -1)}, ["staleness", "from -1 to -1", "negative"]),
        ({"staleness": np.zeros((3, 3), dtype=int)}, ["staleness", "(3, 3)", "shape (3, 2)"]),
        ({"staleness": np.zeros((3, 2))}, ["staleness", "float64", "whole numbers"]),
        ({"staleness": [[0, 0], [0]]}, ["staleness", "(3, 2)"]),
        ({"blocks": [0, 1, 2]}, ["blocks", "from 0 to 2", "between 0 and 1"]),
        ({"blocks": [0, -1, 0]}, ["blocks", "from -1 to 0", "between 0 and 1"]),
        ({"blocks": [0, 1]}, ["blocks", "(2,)", "(3,)"]),
        ({"gradient": lambda point, block: [1.0, 2.0]}, ["(2,)", "step 0", "(1,)"]),
        ({"gradient": lambda point, block: "up"}, ["gradient", "numbers"]),
    ],
)
def test_bad_input_is_refused_with_a_reason(method, change, words):
    usual = {"gradient": lambda point, block: point[block], "start": np.ones((2, 1)), "step": 0.1, "iterations": 3}
    with pytest.raises(OptionError) as caught:
        method(**{**usual, **change})
    assert isinstance(caught.value, bm.BarymeshError)
    for word in words:
        assert word in str(caught.value)


@both
def test_a_run_that_blows_up_says_so(method):
    with (
        np.errstate(over="ignore", invalid="ignore"),
        pytest.raises(NumericalError, match=r"not finite at step \d+.*smaller step than 100"),
    ):
        method(lambda point, block: point[block] ** 3, np.full((2, 1), 2.0), step=100.0, iterations=100)


# digits


HESSIAN = [[2.0, 0.5, 0.3], [0.5, 1.0, -0.2], [0.3, -0.2, 0.5]]
SLOPE = [1.0, -2.0, 0.5]
NOISY_STEP = 0.125


def noisy_run(steps):
    """Which block each step changes, and the noise of its gradient: with noise, u and v wander far off."""
    rng = np.random.default_rng(0)
    return rng.integers(3, size=steps).tolist(), (0.1 * rng.choice([-1.0, 1.0], size=steps)).tolist()


def textbook(number, steps):
    """The (u, v) recursion as it is written, in the arithmetic of ``number``; also u itself."""
    hessian, slope = [[number(a) for a in row] for row in HESSIAN], [number(b) for b in SLOPE]
    one, four, m, gamma = number(1), number(4), number(3), number(NOISY_STEP)
    u, v, inverse = [number(0)] * 3, [number(0)] * 3, number(3)
    root = math.sqrt if number is float else np.sqrt
    for i, noise in zip(*noisy_run(steps), strict=True):
        theta = one / inverse
        square = theta * theta
        x, y, z = (u[p] + square * v[p] for p in range(3))
        row = hessian[i]
        delta = gamma / (m * theta) * (row[0] * x + row[1] * y + row[2] * z - slope[i] + number(noise))
        u[i] -= delta
        v[i] += (one - m * theta) / square * delta
        inverse = (one + root(one + four * inverse * inverse)) / 2
    return np.array([u[p] + square * v[p] for p in range(3)]), np.array(u)


def scalar_pasbcds(steps):
    """What ``pasbcds`` does, by the functions it does it with, on plain numbers, because a million steps on arrays
    would take minutes."""
    omega, momentum, since, excesses = [0.0] * 3, [0.0] * 3, [0] * 3, [0.0] * 3
    for k, (excess, i, noise) in enumerate(zip(ThetaSequence(3), *noisy_run(steps), strict=False)):
        changes = [square_change(k + 1, excess, since[p], excesses[p], 3) for p in range(3)]
        x, y, z = (carried(omega[p], momentum[p], changes[p])[0] for p in range(3))
        row = HESSIAN[i]
        g = row[0] * x + row[1] * y + row[2] * z - SLOPE[i] + noise
        moved = carried(omega[i], momentum[i], changes[i])
        omega[i], momentum[i] = stepped(*moved, g, 1.0 / (0.5 * k + 3 + excess), NOISY_STEP, 3)
        since[i], excesses[i] = k + 1, excess
    ends = [square_change(steps, excess, since[p], excesses[p], 3) for p in range(3)]
    return np.array([carried(omega[p], momentum[p], ends[p])[0] for p in range(3)])


def test_the_scalar_run_is_the_solver():
    steps = 3000
    chosen, noise = noisy_run(steps)
    coming = iter(noise)

    def gradient(point, block):
        return np.array(HESSIAN)[block] @ point - SLOPE[block] + next(coming)

    found = pasbcds(gradient, np.zeros((3, 1)), step=NOISY_STEP, iterations=steps, blocks=chosen)
    np.testing.assert_allclose(found.point[:, 0], scalar_pasbcds(steps), atol=1e-13)


@pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="this machine has no extended precision")
def test_many_steps_lose_no_digits():
    """Against u and v in extended precision. In double precision the same u and v lose as many digits as they grow."""
    steps = 3 * 10**5
    truth, u = textbook(np.longdouble, steps)
    assert np.abs(u).max() > 1000 * np.abs(truth).max()
    ours, plain = (float(np.abs(point - truth).max()) for point in (scalar_pasbcds(steps), textbook(float, steps)[0]))
    assert ours < 1e-13
    assert plain > 20 * ours
