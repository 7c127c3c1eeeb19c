"""The spanning tree as a layer of its own: it adds up whatever a method contributes, and passes its targets on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import barymesh as bm
from barymesh.core import tree
from barymesh.decentralized.algorithm import Nodes
from barymesh.decentralized.host import Host
from barymesh.decentralized.tree import PATIENCE, SpanningTree
from barymesh.decentralized.tree.spanning_tree import PATIENCE_BEATS
from barymesh.engines.recorder import Recorder
from barymesh.engines.simulation import AsynchronousSimulation
from barymesh.errors import NetworkError
from barymesh.network import GENERATORS, Network, as_network
from barymesh.scenario.delays import Categorical, Constant, LogNormal, Uniform
from barymesh.scenario.events import Join, Leave, NewData, plan
from barymesh.scenario.faults import Crash, Duplication, Loss, Reordering, Sleep, fault_table
from barymesh.scenario.schedules import Periodic, Poisson, Windowed
from tests.decentralized.average import (
    TOL,
    WIDTH,
    Average,
    average_tree,
    network_of,
    problem_of,
    vectors_of,
    weights_of,
)
from tests.decentralized.networks import FAULTS
from tests.decentralized.unreliable import Unreliable


def simulation(algorithm, *, faults=(), events=(), problem=None, **options):
    network = algorithm.nodes.network
    problem = problem_of(network.size) if problem is None else problem
    options = {"schedule": Poisson(5.0), "delays": Uniform(0.0, 1.0), "seed": 0, "record_every": 1e9, **options}
    return AsynchronousSimulation(
        algorithm, Recorder(problem, network), faults=fault_table(faults, network), plan=plan(events, network),
        until=1e9, **options,
    )  # fmt: skip


# what is summed is nothing to the tree


@given(
    size=st.integers(1, 14), network=st.sampled_from(sorted(GENERATORS)), seed=st.integers(0, 1000),
    delays=st.sampled_from([Categorical(), Constant(0.0), Uniform(0.0, 2.0), LogNormal(0.3, 1.0)]),
    schedule=st.sampled_from([Windowed(), Poisson(5.0), Periodic(0.2, 0.1, slow_share=0.3, slowdown=5)]),
    faults=st.lists(st.sampled_from(["loss", "copies", "late", "crash", "amnesia", "sleep"]), unique=True),
)  # fmt: skip
@settings(max_examples=20)
def test_every_node_ends_with_the_weighted_mean(size, network, seed, delays, schedule, faults):
    """In virtual time, whatever happens on the way; and every node stops by itself."""
    graph, rng = network_of(network, size, seed), np.random.default_rng(seed)
    one, other = rng.integers(size, size=2)
    kinds = {
        "loss": Loss(0.3), "copies": Duplication(0.3), "late": Reordering(0.3, 2.0),
        "crash": Crash(int(one), 2.0, 8.0), "amnesia": Crash(int(other), 3.0, 7.0, memory=False),
        "sleep": Sleep(int(other), 1.0, 20.0),
    }  # fmt: skip
    vectors, weights = vectors_of(size, seed), weights_of(size, seed)
    run = simulation(
        average_tree(graph, vectors, weights), faults=[kinds[name] for name in faults], seed=seed, delays=delays,
        schedule=schedule,
    )  # fmt: skip
    assert run.run(3000.0) is bm.Status.CONVERGED
    np.testing.assert_allclose(run.state.own.estimate, np.tile(weights @ vectors, (size, 1)), atol=TOL)


@given(
    size=st.integers(1, 12), network=st.sampled_from(sorted(GENERATORS)), seed=st.integers(0, 1000),
    forgets=st.booleans(), silent=st.booleans(),
)  # fmt: skip
@settings(max_examples=40)
def test_every_node_ends_with_the_weighted_mean_in_memory(size, network, seed, forgets, silent):
    """Without a clock: some nodes at a time act, messages are late and lost, one node loses its memory, another is
    silent for long."""
    graph, rng = network_of(network, size, seed), np.random.default_rng(seed)
    vectors, weights = vectors_of(size, seed), weights_of(size, seed)
    algorithm = average_tree(graph, vectors, weights)
    host = Host(algorithm, Unreliable(graph, algorithm, rng), problem_of(size))
    first, second = rng.integers(size, size=2)
    for k in range(5000):
        rows = np.flatnonzero(rng.random(size) < 0.5)
        if silent and 20 <= k < 300:
            rows = rows[rows != first]
        if forgets and k == 50:
            algorithm.reset(host.state, int(second))
        everybody = host.batch(k)
        host.act(type(everybody)(rows, everybody.counts[rows], everybody.steps[rows]))
        if host.stopped.all():
            break
    assert host.stopped.all()
    np.testing.assert_allclose(host.state.own.estimate, np.tile(weights @ vectors, (size, 1)), atol=TOL)


def test_members_of_the_tree_may_come_go_and_change():
    """The mean is that of the nodes that take part, with what they have last."""
    size, vectors = 9, vectors_of(10, 5)
    weights = weights_of(size, 5)
    problem = problem_of(size, weights)
    more = bm.Empirical([[1.0]])
    events = [Leave(2, 10.0), Leave(5, 20.0), Join(5, 200.0), Join(7, 40.0), NewData(3, 120.0, more)]
    graph = as_network("complete", size)
    run = simulation(
        average_tree(graph, vectors, weights),
        events=events,
        problem=problem.with_further_measures([more]),
        delays=Categorical(),
    )
    assert run.run(2000.0) is bm.Status.CONVERGED
    have = vectors[:size].copy()
    have[3] = vectors[9]
    here = np.array([k for k in range(size) if k != 2])
    mean = weights[here] @ have[here] / weights[here].sum()
    np.testing.assert_allclose(run.state.own.estimate[here], np.tile(mean, (8, 1)), atol=TOL)


@given(seed=st.integers(0, 1000), network=st.sampled_from(["cycle", "star", "path", "erdos_renyi"]))
@settings(max_examples=8)
def test_no_node_stops_before_all_have_the_mean(seed, network):
    size, graph = 10, as_network(network, 10, seed)
    vectors, weights = vectors_of(size, seed), weights_of(size, seed)
    run = simulation(average_tree(graph, vectors, weights), seed=seed, faults=[Loss(0.3), Sleep(1, 2.0, 30.0)])
    mean, stopped = weights @ vectors, []
    for k in range(2000):
        run.run(0.2 * (k + 1))
        stopped = run.algorithm.stopped(run.state)
        if stopped.any():
            assert np.abs(run.state.own.estimate - mean).sum(axis=1).max() <= TOL
        if stopped.all():
            break
    assert np.all(stopped)


def test_while_a_node_is_missing_no_node_stops():
    """The others have their own mean, and wait."""
    size, vectors = 6, vectors_of(6, 1)
    weights = weights_of(size, 1)
    run = simulation(average_tree(as_network("complete", size), vectors, weights), faults=[Crash(0, 3.0, 900.0)])
    run.run(800.0)
    others = np.arange(1, size)
    mean = weights[others] @ vectors[others] / weights[others].sum()
    np.testing.assert_allclose(run.state.own.estimate[others], np.tile(mean, (size - 1, 1)), atol=TOL)
    assert not run.algorithm.stopped(run.state).any()
    assert run.run(2000.0) is bm.Status.CONVERGED
    np.testing.assert_allclose(run.state.own.estimate, np.tile(weights @ vectors, (size, 1)), atol=TOL)


def test_with_tolerance_zero_nodes_never_stop():
    graph, vectors, weights = as_network("cycle", 5), vectors_of(5, 0), weights_of(5, 0)
    run = simulation(average_tree(graph, vectors, weights, tol=0.0))
    assert run.run(300.0) is bm.Status.OUT_OF_TIME
    np.testing.assert_allclose(run.state.own.estimate, np.tile(weights @ vectors, (5, 1)), atol=1e-14)


def test_a_method_that_is_never_final_has_no_tolerance():
    class Endless(Average):
        final = False

    graph, vectors, weights = as_network("cycle", 5), vectors_of(5, 0), weights_of(5, 0)
    endless = SpanningTree(Endless(vectors), Nodes.all_of(graph, weights), 0.5)
    run = simulation(endless)
    assert run.run(200.0) is bm.Status.OUT_OF_TIME
    assert not endless.stopped(run.state).any()


@given(seed=st.integers(0, 1000), network=st.sampled_from(["cycle", "star", "path"]), end=st.floats(1, 30))
@settings(max_examples=25)
def test_nodes_know_how_far_they_are(seed, network, end):
    size, graph = 9, as_network(network, 9, seed)
    vectors, weights = vectors_of(size, seed), weights_of(size, seed)
    run = simulation(average_tree(graph, vectors, weights, tol=0.0), seed=seed)
    run.run(end)
    apart = np.abs(run.state.own.estimate - weights @ vectors).sum(axis=1)
    assert (np.minimum(apart, 2.0) <= run.algorithm.node_errors(run.state) + 1e-12).all()


# the tree itself


@given(
    size=st.integers(2, 12), seed=st.integers(0, 1000), network=st.sampled_from(["cycle", "erdos_renyi", "tree"]),
    faults=st.sampled_from([*sorted(FAULTS), "amnesia", "amnesia"]),
)  # fmt: skip
@settings(max_examples=15)
def test_parents_never_form_a_ring(size, seed, network, faults):
    """At no time, also while nodes come back without memory; and in the end there is one root."""
    rng = np.random.default_rng(seed)
    forgetful = [
        Crash(int(k), t, t + rng.uniform(0.05, 1.0), memory=False) for k, t in enumerate(rng.uniform(1, 12, size))
    ]
    listed = forgetful if faults == "amnesia" else [f for f in FAULTS[faults] if getattr(f, "node", 0) < size]
    algorithm = average_tree(as_network(network, size, seed), vectors_of(size, seed), weights_of(size, seed), 0.0)
    run = simulation(algorithm, seed=seed, delays=Uniform(0.0, 3.0), faults=listed)
    state = run.state
    for k in range(250):
        run.run(0.2 * (k + 1))
        for node in range(size):
            seen, at = 0, node
            while state.parent[at] != at and state.epoch[state.parent[at]] == state.epoch[at]:
                at = state.parent[at]
                seen += 1
                assert seen < size
    assert len(set(state.root)) == 1
    assert (state.parent == np.arange(size)).sum() == 1


def test_the_hub_of_a_star_is_its_root():
    graph = Network(6, [(4, k) for k in (0, 1, 2, 3, 5)])
    run = simulation(average_tree(graph, vectors_of(6, 0), weights_of(6, 0)), schedule=Windowed(), delays=Categorical())
    run.run(3.0)
    assert (run.state.parent == 4).all()


def test_a_silent_parent_is_left():
    """After so many activations without a message from it, not before."""
    graph = as_network("cycle", 5)
    run = simulation(
        average_tree(graph, vectors_of(5, 0), weights_of(5, 0), 0.0), faults=[Crash(0, 10.0)],
        schedule=Periodic(1.0, 0.0), delays=Constant(0.0),
    )  # fmt: skip
    run.run(10.0 + PATIENCE - 2)
    assert run.state.parent[1] == run.state.parent[4] == 0
    run.run(10.0 + PATIENCE + 20)
    assert (run.state.parent[1:] != 0).all()


def test_patience_that_has_grown_shrinks_again():
    """It doubles with every failure of a parent, and a network that runs for months sees many."""
    graph = as_network("cycle", 5)
    algorithm = average_tree(graph, vectors_of(5, 0), weights_of(5, 0))
    host = Host(algorithm, Unreliable(graph, algorithm, np.random.default_rng(0)), problem_of(5))
    host.state.patience[:] = 4 * PATIENCE
    found = []
    for lap in (1, 2, 3):
        host.counts[:] = lap * PATIENCE_BEATS - 1
        for k in range(3):
            batch = host.batch(k)
            host.send(batch, host.activate(batch))
        found.append(np.unique(host.state.patience).tolist())
    assert found == [[2 * PATIENCE], [PATIENCE], [PATIENCE]]


def test_weights_of_edges_are_refused():
    graph = Network(3, [(0, 1), (1, 2)], [1.0, 2.0])
    with pytest.raises(NetworkError, match="average works on networks without weights"):
        average_tree(graph, vectors_of(3, 0), weights_of(3, 0))


# messages


def test_a_message_holds_a_header_the_sums_and_the_target():
    algorithm = average_tree(as_network("cycle", 4), vectors_of(4, 0), np.full(4, 0.25))
    assert algorithm.width == tree.HEADER + 2 * WIDTH
    assert algorithm.private == slice(tree.HEADER, tree.HEADER + WIDTH)
    first = algorithm.first_messages(algorithm.start())
    assert first.shape == (4, algorithm.width)
    np.testing.assert_array_equal(first[:, algorithm.private], algorithm.method.vectors)


def test_the_sums_go_to_the_parent_and_to_no_other():
    algorithm = average_tree(as_network("complete", 4), vectors_of(4, 0), weights_of(4, 0))
    run = simulation(algorithm)
    run.run(5.0)
    root = int(np.flatnonzero(run.state.parent == np.arange(4))[0])
    messages = algorithm.first_messages(run.state)
    np.testing.assert_array_equal(
        algorithm.private_receivers(messages), np.where(np.arange(4) == root, -1, run.state.parent)
    )


@given(seed=st.integers(0, 1000), network=st.sampled_from(["cycle", "star", "complete"]))
@settings(max_examples=10)
def test_messages_keep_the_bounds_they_promise(seed, network):
    """Those at which receivers refuse a message, whatever nodes lose, forget or leave."""
    size, graph = 8, as_network(network, 8, seed)
    algorithm = average_tree(graph, vectors_of(size, seed), weights_of(size, seed))
    host = Host(algorithm, Unreliable(graph, algorithm, np.random.default_rng(seed)), problem_of(size))
    lower, upper = algorithm.bounds()
    assert (algorithm.first_messages(host.state) >= lower).all()
    for k in range(400):
        if k == 100:
            algorithm.leave(host.state, 3)
        if k == 150:
            algorithm.join(host.state, 3)
        if k in (60, 170):
            algorithm.reset(host.state, seed % size)
        batch = host.batch(k)
        outgoing = host.activate(batch)
        assert (outgoing.messages >= lower).all()
        assert (outgoing.messages <= upper).all()
        host.send(batch, outgoing)
