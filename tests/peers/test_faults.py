"""Faults in networks of real processes. Afterwards no node has crashed, nothing is lost, no unknown key was admitted,
and all nodes are within TV 0.01 of the true barycenter."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest
import zmq

from barymesh.core import tree
from barymesh.methods.orders import Order
from barymesh.transport.handshake import Reply, Request
from barymesh.transport.keys import KeyPair
from barymesh.transport.wire import VERSION, VERSIONS, encode
from tests.peers import internet
from tests.peers.cluster import PATIENCE, Cluster, until


def test_a_third_is_killed_again_and_again(tmp_path):
    """At random moments, two of six at a time, without a chance to save anything."""
    chance = random.Random(1)
    with Cluster(tmp_path, 6, "erdos_renyi", interval=0.1) as cluster:
        cluster.start()
        cluster.wait_for_work()
        before = [0] * 6
        for _ in range(3):
            time.sleep(chance.uniform(0, 0.3))
            victims = chance.sample(range(6), 2)
            for node in victims:
                before[node] = cluster.facts(node)["activations"]
            cluster.send(signal.SIGKILL, *victims)
            time.sleep(chance.uniform(0, 0.3))
            cluster.start(*victims)
            cluster.wait_for_work(*victims)
            for node in victims:
                facts = cluster.facts(node)
                assert facts["activations"] >= before[node]
        cluster.wait_for_accuracy(cluster.truth())
        # no node sent two different messages with one number
        assert all(link["refused_messages"] == {} for k in range(6) for link in cluster.facts(k)["links"].values())
        cluster.finish()


# in this process the wall clock is ten minutes slow
SLOW = """
import time
true = time.time
time.time = lambda: true() - 600.0
from barymesh.cli.app import app
app()
"""


def test_a_node_that_stands_still_for_ten_seconds_and_one_without_its_disk(tmp_path):
    """The others lose one, do not wait for it, and connect to it again; another comes back without its state, and with
    a clock that is slow: it is taken in again all the same."""
    with Cluster(tmp_path, 4, "path", interval=0.1) as cluster:
        cluster.start()
        cluster.wait_for_work()
        cluster.send(signal.SIGSTOP, 1)
        stopped = cluster.facts(0)["activations"]
        cluster.send(signal.SIGKILL, 3)
        shutil.rmtree(cluster.kits[3] / "run")
        time.sleep(10)
        assert cluster.facts(0)["activations"] > stopped + 20
        assert cluster.facts(0)["links"]["n1"]["state"] != "connected"
        cluster.send(signal.SIGCONT, 1)
        accepted = cluster.facts(2)["links"]["n3"]["accepted_messages"]
        cluster.start(3, main=("-c", SLOW))
        until(lambda: cluster.facts(2)["links"]["n3"]["accepted_messages"] > accepted + 10, "it is taken in")
        assert cluster.facts(2)["links"]["n3"]["cut_offs"] == 0
        cluster.wait_for_accuracy(cluster.truth())
        until(lambda: cluster.facts(0)["links"]["n1"]["state"] == "connected", "it is connected again")
        cluster.finish()


def hostile_frames(run, width, node, neighbour):
    """One frame of each kind that no node may use, by the reason for which it is refused."""
    good = np.zeros(width)
    return {
        "MALFORMED": os.urandom(60),
        "NOT_FINITE": encode(run, node, 1, 5, np.full(width, np.nan)),
        "WIDTH": encode(run, node, 1, 6, np.zeros(width - 1)),
        "SENDER": encode(run, neighbour, 10**9, 10**9, good),
        "RUN": encode("another", node, 1, 7, good),
        "TOO_LONG": bytes(9 * width + 200),
    }


def test_a_neighbour_that_turns_hostile(tmp_path):
    """It has the right key and is expected. It sends noise, NaN, wrong lengths, a forged sender and huge frames; it
    never reads. Then others without an admitted key connect. The honest nodes find their barycenter, and report it."""
    with Cluster(tmp_path, 4, "complete", interval=0.1) as cluster:
        bad, run = cluster.kit(3), cluster.network.fingerprint
        honest = (0, 1, 2)
        context = zmq.Context()
        # nothing is waited for that the nodes do not take
        context.linger = 0
        try:
            speaker = impostor(context, bad, cluster.endpoints[3])
            cluster.start(*honest)
            cluster.wait_for_work(*honest)
            # it asks for messages and never reads them: the others must not wait, nor keep them all
            listener = context.socket(zmq.DEALER)
            listener.rcvhwm = 1
            connect(listener, bad.keys, cluster.network.nodes[0].public_key, cluster.endpoints[0], run)
            width = tree.HEADER + 20  # header and target
            frames = hostile_frames(run, width, 3, 1)
            deadline = time.monotonic() + 60
            while not all(cluster.facts(k)["links"]["n3"]["state"] == "cut off" for k in honest):
                assert time.monotonic() < deadline, cluster.facts(0)["links"]["n3"]
                for frame in [*frames.values(), bytes(2**24)]:
                    send_to_all(speaker, frame)
                time.sleep(0.2)
            # one without a key, one with an unknown key
            for keys in (None, KeyPair.create()):
                with context.socket(zmq.DEALER) as unknown:
                    connect(unknown, keys, cluster.network.nodes[0].public_key, cluster.endpoints[0], run)
                    assert not unknown.poll(1500)
            cluster.wait_for_accuracy(cluster.truth(honest), honest)
            facts = cluster.facts(0)
            assert facts["refused_connections"] >= 1
            assert set(facts["links"]["n3"]["refused_messages"]) & set(frames)
            assert all(facts["links"][f"n{k}"]["refused_messages"] == {} for k in (1, 2))
            assert any(line["level"] == "error" and line.get("peer") == "n3" for line in cluster.logged(0))
            cluster.finish(*honest)
        finally:
            context.destroy(linger=0)
        everything = "".join(cluster.log(k).read_text() for k in honest)
        assert all(cluster.kit(k).keys.secret not in everything for k in range(4))


def impostor(context, kit, endpoint):
    """A publisher in the place of the node, with its key."""
    speaker = context.socket(zmq.ROUTER)
    speaker.curve_server = True
    speaker.curve_secretkey, speaker.curve_publickey = kit.keys.secret.encode(), kit.keys.public.encode()
    speaker.bind(endpoint)
    return speaker


def send_to_all(speaker, frame, incarnation=1):
    """Send the frame over every connection that has asked for messages, after an answer."""
    while speaker.poll(0):
        routing_id, frames = speaker.recv_multipart()
        asked = Request.decode(frames)
        answer = Reply(VERSION, VERSIONS, asked.challenge, incarnation, asked.run)
        speaker.send_multipart([routing_id, answer.encode()])
        CONNECTIONS.setdefault(speaker, []).append(routing_id)
    for routing_id in CONNECTIONS.get(speaker, ()):
        speaker.send_multipart([routing_id, frame])


CONNECTIONS = {}


def connect(socket, keys, server, endpoint, run):
    """Connect as a neighbour does, and ask for messages."""
    if keys is not None:
        socket.curve_serverkey = server.encode()
        socket.curve_secretkey, socket.curve_publickey = keys.secret.encode(), keys.public.encode()
    socket.connect(endpoint)
    socket.send(Request(VERSIONS, 3, bytes(16), None, run).encode())


def test_an_old_message_is_refused_after_a_restart_too(tmp_path):
    """A neighbour sends an old message again, while the other was down: it must not be taken for new."""
    with Cluster(tmp_path, 2, "complete", interval=0.1) as cluster:
        cluster.start()
        cluster.wait_for_work(activations=20)
        incarnation = cluster.facts(1)["incarnation"]
        cluster.send(signal.SIGKILL, 0, 1)
        kit = cluster.kit(1)
        context = zmq.Context()
        # nothing is waited for that the nodes do not take
        context.linger = 0
        try:
            speaker = impostor(context, kit, cluster.endpoints[1])
            cluster.start(0)
            cluster.wait_for_work(0)
            # the incarnation that it had, and an early number; header and target, without the sums
            old = encode(cluster.network.fingerprint, 1, incarnation, 3, np.zeros(tree.HEADER + 20 + len(Order)))

            def refused():
                send_to_all(speaker, old, incarnation)
                return cluster.facts(0)["links"]["n1"]["refused_messages"].get("STALE", 0) > 0

            until(refused, "the old message is refused")
        finally:
            context.destroy(linger=0)
        cluster.start(1)
        cluster.wait_for_work(1, activations=21)
        cluster.wait_for_accuracy(cluster.truth())
        cluster.finish()


# in this process time.time is off by an hour, forwards or back, and changes with every SIGUSR1
JUMPING = """
import signal, time
true, ahead = time.time, [0.0]
def jump(*_):
    ahead[0] = -3600.0 if ahead[0] > 0 else 3600.0
signal.signal(signal.SIGUSR1, jump)
time.time = lambda: true() + ahead[0]
from barymesh.cli.app import app
app()
"""


# a2dwb_conserving stays within 0.02 of the truth, with clocks that do not jump as well
@pytest.mark.parametrize(("method", "tv"), [("sinkhorn", 0.01), ("a2dwb_conserving", 0.05)])
def test_clocks_that_jump(tmp_path, method, tv):
    with Cluster(tmp_path, 3, "complete", method, interval=0.02) as cluster:
        cluster.start(0, 1, 2, main=("-c", JUMPING))
        cluster.wait_for_work()
        for node in (0, 1, 0, 2):
            cluster.send(signal.SIGUSR1, node)
            time.sleep(0.5)
        cluster.wait_for_accuracy(cluster.truth(), tv=tv)
        cluster.finish()


def mounted(folder):
    """A disk of a quarter megabyte; False if one cannot be had."""
    folder.mkdir(parents=True)
    try:
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(folder)], capture_output=True)
    except FileNotFoundError:
        return False
    return made.returncode == 0


def fill(path):
    """Take all the space there is."""
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


def test_a_disk_that_fills_up(tmp_path):
    """The state of a node has its space from the start; the result is written again as soon as there is space."""
    with Cluster(tmp_path, 3, "complete") as cluster:
        disk = cluster.kits[0] / "run"
        if not mounted(disk):
            pytest.skip("a small disk cannot be mounted here: that needs root")
        try:
            cluster.start()
            cluster.wait_for_work()
            filler = disk / "filler"
            fill(filler)
            written = (disk / "result.npz").stat().st_mtime
            until(lambda: any("could not be written" in line["message"] for line in cluster.logged(0)), "it is logged")
            count = cluster.facts(0)["activations"]
            until(lambda: cluster.facts(0)["activations"] > count + 10, "it keeps working")
            # killed now, it continues from its state all the same
            cluster.send(signal.SIGKILL, 0)
            cluster.start(0)
            cluster.wait_for_work(0, activations=count)
            filler.unlink()
            until(lambda: (disk / "result.npz").stat().st_mtime > written, "the result is written again")
            cluster.wait_for_accuracy(cluster.truth())
            cluster.finish()
        finally:
            for process in cluster.processes.values():
                process.kill()
                process.wait()
            subprocess.run(["umount", str(disk)], check=True)


def test_packets_lost_and_late(tmp_path):
    """Separate hosts: 30% of the packets between them are lost, and the others take 200 ms."""
    if why := internet.missing():
        pytest.skip(why)
    with internet.Internet(4, loss=0.3, latency=0.2) as between:
        endpoints = [f"tcp://{address}:5555" for address in between.addresses]
        with Cluster(tmp_path, 4, interval=0.2, endpoints=endpoints, prefixes=between.prefixes) as cluster:
            cluster.start()
            # a connection is opened in six packets, each of which may be lost again and again
            cluster.wait_for_accuracy(cluster.truth(), patience=3 * PATIENCE)
            assert 0.25 < between.lost / (between.lost + between.carried) < 0.35
            cluster.finish()
