"""Debiased barycenters: closed forms, certificates against values computed independently, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import sqrtm

import barymesh as bm
from barymesh.errors import CostError, OptionError
from barymesh.exact.certificate import certify
from barymesh.methods.debiasing import Debiasing
from barymesh.problem import Problem
from barymesh.status import Status


def transport_cost(p, q, cost, reg, steps=5000):
    """Entropic transport cost by plain Sinkhorn iteration in the log domain, entropy relative to the product."""
    c = cost / reg

    def smallest(log_weights, potentials, costs):
        exponents = log_weights + potentials - costs
        top = exponents.max(axis=1, keepdims=True)
        return -(top[:, 0] + np.log(np.exp(exponents - top).sum(axis=1)))

    g = np.zeros(q.size)
    for _ in range(steps):
        f = smallest(np.log(q), g, c)
        g, before = smallest(np.log(p), f, c.T), g
        if np.abs(g - before).max() < 1e-12:
            break
    return reg * (p @ f + q @ g)


def objective(p, measures, weights, cost, reg):
    """``sum_i w_i S(mu_i, p)`` less the part of the measures alone."""
    own = transport_cost(p, p, cost, reg) / 2
    return sum(w * transport_cost(p, mu, cost, reg) for w, mu in zip(weights, measures, strict=True)) - own


def squared(points):
    return np.square(points[:, None] - points).sum(axis=2)


def root(matrix):
    return np.real(sqrtm(matrix))


def gaussian_barycenter(covariances, reg):
    """The closed form (Janati, Muzellec, Peyre and Cuturi 2020): ``mean_i (S^1/2 C_i S^1/2 + (reg/4)^2)^1/2 = (S^2 +
    (reg/4)^2)^1/2``, which for ``reg=0`` is that of Bures, and in one dimension the mean deviation."""
    extra = (reg / 4) ** 2 * np.eye(len(covariances[0]))
    found = sum(covariances) / len(covariances)
    for _ in range(300):
        half = root(found)
        mean = sum(root(half @ c @ half + extra) for c in covariances) / len(covariances)
        found = root(mean @ mean - extra)
    return found


def test_the_width_in_one_dimension_is_the_mean_deviation():
    support = np.linspace(0, 1, 201)
    measures = [bm.Gaussian(0.35, 0.04), bm.Gaussian(0.6, 0.06)]

    def deviation(**options):
        p = bm.barycenter(measures, support, reg=0.012, **options).weights
        return np.sqrt(p @ (support - p @ support) ** 2)

    assert deviation() > 1.7 * 0.05
    debiased = deviation(debias=True)
    # to the resolution of the grid, and to many digits with the regularisation in the closed form
    assert debiased == pytest.approx(0.05, abs=0.2 * (support[1] - support[0]))
    assert debiased == pytest.approx(
        gaussian_barycenter([np.array([[one**2]]) for one in (0.04, 0.06)], 0.012)[0, 0] ** 0.5, abs=1e-6
    )


def test_the_covariance_in_two_dimensions_is_that_of_bures():
    covariances = [np.array([[0.006, 0.002], [0.002, 0.004]]), np.array([[0.004, 0.0], [0.0, 0.005]])]
    axis = np.linspace(0, 1, 31)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    histograms = []
    for mean, cov in zip(([0.4, 0.5], [0.6, 0.5]), covariances, strict=True):
        apart = grid - mean
        density = np.exp(-0.5 * np.einsum("ni,ij,nj->n", apart, np.linalg.inv(cov), apart))
        histograms.append((density / density.sum()).reshape(31, 31))

    def deviations(**options):
        p = bm.barycenter(np.array(histograms), reg=0.02, **options).weights
        apart = grid - p @ grid
        return root(apart.T @ (p[:, None] * apart))

    bures = root(gaussian_barycenter(covariances, 0.0))
    assert np.trace(deviations()) > 1.7 * np.trace(bures)
    debiased = deviations(debias=True, tol=1e-4)
    np.testing.assert_allclose(debiased, bures, atol=0.05 * (axis[1] - axis[0]))
    np.testing.assert_allclose(debiased, root(gaussian_barycenter(covariances, 0.02)), atol=1e-4)


@given(st.data())
@settings(max_examples=10, deadline=None)
def test_the_bounds_hold_for_any_potentials(data):
    seed, m = data.draw(st.integers(0, 2**32 - 1)), data.draw(st.integers(1, 4))
    reg = data.draw(st.sampled_from([0.05, 0.2, 1.0]))
    metric = data.draw(st.sampled_from(["sqeuclidean", "euclidean", "cityblock", "quartic"]))
    rng = np.random.default_rng(seed)
    points, weights = rng.random((12, 2)), rng.random(m) + 0.01
    weights /= weights.sum()

    def quartic(z, y):
        return np.square(np.square(z[:, None] - y).sum(axis=2))

    histograms = rng.dirichlet(np.full(12, 0.3), m) + 1e-9
    histograms /= histograms.sum(axis=1, keepdims=True)
    cost = quartic if metric == "quartic" else metric
    problem = Problem.create(histograms, points, reg=reg, weights=weights, cost=cost, debias=True)
    matrix, oracle = problem.cost.matrix(points, points), problem.oracle
    x = rng.normal(size=(m, 12)) * data.draw(st.sampled_from([0.0, 0.1, 3.0]))
    log_p = oracle.evaluate(x)[1]
    p = rng.dirichlet(np.ones(12))
    found = certify(oracle, weights, x, log_p, p, problem.product_costs, Debiasing(problem))
    assert found.upper >= objective(p, histograms, weights, matrix, reg) - 1e-10
    for alpha in (0.1, 10.0):
        q = rng.dirichlet(np.full(12, alpha)) + 1e-12
        assert found.lower <= objective(q / q.sum(), histograms, weights, matrix, reg) + 1e-10
    best = bm.barycenter(histograms, points, reg=reg, weights=weights, cost=cost, debias=True, max_iter=100)
    assert found.lower <= objective(best.weights, histograms, weights, matrix, reg) + 1e-10


@pytest.mark.parametrize("reg", [0.003, 0.02, 0.1])
def test_the_gap_is_small_and_the_value_is_that_of_the_divergence(reg):
    rng = np.random.default_rng(3)
    points = np.linspace(0, 1, 40)[:, None]
    histograms = rng.dirichlet(np.full(40, 0.2), 3) + 1e-6
    histograms /= histograms.sum(axis=1, keepdims=True)
    weights = np.array([0.7, 0.05, 0.25])
    found = bm.barycenter(histograms, points, reg=reg, weights=weights, debias=True, tol=1e-5, max_iter=1000)
    value = objective(found.weights, histograms, weights, squared(points), reg)
    assert found.objective == "debiased"
    assert found.value - found.gap <= value <= found.value + 1e-10
    assert found.value == pytest.approx(value, abs=1e-6)
    assert found.gap < 1e-4 * squared(points).max()
    assert found.tv_bound == 1.0


def test_lower_than_what_pot_finds():
    ot = pytest.importorskip("ot")
    rng = np.random.default_rng(0)
    points = np.linspace(0, 1, 50)[:, None]
    histograms = np.array([np.exp(-np.square((points[:, 0] - c) / s) / 2) for c, s in rng.uniform(0.1, 0.9, (4, 2))])
    histograms /= histograms.sum(axis=1, keepdims=True)
    cost, weights = squared(points), np.full(4, 0.25)
    pot = ot.bregman.barycenter_debiased(histograms.T.copy(), cost, 0.02, numItermax=1000, stopThr=0, warn=False)
    ours = bm.barycenter(histograms, points, reg=0.02, debias=True)
    theirs = objective(pot / pot.sum(), histograms, weights, cost, 0.02)
    assert objective(ours.weights, histograms, weights, cost, 0.02) <= theirs + 1e-10
    assert ours.value <= theirs + 1e-7
    # theirs is what ours is certified to be close to
    assert theirs >= ours.value - ours.gap
    assert theirs == pytest.approx(ours.value, abs=1e-4)


@pytest.mark.filterwarnings("ignore::barymesh.errors.AccuracyWarning")
@given(
    seed=st.integers(0, 2**32 - 1),
    reg=st.sampled_from([1e-4, 3e-3, 0.1, 10.0]),
    skew=st.sampled_from([1.0, 1e3]),
    points=st.integers(2, 40),
)
@settings(max_examples=15, deadline=None)
def test_it_never_diverges(seed, reg, skew, points):
    rng = np.random.default_rng(seed)
    measures = [
        bm.Gaussian(rng.normal(), 0.1 + rng.random()),
        bm.Empirical(rng.standard_cauchy((20, 1))),
        bm.Empirical(rng.normal(rng.normal(), 0.01, (5, 1))),
    ]
    found = bm.barycenter(
        measures, np.linspace(-2, 2, points), reg=reg, weights=[skew, 1, 1], debias=True, max_iter=300
    )
    assert np.isfinite(found.weights).all()
    assert found.weights.sum() == pytest.approx(1)
    assert found.gap >= 0
    assert found.iterations <= 300


def test_a_single_measure_is_its_own_barycenter():
    histogram = np.random.default_rng(0).dirichlet(np.ones(30))[None]
    found = bm.barycenter(histogram, np.linspace(0, 1, 30), reg=1e-3, debias=True, tol=1e-7)
    np.testing.assert_allclose(found.weights, histogram[0], atol=1e-4)
    # and its divergence from itself is 0
    value = transport_cost(histogram[0], histogram[0], squared(np.linspace(0, 1, 30)[:, None]), 1e-3) / 2
    assert found.value == pytest.approx(value, abs=1e-9)


def test_a_kernel_that_is_not_positive_definite_gives_a_stationary_point():
    rng = np.random.default_rng(0)
    measures = [rng.normal(k, 1, (60, 1)) for k in range(3)]
    found = bm.barycenter(
        measures, np.linspace(-2, 4, 40), reg=0.3, cost=lambda z, y: (z - y.T) ** 4, debias=True, tol=1e-4
    )
    assert found.status is Status.STATIONARY
    assert found.success
    # what is certified still allows for a better measure
    assert found.gap > 1e-3


def test_any_kind_of_measure_and_support_in_one_problem():
    rng = np.random.default_rng(0)
    support = rng.normal(0, 1.5, (80, 2))
    measures = [
        bm.Gaussian([0, 0], cov=0.3 * np.eye(2)),
        rng.normal(1, 0.4, (50, 2)),
        bm.Histogram(rng.random(80)),
        lambda size, rng: rng.normal(-1, 0.5, (size, 2)),
    ]
    found = bm.barycenter(measures, support, reg=0.4, debias=True, tol=1e-3, samples=50)
    assert found.success
    assert found.gap < 1e-2


def test_it_is_continued_and_saved(tmp_path):
    histograms = np.random.default_rng(0).dirichlet(np.ones(30), 3)
    options = {"support": np.linspace(0, 1, 30), "reg": 0.01, "debias": True}
    first = bm.barycenter(histograms, max_iter=10, **options)
    assert first.status is Status.MAX_ITERATIONS
    assert first.iterations == 10
    then = bm.barycenter(histograms, start=first, tol=1e-4, **options)
    assert then.success
    assert then.value <= first.value
    assert bm.load(then.save(tmp_path / "result")).objective == "debiased"
    single = bm.barycenter(histograms, precision="float32", tol=1e-4, **options)
    assert single.value == pytest.approx(then.value, abs=1e-5)


def test_a_start_at_the_solution_ends_at_once_and_one_nearby_soon():
    measures, support = [bm.Gaussian(-2, 0.4), bm.Gaussian(2, 0.8)], np.linspace(-5, 5, 101)
    options = {"reg": 0.3, "debias": True}
    found = bm.barycenter(measures, support, **options)
    assert bm.barycenter(measures, support, start=found, **options).iterations == 1
    further = bm.barycenter(measures, support, start=found, **options, tol=1e-8)
    assert further.iterations < bm.barycenter(measures, support, **options, tol=1e-8).iterations / 2
    # along a path other points have mass at every step; one that had to gain it from none took up to 257 evaluations
    steps = bm.path(measures, steps=9, support=support, **options)
    assert max(step.iterations for step in steps) < 60


def test_what_is_refused():
    histograms = np.random.default_rng(0).dirichlet(np.ones(4), 3)
    with pytest.raises(CostError, match="shape \\(3, 4\\)"):
        bm.barycenter([bm.Histogram(h) for h in histograms], reg=1, cost=np.ones((3, 4)), debias=True)
    with pytest.raises(CostError, match="one way"):
        bm.barycenter([bm.Histogram(h) for h in histograms], reg=1, cost=np.arange(16.0).reshape(4, 4), debias=True)
    with pytest.raises(OptionError, match="entropic barycenter only"):
        bm.barycenter(histograms, np.arange(4.0), reg=1, network="cycle", method="dcwb", debias=True)


def test_points_that_move_are_refused():
    with pytest.raises(OptionError, match="FreeSupport"):
        bm.barycenter([[[0.0, 1.0]], [[1.0, 2.0]]], bm.FreeSupport(2), reg=0.1, debias=True)
