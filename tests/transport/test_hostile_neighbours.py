"""A neighbour with the right key that misbehaves is cut off, and harms nobody else."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import AsyncExitStack

import numpy as np
import pytest
import zmq
import zmq.asyncio

from barymesh.transport.admission import Tolerance
from barymesh.transport.subscriber import LinkState
from barymesh.transport.wire import encode
from tests.transport.real_links import (
    QUICK,
    WIDTH,
    Peer,
    client,
    event,
    greet,
    impostor,
    mesh,
    raw,
    receive,
    request,
    run,
    send_until_cut_off,
    state,
    until,
)


@pytest.mark.parametrize(
    ("frames", "reason"),
    [
        ([lambda: os.urandom(50)], "MALFORMED"),
        ([lambda: os.urandom(400)], "TOO_LONG"),
        ([bytes(10**6)], "BROKEN"),
        ([encode("run", 1, 0, 10**9, np.zeros(WIDTH))], "SENDER"),
        ([encode("run", 0, 0, 2, np.full(WIDTH, np.nan))], "NOT_FINITE"),
        ([encode("run", 0, 0, 2, np.full(WIDTH, 1e10))], "OUT_OF_RANGE"),
        ([encode("run", 0, 0, 2, np.zeros(WIDTH - 1))], "WIDTH"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_neighbour_that_keeps_sending_nonsense_is_cut_off(frames, reason):
    a, b = Peer(0), Peer(1)

    async def work():
        with impostor(a) as (socket, endpoint):
            async with b.links(neighbours=[a.at(endpoint)], tolerance=Tolerance(bad=3)) as at_b:
                await state(at_b, a, LinkState.CONNECTED)
                await send_until_cut_off(socket, frames, at_b, a)
                # on a busy machine its own last message may come once more
                assert at_b.status()[a.name].refused_messages[reason] == 3
                assert set(at_b.newest()) <= {0}
                # and it can no longer connect
                with raw(zmq.DEALER, a.keys, b.keys.public) as ear:
                    outcome = asyncio.create_task(event(ear, zmq.Event.HANDSHAKE_FAILED_AUTH))
                    await asyncio.sleep(0)
                    ear.connect(at_b.endpoint)
                    await outcome

    run(work())


@pytest.mark.parametrize(
    ("frames", "reason"),
    [
        ([encode("other", 0, 0, 1, np.zeros(WIDTH))], "RUN"),
        ([encode("other", 0, 0, 1, np.zeros(WIDTH - 1))], "RUN"),
        ([encode("run", 0, 0, 1, np.zeros(WIDTH)).replace(b"bary\3", b"bary\2")], "VERSION"),
        ([encode("run", 0, 0, sequence, np.zeros(WIDTH)) for sequence in (2, 1)], "STALE"),
        ([encode("run", 0, 7, 1, np.zeros(WIDTH))], "STALE"),
    ],
    ids=["run", "run of another width", "version", "older", "incarnation"],
)
def test_what_an_honest_neighbour_may_send_is_ignored_for_as_long_as_it_likes(frames, reason):
    a, b = Peer(0), Peer(1)

    async def work():
        with impostor(a) as (socket, endpoint):
            async with b.links(neighbours=[a.at(endpoint)], tolerance=Tolerance(bad=3)) as at_b:
                await greet(socket)
                for _ in range(30):
                    for frame in frames:
                        await socket.send(frame)
                await until(lambda: at_b.status()[a.name].refused_messages.get(reason, 0) >= 30)
                assert at_b.status()[a.name].state is LinkState.CONNECTED
                await socket.send(encode("run", 0, 0, 9, np.zeros(WIDTH)))
                await receive(at_b, 0, (0, 9))

    run(work())


def test_a_cut_off_ends_and_the_next_is_longer():
    a, b = Peer(0), Peer(1)
    strict = Tolerance(bad=3, pause=0.3)

    async def work():
        with impostor(a) as (socket, endpoint):
            async with b.links(neighbours=[a.at(endpoint)], tolerance=strict) as at_b:
                for count in (1, 2):
                    await send_until_cut_off(socket, [b"bad"], at_b, a)
                    found = at_b.status()[a.name]
                    assert found.cut_offs == count
                    assert found.cut_off_until == pytest.approx(found.since + count * strict.pause)
                    await state(at_b, a, LinkState.CONNECTED)
                    assert at_b.status()[a.name].cut_off_until is None
                while not at_b.newest():
                    while await socket.poll(0):
                        await greet(socket)
                    await socket.send(a.frame())
                    await asyncio.sleep(0.01)
                # and it may connect itself again
                with client(a, b, at_b.endpoint) as ear:
                    await ear.send(request(0))
                    at_b.publish(1, 0, 1, np.zeros(WIDTH))
                    while not await ear.poll(10):
                        at_b.publish(1, 0, 2, np.zeros(WIDTH))

    run(work())


def test_a_cut_off_can_be_ended_by_hand():
    a, b = Peer(0), Peer(1)

    async def work():
        with impostor(a) as (socket, endpoint):
            async with b.links(neighbours=[a.at(endpoint)], tolerance=Tolerance(bad=3)) as at_b:
                assert not at_b.readmit(a.name)
                await send_until_cut_off(socket, [b"bad"], at_b, a)
                assert at_b.readmit(a.name)
                await state(at_b, a, LinkState.CONNECTED)
                # and links that are closed while one is cut off leave nothing behind
                await send_until_cut_off(socket, [b"bad"], at_b, a)
        assert len(asyncio.all_tasks()) == 1

    run(work())


def test_a_good_message_between_bad_ones_is_heard():
    a, b = Peer(0), Peer(1)

    async def work():
        with impostor(a) as (socket, endpoint):
            async with b.links(neighbours=[a.at(endpoint)], tolerance=Tolerance(bad=10**6)) as at_b:
                await greet(socket)
                for _ in range(20):
                    await socket.send(os.urandom(50))
                    await socket.send_multipart([b"more", b"frames"])
                    await socket.send(a.frame(7.0))
                    await asyncio.sleep(0.005)
                assert (await receive(at_b, 0, (0, 20))).vector()[0] == 7

    run(work())


def test_what_came_before_the_end_is_used():
    a, b = Peer(0), Peer(1)

    async def work():
        async with b.links() as at_b:
            with impostor(a) as (socket, endpoint):
                at_b.add(a.at(endpoint))
                await greet(socket)
                while not at_b.newest():
                    await socket.send(a.frame())
                    await asyncio.sleep(0.01)
                # without a pause in which the other could receive, and fewer than the queue of the socket holds
                for _ in range(500):
                    socket.send(a.frame(), zmq.NOBLOCK)
                socket.close(linger=-1)
                await receive(at_b, 0, (0, a.sequence))

    run(work())


def test_a_huge_frame_costs_the_connection_and_not_more():
    a, b = Peer(0), Peer(1)

    async def work():
        with impostor(a) as (socket, endpoint):
            async with b.links(neighbours=[a.at(endpoint)]) as at_b:
                await state(at_b, a, LinkState.CONNECTED)
                while "BROKEN" not in at_b.status()[a.name].refused_messages:
                    await socket.send(bytes(5 * 2**20))
                    await asyncio.sleep(0.02)
                # once it is connected anew
                while not at_b.newest():
                    while await socket.poll(0):
                        await greet(socket)
                    await socket.send(a.frame())
                    await asyncio.sleep(0.01)
                assert at_b.status()[a.name].state is LinkState.CONNECTED

    run(work())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts the bytes of a connection")
def test_a_message_of_many_parts_ends_with_the_connection_before_it_is_complete():
    """Each of its parts is short enough; all together would take as much memory as the sender likes."""
    a, b = Peer(0), Peer(1)
    parts = [bytes(1000)] * 60_000

    async def work():
        with impostor(a) as (socket, endpoint):
            async with b.links(neighbours=[a.at(endpoint)]) as at_b:
                await state(at_b, a, LinkState.CONNECTED)
                await socket.send_multipart(parts, copy=False)
                await until(lambda: at_b.status()[a.name].refused_messages)
                assert at_b.status()[a.name].refused_messages == {"BROKEN": 1}
                assert at_b.status()[a.name].received_messages == 0

    run(work())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts the bytes of a connection")
def test_a_request_of_many_parts_ends_with_the_connection_before_it_is_complete():
    """The same in the other direction; and others are served meanwhile."""
    a, b, c = Peer(0), Peer(1), Peer(2)

    async def work():
        async with a.links(neighbours=[b.at("tcp://127.0.0.1:1"), c.at("tcp://127.0.0.1:2")]) as at_a:
            with client(b, a, at_a.endpoint) as endless, client(c, a, at_a.endpoint) as honest:
                ended = asyncio.create_task(event(endless, zmq.Event.DISCONNECTED))
                await asyncio.sleep(0)
                await endless.send_multipart([bytes(400)] * 60_000, copy=False)
                await honest.send(request(2))
                await ended
                at_a.publish(0, 0, 1, np.zeros(WIDTH))
                await honest.recv()
                # nothing of it was ever read
                assert at_a.status()[b.name].refused_messages == {}

    run(work())


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        ([b"\x01topic"], "MALFORMED"),
        ([b""], "MALFORMED"),
        ([b"x" * 300], "MALFORMED"),
        ([request(1), request(1)], "BROKEN"),
        ([os.urandom(5)], "MALFORMED"),
    ],
    ids=["subscription", "nothing", "much", "many parts", "noise"],
)
def test_a_neighbour_that_sends_to_a_publisher_is_cut_off(sent, reason):
    a, b = Peer(0), Peer(1)

    async def work():
        async with a.links(neighbours=[b.at("tcp://127.0.0.1:1")]) as at_a:
            with client(b, a, at_a.endpoint) as socket:
                for _ in range(100):
                    await socket.send_multipart(sent)
                at_a.publish(0, 0, 1, np.zeros(WIDTH))
                await state(at_a, b, LinkState.CUT_OFF)
                assert at_a.status()[b.name].refused_messages == {reason: Tolerance().bad}

    run(work())


def test_one_request_for_each_connection_is_enough():
    a, b = Peer(0), Peer(1)

    async def work():
        async with a.links(neighbours=[b.at("tcp://127.0.0.1:1")]) as at_a:
            with client(b, a, at_a.endpoint) as socket:
                for _ in range(3):
                    await socket.send(request(1))
                at_a.publish(0, 0, 1, np.zeros(WIDTH))
                await socket.recv()
                await until(lambda: at_a.status()[b.name].refused_messages == {"BROKEN": 2})
            # what it has sent is not counted again when it has left
            repeated = at_a.repeated_messages
            at_a.publish(0, 0, 2, np.zeros(WIDTH))
            await asyncio.sleep(10 * QUICK.repeat)
            assert at_a.status()[b.name].refused_messages == {"BROKEN": 2}
            assert at_a.repeated_messages <= repeated + 10

    run(work())


def test_many_connections_of_one_neighbour_cost_no_more_than_four():
    a, b = Peer(0), Peer(1)

    async def work():
        async with a.links(neighbours=[b.at("tcp://127.0.0.1:1")]) as at_a, AsyncExitStack() as stack:
            sockets = [stack.enter_context(client(b, a, at_a.endpoint)) for _ in range(12)]
            for socket in sockets:
                await socket.send(request(1))
                # a first message shows that it has been asked for
                while not await socket.poll(10):
                    at_a.publish(0, 0, 1, np.zeros(WIDTH))
            before = at_a.sent_messages + at_a.repeated_messages
            at_a.publish(0, 0, 2, np.zeros(WIDTH))
            assert at_a.sent_messages + at_a.repeated_messages == before + 4

    run(work())


def test_others_go_on_when_one_is_cut_off():
    a, b, c = Peer(0), Peer(1), Peer(2)

    async def work():
        with impostor(a) as (socket, endpoint):
            async with mesh(b, c, tolerance=Tolerance(bad=3)) as (at_b, at_c):
                at_b.add(a.at(endpoint))
                await send_until_cut_off(socket, [b"bad"], at_b, a)
                at_b.publish(1, 0, 1, np.zeros(WIDTH))
                at_c.publish(2, 0, 1, np.zeros(WIDTH))
                await receive(at_c, 1, (0, 1))
                await receive(at_b, 2, (0, 1))

    run(work())
