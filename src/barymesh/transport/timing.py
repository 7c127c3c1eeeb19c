"""The times that links keep to."""

from __future__ import annotations

from dataclasses import dataclass

from barymesh.errors import OptionError
from barymesh.extras import needs

with needs("peers"):
    import zmq


@dataclass(frozen=True)
class Timing:
    """All in seconds.

    ``heartbeat``: between two heartbeats. ``timeout``: a peer that is silent for longer counts as lost. ``handshake``:
    the limit for a handshake. ``retry``: the wait before the first new attempt, doubled up to ``retry_limit``.
    ``repeat``: the newest message of a node is sent again after this time, for neighbours that missed it.
    """

    heartbeat: float = 0.5
    timeout: float = 5.0
    handshake: float = 10.0
    retry: float = 0.1
    retry_limit: float = 5.0
    repeat: float = 1.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            # a heartbeat cannot carry a longer time
            if not 0.001 <= value <= 6553:
                raise OptionError(f"Timing({name}={value}): choose 0.001 to 6553 seconds.")

    def apply(self, socket: zmq.Socket[bytes]) -> None:
        """Let the socket send heartbeats, and end a connection whose other end is silent."""
        socket.setsockopt(zmq.HEARTBEAT_IVL, round(1000 * self.heartbeat))
        socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, round(1000 * self.timeout))
        socket.setsockopt(zmq.HEARTBEAT_TTL, round(1000 * self.timeout))
        socket.setsockopt(zmq.HANDSHAKE_IVL, round(1000 * self.handshake))
        socket.setsockopt(zmq.CONNECT_TIMEOUT, round(1000 * self.handshake))
