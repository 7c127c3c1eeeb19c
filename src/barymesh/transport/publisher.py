"""The sending half of a peer's links: the newest message of each of its nodes, to every neighbour that has connected.

One ROUTER socket listens. A neighbour connects with a DEALER socket and sends one request (``handshake.py``); it is
answered, and from then on messages are addressed to that connection, if both are in the same run and have a version of
the format in common. libzmq's own mechanism for this, XPUB with ZMQ_XPUB_MANUAL, can be made to
confuse its subscribers: see ``docs/design/decisions.md``.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import logging
import struct
import time
from collections import deque
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

from barymesh.errors import NetworkError
from barymesh.extras import needs
from barymesh.transport import endpoints
from barymesh.transport.authentication import DOMAIN
from barymesh.transport.handshake import Reply, Request, common_version
from barymesh.transport.inflow import Inflows
from barymesh.transport.keys import KeyPair
from barymesh.transport.rate_limit import RateLimit
from barymesh.transport.timing import Timing
from barymesh.transport.wire import BadMessageError, MessageFormat, Reason, in_version, packets

with needs("peers"):
    import zmq

_log = logging.getLogger(__name__)

# nothing but requests is ever sent to a publisher. Bytes; the handshake of CURVE takes some 300
_INBOUND_BYTES = 512
_INBOUND_QUEUE = 16
# connections of one neighbour that are sent to: one, and old ones that are not known to be dead yet
_CONNECTIONS = 4

_EVENTS = zmq.Event.ACCEPTED | zmq.Event.DISCONNECTED
# the address of a monitor must be new each time
_numbers = itertools.count()

# in a loop, the operations of the enumerations would take longer than sending
_NOBLOCK, _MORE, _READABLE = int(zmq.NOBLOCK), int(zmq.NOBLOCK | zmq.SNDMORE), int(zmq.POLLIN)
_STATE = int(zmq.EVENTS)

# seconds: how often connections are looked at
_LOOK = 0.05
_BIND_WAIT = 0.01
_BIND_WAIT_LIMIT = 1.0


@dataclass
class _Connection:
    """A connection of a neighbour, by its ``routing_id``. ``reply``: to its request, with the incarnation that was
    last announced to it, -1 before that. ``served``: whether messages are sent to it."""

    routing_id: bytes
    reply: Reply
    served: bool


@dataclass
class OutgoingMessage:
    """A message of the node ``sender``, of this ``incarnation``: the frame for the peer ``receiver``, the frame for all
    others, the peers that it is sent ``to``, None for all; ``time`` when it was made, and the peers that have got
    it."""

    sender: int
    incarnation: int
    public: bytes
    private: bytes
    receiver: str | None
    to: Set[str] | None = None
    time: float = field(default_factory=time.monotonic)
    sent_to: set[str] = field(default_factory=set)

    def frame(self, peer: str) -> bytes:
        """The one for this peer."""
        return self.private if peer == self.receiver else self.public


class Publisher:
    """Listens, once open, at ``endpoint`` (port 0: any free one) and sends to the neighbours that connect. At most
    ``queue`` messages wait for a slow neighbour; further ones are not sent to it until they are repeated.

    ``identify`` is called with a request and the name that the connection authenticated as (None without keys). It
    returns the name of the neighbour, or None. ``on_misuse`` is called with the name of a neighbour that sends anything
    else than one request for each connection, and the fault.

    ``messages`` and ``bytes`` count the frames handed to the socket, one for each message and neighbour.
    ``repeated_messages`` and ``repeated_bytes`` count further frames with the same message for the same neighbour.
    """

    def __init__(
        self,
        endpoint: str,
        curve: KeyPair | None,
        timing: Timing,
        queue: int,
        message_format: MessageFormat,
        identify: Callable[[Request, str | None], str | None],
        on_misuse: Callable[[str, BadMessageError], None],
    ) -> None:
        self.endpoint = endpoint
        self.messages = self.bytes = 0
        self.repeated_messages = self.repeated_bytes = 0
        self._curve = curve
        self._timing = timing
        self._queue = queue
        self._format = message_format
        self._identify = identify
        self._on_misuse = on_misuse
        self._newest: dict[int, OutgoingMessage] = {}
        # by neighbour, its newest connections
        self._connections: dict[str, deque[_Connection]] = {}
        # that of the newest message; -1 before the first
        self._incarnation = -1
        self._log_limit = RateLimit()
        self._reopening = asyncio.Lock()
        # None while closed
        self._context: zmq.Context[Any] | None = None
        self._socket: zmq.Socket[bytes] | None = None
        self._monitor: zmq.Socket[bytes] | None = None
        self._inflows = Inflows()

    def open(self, context: zmq.Context[Any]) -> None:
        """Begin to listen."""
        self._context = context
        try:
            self._bind(context)
        except zmq.ZMQError as error:
            raise NetworkError(
                f"Cannot listen at {self.endpoint}: {error}. Stop what listens there, or choose an endpoint of this "
                "machine that is free."
            ) from error

    def _bind(self, context: zmq.Context[Any]) -> None:
        socket: zmq.Socket[bytes] = zmq.Socket(context, zmq.ROUTER)
        monitor = _monitor(context, socket)
        try:
            socket.setsockopt(zmq.LINGER, 0)
            # an error, and not silence, if a connection is gone or its queue is full
            socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
            self._timing.apply(socket)
            # the side that connects gives up first, and knows that it was kept waiting and not refused
            socket.setsockopt(zmq.HANDSHAKE_IVL, round(2000 * self._timing.handshake))
            socket.setsockopt(zmq.SNDHWM, self._queue)
            socket.setsockopt(zmq.RCVHWM, _INBOUND_QUEUE)
            socket.setsockopt(zmq.MAXMSGSIZE, _INBOUND_BYTES)
            socket.setsockopt(zmq.IPV6, endpoints.is_ipv6(self.endpoint))
            if self._curve:
                socket.setsockopt(zmq.CURVE_SERVER, 1)
                socket.setsockopt(zmq.CURVE_SECRETKEY, self._curve.secret.encode())
                socket.setsockopt(zmq.ZAP_DOMAIN, DOMAIN.encode())
            socket.bind(self.endpoint)
        except BaseException:
            _close(socket, monitor)
            raise
        self._socket, self._monitor = socket, monitor
        self.endpoint = socket.getsockopt_string(zmq.LAST_ENDPOINT)

    def publish(self, messages: Sequence[OutgoingMessage]) -> None:
        """Send messages of one incarnation, one for each of some nodes, and from now on repeat them in place of those
        before. While the socket is closed they are only kept, and sent later."""
        self._newest |= {message.sender: message for message in messages}
        self._incarnation = messages[0].incarnation
        self._send(messages)

    def withdraw(self) -> None:
        """Repeat nothing of what was published so far."""
        self._newest.clear()
        self._incarnation = -1

    async def repeat(self) -> None:
        """Send again, for ever, what has not been replaced for a while."""
        while True:
            await asyncio.sleep(self._timing.repeat)
            self.read_requests()
            before = time.monotonic() - self._timing.repeat
            if old := [message for message in self._newest.values() if message.time <= before]:
                self._send(old)

    async def guard(self) -> None:
        """End connections, for ever, that bring in what no request has: libzmq would keep any number of parts until the
        last has come."""
        while True:
            await asyncio.sleep(_LOOK)
            while self._monitor is not None and self._monitor.poll(0):
                event, handle = struct.unpack("=Hi", self._monitor.recv_multipart()[0])
                (self._inflows.begin if event == zmq.Event.ACCEPTED else self._inflows.end)(handle)
            for address in self._inflows.shut_excessive():
                if self._log_limit.suppressed("inflow") is not None:
                    _log.warning("a connection from %s was ended: it sends what is no request, without an end", address)

    def _send(self, messages: Sequence[OutgoingMessage]) -> None:
        for peer, connections in list(self._connections.items()):
            chosen = [one for one in messages if one.to is None or peer in one.to]
            if not chosen:
                continue
            # an old connection may not have been found to be dead yet
            for one in list(connections):
                if one.served and self._announce(one, chosen[0].incarnation, connections):
                    self._send_all(peer, one, chosen, connections)

    def _send_all(
        self, peer: str, one: _Connection, messages: Sequence[OutgoingMessage], connections: deque[_Connection]
    ) -> None:
        """Send messages over one connection, and count them."""
        frames = [in_version(message.frame(peer), one.reply.version) for message in messages]
        for part in packets(frames):
            if not self._send_to(one, b"".join(frames[part]), connections):
                return
            for message, frame in zip(messages[part], frames[part], strict=True):
                if peer in message.sent_to:
                    self.repeated_messages += 1
                    self.repeated_bytes += len(frame)
                else:
                    message.sent_to.add(peer)
                    self.messages += 1
                    self.bytes += len(frame)

    def _announce(self, one: _Connection, incarnation: int, connections: deque[_Connection]) -> bool:
        """See to it that the connection knows the incarnation before messages of it come; whether it does."""
        if one.reply.incarnation != incarnation:
            reply = replace(one.reply, incarnation=incarnation)
            if not self._send_to(one, reply.encode(), connections):
                return False
            one.reply = reply
        return True

    def _send_to(self, one: _Connection, frame: bytes, connections: deque[_Connection]) -> bool:
        """Hand the frame to the socket for one connection; whether it is still there and has room in its queue."""
        if self._socket is None:
            return False
        try:
            self._socket.send(one.routing_id, _MORE)
            self._socket.send(frame, _NOBLOCK)
        except zmq.ZMQError as error:
            if error.errno == errno.EHOSTUNREACH:
                connections.remove(one)
            return False
        return True

    def read_requests(self) -> None:
        """Read what neighbours have sent: more at a time than one queue holds, so that it cannot pile up."""
        for _ in range(4 * _INBOUND_QUEUE):
            if self._socket is None or not int(self._socket.getsockopt(_STATE)) & _READABLE:
                return
            routing_id, *parts = self._socket.recv_multipart(zmq.NOBLOCK, copy=False)
            self._read_request(routing_id.bytes, parts)

    def _read_request(self, routing_id: bytes, parts: list[zmq.Frame]) -> None:
        # from the authenticator; without keys there is none
        user = str(parts[-1].get("User-Id")) if self._curve else None
        try:
            if len(parts) != 1:
                raise BadMessageError(Reason.BROKEN, f"a request of {len(parts)} parts")
            request = Request.decode(parts[0].bytes)
            if (peer := self._identify(request, user)) is None:
                raise BadMessageError(Reason.BROKEN, "a request of another peer")
            connections = self._connections.setdefault(peer, deque(maxlen=_CONNECTIONS))
            if any(one.routing_id == routing_id for one in connections):
                raise BadMessageError(Reason.BROKEN, "more than one request")
        except BadMessageError as fault:
            if user is not None:
                self._on_misuse(user, fault)
            return
        own = self._format
        version = common_version(own.versions, request.versions)
        reply = Reply(version, own.versions, request.challenge, -1, own.run)
        one = _Connection(routing_id, reply, served=version > 0 and request.run == own.run)
        connections.append(one)
        if not one.served:
            # no messages: only why
            self._send_to(one, reply.encode(), connections)
        elif self._incarnation >= 0:
            self._announce(one, self._incarnation, connections)

    async def reopen(self) -> None:
        """Disconnect all neighbours, and let those that are still admitted connect again: libzmq has no other way to
        end one connection of a socket that listens."""
        async with self._reopening:
            self._disconnect()
            wait = _BIND_WAIT
            while self._socket is None and self._context is not None:
                try:
                    self._bind(self._context)
                except zmq.ZMQError as error:
                    # closing takes libzmq a moment; and another program may have taken the port
                    if wait == _BIND_WAIT_LIMIT and self._log_limit.suppressed("bind") is not None:
                        _log.error("cannot listen at %s: %s", self.endpoint, error)
                    await asyncio.sleep(wait)
                    wait = min(2 * wait, _BIND_WAIT_LIMIT)

    def close(self) -> None:
        """Disconnect all neighbours for good."""
        self._context = None
        self._disconnect()

    def _disconnect(self) -> None:
        self._connections.clear()
        self._inflows.close()
        if self._socket is not None and self._monitor is not None:
            _close(self._socket, self._monitor)
            self._socket = self._monitor = None


def _close(socket: zmq.Socket[bytes], monitor: zmq.Socket[bytes]) -> None:
    # before its reader closes, else libzmq waits for the reader for ever
    socket.disable_monitor()
    monitor.close()
    socket.close()


def _monitor(context: zmq.Context[Any], socket: zmq.Socket[bytes]) -> zmq.Socket[bytes]:
    """What reports the connections of a socket. Its queue has no limit: libzmq would wait for room in it."""
    address = f"inproc://publisher-{next(_numbers)}"
    monitor: zmq.Socket[bytes] = zmq.Socket(context, zmq.PAIR)
    monitor.setsockopt(zmq.RCVHWM, 0)
    socket.monitor(address, _EVENTS)
    monitor.connect(address)
    return monitor
