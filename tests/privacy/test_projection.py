"""From a noisy vector back to a histogram: the nearest one, in the sense that the barycenter sees."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

import barymesh as bm
from barymesh.privacy.projection import nearest_histogram, onto_simplex


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=30))
def test_the_projection_meets_the_conditions_of_the_nearest_point(values):
    v = np.array(values)
    p = onto_simplex(v)
    assert p.min() >= 0
    assert p.sum() == pytest.approx(1)
    # v - p is the same wherever there is mass, and no larger elsewhere
    level = (v - p)[p > 0]
    assert np.ptp(level) < 1e-9
    assert (v - p).max() <= level.max() + 1e-9


def noisy(support, rng):
    p = np.exp(-np.square(support.points - 0.4).sum(axis=1) / 0.02)
    return p / p.sum() + 0.05 * rng.standard_normal(support.size)


def distance(p, v, points, reg):
    kernel = np.exp(-np.square(points[:, None] - points).sum(axis=2) / (2 * reg))
    return (p - v) @ kernel @ (p - v)


@pytest.mark.parametrize("shape", [[12], [4, 5]])
def test_it_finds_what_a_general_solver_finds(shape, rng):
    support = bm.Support.regular(shape)
    v = noisy(support, rng)
    found = nearest_histogram(v, support, 0.005)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1)
    best = minimize(
        distance, np.full(v.size, 1 / v.size), (v, support.points, 0.005), "SLSQP", bounds=[(0, 1)] * v.size,
        constraints={"type": "eq", "fun": lambda p: p.sum() - 1}, options={"ftol": 1e-12, "maxiter": 500},
    )  # fmt: skip
    assert best.success
    assert distance(found, v, support.points, 0.005) <= best.fun * (1 + 1e-4)


def test_on_a_grid_and_on_the_same_points_in_another_order_it_is_the_same(rng):
    grid = bm.Support.regular([3, 4, 5], 0, [1, 2, 1])
    order = rng.permutation(grid.size)
    scattered = bm.Support(grid.points[order])
    assert scattered.grid is None
    v = noisy(grid, rng)
    np.testing.assert_allclose(
        nearest_histogram(v, grid, 0.05)[order], nearest_histogram(v[order], scattered, 0.05), atol=1e-9
    )


def test_what_is_a_histogram_stays_as_it_is():
    support = bm.Support.regular(30)
    p = np.random.default_rng(1).dirichlet(np.ones(30))
    np.testing.assert_allclose(nearest_histogram(p, support, 0.01), p, atol=1e-12)


def test_the_barycenter_sees_less_of_the_noise_than_with_the_euclidean_projection():
    support, reg, rng = bm.Support.regular(100, -5, 5), 0.1, np.random.default_rng(3)
    gaussians = [bm.Gaussian(mean, 0.4) for mean in (-3, -1, 0, 2)]
    densities = [np.exp(-np.square(support.points[:, 0] - one.mean[0]) / 0.32) for one in gaussians]
    vectors = [density / density.sum() + 0.005 * rng.standard_normal(100) for density in densities]
    true = bm.barycenter(gaussians, support, reg=reg).weights

    def error(histograms):
        return np.abs(bm.barycenter(np.array(histograms), support, reg=reg, tol=1e-5).weights - true).sum()

    ours = error([nearest_histogram(v, support, reg) for v in vectors])
    assert ours < 0.7 * error([onto_simplex(v) for v in vectors])
