"""The batched simulation is, to the last bit, the one that takes one event at a time; and it can stop and go on."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import barymesh as bm
from barymesh.decentralized.algorithm import Nodes
from barymesh.decentralized.build import build_algorithm
from barymesh.decentralized.host import Traffic, View
from barymesh.engines.delivery import Delivery
from barymesh.engines.recorder import Recorder
from barymesh.engines.simulation import AsynchronousSimulation
from barymesh.exact.reference import Reference
from barymesh.network import as_network
from barymesh.problem import Problem
from barymesh.record import NodeDetails
from barymesh.scenario.delays import Categorical, Constant, LogNormal, PerEdge, Trace, Uniform
from barymesh.scenario.faults import Crash, Loss, fault_table
from barymesh.scenario.schedules import Periodic, Poisson, Windowed
from tests.engines import one_at_a_time
from tests.engines.every_fault import FAULTS

NETWORKS = ["complete", "cycle", "star", "path", "erdos_renyi:p=0.6", "tree"]
DELAYS = {
    "the paper's": Categorical(),
    "uneven": Categorical((0.1, 0.9), (0.8, 0.2)),
    "constant": Constant(0.3),
    "none": Constant(0.0),
    "uniform": Uniform(0.0, 0.7),
    "lognormal": LogNormal(0.3, 1.0),
    "per edge": PerEdge({(0, 1): 0.05}, default=0.4, jitter=Uniform(0.0, 0.1)),
    "trace": Trace([0.1, 0.5, 0.2, 1.3]),
}
SCHEDULES = {
    "windowed": Windowed(0.2),
    "poisson": Poisson(4.0),
    "stragglers": Poisson(6.0, slow_share=0.4),
    "periodic": Periodic(0.25, 0.3),
    "in step": Periodic(0.25, 0.0, slow_share=0.3, slowdown=3),
}


def small_problem(size, seed=0, points=11):
    rng = np.random.default_rng(seed)
    kinds = [
        bm.Gaussian(rng.normal(), 0.3), bm.Empirical(rng.normal(size=(7, 1))),
        bm.Mixture.of_gaussians(rng.normal(size=2), [0.2, 0.4]),
    ]  # fmt: skip
    return Problem.create([kinds[k % 3] for k in range(size)], np.linspace(-2, 2, points), reg=0.2, seed=seed)


def algorithm_for(problem, network, method="a2dwb", batch=2):
    return build_algorithm(method, problem, Nodes.all_of(network, problem.weights), batch=batch)


def simulation(problem, network, options, method="a2dwb", record_every=1e6, batch=2):
    algorithm, recorder = algorithm_for(problem, network, method, batch), Recorder(problem, network)
    return AsynchronousSimulation(algorithm, recorder, record_every=record_every, until=1e3, **options)


def assert_same(first, second):
    for name, value in first.saved().items():
        np.testing.assert_array_equal(second.saved()[name], value, err_msg=name)


@given(
    size=st.integers(3, 7),
    network=st.sampled_from(NETWORKS),
    delays=st.sampled_from(sorted(DELAYS)),
    schedule=st.sampled_from(sorted(SCHEDULES)),
    faults=st.sampled_from(sorted(FAULTS)),
    method=st.sampled_from(["a2dwb", "a2dwb_naive", "sinkhorn"]),
    batch=st.sampled_from([2, "exact"]),
    seed=st.integers(0, 1000),
)
@settings(max_examples=60)
def test_batched_is_one_at_a_time(size, network, delays, schedule, faults, method, batch, seed):
    problem = small_problem(size, seed)
    graph = as_network(network, size, seed)
    if graph.neighbours[graph.offsets[0] : graph.offsets[1]][0] != 1 and "link" in repr(FAULTS[faults]).lower():
        faults = "loss"
    if delays == "per edge" and graph.neighbours[graph.offsets[0]] != 1:
        delays = "uniform"
    options = {
        "delays": DELAYS[delays], "schedule": SCHEDULES[schedule], "faults": fault_table(FAULTS[faults], graph),
        "seed": seed,
    }  # fmt: skip
    batched = simulation(problem, graph, options, method, batch=batch)
    # in two parts, so that slabs are cut in odd places
    batched.run(1.37)
    batched.run(3.1)
    state, traffic = one_at_a_time.run(algorithm_for(problem, graph, method, batch), graph, duration=3.1, **options)
    assert_same(state, batched.state)
    assert batched.traffic == traffic
    assert batched.activations > 0


@pytest.mark.parametrize("schedule", sorted(SCHEDULES))
@pytest.mark.parametrize("delays", sorted(DELAYS))
def test_every_schedule_with_every_delay_and_all_faults(schedule, delays):
    """So that none is left out by chance; long enough for rings and pool to turn over many times."""
    problem, graph = small_problem(5), as_network("complete", 5)
    options = {
        "delays": DELAYS[delays], "schedule": SCHEDULES[schedule],
        "faults": fault_table(FAULTS["everything"], graph), "seed": 3,
    }  # fmt: skip
    batched = simulation(problem, graph, options)
    batched.run(12.0)
    state, traffic = one_at_a_time.run(algorithm_for(problem, graph), graph, duration=12.0, **options)
    assert_same(state, batched.state)
    assert batched.traffic == traffic


@pytest.mark.parametrize("delays", ["the paper's", "uniform", "lognormal"])
@pytest.mark.parametrize("faults", [(), (Loss(0.1),)])
@pytest.mark.parametrize("network", ["complete", "star", "erdos_renyi:p=0.7"])
def test_many_neighbours(network, delays, faults):
    """Enough of them for the code that takes eight edges at a time, and a few columns of all messages at a time."""
    problem, graph = small_problem(45), as_network(network, 45)
    options = {"delays": DELAYS[delays], "schedule": Windowed(), "faults": fault_table(faults, graph), "seed": 1}
    batched = simulation(problem, graph, options)
    batched.run(2.5)
    assert_same(one_at_a_time.run(algorithm_for(problem, graph), graph, duration=2.5, **options)[0], batched.state)


def test_records_do_not_change_the_run():
    problem, graph = small_problem(6), as_network("cycle", 6)
    options = {"delays": Uniform(0, 0.5), "schedule": Poisson(), "faults": fault_table([], graph), "seed": 0}
    often, rarely = (simulation(problem, graph, options, record_every=every) for every in (0.03, 1.0))
    often.run(4.0)
    rarely.run(4.0)
    assert_same(often.state, rarely.state)
    # 0, 0.03, ..., 3.99, and the end
    assert len(often.recorder.history) == 135
    np.testing.assert_allclose(rarely.recorder.history["time"], np.arange(5))


@pytest.mark.parametrize("method", ["a2dwb", "a2dwb_naive", "sinkhorn"])
def test_saved_and_restored_goes_on_as_if_nothing_had_been(tmp_path, method):
    problem, graph = small_problem(5), as_network("complete", 5)
    faults = fault_table([Loss(0.2), Crash(1, 1.0, 2.0, memory=False), Crash(2, 2.2, 2.9, memory=False)], graph)
    for schedule in (Windowed(), Poisson(7.0)):
        options = {"delays": LogNormal(0.3, 0.7), "schedule": schedule, "faults": faults, "seed": 5}
        whole = simulation(problem, graph, options, method, record_every=0.5)
        whole.run(5.0)
        part = simulation(problem, graph, options, method, record_every=0.5)
        part.run(2.03)
        part.save(tmp_path / "run.npz")
        later = simulation(problem, graph, options, method, record_every=0.5)
        later.restore(tmp_path / "run.npz")
        assert later.now == part.now
        later.run(5.0)
        assert_same(whole.state, later.state)
        for name, column in whole.recorder.history.columns.items():
            np.testing.assert_array_equal(later.recorder.history[name], column)


def test_samples_depend_on_seed_node_and_activation_only():
    problem = small_problem(6)
    graph = as_network("cycle", 6)
    algorithm = algorithm_for(problem, graph, batch=3)
    lam = np.zeros((6, 11))
    nodes, activations, steps = np.arange(6), np.full(6, 4), np.arange(6)
    together = algorithm.gradients.at(lam, nodes, activations, steps)
    for k in reversed(range(6)):
        alone = algorithm.gradients.at(lam[:1], nodes[[k]], activations[[k]], steps[[k]])
        np.testing.assert_array_equal(alone[0], together[k])
    other = algorithm.gradients.at(lam, nodes, activations + 1, steps)
    assert (np.abs(other - together).max(axis=1) > 0).all()


@pytest.mark.parametrize("method", ["a2dwb", "sinkhorn"])
@pytest.mark.parametrize("points", [11, 70])
def test_narrow_and_wide_messages(method, points):
    problem, graph = small_problem(21, points=points), as_network("complete", 21)
    options = {"delays": DELAYS["the paper's"], "schedule": Windowed(), "faults": fault_table((), graph), "seed": 2}
    batched = simulation(problem, graph, options, method)
    batched.run(4.3)
    algorithm = algorithm_for(problem, graph, method)
    assert_same(one_at_a_time.run(algorithm, graph, duration=4.3, **options)[0], batched.state)


@pytest.mark.parametrize("network", ["complete", "cycle", "star"])
def test_a_round_brings_everybody_the_sum_of_its_neighbours(network):
    graph = as_network(network, 9)
    delivery = Delivery(graph, 4, DELAYS["constant"], fault_table((), graph), 0)
    messages = np.random.default_rng(0).random((9, 4))
    expected = [sum(messages[j] for j in graph.neighbours[a:b]) for a, b in pairwise(graph.offsets)]
    np.testing.assert_allclose(delivery.exchange(messages), expected, rtol=1e-14)


@pytest.mark.parametrize("absent", [(), (0, 5)])
@pytest.mark.parametrize("network", ["complete", "cycle"])
def test_the_figures_of_a_record_are_those_of_the_members(network, absent):
    """By the plainest formulas: nodes that take no part count nowhere."""
    problem, graph = small_problem(8), as_network(network, 8)
    reference = Reference(np.full(11, 1 / 11), -0.3)
    recorder = Recorder(problem, graph, reference=reference)
    lam = np.random.default_rng(1).normal(size=(8, 11))
    values, p = problem.oracle.value_and_gradient(lam)
    here = np.isin(np.arange(8), absent, invert=True)
    record = recorder.record(
        2.0,
        View(lam, values, p, np.zeros(8), np.zeros(8)),
        here,
        5,
        Traffic(7, 11),
        lambda: NodeDetails(np.array([]), None, np.array([])),
    )
    members = np.flatnonzero(here)
    mean, total = p[members].mean(axis=0), lam[members].mean(axis=0)
    expected = {
        "time": 2.0,
        "dual_objective": values[members].mean(),
        "consensus": np.mean([np.abs(p[i] - mean).sum() for i in members]),
        "consensus_distance": sum(((p[i] - p[j]) ** 2).sum() for i, j in graph.edges if here[i] and here[j]),
        "feasibility": np.abs(total - total.mean()).max(),
        "tv": np.mean([0.5 * np.abs(p[i] - 1 / 11).sum() for i in members]),
        "dual_error": values[members].mean() + 0.3,
        "activations": 5,
        "messages": 7,
        "bytes": 11,
    }
    assert list(record.figures) == list(expected)
    assert dict(record.figures) == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(record.weights, mean)
    assert (record.step, record.time, record.size) == (5, 2.0, 8)
