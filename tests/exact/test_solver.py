"""The exact solver: optimality, closed forms, safe acceleration, and how it ends."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import barymesh as bm
from barymesh.errors import NumericalError
from barymesh.exact import solve
from barymesh.exact.rows import Rows
from barymesh.oracle import build_oracle
from barymesh.problem import Problem
from barymesh.status import Status
from tests.oracle.plain import node_oracle


def random_problem(seed, relative):
    rng = np.random.default_rng(seed)
    d, n, m = int(rng.integers(1, 4)), int(rng.integers(2, 30)), int(rng.integers(1, 12))
    measures = [bm.Empirical(rng.random((int(rng.integers(1, 20)), d))) for _ in range(m)]
    return bm.Problem.create(
        measures, rng.random((n, d)), reg=relative, relative_reg=True, weights=rng.uniform(0.1, 1, m)
    )


def oracle_of(problem):
    return build_oracle(problem.atoms, problem.support, problem.cost, problem.reg)


@given(seed=st.integers(0, 2**32), log_relative=st.floats(-2.5, 0))
@settings(max_examples=40)
def test_optimality_conditions_by_the_plain_formula(seed, log_relative):
    """Consensus and dual feasibility, checked without any compiled kernel, make the answer *the* barycenter."""
    problem = random_problem(seed, 10**log_relative)
    solution = solve(Rows(oracle_of(problem), problem.weights), max_iter=50_000, tol=1e-9)
    assert solution.error <= 1e-9
    lam = problem.reg * solution.x
    for i, atoms in enumerate(problem.atoms):
        cost = problem.cost.matrix(problem.support.points, atoms.points).T
        _, log_p = node_oracle(lam[i], cost, atoms.weights, problem.reg)
        assert np.abs(np.exp(log_p) - solution.p).sum() <= 1e-9 / problem.weights[i] + 1e-9
    total = problem.weights @ lam
    assert np.abs(total - total.mean()).max() <= 1e-9 * (1 + np.abs(lam).max())
    assert solution.p.sum() == pytest.approx(1.0, abs=1e-12)


@given(seed=st.integers(0, 2**32), log_relative=st.floats(-2, 0))
@settings(max_examples=25)
def test_every_step_lowers_the_dual_as_much_as_theory_asks_of_a_plain_one(seed, log_relative):
    """The safeguard, read off the history: no accepted step ever raises the dual function."""
    problem = random_problem(seed, 10**log_relative)
    solution = solve(Rows(oracle_of(problem), problem.weights), max_iter=300, tol=1e-11)
    slack = 1e-12 * (1 + np.abs(solution.duals).max())
    assert (np.diff(solution.duals) <= slack).all()


@given(seed=st.integers(0, 2**32), log_relative=st.floats(-2.5, 0))
@settings(max_examples=25)
def test_acceleration_needs_no_more_iterations_than_plain(seed, log_relative):
    problem = random_problem(seed, 10**log_relative)
    oracle = oracle_of(problem)
    plain = solve(Rows(oracle, problem.weights), max_iter=3000, tol=1e-6, depth=0)
    fast = solve(Rows(oracle, problem.weights), max_iter=3000, tol=1e-6)
    # one step in nine may go to a rejected try, and a handful to learning
    assert fast.iterations <= 1.13 * plain.iterations + 5
    assert fast.dual <= plain.dual + 1e-6 * (1 + abs(plain.dual))


def test_acceleration_is_worth_having():
    rng = np.random.default_rng(3)
    measures = [bm.Gaussian(a, b) for a, b in zip(rng.uniform(-4, 4, 20), rng.uniform(0.1, 0.6, 20), strict=True)]
    problem = bm.Problem.create(measures, np.linspace(-5, 5, 100), reg=0.02)
    oracle = oracle_of(problem)
    plain = solve(Rows(oracle, problem.weights), max_iter=5000, tol=1e-8, depth=0)
    fast = solve(Rows(oracle, problem.weights), max_iter=5000, tol=1e-8)
    assert fast.iterations < plain.iterations / 3


def test_a_history_of_16_bits_serves_as_well(monkeypatch):
    rng = np.random.default_rng(0)
    points = bm.Support.regular((24, 24), 0, 1)
    images = np.exp(-50 * np.square(points.points - rng.uniform(0.2, 0.8, (20, 1, 2))).sum(axis=2))
    problem = bm.Problem.create(images * (rng.random(images.shape) < 0.5), points, reg=0.004)
    plain = solve(Rows(problem.oracle, problem.weights), max_iter=500, tol=1e-8)
    monkeypatch.setattr("barymesh.exact.anderson.LARGE", 1)
    short = solve(Rows(problem.oracle, problem.weights), max_iter=500, tol=1e-8)
    assert short.status is plain.status is Status.CONVERGED
    assert short.iterations <= 1.1 * plain.iterations + 2
    assert np.abs(short.p - plain.p).sum() < 1e-6


def test_gaussians_on_the_line_approach_the_quantile_average():
    """The barycenter of N(a_i, s_i^2) is N(mean a, (mean s)^2); entropy blurs it by less and less as reg falls."""
    measures, weights = [bm.Gaussian(-2.0, 0.5), bm.Gaussian(1.0, 1.5)], np.array([0.25, 0.75])
    errors = []
    for reg, points in ((0.2, 200), (0.05, 400), (0.0125, 800)):
        result = bm.barycenter(measures, np.linspace(-8, 8, points), reg=reg, weights=weights, tol=1e-8)
        z = result.support.points[:, 0]
        mean = result.weights @ z
        std = np.sqrt(result.weights @ (z - mean) ** 2)
        assert mean == pytest.approx(0.25, abs=1e-5)
        errors.append(abs(std - 1.25))
    assert errors[0] > 2.5 * errors[1] > 6 * errors[2]
    assert errors[-1] < 0.01


def test_gaussians_in_the_plane_approach_the_bures_barycenter():
    a = np.array([[0.02, 0.012], [0.012, 0.015]])
    b = np.array([[0.010, -0.006], [-0.006, 0.03]])
    expected = bures_barycenter([a, b], [0.5, 0.5])
    errors = []
    for reg, side in ((0.02, 32), (0.005, 48)):
        support = bm.Support.regular((side, side), -0.8, 0.8)
        result = bm.barycenter([bm.Gaussian([0, 0], cov=a), bm.Gaussian([0, 0], cov=b)], support, reg=reg, tol=1e-6)
        z = support.points
        covariance = (z * result.weights[:, None]).T @ z
        errors.append(np.linalg.norm(covariance - expected))
    assert errors[1] < errors[0] / 2
    assert errors[1] < 0.2 * np.linalg.norm(expected)


def bures_barycenter(covariances, weights):
    """The fixed point S = sum w (S^1/2 A S^1/2)^1/2 (Agueh and Carlier)."""
    from scipy.linalg import sqrtm

    s = np.mean(covariances, axis=0)
    for _ in range(200):
        root = np.real(sqrtm(s))
        s = sum(w * np.real(sqrtm(root @ c @ root)) for w, c in zip(weights, covariances, strict=True))
    return s


def test_one_measure_is_its_own_smoothed_self(rng):
    """With one measure the dual is zero, and the barycenter is the measure seen through the kernel."""
    result = bm.barycenter([bm.Empirical([[0.0], [1.0]])], np.linspace(-1, 2, 50), reg=0.05)
    assert result.success
    assert np.abs(result.duals).max() < 1e-12


def test_order_of_the_measures_does_not_matter(rng):
    clouds = [rng.normal(size=(20, 2)) for _ in range(4)]
    weights = rng.uniform(0.5, 1, 4)
    support = rng.normal(size=(40, 2))
    forward = bm.barycenter(clouds, support, reg=0.1, weights=weights, tol=1e-10)
    backward = bm.barycenter(clouds[::-1], support, reg=0.1, weights=weights[::-1], tol=1e-10)
    assert np.abs(forward.weights - backward.weights).sum() < 1e-9


def test_a_repeated_measure_counts_like_a_doubled_weight(rng):
    a, b = rng.normal(size=(2, 20, 2))
    support = rng.normal(size=(40, 2))
    repeated = bm.barycenter([a, a, b], support, reg=0.1, tol=1e-10)
    weighted = bm.barycenter([a, b], support, reg=0.1, weights=[2, 1], tol=1e-10)
    assert np.abs(repeated.weights - weighted.weights).sum() < 1e-9


def test_moving_everything_moves_the_barycenter(rng):
    clouds = [rng.normal(size=(20, 2)) for _ in range(3)]
    support = rng.normal(size=(30, 2))
    shift = np.array([100.0, -40.0])
    here = bm.barycenter(clouds, support, reg=0.1, tol=1e-9)
    there = bm.barycenter([c + shift for c in clouds], support + shift, reg=0.1, tol=1e-9)
    assert np.abs(here.weights - there.weights).sum() < 1e-7


def three_clouds(rng):
    return [rng.normal(size=(30, 2)) + k for k in range(3)], rng.normal(size=(60, 2)) + 1


def test_runs_repeat_exactly(rng):
    clouds, support = three_clouds(rng)
    measures = [*clouds, lambda size, rng: rng.normal(size=(size, 2))]
    one, two = (bm.barycenter(measures, support, reg=0.1, seed=11) for _ in range(2))
    np.testing.assert_array_equal(one.weights, two.weights)
    np.testing.assert_array_equal(one.duals, two.duals)
    other = bm.barycenter(measures, support, reg=0.1, seed=12)
    assert not np.array_equal(one.weights, other.weights)


def test_callback_sees_the_estimates_of_the_measures(rng):
    """Those of the last iteration are those of the result."""
    seen = []
    clouds, support = [rng.random((20, 1)) for _ in range(4)], np.linspace(0, 1, 15)
    some = np.array([2, 0])
    result = bm.barycenter(clouds, support, reg=0.05, callback=lambda state: seen.append(state.estimates(some)))
    np.testing.assert_allclose(seen[-1], result.node_weights[some], rtol=1e-12)


def test_callback_sees_progress_and_can_stop(rng):
    clouds, support = three_clouds(rng)
    seen = []

    def watch(state):
        seen.append(state)
        return state.step == 4

    result = bm.barycenter(clouds, support, reg=0.05, tol=0, callback=watch)
    assert result.status is bm.Status.STOPPED
    assert not result.success
    assert [s.step for s in seen] == [1, 2, 3, 4]
    np.testing.assert_array_equal(seen[-1].weights, result.weights)
    assert len(result.history) == result.iterations == 4


def test_max_iter_is_said(rng):
    clouds, support = three_clouds(rng)
    result = bm.barycenter(clouds, support, reg=0.05, tol=0, max_iter=3)
    assert result.status is bm.Status.MAX_ITERATIONS
    assert result.iterations == 3
    assert result.gap > 0


@given(seed=st.integers(0, 1000), max_iter=st.integers(1, 60), log_reg=st.floats(-4, -1))
@settings(max_examples=150)
def test_iterations_never_exceed_max_iter(seed, max_iter, log_reg):
    """Where the acceleration fails often, and a step that is undone costs an iteration too: sharp measures."""
    rng = np.random.default_rng(seed)
    measures = [rng.random((int(rng.integers(1, 4)), 1)) for _ in range(int(rng.integers(2, 5)))]
    evaluations, states = [], []
    problem = bm.Problem.create(measures, rng.random((8, 1)), reg=10**log_reg)
    oracle = oracle_of(problem)
    original = oracle.evaluate

    def counted(*arguments, **options):
        evaluations.append(1)
        return original(*arguments, **options)

    oracle.evaluate = counted
    solution = solve(Rows(oracle, problem.weights), max_iter=max_iter, tol=1e-13, callback=states.append)
    assert solution.iterations == len(evaluations) == len(solution.errors) <= max_iter
    if solution.status is bm.Status.MAX_ITERATIONS:
        assert solution.iterations == max_iter
    # what is returned was evaluated, and accepted
    assert states[-1].number == solution.iterations
    assert solution.error == solution.errors[-1]


def test_interrupt_keeps_the_result_and_continuing_finishes_it(rng):
    clouds, support = three_clouds(rng)

    def interrupt(state):
        if state.step == 5:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    part = bm.barycenter(clouds, support, reg=0.02, tol=1e-10, callback=interrupt)
    assert part.status is bm.Status.INTERRUPTED
    assert part.iterations == 5
    assert signal.getsignal(signal.SIGINT) is before
    whole = bm.barycenter(clouds, support, reg=0.02, tol=1e-10)
    continued = bm.barycenter(clouds, support, reg=0.02, tol=1e-10, start=part)
    assert continued.success
    assert np.abs(continued.weights - whole.weights).sum() < 1e-8


def test_a_start_close_to_the_end_saves_iterations(rng):
    clouds, support = three_clouds(rng)
    first = bm.barycenter(clouds, support, reg=0.02, tol=1e-8)
    again = bm.barycenter(clouds, support, reg=0.02, tol=1e-8, start=first)
    assert again.iterations <= 2


def test_numbers_that_are_not_finite_never_come_out(rng):
    """An oracle gone wrong is an error, not a NaN in a result."""
    clouds, support = three_clouds(rng)
    problem = bm.Problem.create(clouds, support, reg=0.1)
    oracle = oracle_of(problem)
    original = oracle.evaluate

    def broken(x, nodes=None, weights=None, out=None):
        value, log_p = original(x, nodes, weights, out)
        value[0] = np.nan
        return value, log_p

    oracle.evaluate = broken
    with pytest.raises(NumericalError, match="not finite"):
        solve(Rows(oracle, problem.weights), max_iter=10, tol=1e-6)


def test_a_bad_accelerated_step_is_undone(rng):
    """Values inflated at one accelerated point make the solver fall back; it still converges to the same measure."""
    clouds, support = three_clouds(rng)
    problem = bm.Problem.create(clouds, support, reg=0.05)
    expected = solve(Rows(oracle_of(problem), problem.weights), max_iter=2000, tol=1e-9)
    oracle = oracle_of(problem)
    original, calls = oracle.evaluate, []

    def sabotaged(x, nodes=None, weights=None, out=None):
        value, log_p = original(x, nodes, weights, out)
        calls.append(1)
        return (value + 1e6 if len(calls) in (4, 9) else value), log_p

    oracle.evaluate = sabotaged
    solution = solve(Rows(oracle, problem.weights), max_iter=2000, tol=1e-9)
    assert np.abs(solution.p - expected.p).sum() < 1e-7
    assert solution.errors[3] == solution.errors[2]


@pytest.mark.parametrize("relative", [1e-4, 5e-4, 4e-3])
def test_images_far_below_underflow(relative, rng):
    """Sharp images at tiny reg: finite, certified, and feasible, where ordinary kernels give NaN."""
    images = np.zeros((4, 16, 16))
    for k, image in enumerate(images):
        image[2 + 2 * k : 5 + 2 * k, 3 : 6 + k] = rng.random((3, 3 + k)) + 0.1
    result = bm.barycenter(images, reg=2 * relative, tol=1e-5, max_iter=4000)
    assert np.isfinite(result.weights).all()
    assert (result.weights > 0).sum() > 0
    assert result.weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert result.feasibility < 1e-9
    assert result.gap < 1e-3


@pytest.mark.parametrize("tiny", [1e-39, 1e-60, 1e-300])
def test_masses_too_small_for_float32_are_certified_all_the_same(rng, tiny):
    """What the solver cannot represent, the certificate can: it is in float64, and its gap never NaN."""
    rows = rng.random((4, 30)) + 0.1
    rows[:, ::7] = tiny
    single, double = (
        bm.barycenter(rows, np.linspace(0, 1, 30), reg=0.01, tol=1e-4, precision=precision)
        for precision in ("float32", "float64")
    )
    assert np.isfinite([single.gap, single.value, single.tv_bound]).all()
    assert single.gap >= 0
    assert single.gap == pytest.approx(double.gap, abs=1e-4)
    # and it holds for what float64 finds
    assert single.value - single.gap <= double.value + 1e-9
    assert single.value >= double.value - double.gap - 1e-9
    assert 0.5 * np.abs(single.weights - double.weights).sum() <= single.tv_bound + double.tv_bound


def test_float32_on_a_network_is_certified_in_float64(rng):
    rows = rng.random((4, 20)) + 0.1
    rows[:, ::5] = 1e-60
    options = {"network": "cycle", "duration": 30, "progress": False}
    single, double = (
        bm.barycenter(rows, np.linspace(0, 1, 20), reg=0.02, precision=precision, **options)
        for precision in ("float32", "float64")
    )
    assert np.isfinite([single.gap, single.value]).all()
    assert single.value - single.gap <= double.value + 1e-9
    assert single.value >= double.value - double.gap - 1e-9


def test_float32_agrees_to_its_precision(rng):
    images = rng.random((5, 10, 10))
    double = bm.barycenter(images, reg=0.05, tol=1e-4)
    single = bm.barycenter(images, reg=0.05, tol=1e-4, precision="float32")
    assert np.abs(double.weights - single.weights).sum() < 1e-3


def test_a_tolerance_that_float32_cannot_reach_is_reached_in_float64(rng):
    points, histograms = rng.random((30, 2)), rng.random((5, 30)) ** 4
    for reg in (0.1, 0.01, 0.002):
        found = [
            bm.barycenter(histograms, points, reg=reg, tol=1e-9, precision=precision)
            for precision in ("float32", "float64")
        ]
        assert all(result.success and result.consensus <= 1e-9 for result in found)


@pytest.mark.parametrize("reg", [0.05, 0.004, 0.001])
@pytest.mark.parametrize("max_iter", [3, 15, 5000])
def test_float32_is_a_success_only_if_float64_agrees(rng, reg, max_iter):
    images = rng.random((6, 8, 9)) ** 6 + 1e-6
    seen = []
    result = bm.barycenter(
        images, reg=reg, tol=1e-6, max_iter=max_iter, precision="float32", callback=lambda now: seen.append(now.step)
    )
    assert result.success == (result.consensus <= 1e-6)
    assert result.iterations <= max_iter
    assert result.history["iterations"].tolist() == list(range(1, result.iterations + 1))
    # iterations that were undone are not shown
    assert seen == sorted(set(seen))
    assert seen[-1] == result.iterations


def test_more_iterations_never_give_a_worse_result():
    """Where the iteration crawls, the solver begins anew; if it is interrupted then, it returns what it had before."""
    support = np.concatenate([np.linspace(0, 0.2, 25), np.linspace(0.8, 1, 25)])[:, None]
    masses = np.random.default_rng(1).dirichlet(np.full(50, 0.5), 10)
    errors = [
        bm.barycenter(masses, support, reg=0.01, tol=1e-9, max_iter=limit).consensus for limit in (100, 101, 105, 130)
    ]
    assert errors == sorted(errors, reverse=True)
    stopped = bm.barycenter(masses, support, reg=0.01, tol=1e-9, callback=lambda record: record.step >= 106)
    assert stopped.status is bm.Status.STOPPED
    assert stopped.consensus <= errors[0]


def test_a_tolerance_below_rounding_ends_with_the_accelerated_iteration():
    """Newton's steps are given up where they gain nothing any more."""
    result = bm.barycenter([bm.Gaussian(mean, 0.3) for mean in (-3, 0, 3)], np.linspace(-5, 5, 50), reg=0.1, tol=1e-17)
    assert result.status is bm.Status.MAX_ITERATIONS
    assert result.iterations == 5000
    assert result.consensus < 1e-13


@pytest.mark.parametrize("tol", [1e-6, 1e-10])
def test_small_reg_takes_few_iterations(tol):
    """Five histograms on eight points of the plane, and twelve sparse ones on a line: thousands of plain iterations."""
    rng = np.random.default_rng(0)
    few = bm.barycenter(rng.dirichlet(np.ones(8), 5), rng.random((8, 2)), reg=1.5e-3, tol=tol)
    assert few.success
    assert few.iterations < 300
    masses = np.zeros((12, 50))
    for row in masses:
        row[rng.choice(50, 8, replace=False)] = rng.dirichlet(np.ones(8))
    sparse = bm.barycenter(masses, np.linspace(0, 1, 50)[:, None], reg=1e-4, tol=tol)
    assert sparse.success
    assert sparse.iterations < 700


def test_the_solver_notices_that_it_crawls_also_after_a_step_that_was_undone():
    rng = np.random.default_rng(0)
    problem = Problem.create(rng.dirichlet(np.full(8, 0.2), 5), rng.random((8, 2)), reg=1e-4)
    whole = solve(Rows.of(problem), max_iter=80, tol=1e-10)
    undone = [k + 1 for k in range(1, 80) if whole.duals[k] == whole.duals[k - 1]]
    assert len(undone) > 3
    for patience in undone[:3]:
        given_up = solve(Rows.of(problem), max_iter=80, tol=1e-10, patience=patience)
        assert given_up.iterations == patience + 1
