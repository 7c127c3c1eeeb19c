"""Neighbours with real sockets get one another's messages, in spite of failures, and leave nothing behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from contextlib import AsyncExitStack

import numpy as np
import pytest
import zmq
import zmq.asyncio

from barymesh.errors import OptionError
from barymesh.transport import sockets as links
from barymesh.transport.admission import Tolerance
from barymesh.transport.sockets import Links, Publication
from barymesh.transport.subscriber import LinkState, Neighbour
from barymesh.transport.timing import Timing
from barymesh.transport.wire import MessageFormat
from tests.transport.real_links import (
    ANYWHERE,
    FORMAT,
    PATIENCE,
    PRIVATE,
    QUICK,
    WIDTH,
    Peer,
    mesh,
    raw,
    receive,
    run,
    send_until_cut_off,
    state,
    until,
)


def test_two_peers_get_each_others_messages():
    a, b = Peer(0), Peer(1)

    async def work():
        async with mesh(a, b) as (at_a, at_b):
            at_a.publish(0, 0, 1, [1, 2, 3, 4])
            at_b.publish(1, 0, 1, [5, 6, 7, 8])
            np.testing.assert_array_equal((await receive(at_b, 0, (0, 1))).vector(), [1, 2, 3, 4])
            np.testing.assert_array_equal((await receive(at_a, 1, (0, 1))).vector(), [5, 6, 7, 8])
            status = at_a.status()[b.name]
            assert (status.state, status.refused_messages, status.accepted_messages) == (LinkState.CONNECTED, {}, 1)
            assert status.received_messages >= 1
            assert status.received_bytes == status.received_messages * at_b.sent_bytes / at_b.sent_messages

    run(work())


def test_three_peers_get_one_anothers_messages():
    peers = [Peer(0), Peer(1), Peer(2)]

    async def work():
        async with mesh(*peers) as running:
            for peer, own in zip(peers, running, strict=True):
                own.publish(peer.node, 0, 1, np.full(WIDTH, peer.node))
            for peer, own in zip(peers, running, strict=True):
                found = {}
                while len(found) < 2:
                    await own.arrival()
                    found |= own.newest()
                assert {node: message.vector()[0] for node, message in found.items()} == {
                    other.node: other.node for other in peers if other is not peer
                }

    run(work())


def test_a_message_is_delivered_once():
    a, b = Peer(0), Peer(1)

    async def work():
        async with mesh(a, b) as (at_a, at_b):
            at_a.publish(0, 0, 5, np.zeros(WIDTH))
            await receive(at_b, 0, (0, 5))
            await until(lambda: at_b.status()[a.name].duplicate_messages >= 2)
            assert at_b.newest() == {}

    run(work())


def test_a_neighbour_that_connects_late_gets_the_newest():
    a, b = Peer(0), Peer(1)

    async def work():
        async with a.links() as at_a, b.links() as at_b:
            at_a.add(b.at(at_b.endpoint))
            for sequence in range(10):
                at_a.publish(0, 0, sequence, np.full(WIDTH, sequence))
            at_b.add(a.at(at_a.endpoint))
            assert (await receive(at_b, 0, (0, 9))).vector()[0] == 9

    run(work())


def test_messages_of_several_nodes_travel_together_and_count_one_by_one():
    a, b = Peer(0), Peer(1)
    nodes = (0, 7, 8)
    wide = MessageFormat("run", np.full(3000, -1e9), np.full(3000, 1e9))

    async def work():
        async with (
            Links(nodes, ANYWHERE, [], wide, curve=a.keys, timing=QUICK) as at_a,
            b.links(message_format=wide) as at_b,
        ):
            at_a.add(b.at(at_b.endpoint))
            at_b.add(Neighbour(a.name, at_a.endpoint, nodes, a.keys.public))
            await state(at_b, a, LinkState.CONNECTED)
            # 24 kB each: two fit into a packet
            at_a.publish_all([Publication(node, np.full(3000, float(node)), None) for node in nodes], 0, 1)
            found = {}
            while len(found) < 3:
                await at_b.arrival()
                found |= at_b.newest()
            assert {node: set(message.vector()) for node, message in found.items()} == {0: {0}, 7: {7}, 8: {8}}
            status = at_b.status()[a.name]
            assert (status.accepted_messages, status.refused_messages) == (3, {})
            assert status.received_bytes == status.received_messages * at_a.sent_bytes / 3

    run(work())


def test_of_a_burst_the_newest_of_each_node_arrives():
    a, b = Peer(0), Peer(1)
    nodes = (0, 7, 8)

    async def work():
        async with Links(nodes, ANYWHERE, [], FORMAT, curve=a.keys, timing=QUICK) as at_a, b.links() as at_b:
            at_a.add(b.at(at_b.endpoint))
            at_b.add(Neighbour(a.name, at_a.endpoint, nodes, a.keys.public))
            await state(at_b, a, LinkState.CONNECTED)
            for sequence in range(10_000):
                at_a.publish(nodes[sequence % 3], 0, sequence, np.full(WIDTH, sequence))
            last = {0: 9999, 7: 9997, 8: 9998}
            found = {}
            while {node: message.sequence for node, message in found.items()} != last:
                await at_b.arrival()
                found |= at_b.newest()
            assert {node: message.vector()[0] for node, message in found.items()} == last
            assert at_b.status()[a.name].refused_messages == {}

    run(work())


def test_a_slow_subscriber_gets_the_newest_after_all(monkeypatch):
    """Its queue holds the oldest messages and newer ones are lost; it is busy for longer than a heartbeat."""
    monkeypatch.setattr(links, "_QUEUE_BYTES", 0)
    a, b = Peer(0), Peer(1)

    async def work():
        async with mesh(a, b) as (at_a, at_b):
            await state(at_b, a, LinkState.CONNECTED)
            # nobody receives while this loop runs, and what is sent is more than all buffers of the way can hold
            for sequence in range(100_000):
                at_a.publish(0, 0, sequence, np.full(WIDTH, sequence))
            assert (await receive(at_b, 0, (0, 99_999))).vector()[0] == 99_999
            assert at_b.status()[a.name].received_messages < 100_000
            assert at_b.status()[a.name].refused_messages == {}

    run(work())


CHILD = """
import asyncio, json, sys
import numpy as np
from barymesh.transport.keys import KeyPair
from barymesh.transport.subscriber import Neighbour
from barymesh.transport.sockets import Links
from barymesh.transport.timing import Timing
from barymesh.transport.wire import MessageFormat

given = json.loads(sys.stdin.readline())

async def main():
    message_format = MessageFormat("run", np.full(4, -1e9), np.full(4, 1e9))
    neighbour = Neighbour(given["name"], given["endpoint"], (given["node"],), given["public"])
    async with Links([0], "tcp://127.0.0.1:0", [neighbour], message_format, curve=KeyPair(*given["keys"]),
                     timing=Timing(**given["timing"])) as own:
        print(own.endpoint, flush=True)
        for sequence in range(10**6):
            own.publish(0, 0, sequence, np.zeros(4))
            await asyncio.sleep(0.02)

asyncio.run(main())
"""


def test_a_stopped_peer_is_lost_and_connected_again_when_it_continues():
    a, b = Peer(0), Peer(1)

    async def work():
        async with b.links() as at_b:
            child = await asyncio.create_subprocess_exec(
                sys.executable, "-c", CHILD, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
            )
            try:
                given = {
                    "name": b.name,
                    "endpoint": at_b.endpoint,
                    "node": b.node,
                    "public": b.keys.public,
                    "keys": [a.keys.public, a.keys.secret],
                    "timing": vars(QUICK),
                }
                child.stdin.write(json.dumps(given).encode() + b"\n")
                at_b.add(a.at((await child.stdout.readline()).decode().strip()))
                await receive(at_b, 0, (0, 1))
                os.kill(child.pid, signal.SIGSTOP)
                await state(at_b, a, LinkState.LOST)
                last = at_b.status()[a.name].accepted_messages
                os.kill(child.pid, signal.SIGCONT)
                await state(at_b, a, LinkState.CONNECTED)
                await until(lambda: at_b.status()[a.name].accepted_messages > last)
            finally:
                child.kill()
                await child.wait()
            await state(at_b, a, LinkState.LOST)

    run(work())


def test_a_peer_that_restarts_at_the_same_endpoint_is_connected_again():
    a, b = Peer(0), Peer(1)

    async def work():
        async with b.links() as at_b:
            endpoint = ANYWHERE
            for incarnation in range(3):
                async with a.links(endpoint, [b.at(at_b.endpoint)]) as at_a:
                    endpoint = at_a.endpoint
                    if incarnation == 0:
                        at_b.add(a.at(endpoint))
                    # in any order
                    life = (5, 2, 9)[incarnation]
                    at_a.publish(0, life, 0, np.zeros(WIDTH))
                    while (await receive(at_b, 0, (0, 0))).mark != (life, 0):
                        pass
                await state(at_b, a, LinkState.LOST)
            assert at_b.status()[a.name].refused_messages == {}

    run(work())


@pytest.mark.parametrize("endpoint", [ANYWHERE, "ipc://{}/{}"])
def test_on_one_machine_links_need_no_keys(endpoint, tmp_path):
    a, b, c = Peer(0), Peer(1), Peer(2)

    async def work():
        async with AsyncExitStack() as stack:
            opened = [
                peer.links(endpoint.format(tmp_path, peer.node), curve=None, message_format=PRIVATE)
                for peer in (a, b, c)
            ]
            at_a, at_b, at_c = [await stack.enter_async_context(one) for one in opened]
            for one in opened:
                for peer, other in zip((a, b, c), opened, strict=True):
                    if one is not other:
                        one.add(Neighbour(peer.name, other.endpoint, (peer.node,), None))
            at_a.publish(0, 0, 1, np.arange(4.0), 1)
            np.testing.assert_array_equal((await receive(at_b, 0, (0, 1))).vector(), [0, 1, 2, 3])
            np.testing.assert_array_equal((await receive(at_c, 0, (0, 1))).vector(), [0, 0, 0, 3])

    run(work())


def test_without_keys_too_a_peer_that_sends_noise_is_cut_off():
    a, b = Peer(0), Peer(1)

    async def work():
        with raw(zmq.DEALER) as socket:
            port = socket.bind_to_random_port("tcp://127.0.0.1")
            neighbour = Neighbour(a.name, f"tcp://127.0.0.1:{port}", (0,), None)
            async with b.links(neighbours=[neighbour], curve=None, tolerance=Tolerance(bad=3)) as at_b:
                await send_until_cut_off(socket, [b"bad"], at_b, a)

    run(work())


@pytest.mark.parametrize(
    "endpoint",
    [
        "tcp://*:5555",
        "tcp://0.0.0.0:5555",
        "tcp://192.0.2.1:5555",
        "tcp://localhost:5555",
        "tcp://hospital.example:5555",
        "tcp://[2001:db8::1]:5555",
    ],
)
def test_without_keys_nothing_leaves_the_machine(endpoint):
    with pytest.raises(OptionError, match=r"Without keys.*key pair"):
        Links([0], endpoint, [], FORMAT, curve=None)
    with pytest.raises(OptionError, match=r"Without keys.*key pair"):
        Links([0], ANYWHERE, [Neighbour("b", endpoint, (1,), None)], FORMAT, curve=None)


def test_nothing_is_left_behind():
    def open_files():
        return len(os.listdir("/proc/self/fd"))

    async def once():
        async with mesh(Peer(0), Peer(1)) as (at_a, at_b):
            at_a.publish(0, 0, 1, np.zeros(WIDTH))
            await receive(at_b, 0, (0, 1))
        await at_a.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    async def work():
        await once()
        before = open_files()
        for _ in range(3):
            await once()
        await until(lambda: open_files() <= before)

    run(work())


def test_closing_while_somebody_is_removed_ends_both():
    a, b = Peer(0), Peer(1)

    async def work():
        async with mesh(a, b) as (at_a, _):
            removing = asyncio.create_task(at_a.remove(b.name))
            await asyncio.sleep(0)
            await at_a.close()
            await asyncio.wait_for(removing, PATIENCE / 2)

    run(work())


def test_an_error_inside_closes_too():
    async def work():
        with pytest.raises(ZeroDivisionError):
            async with mesh(Peer(0), Peer(1)):
                raise ZeroDivisionError
        assert len(asyncio.all_tasks()) == 1

    run(work())


def test_many_attempts_do_not_pile_up_sockets():
    a, b = Peer(0), Peer(1)

    async def work():
        async with b.links(timing=Timing(retry=0.001, retry_limit=0.002)) as at_b:
            at_b.add(a.at("tcp://127.0.0.1:1"))
            await until(lambda: at_b.status()[a.name].note)
            before = len(os.listdir("/proc/self/fd"))
            await asyncio.sleep(0.5)
            assert len(os.listdir("/proc/self/fd")) < before + 30

    run(work())
