"""A neighbour that lies does not stop the honest ones, and what it can make of them is bounded."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barymesh.core import kernels, tree
from barymesh.errors import NumericalError
from barymesh.methods.base import LARGEST
from barymesh.methods.orders import Order
from barymesh.network import Network, as_network
from tests.decentralized.liars import POINTS, Society, exaggerating
from tests.frames import Victim, attack

# 4 is the liar, next to 0 and 3; the centre of the cycle with a chord, 1, is not its neighbour
GRAPH = Network(5, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (1, 3)])
LIAR, STEPS = 4, 220


@given(st.integers(0, 10**6), st.integers(0, 10**6))
@settings(max_examples=15, deadline=None)
def test_whatever_is_admitted_leads_to_messages_that_are_admissible(seed, number):
    """Any admitted input, any state, one activation after the other: see tests/frames.py."""
    found = attack(seed, number, frames=40)
    assert found["frames"] >= 40


def test_the_attack_looks_at_every_message():
    """Also at those that are sent."""
    victim = next(one for one in (Victim(0, number) for number in range(50)) if one.method == "sinkhorn")
    activate = victim.runtime.host.activate

    def wrong(batch):
        outgoing = activate(batch)
        assert outgoing.links is None
        outgoing.messages[:, tree.DISTANCE] = victim.graph.size
        return outgoing

    victim.act()
    victim.runtime.host.activate = wrong
    with pytest.raises(NumericalError, match="out of range"):
        victim.act()


def changed(**fields):
    """A lie about some fields of the header; a function is called with the header."""

    def lie(sender, message, receiver, step):
        for name, value in fields.items():
            message[getattr(tree, name)] = value(message) if callable(value) else value
        return message

    return lie


def edited(columns, value):
    """A lie about the numbers after the header: ``sums`` or ``target``, as a factor or a number."""

    def lie(sender, message, receiver, step):
        target = slice(message.size - POINTS.size - len(Order), message.size - len(Order))
        message[slice(tree.HEADER, target.start) if columns == "sums" else target] = value
        return message

    return lie


REFUSED = {
    "distance m": changed(DISTANCE=5.0),
    "weight 1e12": changed(WEIGHT=1e12),
    "an epoch beyond all": changed(EPOCH=2.0**53),
    "another sender": changed(SENDER=1.0),
    "a parent it has no link to": changed(PARENT=1.0),
    "a root that nobody is": changed(ROOT=-2.5),
    "closer to the root than the links allow": changed(
        ROOT=-5.0, DISTANCE=0.0, PARENT=lambda m: LIAR if m[tree.PARENT] == LIAR else m[tree.PARENT]
    ),
    "sums beyond the weight": edited("sums", 1e15),
    "a target beyond all": edited("target", -1e13),
    "a check beyond all": changed(CHECK=1e300),
    "another weight than the declared": changed(WEIGHT=1.5, CHILDREN=0.0),
    "done before it is": changed(DONE=lambda m: m[tree.STAMP] + 5),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_impossible_is_refused_and_the_sender_named(what):
    society = Society(GRAPH, LIAR, REFUSED[what]).run(30)
    refused = [society.refused(node, LIAR) for node in (0, 3)]
    assert all(set(found) <= {"OUT_OF_RANGE", "CONTRADICTION"} for found in refused)
    # sums go to one of them only
    assert max(sum(found.values()) for found in refused) >= 20
    # and nobody else is blamed
    for node in society.honest_nodes:
        for other in GRAPH.neighbours_of(node):
            assert other == LIAR or not society.refused(node, other)


ADMITTED = {
    "distance m - 1": changed(DISTANCE=4.0),
    "an epoch at the end": changed(EPOCH=kernels.LAST_EPOCH),
    "a new epoch in every message": changed(EPOCH=lambda m: float(np.floor(m[tree.EPOCH]) + 1)),
    "checks at the bound": changed(CHECK=2.0**52),
    "a target of another kind": edited("target", np.linspace(-LARGEST, 0, POINTS.size)),
    "it has left": changed(AWAY=1.0),
}


@pytest.mark.parametrize(
    ("what", "method"),
    [*((what, "sinkhorn") for what in ADMITTED), ("an epoch at the end", "rounds"), ("distance m - 1", "rounds")],
)
def test_the_honest_reach_a_barycenter_though_one_lies(what, method):
    """Theirs alone, or with the liar's measure, as it was honest about that; nobody fails, nobody else is blamed."""
    society = Society(GRAPH, LIAR, ADMITTED[what], method=method)
    for peer in society.peers:
        # the epochs that may be begun at once are used up soon
        peer.host.state.allowance[:] = 2.0
    society.run(STEPS)
    for node in society.honest_nodes:
        for other in GRAPH.neighbours_of(node):
            assert other == LIAR or not society.refused(node, other)
        distances = [society.distance(node, society.truth()), society.distance(node, society.truth([0, 1, 2, 3]))]
        assert min(distances) <= 0.02, distances


@pytest.mark.parametrize("fresh", [False, True])
def test_epochs_advance_at_a_bounded_rate(fresh):
    """However large the epochs that a neighbour claims, and however often; also if all nodes begin without memory."""
    society = Society(GRAPH, LIAR, changed(EPOCH=lambda m: kernels.LAST_EPOCH))
    if fresh:
        for peer in society.peers:
            peer.host.begin(2)
    society.run(300)
    epochs = [float(society.peers[node].host.state.epoch[0]) for node in society.honest_nodes]
    # some at once at the beginning, then one in 200 activations
    begun = 64 + 2 * 5 + 300 / 200 + 2
    assert max(epochs) <= begun * kernels.STRIDE
    # at this rate it takes centuries, also for nodes that act a thousand times a second
    assert kernels.LAST_EPOCH / (kernels.STRIDE / 200 * 1000) > 100 * 365 * 86400


def test_a_node_without_memory_believes_most_of_its_neighbours():
    society = Society(GRAPH, LIAR, changed(EPOCH=kernels.LAST_EPOCH)).run(20)
    node = society.peers[3].host
    node.algorithm.reset(node.state, 0)
    society.run(20)
    assert node.state.epoch[0] < 1e5


@pytest.mark.parametrize("method", ["sinkhorn", "rounds"])
def test_a_node_does_not_stop_because_it_is_told_to(method):
    """The parent says that all is done from the beginning."""
    graph = as_network("star", 3)
    root = int(graph.by_centrality[0])
    told = changed(DONE=lambda m: max(m[tree.STAMP] + 1, 0.0))
    society = Society(graph, root, told, method=method)
    children = [k for k in range(3) if k != root]
    for _ in range(8):
        society.step()
        for node in children:
            host = society.peers[node].host
            if host.state.done[0] > 0 and host.stopped[0]:
                assert host.state.own.error[0] <= host.algorithm.tol or host.state.rounds[0] > 0
    if method == "rounds":
        # no certificate was ever asked for
        assert not any(society.peers[node].host.stopped[0] for node in children)


def test_a_target_is_taken_from_the_parent_only():
    """A neighbour with a target that looks newer is no reason to follow it."""

    def lie(sender, message, receiver, step):
        message[-POINTS.size - len(Order) : -len(Order)] = np.linspace(-50, 0, POINTS.size)
        message[tree.STAMP] = message[tree.OLDEST] = 2.0**50
        return message

    society = Society(GRAPH, LIAR, lie).run(STEPS)
    below = [k for k in society.honest_nodes if society.peers[k].host.state.parent[0] == LIAR]
    assert not below
    for node in society.honest_nodes:
        truths = [society.truth(), society.truth([0, 1, 2, 3])]
        assert min(society.distance(node, truth) for truth in truths) <= 0.02


def test_children_that_report_more_than_there_is_are_left_out():
    """The root keeps its target, and answers again when they are honest again."""
    graph = as_network("star", 4)
    root = int(graph.by_centrality[0])
    liar = (root + 1) % 4

    def lie(sender, message, receiver, step):
        if 40 < step < 80:
            factor = 4.0 / message[tree.WEIGHT]
            message[tree.WEIGHT], message[tree.CHILDREN] = 4.0, 1.0
            message[tree.HEADER : tree.HEADER + 2 * POINTS.size] *= factor
        return message

    society = Society(graph, liar, lie).run(42)
    before = society.peers[root].host.state.stamp[0]
    society.run(30)
    assert society.peers[root].host.state.stamp[0] == before
    society.run(200)
    assert all(society.distance(node, society.truth()) <= 1e-5 for node in range(4))


def test_with_masks_a_node_cannot_claim_another_weight_than_the_declared():
    """Nobody can read what it claims; but the root knows what all of them weigh together."""
    graph = as_network("star", 5)
    measures = Society(graph).measures
    honest, liar = exaggerating(graph, 4, measures, 1.0), exaggerating(graph, 4, measures, 5.0, weight=5.0)
    for society in (honest, liar):
        society.run(STEPS)
    root = int(graph.by_centrality[0])
    assert all(peer.host.stopped.all() for peer in honest.peers)
    assert honest.distance(0, honest.truth()) <= 0.01
    assert honest.peers[root].host.state.void[0] == 0
    assert liar.peers[root].host.state.void[0] > 0
    assert not any(peer.host.stopped.any() for peer in liar.peers)
