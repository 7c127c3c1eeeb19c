"""What a peer says: the newest message of each of its nodes, to all neighbours that are let in."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

import zmq.asyncio

from barymesh.errors import NetworkError
from barymesh.transport import endpoints
from barymesh.transport.keys import KeyPair
from barymesh.transport.rate_limit import Seldom
from barymesh.transport.timing import Timing

_log = logging.getLogger(__name__)

# a neighbour tells us to begin or to stop sending, nothing else; the handshake takes some 300 bytes
_BEGIN_OR_STOP = (b"\x01", b"\x00")
_INBOUND_BYTES = 512
_INBOUND_QUEUE = 16

# seconds
_BIND_WAIT = 0.01
_BIND_WAIT_LIMIT = 1.0


class Publisher:
    """Listens, once open, at ``endpoint`` (port 0: any free one) and sends to those who connect. At most ``queue``
    messages wait for a slow neighbour; newer ones are lost to it, until they are repeated.

    ``offend`` is called with the name of a neighbour that asks for something else than everything: every such wish
    would take memory. ``messages`` and ``bytes``: what was sent, once for all neighbours together.
    """

    def __init__(
        self,
        endpoint: str,
        curve: KeyPair | None,
        timing: Timing,
        queue: int,
        offend: Callable[[str], None],
    ) -> None:
        self.endpoint = endpoint
        self.messages = 0
        self.bytes = 0
        self._curve = curve
        self._timing = timing
        self._queue = queue
        self._offend = offend
        self._newest: dict[int, tuple[bytes, float]] = {}
        self._seldom = Seldom()
        self._reopening = asyncio.Lock()
        # None while closed
        self._context: zmq.asyncio.Context | None = None
        self._socket: zmq.Socket[bytes] | None = None

    def open(self, context: zmq.asyncio.Context) -> None:
        """Begin to listen."""
        self._context = context
        try:
            self._bind(context)
        except zmq.ZMQError as error:
            raise NetworkError(
                f"Cannot listen at {self.endpoint}: {error}. Stop what listens there, or choose an endpoint of this "
                "machine that is free."
            ) from error

    def _bind(self, context: zmq.asyncio.Context) -> None:
        # as PUB, but it shows what the others ask for
        socket: zmq.Socket[bytes] = zmq.Socket(context, zmq.XPUB)
        try:
            socket.setsockopt(zmq.LINGER, 0)
            self._timing.apply(socket)
            # the one who connects gives up first, and knows that it was kept waiting and not refused
            socket.setsockopt(zmq.HANDSHAKE_IVL, round(2000 * self._timing.handshake))
            socket.setsockopt(zmq.SNDHWM, self._queue)
            socket.setsockopt(zmq.RCVHWM, _INBOUND_QUEUE)
            socket.setsockopt(zmq.MAXMSGSIZE, _INBOUND_BYTES)
            socket.setsockopt(zmq.IPV6, endpoints.is_ipv6(self.endpoint))
            if self._curve:
                socket.setsockopt(zmq.CURVE_SERVER, 1)
                socket.setsockopt(zmq.CURVE_SECRETKEY, self._curve.secret.encode())
                socket.setsockopt(zmq.ZAP_DOMAIN, b"barymesh")
            socket.bind(self.endpoint)
        except BaseException:
            socket.close()
            raise
        self._socket = socket
        self.endpoint = socket.getsockopt_string(zmq.LAST_ENDPOINT)

    def publish(self, sender: int, frame: bytes) -> None:
        """Send a node's message, and from now on repeat it in place of the one before. What is published while nobody
        can connect is only kept, and repeated later."""
        self._newest[sender] = frame, time.monotonic()
        self._send(frame)

    async def repeat(self) -> None:
        """Send again, for ever, what has not been replaced for a while."""
        while True:
            await asyncio.sleep(self._timing.repeat)
            before = time.monotonic() - self._timing.repeat
            for frame, sent in self._newest.values():
                if sent <= before:
                    self._send(frame)

    def _send(self, frame: bytes) -> None:
        if self._socket is None:
            return
        self._socket.send(frame, zmq.NOBLOCK)
        self.messages += 1
        self.bytes += len(frame)
        # at every turn, and more than the queue holds, so that wishes cannot pile up
        for _ in range(4 * _INBOUND_QUEUE):
            if not int(self._socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
                break
            self._hear(self._socket)

    def _hear(self, socket: zmq.Socket[bytes]) -> None:
        try:
            frame = socket.recv(zmq.NOBLOCK, copy=False)
            if frame.bytes not in _BEGIN_OR_STOP:
                # as the doorkeeper said
                self._offend(str(frame.get("User-Id")))
        except zmq.ZMQError:
            # nothing there; or from nobody: libzmq itself takes back the wishes of who has left
            return

    async def reopen(self) -> None:
        """Disconnect everybody, and let in anew who is admitted: libzmq has no other way to cut one off who is in."""
        async with self._reopening:
            self._disconnect()
            wait = _BIND_WAIT
            while self._socket is None and self._context is not None:
                try:
                    self._bind(self._context)
                except zmq.ZMQError as error:
                    # closing takes libzmq a moment; and somebody else may have come first
                    if wait == _BIND_WAIT_LIMIT and self._seldom.held("bind") is not None:
                        _log.error("cannot listen at %s: %s", self.endpoint, error)
                    await asyncio.sleep(wait)
                    wait = min(2 * wait, _BIND_WAIT_LIMIT)

    def close(self) -> None:
        """Disconnect everybody, for good."""
        self._context = None
        self._disconnect()

    def _disconnect(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
