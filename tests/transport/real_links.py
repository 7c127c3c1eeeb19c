"""Peers with real CURVE sockets on loopback, and sockets of somebody who need not behave."""

from __future__ import annotations

import asyncio
import struct
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress

import numpy as np
import zmq
import zmq.asyncio

from barymesh.transport.handshake import Reply, Request
from barymesh.transport.keys import KeyPair
from barymesh.transport.sockets import Links
from barymesh.transport.subscriber import LinkState, Neighbour
from barymesh.transport.timing import Timing
from barymesh.transport.wire import VERSION, VERSIONS, MessageFormat, encode

WIDTH = 4
FORMAT = MessageFormat("run", np.full(WIDTH, -1e9), np.full(WIDTH, 1e9))
# column 1 and 2 are for one receiver only
PRIVATE = MessageFormat("run", FORMAT.lower, FORMAT.upper, slice(1, 3))
QUICK = Timing(heartbeat=0.1, timeout=0.4, handshake=1.0, retry=0.02, retry_limit=0.1, repeat=0.05)
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
        message_format = more.pop("message_format", FORMAT)
        return Links([self.node], endpoint, neighbours, message_format, **{"curve": self.keys, "timing": QUICK} | more)

    def at(self, endpoint, keys=None):
        """As its neighbours see it."""
        return Neighbour(self.name, endpoint, (self.node,), (keys or self.keys).public)

    def frame(self, value=0.0):
        """Its next message."""
        self.sequence += 1
        return encode("run", self.node, 0, self.sequence, np.full(WIDTH, value))


def request(node, challenge=bytes(16), mark=None):
    """What somebody who hosts the node sends first, to be sent messages."""
    return Request(VERSIONS, node, challenge, mark, "run").encode()


async def greet(socket, incarnation=0):
    """Reply the request that has come to a bare socket, as a publisher of this incarnation does."""
    asked = Request.decode(await socket.recv())
    await socket.send(Reply(VERSION, VERSIONS, asked.challenge, incarnation, asked.run).encode())


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
    """A publisher with the peer's true key that sends what it likes to the only one who connects; and its endpoint."""
    with raw(zmq.DEALER, peer.keys, **options) as socket:
        port = socket.bind_to_random_port("tcp://127.0.0.1")
        yield socket, f"tcp://127.0.0.1:{port}"


@contextmanager
def client(peer, server, endpoint, **options):
    """A bare socket with the peer's true key, connected to the server."""
    with raw(zmq.DEALER, peer.keys, server.keys.public, **options) as socket:
        socket.connect(endpoint)
        yield socket


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


async def send_until_cut_off(socket, frames, tested, peer):
    """Send the frames over and over until the peer is cut off."""
    async with asyncio.timeout(PATIENCE / 2):
        while tested.status()[peer.name].state is not LinkState.CUT_OFF:
            while await socket.poll(0):
                await greet(socket)
            for frame in frames:
                # nobody is there between two connections
                with suppress(zmq.Again):
                    await socket.send(frame() if callable(frame) else frame, zmq.NOBLOCK)
            await asyncio.sleep(0.01)
