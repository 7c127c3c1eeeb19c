"""The nodes of a peer by themselves: the simulator's algorithms on a few rows, and a memory that loses nothing."""

from __future__ import annotations

import numpy as np
import pytest

import barymesh as bm
from barymesh.engines.host import Host, local_algorithm
from barymesh.errors import FileError, OptionError
from barymesh.network import as_network
from barymesh.problem import Problem

POINTS = np.linspace(-3, 3, 20)
MEASURES = [bm.Gaussian(mean, 0.3 + 0.05 * k) for k, mean in enumerate(np.linspace(-2, 2, 6))]


def hosts(method, shards, network="cycle", weights=None, **options):
    """One host for each shard, none of which has the measures of another."""
    graph = as_network(network, len(MEASURES))
    weights = np.ones(len(MEASURES)) if weights is None else weights
    found = []
    for nodes in shards:
        problem = Problem.create([MEASURES[k] for k in nodes], POINTS, reg=0.3)
        algorithm = local_algorithm(method, problem, graph, nodes, weights[list(nodes)], **options)
        found.append(Host(algorithm, graph, nodes, 7, "a test"))
    return found


def converse(found, start, end, rng):
    """Hosts act in a random order, and half of what they say is lost."""
    for time in range(start, end):
        speaker = found[rng.integers(len(found))]
        for node, message in speaker.act(time // len(found)).items():
            for other in found:
                if other is not speaker and node in other.row and rng.random() < 0.5:
                    other.hear(node, message)


@pytest.mark.parametrize("shards", [[[k] for k in range(6)], [[0, 1, 2], [3, 4, 5]], [[5, 0], [1, 4, 3], [2]]])
def test_hosts_that_only_talk_reach_the_barycenter(shards):
    found = hosts("sinkhorn", shards, tol=1e-7)
    converse(found, 0, 1500, np.random.default_rng(0))
    truth = bm.barycenter(MEASURES, POINTS, reg=0.3, tol=1e-10)
    assert all(host.stopped for host in found)
    for host, nodes in zip(found, shards, strict=True):
        np.testing.assert_allclose(estimates(host, nodes), np.tile(truth.weights, (len(nodes), 1)), atol=1e-6)


def estimates(host, nodes, usual=0):
    from barymesh.oracle import build_oracle

    problem = Problem.create([MEASURES[k] for k in sorted(nodes)], POINTS, reg=0.3)
    oracle = build_oracle(problem.atoms, problem.support, problem.cost, problem.reg)
    return oracle.value_and_gradient(host.duals(usual))[1]


def test_weights_are_known_to_the_node_alone():
    weights = np.array([0.2, 3.0, 1.0, 0.5, 0.8, 0.5])
    found = hosts("sinkhorn", [[k] for k in range(6)], weights=weights, tol=1e-7)
    converse(found, 0, 1500, np.random.default_rng(1))
    truth = bm.barycenter(MEASURES, POINTS, reg=0.3, weights=weights, tol=1e-10)
    np.testing.assert_allclose(estimates(found[2], [2])[0], truth.weights, atol=1e-6)


@pytest.mark.parametrize("method", ["a2dwb", "a2dwb_naive", "a2dwb_conserving", "sinkhorn"])
def test_every_asynchronous_method_runs_and_gets_closer(method):
    found = hosts(method, [[0, 1], [2, 3], [4, 5]], batch="exact")
    rng = np.random.default_rng(2)
    converse(found, 0, 30, rng)
    apart = [np.ptp(np.concatenate([estimates(h, h.nodes, 10) for h in found]), axis=0).sum()]
    converse(found, 30, 900, rng)
    apart.append(np.ptp(np.concatenate([estimates(h, h.nodes, 300) for h in found]), axis=0).sum())
    assert apart[1] < apart[0]


@pytest.mark.parametrize("method", ["a2dwb", "a2dwb_conserving", "sinkhorn"])
def test_what_is_kept_is_all_it_needs(method):
    """A host that goes on from what it kept, and hears the same, does the same to the last bit."""
    first = hosts(method, [[0, 1], [2, 3], [4, 5]], batch="exact")
    converse(first, 0, 40, np.random.default_rng(3))
    again = hosts(method, [[0, 1], [2, 3], [4, 5]], batch="exact")
    for old, new in zip(first, again, strict=True):
        new.incarnation = 99
        new.restore(old.saved())
        for node, place in old.row.items():
            if old.heard[place]:
                new.hear(node, old.rows[place, : old.algorithm.width])
    for found in (first, again):
        converse(found, 40, 80, np.random.default_rng(4))
    for old, new in zip(first, again, strict=True):
        assert old.saved() == new.saved()
        assert new.incarnation == 7


def test_what_another_run_kept_is_refused():
    found = hosts("sinkhorn", [[0, 1], [2]])
    with pytest.raises(FileError, match="another run"):
        found[0].restore(found[1].saved())


def test_every_incarnation_counts_from_elsewhere():
    graph = as_network("cycle", 6)
    problem = Problem.create(MEASURES[:1], POINTS, reg=0.3)
    algorithm = local_algorithm("sinkhorn", problem, graph, [0], np.ones(1))
    assert Host(algorithm, graph, [0], 1, "").numbers[0] != Host(algorithm, graph, [0], 2, "").numbers[0]


def test_synchronous_methods_are_refused():
    with pytest.raises(OptionError, match="synchronous"):
        hosts("dcwb", [[0, 1, 2], [3, 4, 5]])


@pytest.mark.parametrize("method", ["a2dwb", "a2dwb_conserving", "sinkhorn"])
def test_messages_stay_within_the_bounds_that_the_algorithm_declares(method):
    found = hosts(method, [[0, 1], [2, 3], [4, 5]], batch="exact")
    lower, upper = found[0].algorithm.bounds()
    converse(found, 0, 200, np.random.default_rng(5))
    for host in found:
        for place in host.row.values():
            message = host.rows[place, : host.algorithm.width]
            assert ((lower <= message) & (message <= upper)).all()


def test_any_incarnation_converges():
    """Seconds since the run began may be any number: activations are then counted from far away."""
    graph = as_network("path", 2)
    for incarnation in (1, 2**18, 2**20 - 1, 2**31):
        found = []
        for k in range(2):
            problem = Problem.create([MEASURES[k]], POINTS, reg=0.3)
            algorithm = local_algorithm("sinkhorn", problem, graph, [k], np.ones(1), tol=1e-6)
            found.append(Host(algorithm, graph, [k], incarnation, ""))
        converse(found, 0, 400, np.random.default_rng(0))
        assert all(host.stopped for host in found)
