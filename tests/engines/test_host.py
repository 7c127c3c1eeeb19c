"""The nodes of one process: the algorithms on a few rows, and a memory that loses nothing."""

from __future__ import annotations

import numpy as np
import pytest

import barymesh as bm
from barymesh.decentralized.algorithm import Nodes
from barymesh.decentralized.host import Host
from barymesh.decentralized.transport import chosen_links
from barymesh.engines.node_memory import NodeMemory
from barymesh.engines.runtime import hosted_algorithm
from barymesh.engines.socket_transport import SocketTransport
from barymesh.errors import FileError, OptionError
from barymesh.network import as_network
from barymesh.problem import Problem
from barymesh.transport.sockets import Links
from barymesh.transport.wire import NONE, Message, MessageFormat

POINTS = np.linspace(-3, 3, 20)
MEASURES = [bm.Gaussian(mean, 0.3 + 0.05 * k) for k, mean in enumerate(np.linspace(-2, 2, 6))]
GRAPH = as_network("cycle", len(MEASURES))


def host(method, nodes, incarnation=7, weights=None, network=GRAPH, **options):
    """The host of some nodes, which has the measures of no other. Its links are never opened."""
    ids = np.array(sorted(nodes))
    relative = np.ones(len(ids)) if weights is None else weights[ids]
    problem = Problem.create([MEASURES[k] for k in ids], POINTS, reg=0.3)
    algorithm = hosted_algorithm(method, problem, Nodes(network, ids, relative), **options)
    message_format = MessageFormat("test", *algorithm.bounds(), private=algorithm.private)
    links = Links(ids.tolist(), "tcp://127.0.0.1:0", [], message_format, curve=None)
    transport = SocketTransport(algorithm.nodes, links, algorithm.width, incarnation)
    return Host(algorithm, transport, problem, incarnation)


def hosts(method, shards, **options):
    return [host(method, nodes, **options) for nodes in shards]


def converse(found, start, end, rng):
    """Hosts act in a random order, and half of their messages are lost."""
    for time in range(start, end):
        speaker = found[rng.integers(len(found))]
        batch = speaker.batch(time // len(found))
        outgoing = speaker.activate(batch)
        speaker.send(batch, outgoing)
        ends = speaker.transport.ends[batch.rows], speaker.transport.ends[batch.rows + 1]
        links = chosen_links(outgoing.links, ends[1] - ends[0])
        for node, message, receiver, over in zip(
            speaker.nodes.ids, outgoing.messages, outgoing.receivers, links, strict=True
        ):
            reached = set(speaker.nodes.network.neighbours_of(int(node))[over].tolist())
            for other in found:
                if other is not speaker and reached & set(other.nodes.ids.tolist()) and rng.random() < 0.5:
                    public = message.copy()
                    if receiver not in other.nodes.ids:
                        public[speaker.algorithm.private] = 0.0
                    mark = (speaker.incarnation, speaker.transport.sequence)
                    other.transport.deliver(Message(int(node), *mark, public, NONE))


def view(found, usual=0):
    rows = np.arange(found.nodes.count)
    return found.view(usual * found.nodes.size, found.transport.inbox(rows))


@pytest.mark.parametrize("shards", [[[k] for k in range(6)], [[0, 1, 2], [3, 4, 5]], [[5, 0], [1, 4, 3], [2]]])
def test_hosts_that_only_exchange_messages_reach_the_barycenter(shards):
    found = hosts("sinkhorn", shards, tol=1e-7)
    # the certificate at the end takes rounds, which half of the messages lost makes long
    converse(found, 0, 6000, np.random.default_rng(0))
    truth = bm.barycenter(MEASURES, POINTS, reg=0.3, tol=1e-10)
    assert all(one.stopped.all() for one in found)
    for one in found:
        np.testing.assert_allclose(view(one).estimates, np.tile(truth.weights, (one.nodes.count, 1)), atol=1e-6)


def test_a_host_has_rows_for_its_own_nodes_only():
    for method in ("sinkhorn", "a2dwb", "a2dwb_conserving"):
        found = host(method, [2, 4])
        assert {len(array) for array in found.state.saved().values()} == {2}


def test_weights_are_known_to_the_node_alone():
    weights = np.array([0.2, 3.0, 1.0, 0.5, 0.8, 0.5])
    found = hosts("sinkhorn", [[k] for k in range(6)], weights=weights, tol=1e-7)
    converse(found, 0, 1500, np.random.default_rng(1))
    truth = bm.barycenter(MEASURES, POINTS, reg=0.3, weights=weights, tol=1e-10)
    np.testing.assert_allclose(view(found[2]).estimates[0], truth.weights, atol=1e-6)


@pytest.mark.parametrize("method", ["a2dwb", "a2dwb_naive", "a2dwb_conserving", "sinkhorn"])
def test_every_asynchronous_method_runs_and_gets_closer(method):
    found = hosts(method, [[0, 1], [2, 3], [4, 5]], batch="exact")
    rng = np.random.default_rng(2)
    converse(found, 0, 30, rng)
    apart = [np.ptp(np.concatenate([view(one, 10).estimates for one in found]), axis=0).sum()]
    converse(found, 30, 900, rng)
    apart.append(np.ptp(np.concatenate([view(one, 300).estimates for one in found]), axis=0).sum())
    assert apart[1] < apart[0]


@pytest.mark.parametrize("method", ["a2dwb", "a2dwb_conserving", "sinkhorn"])
def test_what_is_kept_is_all_it_needs(method):
    """A host that continues from what it kept, and receives the same, does the same to the last bit."""
    shards = [[0, 1], [2, 3], [4, 5]]
    first = hosts(method, shards, batch="exact")
    converse(first, 0, 40, np.random.default_rng(3))
    again = hosts(method, shards, batch="exact", incarnation=99)
    for old, new in zip(first, again, strict=True):
        # what is packed before a message is sent has the number of that message
        old.transport.sequence -= 1
        NodeMemory(new, new.transport, "a test").unpack(NodeMemory(old, old.transport, "a test").pack())
        old.transport.sequence += 1
        for node, place in old.transport.row.items():
            if old.transport.arrived[place]:
                vector = old.transport.rows[place, : old.algorithm.width]
                new.transport.deliver(Message(node, *old.transport.newest[place].tolist(), vector, NONE))
    for found in (first, again):
        converse(found, 40, 80, np.random.default_rng(4))
    for old, new in zip(first, again, strict=True):
        packed = [NodeMemory(one, one.transport, "a test").pack() for one in (old, new)]
        assert packed[0] == packed[1]
        assert new.incarnation == 7


def test_what_another_run_kept_is_refused():
    one, two = hosts("sinkhorn", [[0, 1], [2]])
    with pytest.raises(FileError, match="another run"):
        NodeMemory(one, one.transport, "a test").unpack(NodeMemory(two, two.transport, "a test").pack())


def test_every_incarnation_counts_from_elsewhere():
    assert host("sinkhorn", [0], incarnation=1).counts[0] != host("sinkhorn", [0], incarnation=2).counts[0]


def test_synchronous_methods_are_refused():
    with pytest.raises(OptionError, match="synchronous"):
        host("dcwb", [0, 1, 2])


def test_messages_are_counted_for_every_link():
    found = host("sinkhorn", [0, 1, 2])
    batch = found.batch(0)
    found.act(batch)
    assert found.traffic.messages == 6
