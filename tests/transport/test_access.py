"""Only neighbours with the right key can connect, and each gets only what is meant for it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools

import numpy as np
import pytest
import zmq
import zmq.asyncio
from zmq.utils import z85

from barymesh.transport.admission import Tolerance
from barymesh.transport.authentication import AdmittedKeys, PeerAuthenticator
from barymesh.transport.handshake import is_handshake
from barymesh.transport.keys import KeyPair
from barymesh.transport.sockets import Links
from barymesh.transport.subscriber import LinkState, Neighbour
from barymesh.transport.wire import frame_bytes
from tests.transport.real_links import (
    ANYWHERE,
    FAILED,
    GREETING,
    PATIENCE,
    PRIVATE,
    QUICK,
    WIDTH,
    Peer,
    client,
    event,
    mesh,
    raw,
    receive,
    request,
    run,
    state,
    until,
)  # fmt: skip


def test_an_unknown_key_and_no_key_get_nothing():
    a, b, other = Peer(0), Peer(1), KeyPair.create()

    async def work():
        async with mesh(a, b) as (at_a, at_b):
            with (
                raw(zmq.DEALER, other, a.keys.public) as unknown,
                raw(zmq.DEALER) as keyless,
                raw(zmq.DEALER, b.keys, other.public) as misled,
            ):
                outcomes = [asyncio.create_task(event(socket, *FAILED)) for socket in (unknown, keyless, misled)]
                await asyncio.sleep(0)
                for socket in (unknown, keyless, misled):
                    socket.connect(at_a.endpoint)
                    await socket.send(request(1))
                assert (await asyncio.gather(*outcomes))[0] is zmq.Event.HANDSHAKE_FAILED_AUTH
                at_a.publish(0, 0, 1, np.zeros(WIDTH))
                await receive(at_b, 0, (0, 1))
                for socket in (unknown, keyless, misled):
                    assert not await socket.poll(0)
            assert at_a.refused_connections >= 1

    run(work())


def test_a_wrong_client_key_is_refused_until_it_is_admitted():
    a, b = Peer(0), Peer(1)
    other = KeyPair.create()

    async def work():
        async with a.links() as at_a, b.links(curve=other) as at_b:
            at_a.add(b.at(at_b.endpoint))
            at_b.add(a.at(at_a.endpoint))
            at_a.publish(0, 0, 1, np.zeros(WIDTH))
            await state(at_b, a, LinkState.REFUSED)
            assert other.fingerprint in at_b.status()[a.name].note
            # b has not the key either that a expects of it
            await state(at_a, b, LinkState.WRONG_KEY)
            assert b.keys.fingerprint in at_a.status()[b.name].note
            assert at_a.refused_connections >= 1
            assert at_b.status()[a.name].received_messages == 0
            await at_a.remove(b.name)
            at_a.add(b.at(at_b.endpoint, other))
            await receive(at_b, 0, (0, 1))
            await state(at_a, b, LinkState.CONNECTED)

    run(work())


def test_another_server_is_refused_until_the_right_one_appears():
    a, b, c = Peer(0), Peer(1), Peer(2)

    async def work():
        async with b.links() as at_b:
            async with c.links() as at_c:
                endpoint = at_c.endpoint
                at_c.add(b.at(at_b.endpoint))
                at_b.add(a.at(endpoint))
                await state(at_b, a, LinkState.WRONG_KEY)
                assert at_b.status()[a.name].received_messages == 0
            async with a.links(endpoint, [b.at(at_b.endpoint)]) as at_a:
                at_a.publish(0, 0, 1, np.zeros(WIDTH))
                await receive(at_b, 0, (0, 1))

    run(work())


@pytest.mark.parametrize(
    "answer",
    [
        GREETING + b"\x04\x05HELLO",
        b"HTTP/1.1 400 Bad Request\r\n\r\n" * 20,
        b"\xff" + bytes(8) + b"\x7f" + bytes(100),
        b"",
    ],
)
def test_who_speaks_something_else_is_refused(answer):
    a, b = Peer(0), Peer(1)

    async def speak(reader, writer):
        writer.write(answer)
        writer.close()

    async def work():
        async with b.links() as at_b, await asyncio.start_server(speak, "127.0.0.1", 0) as server:
            at_b.add(a.at(f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}"))
            await state(at_b, a, LinkState.WRONG_KEY)

    run(work())


def test_nobody_there_is_never_connected():
    a, b = Peer(0), Peer(1)

    async def work():
        async with b.links(
            neighbours=[
                a.at("tcp://127.0.0.1:1"),
                Peer(5).at("tcp://no-such-host.invalid:5555"),
                Peer(6).at(f"tcp://{'x' * 99}.invalid:5555"),
            ]
        ) as at_b:
            await until(lambda: all(status.note for status in at_b.status().values()))
            assert {status.state for status in at_b.status().values()} == {LinkState.NEVER}

    run(work())


def test_who_is_removed_is_cut_while_connected():
    a, b, c = Peer(0), Peer(1), Peer(2)

    async def work():
        async with mesh(a, b, c) as (at_a, at_b, at_c):
            at_a.publish(0, 0, 1, np.zeros(WIDTH))
            await receive(at_b, 0, (0, 1))
            await receive(at_c, 0, (0, 1))
            await at_a.remove(b.name)
            at_a.publish(0, 0, 2, np.zeros(WIDTH))
            await receive(at_c, 0, (0, 2))
            await state(at_b, a, LinkState.REFUSED)
            assert at_b.newest() == {}
            assert b.name not in at_a.status()

    run(work())


def test_while_the_authenticator_does_not_answer_nobody_can_connect(monkeypatch):
    a, b = Peer(0), Peer(1)
    answer = PeerAuthenticator.handle_zap_message

    async def work():
        awake = asyncio.Event()

        async def sleepy(self, msg):
            await awake.wait()
            await answer(self, msg)

        async with b.links() as at_b:
            monkeypatch.setattr(PeerAuthenticator, "handle_zap_message", sleepy)
            async with a.links(neighbours=[b.at(at_b.endpoint)]) as at_a:
                at_b.add(a.at(at_a.endpoint))
                # the connection stands, the handshake does not end
                await until(lambda: "does not answer" in at_b.status()[a.name].note)
                assert at_b.status()[a.name].state is LinkState.NEVER
                awake.set()
                await state(at_b, a, LinkState.CONNECTED)

    run(work())


def test_noise_at_the_port_harms_nobody(rng):
    a, b = Peer(0), Peer(1)

    async def work():
        async with mesh(a, b) as (at_a, at_b):
            port = int(at_a.endpoint.rpartition(":")[2])
            for attempt in range(100):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                with contextlib.suppress(OSError):
                    writer.write((GREETING if attempt % 2 else b"") + rng.bytes(rng.integers(1, 2000)))
                    writer.write_eof()
                    # some wait for an answer, and some do not
                    if attempt % 3:
                        await asyncio.wait_for(reader.read(), PATIENCE / 2)
                writer.close()
            at_a.publish(0, 0, 1, np.zeros(WIDTH))
            await receive(at_b, 0, (0, 1))
            assert at_a.status()[b.name].state is LinkState.CONNECTED

    run(work())


def test_keys_are_admitted_and_dismissed_at_run_time(caplog):
    """Asked as libzmq asks, request by request."""
    pair = KeyPair.create()
    key = z85.decode(pair.public)

    def request(mechanism=b"CURVE", credentials=(key,), version=b"1.0", domain=b"barymesh"):
        return [version, b"1", domain, b"127.0.0.1\n", b"", mechanism, *credentials]

    async def work():
        context = zmq.asyncio.Context()
        context.linger = 0
        admitted = AdmittedKeys()
        tested = PeerAuthenticator(context, admitted)
        tested.start()
        asking = context.socket(zmq.REQ)
        asking.connect("inproc://zeromq.zap.01")

        async def answer(sent):
            await asking.send_multipart(sent)
            _, _, status, _, user, _ = await asking.recv_multipart()
            return status, user

        assert await answer(request()) == (b"400", b"")
        admitted.admit(pair.public, "b")
        assert await answer(request()) == (b"200", b"b")
        for sent in [
            request(credentials=(bytes(32),)),
            request(credentials=()),
            request(b"PLAIN", (b"b", key)),
            request(version=b"2.0"),
            request(domain=b"another"),
        ]:
            assert await answer(sent) == (b"400", b"")
        admitted.dismiss(pair.public)
        assert await answer(request()) == (b"400", b"")
        assert admitted.refused_connections == 3
        tested.stop()
        context.destroy(linger=0)

    run(work())
    (record,) = [record for record in caplog.records if record.name.startswith("barymesh")]
    assert (record.address, record.fingerprint) == (r"'127.0.0.1\n'", pair.fingerprint)


# private columns


def whole(node):
    """What a node publishes in these tests: columns 1 and 2 are private."""
    return np.array([1.0, 1000.0 + node, 2000.0 + node, 4.0])


def test_private_columns_go_to_one_peer_only():
    a, b, c = Peer(0), Peer(1), Peer(2)

    async def work():
        async with mesh(a, b, c, message_format=PRIVATE) as (at_a, at_b, at_c):
            # the receiver changes, and none of it reaches the other
            for sequence, (receiver, other, private_to) in enumerate([(at_b, at_c, 1), (at_c, at_b, 2)], 1):
                at_a.publish(0, 0, sequence, whole(0), private_to)
                np.testing.assert_array_equal((await receive(receiver, 0, (0, sequence))).vector(), whole(0))
                np.testing.assert_array_equal((await receive(other, 0, (0, sequence))).vector(), [1, 0, 0, 4])
            at_a.publish(0, 0, 3, whole(0))
            for at in (at_b, at_c):
                np.testing.assert_array_equal((await receive(at, 0, (0, 3))).vector(), [1, 0, 0, 4])

    run(work())


def test_of_several_nodes_each_has_its_own_receiver():
    a, b, c = Peer(0), Peer(1), Peer(2)

    async def work():
        nodes = (0, 7)
        async with mesh(b, c, message_format=PRIVATE) as (at_b, at_c):
            neighbours = [b.at(at_b.endpoint), c.at(at_c.endpoint)]
            async with Links(nodes, ANYWHERE, neighbours, PRIVATE, curve=a.keys, timing=QUICK) as at_a:
                for at in (at_b, at_c):
                    at.add(Neighbour(a.name, at_a.endpoint, nodes, a.keys.public))
                at_a.publish(0, 0, 1, whole(0), 1)
                at_a.publish(7, 0, 1, whole(7), 2)
                for at, own in ((at_b, 0), (at_c, 7)):
                    found = {}
                    while len(found) < 2:
                        await at.arrival()
                        found |= at.newest()
                    for node, message in found.items():
                        expected = whole(node) if node == own else [1, 0, 0, 4]
                        np.testing.assert_array_equal(message.vector(), expected)

    run(work())


# what a hostile neighbour may say first: requests in the name of others, subscriptions of PUB and SUB, nothing at all
OPENINGS = {
    "own request": [request(2)],
    "request of another": [request(1)],
    "request for the publisher": [request(0)],
    "all nodes": [request(node) for node in range(16)],
    "everything": [b"\x01", b"", request(2)],
    "topic of another": [b"\x01peer 1", b"peer 1", request(1)],
    "several parts": [[b"peer 1", request(1)], [b"", b""], request(2)],
}


@pytest.mark.parametrize("opening", OPENINGS.values(), ids=OPENINGS.keys())
def test_a_neighbour_sees_no_private_columns_of_others_whatever_it_asks_for(opening):
    """Node 1 is the receiver. The neighbour with node 2 has its true key; both come and go meanwhile."""
    a, b, c = Peer(0), Peer(1), Peer(2)
    numbers = itertools.count(1)
    seen = []

    def publish(at_a):
        at_a.publish(0, 0, next(numbers), whole(0), 1)

    async def spy(at_a, **options):
        with client(c, a, at_a.endpoint, **options) as socket:
            for message in opening:
                await socket.send_multipart(message if isinstance(message, list) else [message])
            for _ in range(30):
                publish(at_a)
                await asyncio.sleep(0.005)
                while await socket.poll(0):
                    seen.append(await socket.recv_multipart())

    async def work():
        async with a.links(message_format=PRIVATE, tolerance=Tolerance(bad=10**6)) as at_a:
            at_a.add(c.at("tcp://127.0.0.1:1"))
            for _ in range(3):
                async with b.links(neighbours=[a.at(at_a.endpoint)], message_format=PRIVATE) as at_b:
                    if b.name not in at_a.status():
                        at_a.add(b.at(at_b.endpoint))
                    # at the same time and after one another, under the name of another as its routing id too
                    await asyncio.gather(spy(at_a), spy(at_a, routing_id=b"peer 1"))
                    got = await receive(at_b, 0, (0, 1))
                    np.testing.assert_array_equal(got.vector(), whole(0))
                await spy(at_a)
            assert next(numbers) > 200

    run(work())
    messages = [parts for parts in seen if not is_handshake(parts[0])]
    for parts in messages:
        assert len(parts) == 1
        np.testing.assert_array_equal(PRIVATE.decode(parts[0]).vector(), [1, 0, 0, 4])
    asked_properly = any(message in (request(0), request(1), request(2)) for message in opening)
    assert bool(messages) is asked_properly


def test_frames_have_two_lengths_and_all_are_counted():
    a, b, c = Peer(0), Peer(1), Peer(2)

    async def work():
        async with mesh(a, b, c, message_format=PRIVATE) as (at_a, at_b, at_c):
            at_a.publish(0, 0, 1, whole(0), 1)
            await receive(at_b, 0, (0, 1))
            await receive(at_c, 0, (0, 1))
            await until(lambda: at_a.repeated_messages >= 4)
            assert at_a.sent_messages == 2
            assert at_a.sent_bytes == frame_bytes(WIDTH) + frame_bytes(WIDTH - 2)
            assert at_a.repeated_bytes % (frame_bytes(WIDTH) + frame_bytes(WIDTH - 2)) == 0
            at_a.publish(0, 0, 2, whole(0))
            await receive(at_b, 0, (0, 2))
            await receive(at_c, 0, (0, 2))
            assert at_a.sent_messages == 4
            assert at_a.sent_bytes == frame_bytes(WIDTH) + 3 * frame_bytes(WIDTH - 2)

    run(work())


def test_what_nobody_is_connected_for_is_not_counted():
    a, b = Peer(0), Peer(1)

    async def work():
        async with a.links() as at_a, b.links() as at_b:
            at_a.add(b.at(at_b.endpoint))
            at_a.publish(0, 0, 1, np.zeros(WIDTH))
            assert (at_a.sent_messages, at_a.repeated_messages) == (0, 0)
            at_b.add(a.at(at_a.endpoint))
            # the repeat is the first that reaches it
            await receive(at_b, 0, (0, 1))
            assert at_a.sent_messages == 1

    run(work())
