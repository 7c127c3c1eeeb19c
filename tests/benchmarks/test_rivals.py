"""The rivals of the benchmarks find the barycenters that they should, at the rates of such methods.

The data of their papers are not here. Normal distributions stand in for them, whose barycenter is known: without
regularisation it is normal, and its mean and deviation are the averages. On a line the excess of the mean squared
distance over the least is the squared distance W2 to it. With entropy it is normal too, and wider (Janati et al. 2020,
arXiv 2006.02575).
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

from barymesh.decentralized.baselines.gossip_sinkhorn import TOLERANCE, agreeing_rounds
from barymesh.exact.reference import Reference, exact_reference
from barymesh.history import History
from barymesh.network import as_network
from barymesh.problem import Problem
from benchmarks.methods import best, gossip
from benchmarks.network import run_method
from benchmarks.private import BOUNDS, DELTA, perturbed, records_of
from benchmarks.rivals.mirror_prox import Game, mirror_prox
from benchmarks.rivals.output_perturbation import output_perturbation, points_of, sensitivity
from benchmarks.rivals.server_sinkhorn import server_sinkhorn
from benchmarks.rivals.server_stochastic import server_stochastic
from benchmarks.unregularised import Truth

# of four normal distributions
MEANS, DEVIATIONS = np.array([-2.0, -0.5, 1.0, 2.5]), np.array([0.4, 0.6, 0.8, 1.0])


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


def histograms(points, means=MEANS):
    """``(4, n)``: each point has the mass that is nearer to it than to any other."""
    edges = np.concatenate([[-np.inf], (points[1:] + points[:-1]) / 2, [np.inf]])
    return np.diff(norm.cdf(edges, means[:, None], DEVIATIONS[:, None]), axis=1)


def squared_distance(p, points, means=MEANS):
    """W2 of a histogram to the barycenter of the normal distributions, squared."""
    ranks = (np.arange(4000) + 0.5) / 4000
    places = np.minimum(np.searchsorted(np.cumsum(p) / p.sum(), ranks), len(points) - 1)
    return np.mean((points[places] - norm.ppf(ranks, means.mean(), DEVIATIONS.mean())) ** 2)


def entropic_barycenter(points, reg):
    """Normal, with a variance S such that ``mean_i sqrt(s^2 + 4 S d_i^2) = 2 S - s`` where ``s = reg / 2``."""
    s = reg / 2
    variance = brentq(lambda one: np.mean(np.sqrt(s**2 + 4 * one * DEVIATIONS**2)) - 2 * one + s, 1e-6, 50)
    p = norm.pdf(points, MEANS.mean(), np.sqrt(variance))
    return p / p.sum()


def at(curve, seconds):
    return curve.estimates[np.searchsorted(curve.times, seconds, side="right") - 1]


@pytest.mark.parametrize("reg", [0.1, 0.5])
def test_sinkhorn_with_a_server_finds_the_entropic_barycenter_of_normal_distributions(reg):
    """Kroshnin et al.: by a factor each time, down to what the 281 points allow."""
    points = np.linspace(-7, 7, 281)
    curve = server_sinkhorn(Problem.create(histograms(points), points, reg=reg).oracle, 400)
    distances = np.abs(np.array(curve.estimates) - entropic_barycenter(points, reg)).sum(axis=1) / 2
    assert distances[-1] < 1.2e-4
    falling = distances[distances > 1e-3]
    assert (falling[1:] < 0.94 * falling[:-1]).all()


def test_stochastic_subgradients_find_the_barycenter_of_streams_of_normal_samples():
    """Staib et al.: as subgradients do, with one over the square root of the time. The barycenter has 41 points, the
    distributions that are sampled are nearly continuous."""
    points, atoms = np.linspace(-4, 4, 41), np.linspace(-7, 7, 281)
    curve = server_stochastic((points[:, None] - atoms) ** 2, histograms(atoms), 3200, step=0.3)
    early, late = (squared_distance(at(curve, seconds), points) for seconds in (200, 3200))
    assert late < 0.13**2
    assert late < early / 4
    assert at(curve, 3200) @ points == pytest.approx(MEANS.mean(), abs=0.01)


@pytest.mark.parametrize("network", ["complete", "cycle"])
def test_mirror_prox_finds_the_barycenter_of_normal_distributions(network):
    """Rogozin et al.: as mirror-prox does, with one over the time, down to a linear programme on the same 29 points."""
    points, means = np.linspace(-3.5, 3.5, 29), MEANS / 2
    measures, costs = histograms(points, means), (points[:, None] - points) ** 2
    curve = mirror_prox(costs, measures, as_network(network, 4), 12_000, step=1.0)
    early, later, last = (squared_distance(at(curve, seconds), points, means) for seconds in (400, 1600, 12_000))
    assert later < early / 4
    import ot

    floor = squared_distance(ot.lp.barycenter(measures.T, costs, solver="highs"), points, means)
    assert last < 1.1 * floor
    assert at(curve, 12_000) @ points == pytest.approx(means.mean(), abs=0.002)


@pytest.mark.parametrize("name", ["path", "star"])
def test_gossip_sinkhorn_ends_as_far_from_the_barycenter_as_its_averaging_leaves_it(name):
    """Baheri et al., as their abstract states: in proportion to the tolerance of the averaging."""
    points, network = np.linspace(-7, 7, 281), as_network(name, 4)
    problem = Problem.create(histograms(points), points, reg=0.5)
    truth = Reference(entropic_barycenter(points, 0.5), exact_reference(problem).optimum)
    coarse, fine = (agreeing_rounds(network, tolerance) for tolerance in (1e-2, 1e-3))
    ends = [gossip(problem, network, 60.0 * rounds, truth, rounds)["tv"][-1] for rounds in (coarse, fine)]
    assert ends[1] < 2e-3
    assert ends[0] / ends[1] == pytest.approx(10, rel=0.4)


def test_gossip_sinkhorn_is_the_method_of_the_library(truth):
    problem, network = Problem.create(truth.measures, truth.points, reg=0.05), as_network("path", 4)
    reference = exact_reference(problem)
    ours = run_method(problem, network, "gossip_sinkhorn", 60, reference)
    again = gossip(problem, network, 60, reference, agreeing_rounds(network, TOLERANCE))
    for column in ("time", "bytes", "tv"):
        np.testing.assert_array_equal(again[column], ours[column])


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


def test_the_noise_of_output_perturbation_has_the_size_that_its_file_states():
    """All records are zero, and so is their barycenter: what is left is noise, of order ``sqrt(m) / (epsilon k)`` for
    m points and k pieces."""

    def error(points, pieces, epsilon):
        found = [
            output_perturbation(
                [np.zeros(points * pieces)] * 4, points, bounds=(-500.0, 500.0), epsilon=epsilon, delta=DELTA,
                seed=seed, sharp=False,
            )
            for seed in range(40)
        ]  # fmt: skip
        return np.sqrt(np.mean(np.square(found)))

    base = error(50, 100, 1.0)
    assert error(50, 200, 1.0) == pytest.approx(base / 2, rel=0.1)
    assert error(200, 100, 1.0) == pytest.approx(2 * base, rel=0.1)
    assert error(50, 100, 0.5) == pytest.approx(2 * base, rel=0.15)


def test_the_best_setting_is_the_one_that_ends_best_and_says_if_it_is_the_last_tried():
    def ending(tv):
        return History({"tv": [0.9, tv]})

    tried = [("step 1", ending(0.5)), ("step 2", ending(0.2)), ("step 4", ending(0.3)), ("step 8", None)]
    assert best(tried) == ("step 2", tried[1][1])
    assert best(tried[1:])[0] == "step 2*"
    assert best(tried[:2])[0] == "step 2*"
    # nothing beyond it converges, so it is no edge
    assert best([tried[0], tried[2], tried[3]])[0] == "step 4"
    assert best([("", ending(0.1))])[0] == ""
