"""What is heard from one neighbour: one SUB socket at a time, each for one connection."""

from __future__ import annotations

import asyncio
import errno
import itertools
import logging
import random
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

import zmq.asyncio

from barymesh.transport import endpoints
from barymesh.transport.admission import Gate
from barymesh.transport.keys import KeyPair, fingerprint
from barymesh.transport.timing import Timing
from barymesh.transport.wire import BadMessageError, Message, Reason

_log = logging.getLogger(__name__)

# frames taken before others get their turn
_BATCH = 64

# what the socket itself refuses, and breaks the connection over, is well above what the gate refuses and counts one by
# one. Not below 1024 bytes: the limit holds for the handshake too
_SOCKET_LIMIT = 2
_HANDSHAKE_BYTES = 1024

_EVENTS = (
    zmq.Event.HANDSHAKE_SUCCEEDED
    | zmq.Event.HANDSHAKE_FAILED_AUTH
    | zmq.Event.HANDSHAKE_FAILED_PROTOCOL
    | zmq.Event.HANDSHAKE_FAILED_NO_DETAIL
    | zmq.Event.DISCONNECTED
    | zmq.Event.CONNECT_RETRIED
)

# libzmq announces within microseconds of a disconnection that it will retry; it does not after a breach of protocol
_ANNOUNCEMENT_MS = 500

# never reached. Each connection has a socket of its own: after a refusal libzmq would not retry, and where it would,
# after a heartbeat missed behind a full queue, it would abort the whole process (zeromq/libzmq#3937)
_LIBZMQ_RETRY_MS = 24 * 3600 * 1000

# a monitor's address must be new each time
_numbers = itertools.count()


@dataclass(frozen=True)
class Neighbour:
    """A peer with nodes that are graph neighbours of ours. ``public_key`` is None only where links are not
    encrypted."""

    name: str
    endpoint: str
    nodes: tuple[int, ...]
    public_key: str | None


class LinkState(StrEnum):
    """The values are what people read."""

    NEVER = "never connected"
    CONNECTED = "connected"
    LOST = "lost"
    REFUSED = "refused"
    CUT_OFF = "cut off"


class Link:
    """Listens to a neighbour, tries again whenever that ends, and hands what passes the gate to ``deliver``.

    ``state``, ``since`` when (seconds of the clock on the wall), and a ``note`` for people. ``messages`` and ``bytes``:
    what was received, good or bad. ``heard``: when something new last came, by the steady clock; None before that.
    """

    def __init__(
        self,
        neighbour: Neighbour,
        gate: Gate,
        curve: KeyPair | None,
        timing: Timing,
        queue: int,
        deliver: Callable[[Message], None],
    ) -> None:
        self.neighbour = neighbour
        self.gate = gate
        self.state = LinkState.NEVER
        self.since = time.time()
        self.note = ""
        self.messages = 0
        self.bytes = 0
        self.heard: float | None = None
        self._curve = curve
        self._timing = timing
        self._queue = queue
        self._deliver = deliver
        self._met = False

    async def run(self, context: zmq.asyncio.Context) -> None:
        """Listen until the neighbour is cut off."""
        wait = self._timing.retry
        while not self.gate.cut_off:
            began = time.monotonic()
            try:
                await self._connection(context)
            except (OSError, UnicodeError, zmq.ZMQError) as error:
                # no such host, a name that cannot be one, no file descriptor left: it may pass
                self._absent(f"cannot try to connect: {error}")
            # one that ends at once, however often it comes about, is no reason to hurry
            lasted = time.monotonic() - began > self._timing.retry_limit
            wait = self._timing.retry if lasted else min(2 * wait, self._timing.retry_limit)
            if not self.gate.cut_off:
                # not all at the same moment
                await asyncio.sleep(random.uniform(wait / 2, wait))

    def cut_off(self) -> None:
        """Note that this is over."""
        self._become(LinkState.CUT_OFF, "it kept sending bad messages")

    async def _connection(self, context: zmq.asyncio.Context) -> None:
        """One connection, from the attempt to its end."""
        endpoint = await endpoints.resolved(self.neighbour.endpoint)
        with self._sockets(context, endpoint) as (sub, monitor):
            await self._attend(sub, monitor)

    @contextmanager
    def _sockets(
        self, context: zmq.asyncio.Context, endpoint: str
    ) -> Iterator[tuple[zmq.asyncio.Socket, zmq.asyncio.Socket]]:
        """A SUB socket that connects, and the one that tells how it fares."""
        sub = context.socket(zmq.SUB)
        try:
            self._timing.apply(sub)
            sub.setsockopt(zmq.RCVHWM, self._queue)
            sub.setsockopt(zmq.MAXMSGSIZE, max(_HANDSHAKE_BYTES, _SOCKET_LIMIT * self.gate.rules.frame_limit))
            sub.setsockopt(zmq.RECONNECT_IVL, _LIBZMQ_RETRY_MS)
            sub.setsockopt(zmq.IPV6, endpoints.is_ipv6(endpoint))
            if self._curve and self.neighbour.public_key:
                sub.setsockopt(zmq.CURVE_PUBLICKEY, self._curve.public.encode())
                sub.setsockopt(zmq.CURVE_SECRETKEY, self._curve.secret.encode())
                sub.setsockopt(zmq.CURVE_SERVERKEY, self.neighbour.public_key.encode())
            sub.setsockopt(zmq.SUBSCRIBE, b"")
            monitor = sub.get_monitor_socket(_EVENTS, f"inproc://link-{next(_numbers)}")
            try:
                sub.connect(endpoint)
                yield sub, monitor
            finally:
                # before its reader closes, else libzmq waits for the reader for ever
                sub.disable_monitor()
                monitor.close()
        finally:
            sub.close()

    async def _attend(self, sub: zmq.asyncio.Socket, monitor: zmq.asyncio.Socket) -> None:
        """Receive until the connection ends, or the attempt fails."""
        poller = zmq.asyncio.Poller()
        poller.register(sub, zmq.POLLIN)
        poller.register(monitor, zmq.POLLIN)
        # the same socket without a future for each frame
        frames = zmq.Socket(shadow=sub)
        connected = False
        while not self.gate.cut_off:
            ready = dict(await poller.poll())
            if sub in ready:
                self._receive(frames)
            if monitor not in ready:
                continue
            event, value = struct.unpack("=Hi", (await monitor.recv_multipart())[0])
            if event == zmq.Event.HANDSHAKE_SUCCEEDED:
                connected = self._met = True
                self._become(LinkState.CONNECTED, "")
            elif event == zmq.Event.DISCONNECTED:
                self._absent("the connection ended")
                while self._receive(frames):
                    await asyncio.sleep(0)
                if not await monitor.poll(_ANNOUNCEMENT_MS):
                    self._breach(connected)
                    return
            else:
                self._failed(event, value, connected)
                return

    def _receive(self, frames: zmq.Socket[bytes]) -> bool:
        """Take a batch of frames to the gate; whether there may be more."""
        for _ in range(_BATCH):
            try:
                frame = frames.recv(zmq.NOBLOCK)
            except zmq.Again:
                return False
            self.messages += 1
            self.bytes += len(frame)
            message = self.gate.admit(frame)
            if message is not None:
                self.heard = time.monotonic()
                self._deliver(message)
        return not self.gate.cut_off

    def _failed(self, event: int, value: int, connected: bool) -> None:
        """Say why the attempt failed, or what ended the connection."""
        if event == zmq.Event.CONNECT_RETRIED:
            if not connected:
                self._absent("it cannot be reached")
        elif event == zmq.Event.HANDSHAKE_FAILED_AUTH:
            own = self._curve.fingerprint if self._curve else "none"
            self._become(LinkState.REFUSED, f"it does not admit our key {own}; ask it to")
        elif event == zmq.Event.HANDSHAKE_FAILED_NO_DETAIL and value == errno.EAGAIN:
            self._absent("it accepts the connection and says nothing")
        else:
            self._not_it()

    def _breach(self, connected: bool) -> None:
        """The connection was given up because of what came over it."""
        if connected:
            self.gate.blame(BadMessageError(Reason.BROKEN))
        else:
            self._not_it()

    def _not_it(self) -> None:
        key = f" with the key {fingerprint(self.neighbour.public_key)}" if self.neighbour.public_key else ""
        self._become(LinkState.REFUSED, f"who answers at {self.neighbour.endpoint} is not the peer{key}")

    def _absent(self, note: str) -> None:
        self._become(LinkState.LOST if self._met else LinkState.NEVER, note)

    def _become(self, state: LinkState, note: str) -> None:
        if (state, note) == (self.state, self.note):
            return
        if state != self.state:
            self.state, self.since = state, time.time()
        self.note = note
        _log.info(
            "peer %s: %s%s",
            self.neighbour.name,
            state,
            f" ({note})" if note else "",
            extra={"peer": self.neighbour.name},
        )
