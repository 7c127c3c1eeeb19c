"""Points that move: they end where no small move improves them, with the same result wherever they are computed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax

import barymesh as bm
from barymesh.core import kernels
from barymesh.measures.base import Atoms
from barymesh.oracle.moving import MovingOracle
from barymesh.support.free import kmeans_plus_plus

RNG = np.random.default_rng(0)
CLOUDS = [RNG.normal(shift, scale, (60, 3)) for shift, scale in ((0, 0.5), (2, 1), (1, 0.7), (-1, 0.4))]
START = RNG.normal(size=(8, 3))
SLOW = {"delays": "constant:seconds=0.1", "duration": 1e5, "record_every": 1e4}


def transport(points, p, cloud, reg):
    """The regularised cost of one cloud to (points, p), entropy counted on the points, by plain Sinkhorn iteration."""
    cost = ((points[:, None] - cloud[None]) ** 2).sum(axis=2) / reg
    x = np.zeros(len(points))
    for _ in range(300):
        plan = softmax(x[:, None] - cost, axis=0) / len(cloud)
        x = x + np.log(p) - np.log(plan.sum(axis=1))
    mass = np.where(plan > 0, plan, 1.0)
    return reg * ((cost * plan).sum() + (plan * np.log(mass * len(cloud))).sum())


def objective(points, p, clouds, reg, weights=None):
    return np.average([transport(points, p, cloud, reg) for cloud in clouds], weights=weights)


@settings(max_examples=25)
@given(
    st.integers(1, 4), st.integers(1, 20), st.integers(1, 7), st.integers(1, 70), st.integers(0, 1000),
    st.sampled_from([np.float64, np.float32]),
)  # fmt: skip
def test_projections_equal_their_formula(nodes, n, d, most, seed, dtype):
    rng = np.random.default_rng(seed)
    clouds = [rng.normal(5, 1, (rng.integers(1, most + 1), d)) for _ in range(nodes)]
    masses = [rng.dirichlet(np.ones(len(cloud))) for cloud in clouds]
    z, x = rng.normal(5, 1, (n, d)), rng.normal(size=(nodes, n))
    oracle = MovingOracle([Atoms(c, np.arange(len(c)), w) for c, w in zip(clouds, masses, strict=True)], dtype)
    oracle.place(z, 0.7)
    places, p = oracle.projections(x)
    for k, (cloud, mass) in enumerate(zip(clouds, masses, strict=True)):
        cost = ((z[:, None] - cloud[None]) ** 2).sum(axis=2) / 0.7
        plan = softmax(x[k][:, None] - cost, axis=0) * mass
        np.testing.assert_allclose(p[k], plan.sum(axis=1), rtol=1e-2 if dtype == np.float32 else 1e-9, atol=1e-6)
        heavy = plan.sum(axis=1) > 1e-3
        expected = (plan @ cloud / plan.sum(axis=1)[:, None])[heavy]
        np.testing.assert_allclose(places[k][heavy], expected, atol=1e-3 if dtype == np.float32 else 1e-9)


@given(st.integers(0, 9), st.integers(1, 40), st.integers(1, 9), st.integers(0, 100))
def test_squared_costs_equal_their_formula(atoms, n, d, seed):
    rng = np.random.default_rng(seed)
    points, z, out = rng.normal(size=(atoms, d)), rng.normal(size=(d, n)), np.empty((atoms, n))
    kernels.squared_costs(z, points, out)
    np.testing.assert_allclose(out, ((points[:, None] - z.T) ** 2).sum(axis=2), rtol=1e-12)


@pytest.mark.parametrize("weights", ["uniform", "learned"])
@pytest.mark.parametrize("importance", [None, [5, 1, 1, 0.2]])
def test_no_small_move_improves_the_points(weights, importance):
    free = bm.FreeSupport(points=START[:5], weights=weights)
    result = bm.barycenter(CLOUDS, free, reg=1.0, tol=1e-6, weights=importance, max_iter=50_000)
    assert result.status is bm.Status.STATIONARY
    assert result.success
    assert "stationary" in result.message
    points, p = result.support.points, result.weights
    value = objective(points, p, CLOUDS, 1.0, importance)
    # the certificate is an upper bound, close to the objective
    assert value <= result.value + 1e-9
    assert result.value - value < 1e-5
    rng = np.random.default_rng(1)
    for size in (1e-3, 1e-2):
        moved = points + size * rng.normal(size=points.shape)
        assert objective(moved, p, CLOUDS, 1.0, importance) > value - 1e-9
    if weights == "uniform":
        np.testing.assert_array_equal(p, 1 / len(p))


def test_learned_weights_are_the_entropic_barycenter_on_the_points():
    result = bm.barycenter(
        CLOUDS, bm.FreeSupport(points=START[:6], weights="learned"), reg=0.5, tol=1e-7, max_iter=50_000
    )  # fmt: skip
    assert result.success
    fixed = bm.barycenter(CLOUDS, result.support.points, reg=0.5, tol=1e-9)
    np.testing.assert_allclose(result.weights, fixed.weights, atol=1e-6)
    assert result.gap < 1e-6


@pytest.mark.parametrize("reg", [0.02, 0.2])
def test_learned_weights_are_the_best_on_points_farther_apart_than_the_blur(reg):
    rng = np.random.default_rng(0)
    clouds = [rng.normal(centre, scale, (500, 3)) for centre, scale in (([0, 0, 0], 1), ([2, 0, 1], 0.5))]
    result = bm.barycenter(clouds, bm.FreeSupport(20, weights="learned"), reg=reg, tol=1e-4)
    assert result.status is bm.Status.STATIONARY
    assert result.gap < 1e-3
    assert result.value < bm.barycenter(clouds, bm.FreeSupport(20), reg=reg, tol=1e-4).value


def test_the_gap_of_uniform_weights_bounds_what_learned_ones_could_gain():
    result = bm.barycenter(CLOUDS, bm.FreeSupport(points=START), reg=0.5, tol=1e-6)
    best = bm.barycenter(CLOUDS, result.support.points, reg=0.5, tol=1e-9)
    assert result.value - result.gap <= best.value + 1e-9


def test_a_single_point_is_the_mean():
    result = bm.barycenter(CLOUDS, bm.FreeSupport(n=1), reg=0.1, weights=[1, 2, 3, 4])
    expected = np.average([cloud.mean(axis=0) for cloud in CLOUDS], axis=0, weights=[1, 2, 3, 4])
    np.testing.assert_allclose(result.support.points[0], expected, atol=1e-6)


def test_translations_and_scales_carry_over():
    free = bm.FreeSupport(points=START)
    result = bm.barycenter(CLOUDS, free, reg=0.5, tol=1e-6)
    there = bm.barycenter(
        [1e4 + 100 * cloud for cloud in CLOUDS], bm.FreeSupport(points=1e4 + 100 * START), reg=5000, tol=1e-6
    )  # fmt: skip
    np.testing.assert_allclose((there.support.points - 1e4) / 100, result.support.points, atol=1e-4)


def test_784_dimensions():
    rng = np.random.default_rng(0)
    images = [rng.normal(shift, 1, (30, 784)) for shift in (0, 0.2, 0.4)]
    result = bm.barycenter(images, bm.FreeSupport(n=10), reg=0.01, relative_reg=True, tol=1e-4)
    assert result.success
    assert result.support.points.shape == (10, 784)
    assert abs(result.support.points.mean() - 0.2) < 0.05


def test_the_best_of_several_starts_is_kept():
    kept = bm.barycenter(CLOUDS, bm.FreeSupport(n=6, starts=3), reg=0.5, tol=1e-4)
    assert kept.success
    one = bm.barycenter(CLOUDS, bm.FreeSupport(n=6), reg=0.5, tol=1e-4)
    assert kept.value <= one.value + 1e-3
    assert kept.iterations > one.iterations
    # a start that is cut short counts for nothing where another has ended
    cut = bm.barycenter(CLOUDS, bm.FreeSupport(n=6, starts=3), reg=0.5, tol=1e-4, max_iter=one.iterations + 1)
    assert cut.status is bm.Status.MAX_ITERATIONS
    np.testing.assert_array_equal(cut.support.points, one.support.points)
    np.testing.assert_allclose(cut.value, one.value, rtol=1e-6)


def test_kmeans_plus_plus_spreads_the_points():
    pool, rng = np.repeat(np.eye(3), 50, axis=0), np.random.default_rng(0)
    found = kmeans_plus_plus(3, pool, rng)
    np.testing.assert_array_equal(np.unique(found, axis=0), np.unique(np.eye(3), axis=0))
    # and more points than places
    assert kmeans_plus_plus(5, pool, rng).shape == (5, 3)


@pytest.mark.parametrize("weights", ["uniform", "learned"])
def test_a_network_finds_what_the_exact_solver_finds(weights):
    free = bm.FreeSupport(points=START[:5], weights=weights)
    exact = bm.barycenter(CLOUDS, free, reg=2.0, tol=1e-8, max_iter=50_000)
    found = bm.barycenter(CLOUDS, free, reg=2.0, tol=1e-8, network="star", **SLOW)
    assert found.status is bm.Status.STATIONARY
    np.testing.assert_allclose(found.support.points, exact.support.points, atol=1e-6)
    np.testing.assert_allclose(found.weights, exact.weights, atol=1e-6)
    np.testing.assert_allclose(found.value, exact.value, rtol=1e-8)
    # every node knows the gap
    np.testing.assert_allclose(found.node_gaps, found.gap, rtol=1e-3, atol=1e-9)


def test_a_network_starts_from_draws_and_survives_loss_and_a_crash():
    found = bm.barycenter(
        CLOUDS, bm.FreeSupport(n=5, starts=2), reg=2.0, tol=1e-5, network="cycle",
        faults=["loss:probability=0.2", "crash:node=1,start=20,stop=30,memory=false"], **SLOW,
    )  # fmt: skip
    assert found.status is bm.Status.STATIONARY
    exact = bm.barycenter(CLOUDS, bm.FreeSupport(points=found.support.points), reg=2.0, tol=1e-5)
    np.testing.assert_allclose(found.support.points, exact.support.points, atol=1e-3)


def test_a_result_continues_and_is_saved(tmp_path):
    free = bm.FreeSupport(n=6)
    first = bm.barycenter(CLOUDS, free, reg=0.5, tol=1e-6, max_iter=10)
    assert first.status is bm.Status.MAX_ITERATIONS
    result = bm.barycenter(CLOUDS, free, reg=0.5, tol=1e-6, start=first)
    whole = bm.barycenter(CLOUDS, free, reg=0.5, tol=1e-6)
    np.testing.assert_allclose(result.support.points, whole.support.points, atol=1e-4)
    again = bm.load(result.save(tmp_path / "free"))
    np.testing.assert_array_equal(again.support.points, result.support.points)
    assert again.status is bm.Status.STATIONARY


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: bm.FreeSupport(), "give n"),
        (lambda: bm.FreeSupport(0), "n of points"),
        (lambda: bm.FreeSupport(3, weights="free"), "'uniform' or 'learned'"),
        (lambda: bm.FreeSupport(points=START, starts=2), "leave out starts"),
        (lambda: bm.barycenter(CLOUDS, bm.FreeSupport(3), reg=1, cost="euclidean"), "sqeuclidean"),
        (lambda: bm.barycenter(CLOUDS, bm.FreeSupport(points=START[:, :2]), reg=1), "dimensions"),
        (lambda: bm.barycenter(CLOUDS, "free:n=3,shape=2", reg=1), "no argument 'shape'"),
        (lambda: bm.barycenter(CLOUDS, bm.FreeSupport(3), reg=1, network="star", reference=True), "leave them out"),
        (lambda: bm.barycenter(CLOUDS, bm.FreeSupport(3), reg=1, network="star", method="dcwb"), "one method"),
    ],
)  # fmt: skip
def test_errors_name_the_remedy(make, words):
    with pytest.raises(bm.BarymeshError, match=words):
        make()


def test_the_text_of_a_free_support():
    result = bm.barycenter(CLOUDS, "free:n=4,seed=3", reg=1.0, tol=1e-4)
    assert result.support.size == 4
