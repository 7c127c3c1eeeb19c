"""The receiving half of a link: messages of one neighbour, over one DEALER socket for each connection."""

from __future__ import annotations

import asyncio
import errno
import itertools
import logging
import random
import secrets
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from barymesh.extras import needs
from barymesh.transport import endpoints, wire
from barymesh.transport.admission import Admission
from barymesh.transport.handshake import Reply, Request
from barymesh.transport.inflow import Inflow
from barymesh.transport.keys import KeyPair, fingerprint
from barymesh.transport.readiness import read_when_ready
from barymesh.transport.timing import Timing
from barymesh.transport.wire import BadMessageError, Message, Reason

with needs("peers"):
    import zmq

_log = logging.getLogger(__name__)

# frames taken before others get their turn
_BATCH = 64

# a frame above the socket's limit ends the connection. The limit is well above the longest message, so that most frames
# that are too long are refused and counted one by one; and not below 1024 bytes, as it holds for the handshake too
_SOCKET_LIMIT = 2
_HANDSHAKE_BYTES = 1024

_EVENTS = (
    zmq.Event.CONNECTED
    | zmq.Event.HANDSHAKE_SUCCEEDED
    | zmq.Event.HANDSHAKE_FAILED_AUTH
    | zmq.Event.HANDSHAKE_FAILED_PROTOCOL
    | zmq.Event.HANDSHAKE_FAILED_NO_DETAIL
    | zmq.Event.DISCONNECTED
    | zmq.Event.CONNECT_RETRIED
)

# seconds: how often a connection over which nothing comes to an end is looked at
_LOOK = 0.05

# seconds: libzmq reports within microseconds of a disconnection that it will retry; it does not after a breach of
# protocol
_ANNOUNCEMENT = 0.5

# never reached. Each connection has a socket of its own: after a refusal libzmq would not retry; and if it retried
# after a heartbeat missed behind a full queue, it would abort the whole process (zeromq/libzmq#3937)
_LIBZMQ_RETRY_MS = 24 * 3600 * 1000

# bytes of a routing id. It is random: a peer that knew it could take the place of a connection that has ended
_ROUTING_ID = 16

# in a loop, the operations of the enumeration would take longer than receiving
_NOBLOCK, _READABLE, _STATE = int(zmq.NOBLOCK), int(zmq.POLLIN), int(zmq.EVENTS)

# the address of a monitor must be new each time
_numbers = itertools.count()


@dataclass(frozen=True)
class Neighbour:
    """A peer that hosts graph neighbours of our nodes; ``nodes`` are all that it hosts. ``public_key`` is None only
    where links are not encrypted."""

    name: str
    endpoint: str
    nodes: tuple[int, ...]
    public_key: str | None


class LinkState(StrEnum):
    """The state of a link. The values are shown to users. ``REFUSED``: the neighbour does not admit our key;
    ``WRONG_KEY``: what answers at its endpoint does not have its key, or is another program."""

    NEVER = "never connected"
    CONNECTED = "connected"
    LOST = "lost"
    REFUSED = "refused"
    WRONG_KEY = "wrong key"
    OTHER_NETWORK = "has another network file"
    OTHER_VERSION = "speaks another version"
    CUT_OFF = "cut off"


class Link:
    """Receives from a neighbour, connects again whenever a connection ends, and passes accepted messages to
    ``deliver``. ``node`` is a node of this peer, by which the neighbour may identify this peer.

    ``state``, ``since`` when (seconds of the wall clock), and a ``note`` for people. ``received_messages`` and
    ``received_bytes``: all frames, good or bad. ``last_accepted``: when a message was last accepted, by the monotonic
    clock; None before that.
    """

    def __init__(
        self,
        neighbour: Neighbour,
        node: int,
        admission: Admission,
        curve: KeyPair | None,
        timing: Timing,
        queue: int,
        deliver: Callable[[Message], None],
    ) -> None:
        self.neighbour = neighbour
        self.admission = admission
        self.state = LinkState.NEVER
        self.since = time.time()
        self.note = ""
        self.received_messages = 0
        self.received_bytes = 0
        self.last_accepted: float | None = None
        self._node = node
        self._curve = curve
        self._timing = timing
        self._queue = queue
        self._deliver = deliver
        self._longest = admission.format.longest_packet(len(neighbour.nodes))
        # of the present connection
        self._inflow: Inflow | None = None
        self._was_connected = False

    @property
    def cut_off_until(self) -> float | None:
        """When the neighbour is admitted again, by the wall clock; None if it is not cut off."""
        return self.since + self.admission.pause if self.state is LinkState.CUT_OFF else None

    async def run(self, context: zmq.Context[Any]) -> None:
        """Receive until the neighbour is cut off."""
        wait = self._timing.retry
        while not self.admission.cut_off:
            began = time.monotonic()
            try:
                await self._connection(context)
            except (OSError, UnicodeError, zmq.ZMQError) as error:
                # no such host, an impossible name, no file descriptor left: it may pass
                self._set_absent(f"cannot try to connect: {error}")
            # a connection that ends at once is no reason to hurry, however often it happens
            lasted = time.monotonic() - began > self._timing.retry_limit
            wait = self._timing.retry if lasted else wait
            if not self.admission.cut_off:
                # random, so that not all peers try at the same moment
                await asyncio.sleep(random.uniform(wait / 2, wait))
            wait = min(2 * wait, self._timing.retry_limit)

    def cut_off(self) -> None:
        """Record that the neighbour has been cut off."""
        self._set_state(LinkState.CUT_OFF, f"it kept sending bad messages; for {self.admission.pause:g} s")

    def readmit(self) -> None:
        """Look at what the neighbour sends again."""
        self.admission.readmit()
        self._set_absent("it was cut off, and may connect again")

    def speaks_old_version(self) -> None:
        """Record that the neighbour asked for messages as versions before 3 do."""
        self._set_state(LinkState.OTHER_VERSION, f"it speaks a version before 3, and we speak {self._spoken()}")

    def _spoken(self) -> str:
        return _range(self.admission.format.versions)

    def _request(self) -> bytes:
        """For a new connection."""
        known, expected = self.admission, self.admission.format
        # the messages of all nodes of a peer are numbered together
        newest = max(known.marks.values(), key=lambda mark: mark[1], default=None)
        return Request(expected.versions, self._node, known.begin(), newest, expected.run).encode()

    def _on_reply(self, reply: Reply) -> None:
        if not reply.version:
            text = f"version {reply.program} of barymesh speaks {_range(reply.versions)}, and we speak"
            self._set_state(LinkState.OTHER_VERSION, f"{text} {self._spoken()}")
        elif reply.run != self.admission.format.run:
            self._set_state(LinkState.OTHER_NETWORK, f"{reply.run}, and ours is {self.admission.format.run}")
        else:
            self._set_state(LinkState.CONNECTED, "")

    async def _connection(self, context: zmq.Context[Any]) -> None:
        """One connection, from the attempt to its end."""
        endpoint = await endpoints.resolved(self.neighbour.endpoint)
        with self._sockets(context, endpoint) as (dealer, monitor):
            await self._receive_until_end(dealer, monitor)

    @contextmanager
    def _sockets(
        self, context: zmq.Context[Any], endpoint: str
    ) -> Iterator[tuple[zmq.Socket[bytes], zmq.Socket[bytes]]]:
        """A DEALER socket that connects and requests messages, and its monitor."""
        dealer: zmq.Socket[bytes] = context.socket(zmq.DEALER)
        try:
            self._timing.apply(dealer)
            dealer.setsockopt(zmq.RCVHWM, self._queue)
            dealer.setsockopt(zmq.MAXMSGSIZE, max(_HANDSHAKE_BYTES, _SOCKET_LIMIT * self._longest))
            dealer.setsockopt(zmq.RECONNECT_IVL, _LIBZMQ_RETRY_MS)
            dealer.setsockopt(zmq.IPV6, endpoints.is_ipv6(endpoint))
            dealer.setsockopt(zmq.ROUTING_ID, secrets.token_bytes(_ROUTING_ID))
            if self._curve and self.neighbour.public_key:
                dealer.setsockopt(zmq.CURVE_PUBLICKEY, self._curve.public.encode())
                dealer.setsockopt(zmq.CURVE_SECRETKEY, self._curve.secret.encode())
                dealer.setsockopt(zmq.CURVE_SERVERKEY, self.neighbour.public_key.encode())
            monitor = dealer.get_monitor_socket(_EVENTS, f"inproc://link-{next(_numbers)}")
            try:
                dealer.connect(endpoint)
                # waits in the queue until the handshake has succeeded
                dealer.send(self._request(), zmq.NOBLOCK)
                yield dealer, monitor
            finally:
                if self._inflow is not None:
                    self._inflow.close()
                    self._inflow = None
                # before its reader closes, else libzmq waits for the reader for ever
                dealer.disable_monitor()
                monitor.close()
        finally:
            dealer.close()

    async def _receive_until_end(self, dealer: zmq.Socket[bytes], monitor: zmq.Socket[bytes]) -> None:
        """Receive until the connection ends, or the attempt fails."""
        events: asyncio.Queue[tuple[int, int] | None] = asyncio.Queue()

        def receive() -> bool:
            more = self._receive(dealer)
            if self.admission.cut_off:
                events.put_nowait(None)
            return more

        connected, ended = False, False
        with read_when_ready(dealer, receive), read_when_ready(monitor, lambda: _read_events(monitor, events)):
            while not self.admission.cut_off:
                counts = self._inflow is not None and self._inflow.counts
                try:
                    async with asyncio.timeout(_ANNOUNCEMENT if ended else _LOOK if counts else None):
                        found = await events.get()
                except TimeoutError:
                    if ended:
                        self._protocol_breach(connected)
                        return
                    if self._inflow is not None and self._inflow.is_excessive(self.received_messages):
                        if not self._inflow.is_slow:
                            self.admission.report(BadMessageError(Reason.BROKEN, "a message of too many parts"))
                        return
                    continue
                if found is None:
                    return
                event, value = found
                if event == zmq.Event.CONNECTED:
                    self._inflow = Inflow(value, self._longest)
                elif event == zmq.Event.HANDSHAKE_SUCCEEDED:
                    connected = self._was_connected = True
                    # the reply may have been read before the event that precedes it
                    if self.admission.reply is None:
                        self._set_state(LinkState.CONNECTED, "")
                elif event == zmq.Event.DISCONNECTED:
                    self._set_absent("the connection ended")
                    while self._receive(dealer):
                        await asyncio.sleep(0)
                    ended = True
                else:
                    self._attempt_failed(event, value, connected)
                    return

    def _receive(self, dealer: zmq.Socket[bytes]) -> bool:
        """Check a batch of packets; whether there may be more."""
        for _ in range(_BATCH):
            try:
                packet = dealer.recv(_NOBLOCK)
            except zmq.Again:
                return False
            for frame in wire.frames(packet):
                self._receive_frame(frame)
            # asking takes half as long as an exception
            if not int(dealer.getsockopt(_STATE)) & _READABLE:
                return False
        return not self.admission.cut_off

    def _receive_frame(self, frame: bytes) -> None:
        reply = self.admission.reply
        message = self.admission.accept(frame)
        if (new := self.admission.reply) is not None and new is not reply:
            # those that follow announce another incarnation, and nothing else
            if reply is None:
                self._on_reply(new)
            return
        self.received_messages += 1
        self.received_bytes += len(frame)
        if message is not None:
            self.last_accepted = time.monotonic()
            self._deliver(message)

    def _attempt_failed(self, event: int, value: int, connected: bool) -> None:
        """Record why the attempt failed, or what ended the connection."""
        if event == zmq.Event.CONNECT_RETRIED:
            if not connected:
                self._set_absent("it cannot be reached")
        elif event == zmq.Event.HANDSHAKE_FAILED_AUTH:
            own = self._curve.fingerprint if self._curve else "none"
            self._set_state(LinkState.REFUSED, f"it does not admit our key {own}; it must be added there")
        elif event == zmq.Event.HANDSHAKE_FAILED_NO_DETAIL and value == errno.EAGAIN:
            self._set_absent("it accepts the connection and does not answer")
        else:
            self._set_wrong_peer()

    def _protocol_breach(self, connected: bool) -> None:
        """libzmq ended the connection because of what came over it."""
        if connected:
            self.admission.report(BadMessageError(Reason.BROKEN))
        else:
            self._set_wrong_peer()

    def _set_wrong_peer(self) -> None:
        key = f" with the key {fingerprint(self.neighbour.public_key)}" if self.neighbour.public_key else ""
        what = (
            f"the program at {self.neighbour.endpoint} is not the peer{key}, or something in between ends connections"
        )
        self._set_state(LinkState.WRONG_KEY, what)

    def _set_absent(self, note: str) -> None:
        self._set_state(LinkState.LOST if self._was_connected else LinkState.NEVER, note)

    def _set_state(self, state: LinkState, note: str) -> None:
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


def _read_events(monitor: zmq.Socket[bytes], events: asyncio.Queue[tuple[int, int] | None]) -> bool:
    """Put all events that have come into the queue."""
    while True:
        try:
            parts = monitor.recv_multipart(_NOBLOCK)
        except zmq.Again:
            return False
        events.put_nowait(struct.unpack("=Hi", parts[0]))


def _range(versions: tuple[int, int]) -> str:
    oldest, newest = versions
    return f"version {newest} of the format" if oldest == newest else f"versions {oldest} to {newest} of the format"
