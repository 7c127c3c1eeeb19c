"""Who may connect: libzmq asks (ZAP, RFC 27), and only those whose keys are admitted get in."""

from __future__ import annotations

import logging

import zmq.asyncio
from zmq.utils import z85

from barymesh.transport import keys
from barymesh.transport.rate_limit import Seldom

_log = logging.getLogger(__name__)


class Doorkeeper:
    """Answers for all CURVE servers of a context. It must be there before the first of them is bound: where libzmq
    finds nobody to ask, it lets everybody in. While nobody ``serve``s, nobody gets in."""

    def __init__(self) -> None:
        self.strangers = 0
        self._names: dict[bytes, str] = {}
        self._seldom = Seldom()

    def open(self, context: zmq.asyncio.Context) -> zmq.asyncio.Socket:
        """Where libzmq asks."""
        socket = context.socket(zmq.REP)
        socket.bind("inproc://zeromq.zap.01")
        return socket

    def admit(self, public: str, name: str) -> None:
        """From now on let this key in. What it sends carries ``name`` as its User-Id."""
        self._names[keys.raw_public(public)] = name

    def dismiss(self, public: str) -> None:
        """Let this key in no more. Who is in already stays in: libzmq asks only once."""
        self._names.pop(keys.raw_public(public), None)

    async def serve(self, socket: zmq.asyncio.Socket) -> None:
        """Answer, for ever."""
        while True:
            request = await socket.recv_multipart()
            name = self._name(request)
            # 400: the client is told, and does not try again by itself
            status = [b"400", b"not admitted", b""] if name is None else [b"200", b"", name.encode()]
            await socket.send_multipart([b"1.0", request[1] if len(request) > 1 else b"", *status, b""])

    def _name(self, request: list[bytes]) -> str | None:
        """Whose key the request shows, if it is admitted. A request is: version, id, domain, address, routing id,
        mechanism, key."""
        if len(request) == 7 and request[0] == b"1.0" and request[5] == b"CURVE" and request[6] in self._names:
            return self._names[request[6]]
        self.strangers += 1
        if (held := self._seldom.held("stranger")) is not None:
            key = request[6] if len(request) == 7 and len(request[6]) == 32 else None
            shown = keys.fingerprint(z85.encode(key).decode()) if key else "none"
            address = ascii(request[3].decode(errors="replace")) if len(request) > 3 else "unknown"
            _log.warning(
                "refused a stranger from %s with key %s",
                address,
                shown,
                extra={"address": address, "fingerprint": shown, "unlogged": held},
            )
        return None
