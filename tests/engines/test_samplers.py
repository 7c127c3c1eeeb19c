"""Networks whose measures can only be sampled: what they return, record and certify is what their nodes know."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import barymesh as bm
from barymesh.engines.simulate import build_simulation
from barymesh.exact import certify
from barymesh.network import as_network
from barymesh.options import RunOptions
from barymesh.problem import Problem
from barymesh.scenario.faults import Crash
from tests.decentralized.networks import POINTS, exact, gaussians, run
from tests.oracle.plain import node_oracle

SIZE = 6


def normal(mean, std, size, rng):
    return rng.normal(mean, std, (size, 1))


def samplers(count=SIZE, seed=0):
    """The same distributions as ``gaussians``, of which nothing is known but draws."""
    rng = np.random.default_rng(seed)
    pairs = zip(rng.uniform(-4, 4, count), rng.uniform(0.3, 0.9, count), strict=True)
    return [partial(normal, mean, std) for mean, std in pairs]


def total_variation(p, q):
    return 0.5 * float(np.abs(p - q).sum())


def known_atoms(measures, *, network="complete", duration, **options):
    """What the nodes know at the end of a run, as measures: from a second run, which repeats the first."""
    problem = Problem.create(measures, POINTS, reg=0.3)
    graph = as_network(network, len(measures), 0)
    simulation = build_simulation(problem, graph, RunOptions(duration=duration, **options))
    simulation.run(duration)
    method, own = simulation.algorithm.method, simulation.state.own
    return [
        bm.Empirical(atoms.points, atoms.weights)
        for atoms in method.log_gradients.known_atoms(own.measure.astype(np.intp), own.drawn)
    ]


def assert_certified(result, known):
    """The bounds hold for the measures that the nodes know, by an independent solution of that problem."""
    truth = exact(known)
    assert result.value - result.gap <= truth.value + 1e-10
    assert result.value >= truth.value - truth.gap - 1e-10
    assert total_variation(result.weights, truth.weights) <= result.tv_bound + 1e-6
    for dual, estimate, measure in zip(result.duals, result.node_weights, known, strict=True):
        cost = (measure.points - POINTS) ** 2
        _, log_p = node_oracle(dual, cost, measure.weights, 0.3)
        np.testing.assert_allclose(estimate, np.exp(log_p), atol=1e-8)


def test_weights_are_far_closer_to_the_truth_than_a_frozen_draw():
    truth = exact(gaussians(SIZE)).weights
    frozen = bm.barycenter(samplers(), POINTS, reg=0.3, tol=1e-9, samples=1000).weights
    result = run(measures=samplers(), network="complete", duration=400, reference=False, record_every=50.0, batch=1000)
    assert total_variation(result.weights, truth) < total_variation(frozen, truth) / 10
    assert (0.5 * np.abs(result.node_weights - truth).sum(axis=1)).max() < total_variation(frozen, truth) / 5


@pytest.mark.parametrize("duration", [2.0, 10.0, 60.0])
def test_the_gap_is_that_of_the_samples_the_nodes_have(duration):
    """Early, when it is large, as well as late."""
    result = run(measures=samplers(), network="complete", duration=duration, reference=False)
    assert_certified(result, known_atoms(samplers(), duration=duration))
    assert result.status is bm.Status.OUT_OF_TIME
    if duration == 60.0:
        assert result.gap < 0.05


def test_draws_beyond_those_of_the_problem_are_certified_with_their_cost(monkeypatch):
    """One in thirty thousand lies far outside: not among the thousand that stand for the measure elsewhere."""

    def with_outliers(mean, size, rng):
        return rng.normal(mean, 0.5, (size, 1)) + 40.0 * (rng.random((size, 1)) < 3e-5)

    def watched(oracle, weights, x, log_p, p, costs, debiasing):
        given.append(costs.largest)
        return certify(oracle, weights, x, log_p, p, costs, debiasing)

    measures, given = [partial(with_outliers, mean) for mean in (-1.0, 0.0, 2.0)], []
    monkeypatch.setattr("barymesh.engines.simulate.certify", watched)
    options = {"network": "path", "duration": 30.0, "batch": 1000}
    result = run(measures=measures, reference=False, **options)
    known = known_atoms(measures, **options)
    costs = [((one.points - POINTS) ** 2).max() for one in known]
    assert max(costs) > 2 * Problem.create(measures, POINTS, reg=0.3).largest_cost()
    assert given[0] >= max(costs)
    assert_certified(result, known)


def test_known_measures_and_samplers_may_be_mixed():
    measures = [*gaussians(3), *samplers(3, seed=1)]
    result = run(measures=measures, network="complete", duration=30, reference=False)
    assert_certified(result, known_atoms(measures, duration=30))
    assert result.status is bm.Status.OUT_OF_TIME
    truth = exact([*gaussians(3), *gaussians(3, seed=1)])
    assert total_variation(result.weights, truth.weights) < 0.02


def test_a_batch_makes_any_measure_one_that_grows():
    result = run(SIZE, network="complete", batch=50, duration=20, reference=False)
    assert_certified(result, known_atoms(gaussians(SIZE), duration=20, batch=50))


def test_a_growing_sample_keeps_getting_closer():
    """Fresh samples would stop at a floor; these do not."""
    early, late = (run(20, network="star", batch=50, duration=duration).history["tv"][-1] for duration in (5, 80))
    assert late < early / 2
    assert late < 0.02


def test_records_are_of_what_the_nodes_know_then():
    """The last row of the history is the Result's, and the estimates are those of the nodes."""
    seen = []
    result = run(
        measures=samplers(), network="complete", duration=20, reference=exact(gaussians(SIZE)).weights,
        callback=lambda record: seen.append(record.estimates(np.arange(SIZE)).copy()),
    )  # fmt: skip
    np.testing.assert_array_equal(seen[-1], result.node_weights)
    assert result.history["consensus"][-1] == pytest.approx(result.consensus, rel=1e-12)
    tv = result.history["tv"]
    assert tv[-1] < 0.1 * tv[0]


def test_the_cost_may_be_a_matrix():
    """Then atoms are columns of it, also in a sample that grows."""
    rng = np.random.default_rng(0)
    cost, masses = rng.random((12, 9)), rng.dirichlet(np.ones(9), 5)
    measures, options = list(map(bm.Histogram, masses)), {"reg": 0.2, "cost": cost, "progress": False}
    result = bm.barycenter(measures, network="cycle", duration=60, batch=200, **options)
    truth = bm.barycenter(measures, tol=1e-10, **options)
    assert total_variation(result.weights, truth.weights) < 0.01


def test_the_rivals_grow_too():
    """Gossip Sinkhorn uses the same samples, and is judged by them."""
    truth = exact(gaussians(SIZE)).weights
    frozen = bm.barycenter(samplers(), POINTS, reg=0.3, tol=1e-9).weights
    result = run(
        measures=samplers(), network="complete", method="gossip_sinkhorn", duration=200, reference=False,
        record_every=50.0, batch=1000,
    )  # fmt: skip
    assert total_variation(result.weights, truth) < total_variation(frozen, truth) / 5


@pytest.mark.parametrize("batch", ["exact", None])
def test_the_survivors_of_a_network_of_samplers(batch):
    """With batch="exact" a draw of 1,000 stands for each measure: the same draw in the reference, whichever nodes
    survive."""
    result = run(
        measures=samplers(), network="complete", duration=300, batch=batch, faults=[Crash(0, 5.0), Crash(3, 5.0)],
        record_every=50.0, tol=0,
    )  # fmt: skip
    assert result.network.size == SIZE - 2
    assert result.history["tv"][-1] < (1e-8 if batch == "exact" else 0.05)
