"""The rivals of the benchmarks find what their papers say they find, on a problem that a linear programme solves."""

from __future__ import annotations

import numpy as np
import pytest

from barymesh.network import as_network
from barymesh.problem import Problem
from benchmarks.rivals.mirror_prox import Game, mirror_prox
from benchmarks.rivals.server_sinkhorn import server_sinkhorn
from benchmarks.rivals.server_stochastic import server_stochastic
from benchmarks.unregularised import Truth


@pytest.fixture(scope="module")
def truth():
    return Truth.drawn(4, 12)


def test_the_linear_programme_has_the_least_cost(truth):
    rng = np.random.default_rng(0)
    assert truth.excess(truth.barycenter) == pytest.approx(0, abs=1e-9)
    assert min(truth.excess(one) for one in rng.dirichlet(np.full(12, 0.3), 50)) > 0


def test_sinkhorn_with_a_server_finds_the_entropic_barycenter(truth):
    problem = Problem.create(truth.measures, truth.points, reg=0.01)
    curve = server_sinkhorn(problem.oracle, 400)
    # POT agrees on the truth
    import ot

    expected = ot.bregman.barycenter(truth.measures.T, truth.costs, 0.01, numItermax=5000, stopThr=1e-12)
    assert np.abs(curve.estimates[-1] - expected / expected.sum()).sum() < 1e-4
    # an iteration takes two of the slowest messages, which are between two of the shortest and two of the longest
    assert (np.diff(curve.times) >= 0.4 - 1e-9).all()
    assert (np.diff(curve.times) <= 2.0 + 1e-9).all()


def test_stochastic_subgradients_approach_the_optimum(truth):
    curve = server_stochastic(truth.costs, truth.measures, 400, step=0.3)
    early, late = truth.excess(curve.estimates[20]), truth.excess(curve.estimates[-1])
    assert late < 0.02
    assert late < 0.5 * early


@pytest.mark.parametrize("network", ["complete", "cycle"])
def test_mirror_prox_approaches_the_optimum(truth, network):
    curve = mirror_prox(truth.costs, truth.measures, as_network(network, 4), 1500, step=1.0)
    first, last = truth.excess(curve.estimates[0]), truth.excess(curve.estimates[-1])
    assert last < 0.15
    assert last < 0.1 * first


def test_too_long_a_step_diverges_and_counts_as_that(truth):
    curve = mirror_prox(truth.costs, truth.measures, as_network("cycle", 4), 1500, step=1e3, gamma=1e3)
    assert truth.excess(curve.estimates[-1]) > 0.5


def test_the_gradients_of_the_game_are_those_of_its_value(truth):
    """Small steps change the value as the gradients say: down for the plans and p, up for the multipliers."""
    rng = np.random.default_rng(1)
    game = Game(truth.costs, truth.measures, as_network("cycle", 4), 0.7)
    point = game.start()
    point.y[:], point.z[:] = rng.uniform(-0.5, 0.5, point.y.shape), rng.normal(size=point.z.shape)

    def value(one):
        marginals = np.concatenate([one.plans.sum(axis=2) - one.p, one.plans.sum(axis=1) - truth.measures], axis=1)
        agreement = game.gamma * (one.z * game.laplacian(one.p)).sum()
        return (truth.costs * one.plans).sum() + 2.0 * (one.y * marginals).sum() + agreement

    moved = game.step(point, point, 1e-6)
    lower = type(point)(moved.plans, moved.p, point.y, point.z)
    upper = type(point)(point.plans, point.p, moved.y, moved.z)
    assert value(lower) < value(point) < value(upper)
    # the Euclidean part: a step of length s raises the value by s times the squared gradient
    gradient = np.concatenate([((upper.y - point.y) / 1e-6).ravel(), ((upper.z - point.z) / 1e-6).ravel()])
    assert (value(upper) - value(point)) / 1e-6 == pytest.approx((gradient**2).sum(), rel=1e-4)
