"""The barycenter of Gaussians: closed forms, the fixed-point equation, networks, and free supports with many points."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import sqrtm

import barymesh as bm


def gaussians(count, d, seed):
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(count, d, d))
    return [bm.Gaussian(rng.normal(size=d), cov=a @ a.T + 0.1 * np.eye(d)) for a in roots]


@given(st.lists(st.tuples(st.floats(-9, 9), st.floats(0.01, 9), st.floats(0.1, 5)), min_size=1, max_size=5))
def test_on_the_line_means_and_deviations_are_averaged(given_ones):
    means, stds, weights = np.array(given_ones).T
    found = bm.gaussian_barycenter([bm.Gaussian(m, s) for m, s in zip(means, stds, strict=True)], weights)
    np.testing.assert_allclose(found.mean, np.average(means, weights=weights), atol=1e-9)
    np.testing.assert_allclose(np.sqrt(found.cov[0, 0]), np.average(stds, weights=weights), rtol=1e-6)


@settings(max_examples=10)
@given(st.integers(2, 5), st.integers(2, 6), st.integers(0, 99))
def test_the_covariance_solves_the_fixed_point_equation(count, d, seed):
    nodes, weights = gaussians(count, d, seed), np.random.default_rng(seed).dirichlet(np.ones(count))
    found = bm.gaussian_barycenter(nodes, weights)
    root = np.real(sqrtm(found.cov))
    middle = sum(w * np.real(sqrtm(root @ one.cov @ root)) for w, one in zip(weights, nodes, strict=True))
    np.testing.assert_allclose(middle, found.cov, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("network", ["cycle", "star"])
def test_a_network_finds_the_same(network):
    nodes, weights = gaussians(5, 3, 1), [1, 2, 3, 4, 5]
    exact = bm.gaussian_barycenter(nodes, weights)
    found = bm.gaussian_barycenter(nodes, weights, network=network)
    np.testing.assert_allclose(found.mean, exact.mean, atol=1e-8)
    np.testing.assert_allclose(found.cov, exact.cov, atol=1e-8)


def test_many_points_that_move_come_near_it():
    """Its check for large n: the blur of reg shrinks the covariance, by less than reg in every direction."""
    nodes = gaussians(3, 2, 2)
    rng = np.random.default_rng(0)
    exact = bm.gaussian_barycenter(nodes)
    result = bm.barycenter([one.sample(1500, rng) for one in nodes], bm.FreeSupport(150), reg=0.05, tol=1e-2)
    points = result.support.points
    np.testing.assert_allclose(points.mean(axis=0), exact.mean, atol=0.15)
    np.testing.assert_allclose(np.cov(points.T), exact.cov, atol=0.1 * np.trace(exact.cov))


def test_mixtures_count_by_their_moments():
    mixture = bm.Mixture.of_gaussians([-1, 1], [1, 1])
    assert bm.gaussian_barycenter([mixture]).cov[0, 0] == pytest.approx(2.0)


def test_errors():
    with pytest.raises(bm.BarymeshError, match="Measure 1 is a Empirical"):
        bm.gaussian_barycenter([bm.Gaussian(0, 1), bm.Empirical([1.0])])
    with pytest.raises(bm.BarymeshError, match="Measure 1 lives in 2"):
        bm.gaussian_barycenter([bm.Gaussian(0, 1), bm.Gaussian([0, 1], 1)])
