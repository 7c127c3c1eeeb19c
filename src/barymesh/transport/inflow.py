"""Limits what connections may bring in before anything of it can be read.

libzmq hands over a message when its last part has come. The limit of a socket holds for each part, and there may be any
number of them. So the bytes that the system has received for a connection are compared with what has been read: if far
more has come than any message has, and none was complete, the connection is shut down, and libzmq drops its parts.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time

# bytes beyond the longest message that may be on their way: what the buffers of the system hold
SLACK = 8 * 2**20
# bytes that all connections to a socket that listens may have brought in together
SLACK_OF_ALL = 64 * 2**20
# bytes a second that heartbeats stay below: they alone bring in SLACK in half a day, where nothing else is sent
HEARTBEATS = 1024
# where struct tcp_info of Linux has tcpi_bytes_received
_OFFSET, _BYTES = 128, struct.Struct("=Q")


class Inflow:
    """The bytes that arrive over the connection with the file descriptor ``handle`` of libzmq. Of connections that the
    system does not count, such as those on one machine by ``ipc``, nothing is known, and none is shut down."""

    def __init__(self, handle: int, longest: int) -> None:
        self._limit, self._seen, self._messages = SLACK + 2 * longest, 0, 0
        self._since = time.monotonic()
        # a descriptor of our own: libzmq may close its own at any time, and the number be given to another
        self._socket: socket.socket | None = None
        with contextlib.suppress(OSError):
            self._socket = socket.socket(fileno=os.dup(handle))
            self._seen = self._received()

    @property
    def counts(self) -> bool:
        """Whether anything can be known of it."""
        return self._socket is not None and self._socket.family != socket.AF_UNIX

    def _received(self) -> int:
        if self._socket is None or not hasattr(socket, "TCP_INFO"):
            return 0
        try:
            found = self._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _OFFSET + _BYTES.size)
        except OSError:
            return 0
        return int(_BYTES.unpack_from(found, _OFFSET)[0]) if len(found) >= _OFFSET + _BYTES.size else 0

    @property
    def unread(self) -> int:
        """The bytes that have come since the last message was complete."""
        return self._received() - self._seen

    def is_excessive(self, messages: int) -> bool:
        """Whether more has come than any message has since ``messages``, the number of those that were complete, last
        changed. If so, the connection is shut down."""
        if messages != self._messages:
            self._messages, self._seen, self._since = messages, self._received(), time.monotonic()
        if self.unread <= self._limit:
            return False
        self.shut_down()
        return True

    @property
    def is_slow(self) -> bool:
        """Whether what has come since may be heartbeats, and nobody is to blame."""
        return self.unread <= HEARTBEATS * (time.monotonic() - self._since)

    def shut_down(self) -> None:
        """End the connection."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    @property
    def address(self) -> str:
        """Where the connection comes from."""
        with contextlib.suppress(OSError):
            if self._socket is not None:
                return str(self._socket.getpeername()[0])
        return "unknown"

    def close(self) -> None:
        """Look at it no more."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class Inflows:
    """Those of all connections to a socket that listens, by the file descriptors of libzmq. Nothing but short requests
    is expected of them, one each, and heartbeats."""

    def __init__(self) -> None:
        self._connections: dict[int, Inflow] = {}

    def begin(self, handle: int) -> None:
        """A connection has been accepted."""
        self.end(handle)
        self._connections[handle] = Inflow(handle, 0)

    def end(self, handle: int) -> None:
        """A connection has ended."""
        if (known := self._connections.pop(handle, None)) is not None:
            known.close()

    def shut_excessive(self) -> list[str]:
        """Shut down the connections that have brought in too much, by themselves or together; where those come from
        that have not done so by heartbeats."""
        found, total = [], 0
        by_size = sorted(((one.unread, handle) for handle, one in self._connections.items()))
        for unread, handle in by_size:
            total += unread
            if unread > SLACK or total > SLACK_OF_ALL:
                one = self._connections[handle]
                if not one.is_slow:
                    found.append(one.address)
                one.shut_down()
                self.end(handle)
        return found

    def close(self) -> None:
        """Look at none of them any more."""
        for handle in list(self._connections):
            self.end(handle)
