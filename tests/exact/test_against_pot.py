"""Agreement with POT's barycenter, an independent implementation, to 1e-7 in L1."""

from __future__ import annotations

import warnings

import numpy as np
import ot
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import barymesh as bm
from barymesh.cost import Cost

POT_ITERATIONS = 6000
# exponents up to which POT's form with exp(-cost/reg) itself loses nothing; its log domain takes far longer. With
# uneven weights that form is wrong (POT 0.9.7): it begins with potentials whose weighted sum is not 0, and keeps that
FAST = 300.0


def pot_barycenter(rows, cost, reg, weights):
    """POT's answer and its own last error. Its histograms are columns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        p, log = ot.bregman.barycenter(
            np.ascontiguousarray(rows.T),
            cost,
            reg,
            weights=weights,
            method="sinkhorn" if np.ptp(weights) == 0 and cost.max() < FAST * reg else "sinkhorn_log",
            numItermax=POT_ITERATIONS,
            stopThr=1e-12,
            log=True,
        )
    return p / p.sum(), float(log["err"][-1])


def compare(rows, points, metric, relative, weights):
    """Ours against POT's on histograms over ``points``, which are also the support."""
    cost = Cost(metric).matrix(points, points)
    reg = relative * float(np.median(cost))
    expected, pot_error = pot_barycenter(rows / rows.sum(axis=1, keepdims=True), cost, reg, weights / weights.sum())
    result = bm.barycenter(rows, points, reg=reg, weights=weights, cost=metric, tol=1e-10, max_iter=300_000)
    # a small reg makes plateaus, on which any iteration may crawl for long
    assert result.success
    # where POT itself has not converged in its iterations, ours can only be as close as POT is to the truth
    assert result.consensus < max(1e-9, pot_error)
    assert np.abs(result.weights - expected).sum() < max(1e-7, 200 * pot_error if pot_error > 1e-10 else 0)
    return pot_error


def smooth_rows(rng, points, count):
    centres = rng.random((count, 1, points.shape[1]))
    widths = rng.uniform(0.05, 0.3, (count, 1))
    return np.exp(-((points[None] - centres) ** 2).sum(axis=2) / widths**2 / 2)


def sparse_rows(rng, points, count):
    rows = rng.random((count, len(points))) * (rng.random((count, len(points))) < 0.4)
    rows[np.arange(count), rng.integers(0, len(points), count)] += 0.5
    return rows


def separated_rows(rng, points, count):
    """Each measure sits in a corner of its own, and is exactly zero elsewhere."""
    rows = np.zeros((count, len(points)))
    for row in rows:
        near = np.argsort(((points - rng.random(points.shape[1])) ** 2).sum(axis=1))[:2]
        row[near] = rng.random(2) + 0.1
    return rows


MAKERS = {"smooth": smooth_rows, "with zeros": sparse_rows, "well separated": separated_rows}


@given(
    d=st.integers(1, 3),
    n=st.integers(2, 20),
    count=st.integers(2, 8),
    metric=st.sampled_from(["sqeuclidean", "euclidean", "cityblock", "chebyshev"]),
    log_relative=st.floats(-1.5, 0),
    maker=st.sampled_from(sorted(MAKERS)),
    uniform=st.booleans(),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=25)
def test_scattered_points(d, n, count, metric, log_relative, maker, uniform, seed):
    rng = np.random.default_rng(seed)
    points = rng.random((n, d))
    weights = np.ones(count) if uniform else rng.uniform(0.1, 2.0, count)
    compare(MAKERS[maker](rng, points, count), points, metric, 10**log_relative, weights)


@given(
    shape=st.sampled_from([(12,), (20,), (4, 5), (5, 5), (3, 3, 2)]),
    count=st.integers(2, 5),
    log_relative=st.floats(-2, 0),
    maker=st.sampled_from(["smooth", "with zeros"]),
    uniform=st.booleans(),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=10)
def test_grids(shape, count, log_relative, maker, uniform, seed):
    rng = np.random.default_rng(seed)
    points = bm.Grid.of_image(shape).points
    weights = np.ones(count) if uniform else rng.uniform(0.1, 2.0, count)
    compare(MAKERS[maker](rng, points, count), points, "sqeuclidean", 10**log_relative, weights)


@pytest.mark.parametrize("relative", [1e-3, 3e-3])
def test_small_reg_where_pot_needs_thousands_of_iterations(relative):
    rng = np.random.default_rng(36)
    points = np.linspace(0, 1, 12)[:, None]
    rows = smooth_rows(rng, points, 3) + 1e-12
    assert compare(rows, points, "sqeuclidean", relative, np.array([1.0, 2.0, 3.0])) < 1e-10


def test_many_measures_with_uneven_weights():
    rng = np.random.default_rng(50)
    points = rng.random((15, 2))
    assert compare(sparse_rows(rng, points, 20), points, "sqeuclidean", 0.2, rng.uniform(0.1, 3.0, 20)) < 1e-10


def test_different_atoms_for_each_measure():
    """POT wants common points, so it gets the union of all; each of our measures knows only its own."""
    rng = np.random.default_rng(5)
    clouds = [rng.random((int(rng.integers(3, 8)), 2)) for _ in range(4)]
    masses = [rng.random(len(cloud)) + 0.1 for cloud in clouds]
    union = np.concatenate(clouds)
    rows, start = np.zeros((4, len(union))), 0
    for row, mass in zip(rows, masses, strict=True):
        row[start : start + len(mass)] = mass / mass.sum()
        start += len(mass)
    cost = Cost().matrix(union, union)
    reg = 0.05 * float(np.median(cost))
    expected, pot_error = pot_barycenter(rows, cost, reg, np.full(4, 0.25))
    assert pot_error < 1e-10
    measures = [bm.Empirical(cloud, mass) for cloud, mass in zip(clouds, masses, strict=True)]
    result = bm.barycenter(measures, union, reg=reg, tol=1e-10)
    assert np.abs(result.weights - expected).sum() < 1e-7


def test_precomputed_cost():
    rng = np.random.default_rng(6)
    points = rng.random((10, 2))
    cost = Cost("euclidean").matrix(points, points) ** 1.5
    rows = sparse_rows(rng, points, 4)
    expected, pot_error = pot_barycenter(rows / rows.sum(axis=1, keepdims=True), cost, 0.05, np.full(4, 0.25))
    assert pot_error < 1e-10
    assert np.abs(bm.barycenter(rows, reg=0.05, cost=cost, tol=1e-10).weights - expected).sum() < 1e-7
    function = bm.barycenter(rows, points, reg=0.05, cost=lambda z, y: Cost("euclidean").matrix(z, y) ** 1.5, tol=1e-10)
    assert np.abs(function.weights - expected).sum() < 1e-7
