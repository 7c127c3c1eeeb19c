"""Transports and hosts: what a node is not sent it does not use, and where a node is hosted changes nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barymesh.decentralized.algorithm import Batch, Nodes
from barymesh.decentralized.build import build_algorithm
from barymesh.decentralized.host import Host
from barymesh.decentralized.transport import MemoryTransport, Transport
from barymesh.method_names import NETWORK_METHODS, SYNCHRONOUS
from barymesh.network import as_network
from barymesh.problem import Problem
from barymesh.transport import wire
from tests.decentralized.networks import POINTS, gaussians

ASYNCHRONOUS = [method for method in NETWORK_METHODS if method not in SYNCHRONOUS]
NETWORKS = ["cycle", "star", "complete", "erdos_renyi:p=0.6", "path"]
# a step for those methods that need one
STEPS = {"a2dwb": 0.02, "a2dwb_naive": 0.02, "a2dwb_conserving": 0.02}


def algorithm_for(method, network, ids, weights):
    """The method for some nodes of the network, which know no other measures than their own."""
    measures = gaussians(network.size)
    problem = Problem.create([measures[k] for k in ids], POINTS, reg=0.3)
    nodes = Nodes(network, np.array(ids), weights[list(ids)] * network.size)
    algorithm = build_algorithm(method, problem, nodes, step=STEPS.get(method), batch="exact", tol=1e-7)
    return algorithm, problem


def memory(algorithm, private=None):
    return MemoryTransport(algorithm.nodes.network, algorithm.width, algorithm.private if private is None else private)


class Part(Transport):
    """The part of a transport for all nodes that some of them use."""

    def __init__(self, whole, ids):
        self.whole, self.ids = whole, np.array(ids)

    def receive(self, batch):
        return self.whole.receive(self._of_all(batch))

    def send(self, batch, messages, receivers, links=None):
        self.whole.send(self._of_all(batch), messages, receivers, links)

    def _of_all(self, batch):
        return Batch(self.ids[batch.rows], batch.counts, batch.steps)


def some(host, wanted, usual):
    """The batch of those hosted nodes whose ids are wanted."""
    batch, rows = host.batch(usual), np.flatnonzero(np.isin(host.nodes.ids, wanted))
    return Batch(rows, batch.counts[rows], batch.steps[rows])


def weights_of(size, seed):
    weights = np.random.default_rng(seed).uniform(0.3, 2.0, size)
    return weights / weights.sum()


def changed(algorithm, state, row, kind):
    """Let something happen to a node that makes the tree find itself anew."""
    if kind == "reset" or not algorithm.elastic:
        algorithm.reset(state, row)
    elif kind == "leave":
        algorithm.leave(state, row)
    elif kind == "join":
        algorithm.join(state, row)


def test_a_message_reaches_all_neighbours_and_its_private_columns_one():
    network = as_network("star", 4)
    transport = MemoryTransport(network, 5, slice(1, 3))
    messages = np.arange(1.0, 21.0).reshape(4, 5)
    batch = Batch(np.arange(4), np.zeros(4, dtype=np.int64), np.arange(4))
    empty = transport.receive(batch)
    assert not empty.rows[empty.slots].any()
    # the hub sends its private columns to node 2, the leaves to the hub, but for node 3, which keeps them
    transport.send(batch, messages, np.array([2, 0, 0, -1]))
    inbox = transport.receive(batch)
    for node, senders in enumerate([[1, 2, 3], [0], [0], [0]]):
        received = inbox.rows[inbox.slots[inbox.first[node] : inbox.last[node]], :5]
        for sender, message in zip(senders, received, strict=True):
            expected = messages[sender].copy()
            if (sender, node) not in [(0, 2), (1, 0), (2, 0)]:
                expected[1:3] = 0.0
            np.testing.assert_array_equal(message, expected)


def test_a_newer_message_replaces_an_older_one():
    network = as_network("path", 2)
    transport = MemoryTransport(network, 3, slice(0, 2))
    both = Batch(np.arange(2), np.zeros(2, dtype=np.int64), np.arange(2))
    transport.send(both, np.ones((2, 3)), np.array([1, 0]))
    transport.send(Batch(np.array([0]), np.array([1]), np.array([2])), np.full((1, 3), 7.0), np.array([-1]))
    totals, count = transport.receive(both).sum()
    np.testing.assert_array_equal(totals, [[1.0, 1.0, 1.0], [0.0, 0.0, 7.0]])
    np.testing.assert_array_equal(count, [1, 1])


@given(
    method=st.sampled_from(ASYNCHRONOUS), network=st.sampled_from(NETWORKS), size=st.integers(2, 9),
    seed=st.integers(0, 1000), change=st.sampled_from(["nothing", "reset", "leave"]),
)  # fmt: skip
@settings(max_examples=40)
def test_nodes_never_read_what_is_not_meant_for_them(method, network, size, seed, change):
    """The same run, with the private columns of all messages in everybody's hands and with zeros in their place."""
    graph, rng = as_network(network, size, seed), np.random.default_rng(seed)
    weights = weights_of(size, seed)
    algorithm, problem = algorithm_for(method, graph, range(size), weights)
    hidden, open_ = (Host(algorithm, memory(algorithm, private), problem) for private in (None, slice(0, 0)))
    for k in range(60):
        wanted = np.flatnonzero(rng.random(size) < 0.6)
        for host in (hidden, open_):
            if k == 25:
                changed(algorithm, host.state, size - 1, change)
            if k == 40 and change == "leave":
                changed(algorithm, host.state, size - 1, "join")
            host.act(some(host, wanted, k))
    for name, value in hidden.state.saved().items():
        np.testing.assert_array_equal(open_.state.saved()[name], value, err_msg=name)


def test_hidden_columns_are_not_all_zero_anyway():
    """What the test above hides is something."""
    graph = as_network("cycle", 6)
    algorithm, problem = algorithm_for("sinkhorn", graph, range(6), weights_of(6, 0))
    hidden, open_ = (Host(algorithm, memory(algorithm, private), problem) for private in (None, slice(0, 0)))
    for k in range(10):
        for host in (hidden, open_):
            host.act(host.batch(k))
    seen = [host.transport.rows[1:, algorithm.private].any(axis=1).sum() for host in (hidden, open_)]
    assert seen == [5, 12]


@given(
    method=st.sampled_from(ASYNCHRONOUS), network=st.sampled_from(NETWORKS), size=st.integers(2, 9),
    seed=st.integers(0, 1000), parts=st.integers(1, 9), change=st.sampled_from(["nothing", "reset", "leave"]),
)  # fmt: skip
@settings(max_examples=60)
def test_nodes_do_the_same_wherever_they_are_hosted(method, network, size, seed, parts, change):
    """A network in one process, and split over several, each with the measures of its own nodes only: the same numbers,
    to the last bit, and the same traffic."""
    graph, rng = as_network(network, size, seed), np.random.default_rng(seed)
    weights = weights_of(size, seed)
    whole_algorithm, problem = algorithm_for(method, graph, range(size), weights)
    whole = Host(whole_algorithm, memory(whole_algorithm), problem)
    shared, owner = memory(whole_algorithm), rng.integers(parts, size=size)
    hosts = []
    for part in np.unique(owner):
        ids = np.flatnonzero(owner == part)
        algorithm, own = algorithm_for(method, graph, ids, weights)
        hosts.append(Host(algorithm, Part(shared, ids), own))
    firsts = np.concatenate([host.algorithm.first_messages(host.state) for host in hosts])
    ids = np.concatenate([host.nodes.ids for host in hosts])
    np.testing.assert_array_equal(firsts, whole_algorithm.first_messages(whole.state)[ids])
    for k in range(40):
        wanted = np.flatnonzero(rng.random(size) < 0.6)
        if k == 15 and change != "nothing":
            changed(whole_algorithm, whole.state, size - 1, change)
            last = next(host for host in hosts if size - 1 in host.nodes.ids)
            changed(last.algorithm, last.state, last.nodes.count - 1, change)
        whole.act(some(whole, wanted, k))
        # all act before any sends: the nodes of one batch do not see one another's messages
        sending = [(host, batch, host.activate(batch)) for host in hosts for batch in [some(host, wanted, k)]]
        for host, batch, messages in sending:
            host.send(batch, messages)
    arrays = whole.state.saved()
    for host in hosts:
        for name, value in host.state.saved().items():
            assert len(value) == host.nodes.count
            # numbers of measures count from 0 in every process
            if name != "own.measure":
                np.testing.assert_array_equal(value, arrays[name][host.nodes.ids], err_msg=name)
    np.testing.assert_array_equal(np.concatenate([host.stopped for host in hosts])[np.argsort(ids)], whole.stopped)
    assert sum(host.traffic.messages for host in hosts) == whole.traffic.messages
    assert sum(host.traffic.bytes for host in hosts) == whole.traffic.bytes
    assert sum(host.activations for host in hosts) == whole.activations


@pytest.mark.parametrize("method", ASYNCHRONOUS)
def test_what_hosts_know_is_what_all_know_together(method):
    """Duals, values, estimates and errors of the parts are those of the whole."""
    graph, weights = as_network("cycle", 6), weights_of(6, 1)
    algorithm, problem = algorithm_for(method, graph, range(6), weights)
    whole, shared = Host(algorithm, memory(algorithm), problem), memory(algorithm)
    hosts = []
    for ids in ([0, 3], [1, 2, 4], [5]):
        own_algorithm, own = algorithm_for(method, graph, ids, weights)
        hosts.append(Host(own_algorithm, Part(shared, ids), own))
    for k in range(30):
        whole.act(whole.batch(k))
        sending = [(host, batch, host.activate(batch)) for host in hosts for batch in [host.batch(k)]]
        for host, batch, messages in sending:
            host.send(batch, messages)
    everything = whole.view(180)
    for host in hosts:
        view = host.view(180, host.transport.receive(host.batch(30)))
        for name in ("duals", "values", "estimates", "errors"):
            np.testing.assert_allclose(
                getattr(view, name), getattr(everything, name)[host.nodes.ids], rtol=1e-9, atol=1e-12, err_msg=name
            )


@pytest.mark.parametrize("method", [method for method in ASYNCHRONOUS if method != "rounds"])
def test_every_link_carries_a_message_at_every_activation(method):
    """And its bytes are those of a frame with the numbers that its receiver gets."""
    size = 5
    graph = as_network("complete", size)
    algorithm, problem = algorithm_for(method, graph, range(size), weights_of(size, 0))
    host = Host(algorithm, memory(algorithm), problem)
    message_format = wire.MessageFormat("a run", *algorithm.bounds(), private=algorithm.private)
    expected = 0
    for k in range(20):
        batch = host.batch(k)
        outgoing = host.activate(batch)
        for node, receiver in enumerate(outgoing.receivers):
            for neighbour in graph.neighbours_of(node):
                expected += len(
                    message_format.encode(node, 1, k, outgoing.messages[node], with_private=bool(neighbour == receiver))
                )
        host.send(batch, outgoing)
    assert host.traffic.messages == 20 * size * (size - 1)
    assert host.traffic.bytes == expected


def test_hosts_of_a_later_life_begin_anew():
    """Their nodes are newcomers, and count their activations from elsewhere."""
    algorithm, problem = algorithm_for("sinkhorn", as_network("cycle", 4), range(4), weights_of(4, 0))
    first, later = (Host(algorithm, memory(algorithm), problem, life) for life in (1, 2))
    assert not first.state.newcomer.any()
    assert later.state.newcomer.all()
    assert (later.counts > first.counts).all()
    assert later.activations == first.activations == 0
