"""The decentralised Sinkhorn iteration on whole networks: the right barycenter on every one, whatever goes wrong,
untuned."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import barymesh as bm
from barymesh.decentralized.algorithm import Nodes
from barymesh.decentralized.tree import SpanningTree
from barymesh.engines.recorder import Recorder
from barymesh.engines.simulation import AsynchronousSimulation
from barymesh.errors import OptionError
from barymesh.gradients.logarithmic import ExactLogGradients
from barymesh.methods.entropic import Entropic
from barymesh.network import GENERATORS, as_network
from barymesh.problem import Problem
from barymesh.scenario import Crash, LinkDown
from barymesh.scenario.delays import Categorical, Constant, LogNormal, Uniform
from barymesh.scenario.faults import Loss, Sleep, fault_table
from barymesh.scenario.schedules import Periodic, Poisson, Windowed
from tests.decentralized.networks import DURATION, FAULTS, POINTS, assert_right, gaussians, run


@pytest.mark.parametrize("network", sorted(GENERATORS))
def test_every_topology_ends_at_the_barycenter(network):
    """Nothing is tuned, every node stops by itself, and none before it is right."""
    assert_right(run(16, network=network))


@pytest.mark.parametrize("faults", sorted(FAULTS))
@pytest.mark.parametrize("network", ["cycle", "star"])
def test_faults_only_make_it_later(network, faults):
    assert_right(run(10, network=network, faults=FAULTS[faults]))


@pytest.mark.parametrize(
    "schedule",
    [Poisson(5.0), Poisson(5.0, slow_share=0.3, slowdown=10), Periodic(0.2, 0.1, slow_share=0.2, slowdown=10)],
)
def test_stragglers_and_free_running_clocks(schedule):
    assert_right(run(12, schedule=schedule))


@pytest.mark.parametrize("delays", [Constant(0.0), Constant(2.0), Uniform(0.0, 3.0), LogNormal(0.3, 1.2)])
def test_any_delays(delays):
    assert_right(run(8, network="cycle", delays=delays))


def test_a_link_that_never_comes_back_is_gone_round():
    """The tree mends itself: the other way round the cycle is twice as long, but it is there."""
    assert_right(run(10, network="cycle", faults=[LinkDown(0, 1, 4.0), LinkDown(0, 9, 4.0, 60.0)]))


@pytest.mark.parametrize("fault", [Crash(1, 3.0, 100.0), Sleep(1, 3.0, 100.0), Crash(1, 3.0, 100.0, memory=False)])
def test_a_node_that_was_out_for_long_is_counted_again(fault):
    assert_right(run(10, network="cycle", faults=[fault]))


@pytest.mark.parametrize(
    ("schedule", "delays"),
    [
        (Poisson(500.0), Categorical()), (Poisson(200.0), Constant(0.6)), (Windowed(), Constant(25.0)),
        (Poisson(5.0, slow_share=0.3, slowdown=100), Categorical()),
    ],
)  # fmt: skip
def test_clocks_may_be_far_faster_than_messages_or_far_slower(schedule, delays):
    """What is late by the clock of a fast node is not lost."""
    assert_right(run(3, network="path", schedule=schedule, delays=delays, record_every=50.0))


COARSE = [(6, 0.003), (10, 0.001), (12, 0.003), (16, 0.001), (16, 0.01), (30, 0.001)]


@pytest.mark.parametrize(("points", "reg"), COARSE)
def test_supports_too_coarse_for_mass_to_move_on(points, reg):
    """Where exp(-spacing^2/reg) is next to nothing, the barycenter's transport to itself says nothing about the drift;
    that must be put right all the same."""
    result = bm.barycenter(
        gaussians(10), np.linspace(-5, 5, points), reg=reg, relative_reg=True, network="cycle", duration=1500,
        reference=True, record_every=50.0, progress=False,
    )  # fmt: skip
    assert result.history["tv"][-1] < 1e-6


@pytest.mark.parametrize("reg", [1.0, 3.0])
def test_clusters_that_hardly_exchange_mass(reg):
    points = np.array([0.0, 0.5, 1.0, 10.0, 10.5, 11.0])
    measures = [bm.Histogram(np.array([a / 3] * 3 + [(1 - a) / 3] * 3)) for a in (0.1, 0.3, 0.6, 0.9)]
    result = bm.barycenter(
        measures, points, reg=reg, network="complete", duration=DURATION, reference=True, progress=False
    )
    assert result.status is bm.Status.CONVERGED
    assert result.history["tv"][-1] < 1e-6


@given(
    size=st.integers(2, 24), network=st.sampled_from(sorted(GENERATORS)), log_reg=st.floats(-3, 0),
    delays=st.sampled_from([Categorical(), Constant(0.5), Uniform(0.0, 1.5), LogNormal(0.3, 1.0)]),
    schedule=st.sampled_from([Windowed(), Poisson(5.0), Poisson(5.0, slow_share=0.2, slowdown=10)]),
    spread=st.floats(0.02, 2.0), seed=st.integers(0, 2**20),
)  # fmt: skip
@settings(max_examples=15)
def test_it_never_ends_worse_than_it_began(size, network, log_reg, delays, schedule, spread, seed):
    """No step to choose, whatever the network, the delays and the sharpness: reg is 1e-3 to 1 of the median cost. The
    smallest take a minute to begin to fall."""
    rng = np.random.default_rng(seed)
    measures = [bm.Gaussian(rng.uniform(-2, 2), spread * 10 ** rng.uniform(-1, 0)) for _ in range(size)]
    never_worse(measures, network, log_reg, delays, schedule, seed, points=30, duration=150)


@given(
    log_size=st.floats(5, 8.5), network=st.sampled_from(sorted(GENERATORS)), log_reg=st.floats(-1.5, 0),
    delays=st.sampled_from([Categorical(), Uniform(0.0, 1.5)]), spread=st.floats(0.1, 2.0), seed=st.integers(0, 2**20),
)  # fmt: skip
@settings(max_examples=6)
def test_it_never_ends_worse_on_large_networks(log_size, network, log_reg, delays, spread, seed):
    """Few points, so that it takes seconds. Until sums of all nodes have come to the root and back, nodes follow those
    of a part of them, which may be farther away."""
    size = min(round(2**log_size), {"complete": 200, "path": 64, "cycle": 64}.get(network, 400))
    rng = np.random.default_rng(seed)
    measures = [bm.Empirical(rng.uniform(-2, 2) + spread * rng.normal(size=(4, 1))) for _ in range(size)]
    never_worse(measures, network, log_reg, delays, Windowed(), seed, points=10, hops=1.4)


def never_worse(measures, network, log_reg, delays, schedule, seed, points, duration=8.0, hops=0.0):
    """``hops``: seconds more for every hop of the diameter."""
    size = len(measures)
    try:
        graph = as_network(network, size, seed % 1000)
    except bm.BarymeshError:
        # there is no hypercube of eleven nodes
        graph = as_network("complete" if hops else "cycle", size)
    duration += hops * (nx.diameter(nx.Graph(graph.edges.tolist())) if hops else 0)
    result = bm.barycenter(
        measures, np.linspace(-3, 3, points), reg=10**log_reg, relative_reg=True, network=graph, delays=delays,
        schedule=schedule, duration=duration, reference=True, seed=seed, record_every=10.0, progress=False, tol=1e-5,
    )  # fmt: skip
    tv = result.history["tv"]
    assert tv[-1] <= tv[0] + 1e-9
    if result.status is bm.Status.CONVERGED:
        assert tv[-1] <= 1e-4


@pytest.mark.parametrize(("network", "duration"), [("star", 6), ("grid", 20)])
def test_two_thousand_nodes(network, duration):
    result = run(2000, network=network, duration=duration, tol=0, record_every=duration)
    assert result.history["tv"][-1] < 0.8 * result.history["tv"][0]


def test_weights_that_only_the_node_knows():
    weights = np.random.default_rng(0).uniform(0.2, 3.0, 12)
    result = run(12, weights=weights)
    assert_right(result)
    exact = bm.barycenter(gaussians(12), POINTS, reg=0.3, weights=weights, tol=1e-9)
    np.testing.assert_allclose(result.weights, exact.weights, atol=1e-6)
    equal = run(12)
    assert np.abs(result.weights - equal.weights).sum() > 1e-3


@pytest.mark.parametrize("size", [1, 2, 3])
def test_tiny_networks(size):
    assert_right(run(size, network="complete"))


def test_looser_tolerances_stop_sooner_and_still_hold():
    loose, tight = run(20, tol=1e-3), run(20, tol=1e-8)
    assert loose.history["time"][-1] < tight.history["time"][-1]
    assert loose.consensus <= 1e-3
    assert tight.consensus <= 1e-8


@given(
    seed=st.integers(0, 1000), network=st.sampled_from(["cycle", "star", "erdos_renyi", "path"]),
    faults=st.sampled_from(
        [[Loss(0.3)], [Sleep(2, 5.0, 60.0)], [Crash(0, 4.0, 50.0)], [Crash(3, 4.0, 9.0, memory=False)]]
    ),
)  # fmt: skip
@settings(max_examples=12)
def test_nobody_stops_early(seed, network, faults):
    """At the moment a node stops, all nodes are within the tolerance of the true barycenter."""
    problem = Problem.create(gaussians(9, seed), POINTS, reg=0.3)
    graph = as_network(network, 9, seed)
    truth = bm.barycenter(gaussians(9, seed), POINTS, reg=0.3, tol=1e-10).weights
    tol = 1e-3
    method, nodes = Entropic(problem, ExactLogGradients(problem)), Nodes.all_of(graph, problem.weights)
    algorithm = SpanningTree(method, nodes, tol)
    simulation = AsynchronousSimulation(
        algorithm, Recorder(problem, graph), schedule=Poisson(5.0), seed=seed, delays=Uniform(0.0, 1.0),
        faults=fault_table(faults, graph), record_every=1e9, until=1e9,
    )  # fmt: skip
    stopped_at = None
    for k in range(10_000):
        simulation.run(0.2 * (k + 1))
        stopped = algorithm.stopped(simulation.state)
        if stopped.any():
            assert np.abs(simulation.view().estimates - truth).sum(axis=1).max() < tol
            stopped_at = simulation.now if stopped_at is None else stopped_at
        if stopped.all():
            break
    assert stopped_at is not None


@given(
    seed=st.integers(0, 1000), network=st.sampled_from(["cycle", "star", "erdos_renyi", "path"]), end=st.floats(5, 60)
)
@settings(max_examples=20)
def test_nodes_know_how_far_they_are(seed, network, end):
    """From what they and their neighbours know; while there is no telling, they say so."""
    measures = gaussians(9, seed)
    result = run(measures=measures, network=network, seed=seed, duration=end, reference=False)
    truth = bm.barycenter(measures, POINTS, reg=0.3, tol=1e-10).weights
    error = np.abs(result.node_weights - truth).sum(axis=1)
    assert (error <= result.node_errors).all()
    assert (result.node_errors <= 2.0).all()


def test_there_is_no_step_to_choose():
    with pytest.raises(OptionError, match="no step"):
        run(5, step=0.1)


@pytest.mark.parametrize(("network", "size"), [("path", 3), ("star", 10), ("star", 20), ("complete", 5)])
def test_nodes_in_step_with_one_another_stay_at_the_barycenter(network, size):
    """All act at once, and learn of everything equally late: what over-relaxation adds up to then must not grow."""
    result = run(
        size, network=network, schedule=Periodic(0.01, jitter=0.0), delays=Constant(0.0), duration=5, tol=0,
        record_every=1.0,
    )  # fmt: skip
    assert (result.history["tv"][1:] < 1e-10).all()


@pytest.mark.parametrize("batch", ["growing:epsilon=0.1", 0])
def test_a_batch_it_cannot_use_is_named(batch):
    with pytest.raises(OptionError, match="batch"):
        run(5, batch=batch)
