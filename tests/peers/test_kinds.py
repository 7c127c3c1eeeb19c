"""Real processes that mask what they report find debiased barycenters, and points that move, as one machine does."""

from __future__ import annotations

import numpy as np
import pytest

import barymesh as bm
from barymesh.errors import ConfigError
from barymesh.io.output import RESULT
from barymesh.peers.consent import intention
from barymesh.peers.node import own_problem
from barymesh.support.free import normal_draws
from tests.peers.cluster import POINTS, REG, Cluster, until
from tests.peers.test_masks import network_of


def stopped(cluster):
    """What the nodes have written when all of them know that the network has converged."""
    cluster.start()
    until(lambda: all(cluster.facts(k).get("stopped") for k in range(cluster.size)), "all have converged")
    cluster.finish()
    return [bm.load(kit / "run" / RESULT) for kit in cluster.kits]


def check_transport(result, samples):
    """A node that gives its own records has its plan, and moves them to the barycenter and back."""
    own = result.with_measures([samples])
    plan = own.plan(0)
    np.testing.assert_allclose(plan.sum(axis=0), 1 / len(samples), atol=1e-12)
    assert np.abs(plan.sum(axis=1) - result.weights).sum() < 1e-4
    there = own.map(0)(samples)
    np.testing.assert_allclose(there.reshape(len(samples), -1), len(samples) * plan.T @ result.support.points)
    assert own.map(0).back(result.support.points).shape == result.support.points.shape
    costs = ((result.support.points[:, None] - samples.reshape(len(samples), -1)) ** 2).sum(axis=2)
    assert own.cost(0) == pytest.approx((plan * costs).sum())


def test_debiased(tmp_path):
    with Cluster(
        tmp_path, 3, graph="path", method="rounds", interval=0.01, tol=1e-5, masks=True, debias=True
    ) as cluster:  # fmt: skip
        text = "\n".join(intention(cluster.kit(0), own_problem(cluster.kit(0), cluster.samples[0]), "x.csv", None))
        assert "the debiased Wasserstein barycenter" in text
        found = stopped(cluster)
    measures = [bm.Empirical(samples[:, None]) for samples in cluster.samples]
    exact = bm.barycenter(measures, np.linspace(-3, 3, POINTS), reg=REG, tol=1e-8, debias=True)
    for result, samples in zip(found, cluster.samples, strict=True):
        assert (result.status, result.objective) == (bm.Status.CONVERGED, "debiased")
        assert np.abs(result.weights - exact.weights).sum() < 1e-3
        assert 0 < result.gap < 1e-3
        # the objective is not strongly convex, and its gap says nothing about weights
        assert result.tv_bound == 1
        check_transport(result, samples)
    # it is the debiased one: the entropic one is far away
    assert np.abs(cluster.truth() - exact.weights).sum() > 0.1


@pytest.mark.parametrize("weights", ["uniform", "learned"])
def test_points_that_move(tmp_path, weights):
    support = f"free:n=4,weights={weights},dimension=2,reach=4,seed=1"
    with Cluster(tmp_path, 3, method="rounds", interval=0.01, tol=1e-7, masks=True, support=support) as cluster:
        rng = np.random.default_rng(0)
        cluster.samples = [rng.normal(rng.uniform(-1, 1, 2), 0.4, (30, 2)) for _ in range(3)]
        for node in range(3):
            cluster.write_data(node)
        text = "\n".join(intention(cluster.kit(0), own_problem(cluster.kit(0), cluster.samples[0]), "x.csv", None))
        assert "mean and mean square in every coordinate" in text
        found = stopped(cluster)
    centre = np.mean([samples.mean(axis=0) for samples in cluster.samples], axis=0)
    squares = np.mean([(samples**2).mean(axis=0) for samples in cluster.samples], axis=0)
    begin = centre + np.sqrt(squares - centre**2) * normal_draws(bm.FreeSupport(4, seed=1), 2)
    free = bm.FreeSupport(points=begin, weights=weights)
    exact = bm.barycenter(cluster.samples, free, reg=REG, tol=1e-8, max_iter=50_000)
    for result, samples in zip(found, cluster.samples, strict=True):
        assert result.status is bm.Status.STATIONARY
        np.testing.assert_allclose(result.support.points, exact.support.points, atol=1e-6)
        np.testing.assert_allclose(result.weights, exact.weights, atol=1e-6)
        assert result.gap == pytest.approx(exact.gap, abs=1e-6)
        check_transport(result, samples)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"support": "free:n=4,dimension=2,reach=3", "debias": True}, "needs points that stay"),
        ({"debias": True, "method": "a2dwb", "masks": False}, "entropic barycenter only. Choose sinkhorn or rounds"),
        ({"support": "free:n=4,dimension=2", "method": "a2dwb", "masks": False}, "a2dwb has no points that move"),
    ],
)
def test_what_no_node_could_do_is_refused_when_the_network_is_made(tmp_path, options, reason):
    with pytest.raises(ConfigError, match=reason):
        network_of(tmp_path, "abc", **options)
