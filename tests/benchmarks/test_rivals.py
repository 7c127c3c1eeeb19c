"""The rivals of the benchmarks find what their papers say they find, on a problem that a linear programme solves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barymesh.network import as_network
from barymesh.problem import Problem
from benchmarks.private import BOUNDS, DELTA, perturbed, records_of
from benchmarks.rivals.mirror_prox import Game, mirror_prox
from benchmarks.rivals.output_perturbation import points_of, sensitivity
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


@given(st.integers(0, 10**6), st.sampled_from([1, 3, 7, 20]))
def test_one_record_moves_the_private_points_by_no_more_than_the_noise_covers(seed, points):
    rng = np.random.default_rng(seed)
    records = [rng.uniform(*BOUNDS, rng.integers(20, 40)) for _ in range(3)]
    others = [one.copy() for one in records]
    others[1][rng.integers(others[1].size)] = rng.choice(BOUNDS)
    here, there = (points_of(one, points, np.random.default_rng(seed)) for one in (records, others))
    bounds = [sensitivity(records, points, BOUNDS[1] - BOUNDS[0], sharp=sharp) for sharp in (True, False)]
    assert np.linalg.norm(here - there) <= bounds[0] * (1 + 1e-9)
    assert bounds[1] == pytest.approx(bounds[0] * np.sqrt(points))


def test_the_points_without_noise_are_the_barycenter():
    """With one piece for each distribution, another library finds the same points, and no better ones."""
    import ot

    rng = np.random.default_rng(0)
    records = [rng.normal(mean, 1, 30) for mean in (-1.0, 0.0, 2.0)]
    found = points_of(records, 30, rng)
    again = ot.lp.free_support_barycenter(
        [one[:, None] for one in records], [np.full(30, 1 / 30)] * 3, found[:, None] + 0.01, numItermax=100
    )
    np.testing.assert_allclose(np.sort(again[:, 0]), found, atol=1e-9)


def test_output_perturbation_is_as_good_as_the_noise_lets_it():
    records = records_of(1000, 0)
    errors = [perturbed(records, 50, epsilon, 0, sharp=True, apart=False)[0] for epsilon in (8.0, 1.0, 0.1)]
    assert errors[0] < errors[1] < errors[2]
    assert perturbed(records, 50, 1.0, 0, sharp=True, apart=True)[0] > errors[1]
    assert DELTA < 1 / 1000
