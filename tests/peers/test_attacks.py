"""Attacks on real processes, by a neighbour with the right key that speaks the protocol: what is impossible is refused
and the sender named, what is possible does no lasting harm, nobody fails, and nobody else is blamed."""

from __future__ import annotations

import os
import signal
import sys
import time

import numpy as np
import pytest
import zmq

import barymesh as bm
from barymesh.core import kernels, tree
from barymesh.io.atomic import write_text
from barymesh.methods.base import LARGEST
from barymesh.methods.orders import Order
from barymesh.network import Network
from barymesh.peers.node import READMIT
from barymesh.peers.states import is_trouble, state_text
from barymesh.transport.handshake import Request
from barymesh.transport.wire import VERSIONS
from tests.peers.cluster import POINTS, Cluster, until
from tests.peers.impostor import Impostor, changed, honest
from tests.soak import resident

# 4 is the liar, next to 0 and 3; the centre of the graph, 1, is not its neighbour
GRAPH = Network(5, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (1, 3)])
LIAR, VICTIMS, HONEST = 4, (0, 3), (0, 1, 2, 3)


class Scene:
    """Four honest processes, and a fifth member that lies."""

    def __init__(self, cluster: Cluster, liar: Impostor) -> None:
        self.cluster, self.liar = cluster, liar

    def link(self, node: int) -> dict:
        return self.cluster.facts(node)["links"]["n4"]

    def refused(self, node: int) -> int:
        return sum(self.link(node)["refused_messages"].values())

    def nobody_fails(self) -> None:
        """All act, and none blames an honest one."""
        before = {node: self.cluster.facts(node)["activations"] for node in HONEST}
        until(lambda: all(self.cluster.facts(node)["activations"] > count for node, count in before.items()), "all act")
        for node in HONEST:
            assert self.cluster.ended(node) is None
            for name, link in self.cluster.facts(node)["links"].items():
                assert name == "n4" or set(link["refused_messages"]) <= {"STALE"}, (node, name)

    def be_honest(self) -> None:
        """The liar stops lying, and is admitted again."""
        self.liar.lie = self.liar.frames = honest
        for node in VICTIMS:
            if self.link(node)["state"] == "cut off":
                write_text(self.cluster.kits[node] / "run" / READMIT, "n4\n")
        until(lambda: all(self.link(node)["state"] == "connected" for node in VICTIMS), "it is admitted again")


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("attacks"), 5, GRAPH, interval=0.02) as cluster:
        cluster.start(*HONEST)
        measure = bm.Empirical(cluster.samples[LIAR][:, None])
        with Impostor(cluster.kit(LIAR), measure) as liar:
            cluster.wait_for_work(*HONEST)
            made = Scene(cluster, liar)
            until(lambda: all(made.link(node)["state"] == "connected" for node in VICTIMS), "it is connected")
            yield made


def edited(columns, value):
    """A lie about the numbers after the header: ``sums`` or ``target``."""

    def lie(message):
        target = slice(message.size - POINTS - len(Order), message.size - len(Order))
        message[slice(tree.HEADER, target.start) if columns == "sums" else target] = value
        if columns == "sums":
            # whoever is the parent
            message[tree.PARENT] = 0.0
        return message

    return lie


IMPOSSIBLE = {
    "distance m": changed(DISTANCE=5.0),
    "weight 1e12": changed(WEIGHT=1e12),
    "another weight than the declared": changed(WEIGHT=1.5, CHILDREN=0.0),
    "an epoch beyond all": changed(EPOCH=2.0**53),
    "another sender": changed(SENDER=1.0),
    "a parent it has no link to": changed(PARENT=1.0),
    "a root that nobody is": changed(ROOT=-2.5),
    "closer to the root than the links allow": changed(ROOT=-5.0, DISTANCE=0.0),
    "sums beyond the weight": edited("sums", -1e12),
    "a target beyond all": edited("target", -1e13),
    "a check beyond all": changed(CHECK=1e300),
    "done before it is": changed(DONE=lambda m: m[tree.STAMP] + 5),
    "not a number": changed(ERROR=np.nan),
}


@pytest.mark.parametrize("what", IMPOSSIBLE)
def test_what_is_impossible_is_refused_and_the_sender_cut_off(scene, what):
    scene.liar.lie = IMPOSSIBLE[what]
    # sums go to one of them only
    until(lambda: any(scene.link(node)["state"] == "cut off" for node in VICTIMS), "it is cut off")
    scene.nobody_fails()
    scene.be_honest()


def far_away(message):
    """As far from the root as a node may be; a node that is its own root has no distance."""
    return 0.0 if message[tree.PARENT] == message[tree.SENDER] else 4.0


POSSIBLE = {
    "distance m - 1": changed(DISTANCE=far_away),
    "an epoch at the end": changed(EPOCH=kernels.LAST_EPOCH),
    "a new epoch in every message": changed(EPOCH=lambda m: float(np.floor(m[tree.EPOCH]) + 1)),
    "checks at the bound": changed(CHECK=2.0**52),
    "a target of another kind": edited("target", np.linspace(-LARGEST, 0, POINTS)),
    "all is done": changed(DONE=lambda m: max(m[tree.STAMP] + 1, 0.0)),
    "it has left": changed(AWAY=1.0),
}


@pytest.mark.parametrize("what", POSSIBLE)
def test_what_is_possible_makes_nobody_fail_and_nobody_else_is_blamed(scene, what):
    before = {node: scene.link(node)["accepted_messages"] for node in VICTIMS}
    scene.liar.lie = POSSIBLE[what]
    until(lambda: all(scene.link(node)["accepted_messages"] > before[node] + 25 for node in VICTIMS), "it is used")
    scene.nobody_fails()
    scene.be_honest()


def proofs(scene, node):
    """The nodes that are named, proof by proof."""
    return [list(one["nodes"]) for one in scene.cluster.facts(node)["doubts"] if one["proof"]]


def test_false_targets_are_found_out_and_the_liar_is_named(scene):
    """Both victims are next to the root, and see what it has made itself."""
    scene.liar.lie = edited("target", np.linspace(-5, 0, POINTS))
    for node in VICTIMS:
        until(lambda node=node: ["n4"] in proofs(scene, node), "the liar alone is named")
        # a target of the liar and one of another neighbour that differ accuse both, until the root's own is known
        assert all("n4" in named for named in proofs(scene, node))
        facts = scene.cluster.facts(node)
        assert "LIES: n4" in state_text(facts)
        assert is_trouble(facts)
        assert any("somebody lies: n4" in line["message"] for line in scene.cluster.logged(node))
    scene.be_honest()


def test_a_victim_that_is_killed_while_it_is_lied_to_starts_again(scene):
    """Its state on disk holds nothing that it could not publish."""
    cluster = scene.cluster
    scene.liar.lie = changed(DISTANCE=far_away, EPOCH=kernels.LAST_EPOCH, CHECK=2.0**52)
    count = scene.link(0)["accepted_messages"]
    until(lambda: scene.link(0)["accepted_messages"] > count + 10, "it is used")
    cluster.send(signal.SIGKILL, 0)
    cluster.start(0)
    cluster.wait_for_work(0)
    until(lambda: scene.link(0)["accepted_messages"] > 10, "it is used again")
    scene.nobody_fails()
    scene.be_honest()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts the bytes of a connection")
def test_a_message_without_an_end_takes_no_memory(scene):
    """160 MB in parts that are each short enough, to the port of a node, from a neighbour with the right key. It
    can be read when the last has come, so libzmq keeps them all until then."""
    cluster, context = scene.cluster, zmq.Context()
    context.linger = 0
    victim, liar = cluster.kit(3), cluster.kit(LIAR)
    process = cluster.processes[3].pid
    most = before = resident(process)
    try:
        socket = context.socket(zmq.DEALER)
        socket.curve_serverkey = victim.keys.public.encode()
        socket.curve_secretkey, socket.curve_publickey = liar.keys.secret.encode(), liar.keys.public.encode()
        socket.connect(cluster.endpoints[3])
        socket.send(Request(VERSIONS, LIAR, bytes(16), None, victim.network.fingerprint).encode())
        socket.send_multipart([bytes(400)] * 400_000, copy=False)
        deadline = time.monotonic() + 60
        while not any("without an end" in line["message"] for line in cluster.logged(3)):
            assert time.monotonic() < deadline
            most = max(most, resident(process))
            time.sleep(0.01)
    finally:
        context.destroy(linger=0)
    assert most - before < 60
    scene.nobody_fails()


def test_noise_and_frames_in_the_name_of_others(scene):
    scene.liar.frames = lambda frame: frame[:24] + (1).to_bytes(4, "little") + frame[28:]
    until(lambda: all(scene.link(node)["state"] == "cut off" for node in VICTIMS), "it is cut off")
    assert all("SENDER" in scene.link(node)["refused_messages"] for node in VICTIMS)
    scene.be_honest()
    scene.liar.frames = lambda frame: os.urandom(len(frame))
    until(lambda: all(scene.link(node)["state"] == "cut off" for node in VICTIMS), "it is cut off")
    scene.nobody_fails()
    scene.be_honest()


def test_at_the_end_all_are_certified(scene):
    """It is honest again, and its measure counts."""
    cluster, truth = scene.cluster, scene.cluster.truth()
    until(
        lambda: all(
            facts.get("stopped") and (facts.get("tv_bound") or 1.0) <= 0.01 for facts in map(cluster.facts, HONEST)
        ),
        "all are certified",
    )
    assert max(cluster.distance(node, truth) for node in HONEST) <= 0.01
    cluster.finish(*HONEST)
