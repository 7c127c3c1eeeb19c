"""Plans, maps, costs and moments of every kind of result: debiased, of points that move, and of networks.

Each is compared with what POT finds for the same marginals, and with the plan written out.
"""

from __future__ import annotations

import numpy as np
import ot
import pytest

import barymesh as bm

RNG = np.random.default_rng(5)
POINTS = np.linspace(0, 1, 30)
HISTOGRAMS = RNG.dirichlet(np.full(30, 0.4), 3)
IMAGES = RNG.random((3, 6, 5)) * (RNG.random((3, 6, 5)) > 0.4)
CLOUDS = [RNG.normal(shift, scale, (25, 3)) for shift, scale in ((0, 0.5), (1, 1), (-1, 0.4))]
WEIGHTED = [CLOUDS[0], bm.Empirical(CLOUDS[1], RNG.random(25) + 0.1), CLOUDS[2][:11]]
START = RNG.normal(size=(6, 3))
WEIGHTS = [5, 1, 2]
NETWORK = {"network": "star", "delays": "constant:seconds=0.1", "duration": 1e4, "record_every": 1e3}
LEARNED = bm.FreeSupport(points=START, weights="learned")

KINDS = {
    "debiased, line": (HISTOGRAMS, POINTS, {"reg": 0.02, "debias": True}),
    "debiased, images": (IMAGES, None, {"reg": 0.05, "debias": True}),
    "debiased, clouds": (WEIGHTED, RNG.normal(size=(20, 3)), {"reg": 1.0, "debias": True}),
    "debiased, Gaussians": ([bm.Gaussian(0.3, 0.1), bm.Gaussian(0.7, 0.05), bm.Gaussian(0.5, 0.1)], POINTS, {
        "reg": 0.02, "debias": True
    }),
    "moving, uniform": (WEIGHTED, bm.FreeSupport(points=START), {"reg": 1.0}),
    "moving, learned": (WEIGHTED, LEARNED, {"reg": 1.0, "max_iter": 20_000}),
    "network": (HISTOGRAMS, POINTS, {"reg": 0.02, **NETWORK}),
    "network, rounds": (WEIGHTED, START, {"reg": 1.0, "method": "rounds", **NETWORK}),
    "network, debiased": (HISTOGRAMS, POINTS, {"reg": 0.02, "debias": True, "method": "rounds", **NETWORK}),
    "network, moving": (WEIGHTED, bm.FreeSupport(points=START), {"reg": 1.0, **NETWORK}),
    "network, moving, learned": (WEIGHTED, LEARNED, {"reg": 1.0, **NETWORK}),
}  # fmt: skip
# how far the measures' own estimates are from the barycenter, in L1, at most
TOL = 1e-6


@pytest.fixture(scope="module", params=KINDS)
def result(request):
    measures, support, options = KINDS[request.param]
    found = bm.barycenter(measures, support, weights=WEIGHTS, tol=TOL, **options)
    assert found.success, found
    return found


def masses_and_costs(result, i):
    """Masses ``(N,)`` of a measure, and costs ``(n, N)`` to it, from its atoms."""
    atoms = result.problem.atoms_of(i)
    masses = np.bincount(atoms.index, atoms.weights, len(atoms.table))
    return masses, ot.dist(result.support.points, atoms.table)


def test_the_marginals_are_the_barycenter_and_the_measure(result):
    for i in range(3):
        plan, (masses, _) = result.plan(i), masses_and_costs(result, i)
        np.testing.assert_allclose(plan.sum(axis=0), masses, atol=1e-12)
        np.testing.assert_allclose(plan.sum(axis=1), result.node_weights[i], atol=1e-9)
        assert np.abs(plan.sum(axis=1) - result.weights).sum() < 10 * TOL
        for form in ("sparse", "operator"):
            other = result.plan(i, form)
            np.testing.assert_allclose(other @ np.ones(plan.shape[1]), plan.sum(axis=1), atol=1e-8)
            np.testing.assert_allclose(other.T @ result.weights, plan.T @ result.weights, atol=1e-8)


def test_pot_finds_the_same_plan_and_cost(result):
    for i in range(3):
        masses, costs = masses_and_costs(result, i)
        some, rows = masses > 0, result.plan(i).sum(axis=1)
        expected = ot.sinkhorn(
            rows, masses[some], costs[:, some], result.reg, method="sinkhorn_log", stopThr=1e-12, numItermax=50_000,
            warn=False,
        )  # fmt: skip
        np.testing.assert_allclose(expected.sum(axis=0), masses[some], atol=1e-9)
        assert np.abs(result.plan(i)[:, some] - expected).sum() < 1e-6
        assert result.cost(i) == pytest.approx((expected * costs[:, some]).sum(), rel=1e-6)
        # regularisation costs: no plan is cheaper than that of the linear programme
        assert result.cost(i) >= ot.emd2(rows / rows.sum(), masses[some], costs[:, some]) - 1e-9


def test_maps_are_the_means_under_the_plan_there_and_back(result):
    for i in range(3):
        plan, atoms, move = result.plan(i), result.problem.atoms_of(i), result.map(i)
        there = (plan.T @ result.support.points)[atoms.index] / atoms.weights[:, None]
        np.testing.assert_allclose(move(atoms.points), there, atol=1e-9)
        rows = plan.sum(axis=1)
        some = rows > 1e-200
        back = (plan @ atoms.table)[some] / rows[some, None]
        np.testing.assert_allclose(move.back(result.support.points[some]), back, atol=1e-9)


def test_moments_draws_and_quantiles_are_those_of_the_weighted_points(result):
    points, p = result.support.points, result.weights
    np.testing.assert_allclose(result.mean(), np.average(points, axis=0, weights=p))
    np.testing.assert_allclose(result.cov(), np.atleast_2d(np.cov(points.T, aweights=p, ddof=0)), atol=1e-12)
    draws = result.sample(4000, seed=1)
    np.testing.assert_array_equal(draws, result.sample(4000, seed=1))
    spread = np.sqrt(np.diag(result.cov()))
    assert (np.abs(draws.mean(axis=0) - result.mean()) <= 5 * spread / np.sqrt(4000) + 1e-12).all()
    if result.support.dimension == 1:
        order, levels = np.argsort(points[:, 0]), np.linspace(0.01, 0.99, 15)
        expected = np.quantile(points[order, 0], levels, weights=p[order], method="inverted_cdf")
        np.testing.assert_array_equal(result.quantile(levels), expected)
    if result.problem.free is not None:
        # a barycenter under the squared distance has the mean of the means, if its points can be anywhere
        means = [atoms.weights @ atoms.points for atoms in result.problem.atoms]
        np.testing.assert_allclose(result.mean(), np.average(means, axis=0, weights=WEIGHTS), atol=1e-4)
