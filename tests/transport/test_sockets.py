"""Real sockets with CURVE on loopback: neighbours hear one another, nobody else gets in, and nothing breaks."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import struct
import sys
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

import numpy as np
import pytest
import zmq
import zmq.asyncio

from barymesh.errors import NetworkError, NumericalError, OptionError
from barymesh.transport import endpoints
from barymesh.transport import sockets as links
from barymesh.transport.admission import Rules, Tolerance
from barymesh.transport.authentication import Doorkeeper
from barymesh.transport.keys import CurveKeyError, KeyPair
from barymesh.transport.sockets import Links
from barymesh.transport.subscriber import LinkState, Neighbour
from barymesh.transport.timing import Timing
from barymesh.transport.wire import encode

WIDTH = 4
RULES = Rules("run", np.full(WIDTH, -1e9), np.full(WIDTH, 1e9))
QUICK = Timing(heartbeat=0.1, silence=0.4, handshake=1.0, retry=0.02, retry_limit=0.1, repeat=0.05)
ANYWHERE = "tcp://127.0.0.1:0"
PATIENCE = 20.0

# which it is may depend on who notices first
FAILED = (
    zmq.Event.HANDSHAKE_FAILED_AUTH,
    zmq.Event.HANDSHAKE_FAILED_PROTOCOL,
    zmq.Event.HANDSHAKE_FAILED_NO_DETAIL,
)

# what a peer that speaks CURVE says first
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"CURVE".ljust(20, b"\0") + bytes(32)


class Peer:
    """Who a peer of the tests is: one node, one key pair."""

    def __init__(self, node):
        self.node = node
        self.name = f"peer {node}"
        self.keys = KeyPair.create()
        self.sequence = 0

    def links(self, endpoint=ANYWHERE, neighbours=(), **more):
        return Links([self.node], endpoint, neighbours, RULES, **{"curve": self.keys, "timing": QUICK} | more)

    def at(self, endpoint, keys=None):
        """As its neighbours see it."""
        return Neighbour(self.name, endpoint, (self.node,), (keys or self.keys).public)

    def frame(self, value=0.0):
        """Its next message."""
        self.sequence += 1
        return encode("run", self.node, 0, self.sequence, np.full(WIDTH, value))


def run(work):
    async def bounded():
        async with asyncio.timeout(PATIENCE):
            await work

    asyncio.run(bounded())


async def until(true):
    """Wait for what has no event of its own."""
    async with asyncio.timeout(PATIENCE / 2):
        while not true():
            await asyncio.sleep(0.005)


async def state(tested, peer, wanted):
    await until(lambda: tested.status()[peer.name].state is wanted)


async def receive(tested, node, wanted):
    """Wait until a message of the node with this mark or a newer one arrives."""
    while True:
        async with asyncio.timeout(PATIENCE / 2):
            await tested.arrival()
        message = tested.newest().get(node)
        if message is not None and message.mark >= wanted:
            return message


@asynccontextmanager
async def mesh(*peers, **more):
    """All peers running, each a neighbour of all others."""
    async with AsyncExitStack() as stack:
        running = [await stack.enter_async_context(peer.links(**more)) for peer in peers]
        for own in running:
            for other, there in zip(peers, running, strict=True):
                if there is not own:
                    own.add(other.at(there.endpoint))
        yield running


@contextmanager
def raw(kind, keys=None, server=None, **options):
    """A bare socket of somebody who need not behave."""
    context = zmq.asyncio.Context()
    context.linger = 0
    socket = context.socket(kind)
    if keys is not None:
        socket.curve_publickey, socket.curve_secretkey = keys.public.encode(), keys.secret.encode()
        if server is None:
            socket.curve_server = True
        else:
            socket.curve_serverkey = server.encode()
    for name, value in options.items():
        setattr(socket, name, value)
    try:
        yield socket
    finally:
        context.destroy(linger=0)


@contextmanager
def impostor(peer, **options):
    """A publisher with the peer's true key that sends what it likes; and its endpoint."""
    with raw(zmq.PUB, peer.keys, **options) as socket:
        port = socket.bind_to_random_port("tcp://127.0.0.1")
        yield socket, f"tcp://127.0.0.1:{port}"


async def event(socket, *wanted):
    """Wait for one of these events of a bare socket."""
    monitor = socket.get_monitor_socket()
    try:
        async with asyncio.timeout(PATIENCE / 2):
            while True:
                number, _ = struct.unpack("=Hi", (await monitor.recv_multipart())[0])
                if number in wanted:
                    return zmq.Event(number)
    finally:
        socket.disable_monitor()
        monitor.close()


# neighbours


def test_two_peers_hear_each_other():
    a, b = Peer(0), Peer(1)

    async def work():
        async with mesh(a, b) as (at_a, at_b):
            at_a.publish(0, 0, 1, [1, 2, 3, 4])
            at_b.publish(1, 0, 1, [5, 6, 7, 8])
            np.testing.assert_array_equal((await receive(at_b, 0, (0, 1))).vector(), [1, 2, 3, 4])
            np.testing.assert_array_equal((await receive(at_a, 1, (0, 1))).vector(), [5, 6, 7, 8])
            status = at_a.status()[b.name]
            assert (status.state, status.refused, status.admitted) == (LinkState.CONNECTED, {}, 1)
            assert status.messages >= 1
            assert status.bytes == status.messages * at_b.sent_bytes / at_b.sent_messages

    run(work())


def test_three_peers_with_several_nodes_hear_one_another():
    peers = [Peer(0), Peer(1), Peer(2)]

    async def work():
        async with mesh(*peers) as running:
            for peer, own in zip(peers, running, strict=True):
                own.publish(peer.node, 0, 1, np.full(WIDTH, peer.node))
            for peer, own in zip(peers, running, strict=True):
                heard = {}
                while len(heard) < 2:
                    await own.arrival()
                    heard |= own.newest()
                assert {node: message.vector()[0] for node, message in heard.items()} == {
                    other.node: other.node for other in peers if other is not peer
                }

    run(work())


def test_the_newest_is_told_once_and_again_only_if_newer():
    a, b = Peer(0), Peer(1)

    async def work():
        async with mesh(a, b) as (at_a, at_b):
            at_a.publish(0, 0, 5, np.zeros(WIDTH))
            await receive(at_b, 0, (0, 5))
            await until(lambda: at_b.status()[a.name].repeated >= 2)
            assert at_b.newest() == {}

    run(work())


def test_who_comes_late_gets_the_newest_too():
    a, b = Peer(0), Peer(1)

    async def work():
        async with a.links() as at_a, b.links() as at_b:
            at_a.add(b.at(at_b.endpoint))
            for sequence in range(10):
                at_a.publish(0, 0, sequence, np.full(WIDTH, sequence))
            at_b.add(a.at(at_a.endpoint))
            assert (await receive(at_b, 0, (0, 9))).vector()[0] == 9

    run(work())


def test_of_a_burst_the_newest_of_each_node_arrives():
    a, b = Peer(0), Peer(1)
    nodes = (0, 7, 8)

    async def work():
        async with Links(nodes, ANYWHERE, [], RULES, curve=a.keys, timing=QUICK) as at_a, b.links() as at_b:
            at_a.add(b.at(at_b.endpoint))
            at_b.add(Neighbour(a.name, at_a.endpoint, nodes, a.keys.public))
            await state(at_b, a, LinkState.CONNECTED)
            for sequence in range(10_000):
                at_a.publish(nodes[sequence % 3], 0, sequence, np.full(WIDTH, sequence))
            last = {0: 9999, 7: 9997, 8: 9998}
            heard = {}
            while {node: message.sequence for node, message in heard.items()} != last:
                await at_b.arrival()
                heard |= at_b.newest()
            assert {node: message.vector()[0] for node, message in heard.items()} == last
            assert at_b.status()[a.name].refused == {}

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
            assert at_b.status()[a.name].messages < 100_000
            assert at_b.status()[a.name].refused == {}

    run(work())


# who is let in


def test_a_stranger_and_who_has_no_key_get_nothing():
    a, b, stranger = Peer(0), Peer(1), KeyPair.create()

    async def work():
        async with mesh(a, b) as (at_a, at_b):
            with (
                raw(zmq.SUB, stranger, a.keys.public, subscribe=b"") as unknown,
                raw(zmq.SUB, subscribe=b"") as keyless,
                raw(zmq.SUB, b.keys, stranger.public, subscribe=b"") as misled,
            ):
                outcomes = [asyncio.create_task(event(socket, *FAILED)) for socket in (unknown, keyless, misled)]
                await asyncio.sleep(0)
                for socket in (unknown, keyless, misled):
                    socket.connect(at_a.endpoint)
                assert (await asyncio.gather(*outcomes))[0] is zmq.Event.HANDSHAKE_FAILED_AUTH
                at_a.publish(0, 0, 1, np.zeros(WIDTH))
                await receive(at_b, 0, (0, 1))
                for socket in (unknown, keyless, misled):
                    assert not await socket.poll(0)
            assert at_a.strangers >= 1

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
            await state(at_a, b, LinkState.REFUSED)
            assert b.keys.fingerprint in at_a.status()[b.name].note
            assert at_a.strangers >= 1
            assert at_b.status()[a.name].messages == 0
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
                await state(at_b, a, LinkState.REFUSED)
                assert at_b.status()[a.name].messages == 0
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
            await state(at_b, a, LinkState.REFUSED)

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


def test_where_nobody_answers_for_the_door_nobody_gets_in(monkeypatch):
    a, b = Peer(0), Peer(1)
    serve = Doorkeeper.serve

    async def work():
        awake = asyncio.Event()

        async def sleepy(self, socket):
            await awake.wait()
            await serve(self, socket)

        async with b.links() as at_b:
            monkeypatch.setattr(Doorkeeper, "serve", sleepy)
            async with a.links(neighbours=[b.at(at_b.endpoint)]) as at_a:
                at_b.add(a.at(at_a.endpoint))
                # the connection stands, the handshake does not end
                await until(lambda: "says nothing" in at_b.status()[a.name].note)
                assert at_b.status()[a.name].state is LinkState.NEVER
                awake.set()
                await state(at_b, a, LinkState.CONNECTED)

    run(work())


def test_noise_at_the_door_harms_nobody(rng):
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


def test_the_doorkeeper_answers_nonsense_with_no():
    pair = KeyPair.create()

    async def work():
        context = zmq.asyncio.Context()
        context.linger = 0
        tested = Doorkeeper()
        tested.admit(pair.public, "b")
        serving = asyncio.create_task(tested.serve(tested.open(context)))
        key = zmq.utils.z85.decode(pair.public)
        asking = context.socket(zmq.REQ)
        asking.connect("inproc://zeromq.zap.01")
        for request, status in [
            ([b"1.0", b"1", b"", b"127.0.0.1", b"", b"CURVE", key], b"200"),
            ([b"1.0", b"1", b"", b"127.0.0.1", b"", b"CURVE", bytes(32)], b"400"),
            ([b"1.0", b"1", b"", b"\xff\n", b"", b"CURVE", b"short"], b"400"),
            ([b"1.0", b"1", b"", b"127.0.0.1", b"", b"NULL"], b"400"),
            ([b"1.0", b"1", b"", b"127.0.0.1", b"", b"PLAIN", b"b", key], b"400"),
            ([b"1.0", b"1", b"", b"127.0.0.1", b"", b"PLAIN", key], b"400"),
            ([b"2.0", b"1", b"", b"127.0.0.1", b"", b"CURVE", key], b"400"),
            ([b""], b"400"),
        ]:
            await asking.send_multipart(request)
            assert (await asking.recv_multipart())[2] == status
        assert tested.strangers == 7
        tested.dismiss(pair.public)
        await asking.send_multipart([b"1.0", b"1", b"", b"127.0.0.1", b"", b"CURVE", key])
        assert (await asking.recv_multipart())[2] == b"400"
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        context.destroy(linger=0)

    run(work())


# peers that fail

CHILD = """
import asyncio, json, sys
import numpy as np
from barymesh.transport.admission import Rules
from barymesh.transport.keys import KeyPair
from barymesh.transport.subscriber import Neighbour
from barymesh.transport.sockets import Links
from barymesh.transport.timing import Timing

told = json.loads(sys.stdin.readline())

async def main():
    rules = Rules("run", np.full(4, -1e9), np.full(4, 1e9))
    neighbour = Neighbour(told["name"], told["endpoint"], (told["node"],), told["public"])
    async with Links([0], "tcp://127.0.0.1:0", [neighbour], rules, curve=KeyPair(*told["keys"]),
                     timing=Timing(**told["timing"])) as own:
        print(own.endpoint, flush=True)
        for sequence in range(10**6):
            own.publish(0, 0, sequence, np.zeros(4))
            await asyncio.sleep(0.02)

asyncio.run(main())
"""


def test_a_stopped_peer_is_missed_and_heard_again_when_it_goes_on():
    a, b = Peer(0), Peer(1)

    async def work():
        async with b.links() as at_b:
            child = await asyncio.create_subprocess_exec(
                sys.executable, "-c", CHILD, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
            )
            try:
                told = {
                    "name": b.name,
                    "endpoint": at_b.endpoint,
                    "node": b.node,
                    "public": b.keys.public,
                    "keys": [a.keys.public, a.keys.secret],
                    "timing": vars(QUICK),
                }
                child.stdin.write(json.dumps(told).encode() + b"\n")
                at_b.add(a.at((await child.stdout.readline()).decode().strip()))
                await receive(at_b, 0, (0, 1))
                os.kill(child.pid, signal.SIGSTOP)
                await state(at_b, a, LinkState.LOST)
                last = at_b.status()[a.name].admitted
                os.kill(child.pid, signal.SIGCONT)
                await state(at_b, a, LinkState.CONNECTED)
                await until(lambda: at_b.status()[a.name].admitted > last)
            finally:
                child.kill()
                await child.wait()
            await state(at_b, a, LinkState.LOST)

    run(work())


def test_a_peer_that_restarts_at_the_same_endpoint_is_heard_again():
    a, b = Peer(0), Peer(1)

    async def work():
        async with b.links() as at_b:
            endpoint = ANYWHERE
            for incarnation in range(3):
                async with a.links(endpoint, [b.at(at_b.endpoint)]) as at_a:
                    endpoint = at_a.endpoint
                    if incarnation == 0:
                        at_b.add(a.at(endpoint))
                    at_a.publish(0, incarnation, 0, np.zeros(WIDTH))
                    await receive(at_b, 0, (incarnation, 0))
                await state(at_b, a, LinkState.LOST)
            assert at_b.status()[a.name].refused == {}

    run(work())


# peers that misbehave


async def pelt(socket, frames, tested, peer):
    """Send the frames over and over until the peer is cut off."""
    async with asyncio.timeout(PATIENCE / 2):
        while tested.status()[peer.name].state is not LinkState.CUT_OFF:
            for frame in frames:
                await socket.send(frame() if callable(frame) else frame)
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("frames", "reason"),
    [
        ([lambda: os.urandom(50)], "MALFORMED"),
        ([lambda: os.urandom(400)], "TOO_LONG"),
        ([bytes(10**6)], "BROKEN"),
        ([encode("run", 1, 0, 10**9, np.zeros(WIDTH))], "SENDER"),
        ([encode("other", 0, 0, 1, np.zeros(WIDTH))], "RUN"),
        ([encode("run", 0, 0, 2, np.full(WIDTH, np.nan))], "NOT_FINITE"),
        ([encode("run", 0, 0, 2, np.full(WIDTH, 1e10))], "OUT_OF_RANGE"),
        ([encode("run", 0, 0, 2, np.zeros(WIDTH - 1))], "WIDTH"),
        ([encode("run", 0, 0, sequence, np.zeros(WIDTH)) for sequence in (2, 1)], "STALE"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_neighbour_that_keeps_sending_nonsense_is_cut_off(frames, reason):
    a, b = Peer(0), Peer(1)

    async def work():
        with impostor(a) as (socket, endpoint):
            async with b.links(neighbours=[a.at(endpoint)], tolerance=Tolerance(bad=3)) as at_b:
                await state(at_b, a, LinkState.CONNECTED)
                await pelt(socket, frames, at_b, a)
                assert at_b.status()[a.name].refused == {reason: 3}
                assert set(at_b.newest()) <= {0}
                # and it is not let in either
                with raw(zmq.SUB, a.keys, b.keys.public, subscribe=b"") as ear:
                    outcome = asyncio.create_task(event(ear, zmq.Event.HANDSHAKE_FAILED_AUTH))
                    await asyncio.sleep(0)
                    ear.connect(at_b.endpoint)
                    await outcome

    run(work())


def test_a_good_message_between_bad_ones_is_heard():
    a, b = Peer(0), Peer(1)

    async def work():
        with impostor(a) as (socket, endpoint):
            async with b.links(neighbours=[a.at(endpoint)], tolerance=Tolerance(bad=10**6)) as at_b:
                await state(at_b, a, LinkState.CONNECTED)
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
                while not at_b.newest():
                    await socket.send(a.frame())
                    await asyncio.sleep(0.01)
                # without a pause in which the other could receive
                for _ in range(1000):
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
                while "BROKEN" not in at_b.status()[a.name].refused:
                    await socket.send(bytes(5 * 2**20))
                    await asyncio.sleep(0.02)
                # once it is connected anew
                while not at_b.newest():
                    await socket.send(a.frame())
                    await asyncio.sleep(0.01)
                assert at_b.status()[a.name].state is LinkState.CONNECTED

    run(work())


def test_a_neighbour_that_asks_for_many_things_is_cut_off():
    """Every topic that somebody subscribes to takes memory of the publisher."""
    a, b = Peer(0), Peer(1)

    async def work():
        async with a.links(neighbours=[b.at("tcp://127.0.0.1:1")]) as at_a:
            with raw(zmq.SUB, b.keys, a.keys.public) as ear:
                for topic in range(1000):
                    ear.subscribe(f"topic {topic}")
                ear.connect(at_a.endpoint)
                at_a.publish(0, 0, 1, np.zeros(WIDTH))
                await state(at_a, b, LinkState.CUT_OFF)
                assert at_a.status()[b.name].refused == {"BROKEN": Tolerance().bad}

    run(work())


def test_strange_wishes_of_one_who_has_left_harm_nobody():
    a, b = Peer(0), Peer(1)

    async def work():
        async with a.links(neighbours=[b.at("tcp://127.0.0.1:1")]) as at_a:
            with raw(zmq.SUB, b.keys, a.keys.public) as ear:
                for topic in (b"", b"x", b"y"):
                    ear.subscribe(topic)
                ear.connect(at_a.endpoint)
                at_a.publish(0, 0, 1, np.zeros(WIDTH))
                await ear.recv()
                await until(lambda: at_a.status()[b.name].refused == {"BROKEN": 2})
            sent = at_a.sent_messages
            await until(lambda: at_a.sent_messages > sent + 10)
            assert at_a.status()[b.name].refused == {"BROKEN": 2}

    run(work())


def test_others_go_on_when_one_is_cut_off():
    a, b, c = Peer(0), Peer(1), Peer(2)

    async def work():
        with impostor(a) as (socket, endpoint):
            async with mesh(b, c, tolerance=Tolerance(bad=3)) as (at_b, at_c):
                at_b.add(a.at(endpoint))
                await pelt(socket, [b"bad"], at_b, a)
                at_b.publish(1, 0, 1, np.zeros(WIDTH))
                at_c.publish(2, 0, 1, np.zeros(WIDTH))
                await receive(at_c, 1, (0, 1))
                await receive(at_b, 2, (0, 1))

    run(work())


# without keys


@pytest.mark.parametrize("endpoint", [ANYWHERE, "ipc://{}/a"])
def test_on_one_machine_keys_can_be_done_without(endpoint, tmp_path):
    a, b = Peer(0), Peer(1)

    async def work():
        async with a.links(endpoint.format(tmp_path), curve=None) as at_a:
            neighbour = Neighbour(a.name, at_a.endpoint, (0,), None)
            async with b.links(neighbours=[neighbour], curve=None) as at_b:
                at_a.publish(0, 0, 1, np.ones(WIDTH))
                await receive(at_b, 0, (0, 1))

    run(work())


def test_without_keys_too_who_sends_nonsense_is_cut_off():
    a, b = Peer(0), Peer(1)

    async def work():
        with raw(zmq.PUB) as socket:
            port = socket.bind_to_random_port("tcp://127.0.0.1")
            neighbour = Neighbour(a.name, f"tcp://127.0.0.1:{port}", (0,), None)
            async with b.links(neighbours=[neighbour], curve=None, tolerance=Tolerance(bad=3)) as at_b:
                await pelt(socket, [b"bad"], at_b, a)

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
        Links([0], endpoint, [], RULES, curve=None)
    with pytest.raises(OptionError, match=r"Without keys.*key pair"):
        Links([0], ANYWHERE, [Neighbour("b", endpoint, (1,), None)], RULES, curve=None)


# what is refused at once


@pytest.mark.parametrize(
    "endpoint",
    [
        "",
        "127.0.0.1:5555",
        "udp://127.0.0.1:5555",
        "inproc://a",
        "tcp://127.0.0.1",
        "tcp://127.0.0.1:99999",
        "tcp://127.0.0.1:0;192.0.2.1:5555",
        "tcp://::1:5555",
        "tcp://a b:5555",
        "ipc://",
    ],
)
def test_what_is_no_endpoint_is_refused(endpoint):
    assert not endpoints.is_local(endpoint)
    with pytest.raises(OptionError, match="not of the form"):
        Links([0], endpoint, [], RULES, curve=KeyPair.create())


@pytest.mark.parametrize(
    ("endpoint", "local"),
    [
        ("tcp://127.0.0.1:5", True),
        ("tcp://127.8.9.1:5", True),
        ("tcp://[::1]:5", True),
        ("ipc:///tmp/a", True),
        ("tcp://10.0.0.1:5", False),
        ("tcp://localhost:5", False),
    ],
)
def test_local_endpoints(endpoint, local):
    assert endpoints.is_local(endpoints.checked(endpoint)) is local


def test_names_are_resolved_and_addresses_left_alone():
    assert asyncio.run(endpoints.resolved("tcp://127.0.0.1:5")) == "tcp://127.0.0.1:5"
    assert asyncio.run(endpoints.resolved("ipc:///tmp/a")) == "ipc:///tmp/a"
    assert asyncio.run(endpoints.resolved("tcp://localhost:5")) in ("tcp://127.0.0.1:5", "tcp://[::1]:5")


def test_neighbours_that_cannot_be_told_apart_are_refused():
    own, b, c = Peer(0), Peer(1), Peer(2)
    far = "tcp://192.0.2.1:5555"
    for neighbours, error, words in [
        ([b.at(far), Neighbour("c", far, (2,), b.keys.public)], NetworkError, "same public key"),
        ([b.at(far), Neighbour(b.name, far, (2,), c.keys.public)], NetworkError, "two neighbours"),
        ([b.at(far), Neighbour("c", far, (1, 2), c.keys.public)], NetworkError, r"both have nodes \[1\]"),
        ([Neighbour("c", far, (0, 2), c.keys.public)], NetworkError, r"nodes of this peer: \[0\]"),
        ([Neighbour("c", far, (2,), own.keys.public)], NetworkError, "own public key"),
        ([Neighbour("", far, (2,), c.keys.public)], NetworkError, "name"),
        ([Neighbour("c", far, (2,), None)], CurveKeyError, "no public key"),
        ([Neighbour("c", far, (2,), "x" * 10)], CurveKeyError, "malformed"),
        ([Neighbour("c", far, (2,), "0" * 40)], CurveKeyError, "protects nothing"),
    ]:
        with pytest.raises(error, match=words):
            own.links(neighbours=neighbours)


def test_keys_on_one_side_only_are_refused():
    with pytest.raises(CurveKeyError, match=r"a public key.*no key pair"):
        Peer(0).links(neighbours=[Peer(1).at("tcp://127.0.0.1:5")], curve=None)


def test_a_port_in_use_is_named():
    async def work():
        async with Peer(0).links() as taken:
            with pytest.raises(NetworkError, match=f"Cannot listen at {taken.endpoint}.*in use"):
                await Peer(1).links(taken.endpoint).__aenter__()

    run(work())


def test_only_own_nodes_and_good_numbers_are_published():
    async def work():
        async with Peer(0).links() as tested:
            with pytest.raises(OptionError, match="Node 3 is not a node of this peer"):
                tested.publish(3, 0, 0, np.zeros(WIDTH))
            with pytest.raises(NumericalError, match="Nothing was sent"):
                tested.publish(0, 0, 0, np.full(WIDTH, np.nan))
            assert tested.sent_messages == 0
            with pytest.raises(OptionError, match="no neighbour 'b'"):
                await tested.remove("b")

    run(work())


@pytest.mark.parametrize("bad", [{"heartbeat": 0}, {"silence": 1e5}, {"retry": float("nan")}])
def test_a_timing_that_means_nothing_is_refused(bad):
    with pytest.raises(OptionError, match=next(iter(bad))):
        Timing(**bad)


# the end


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
