"""The calls to a shard and its answers, over a socket of their own: through Ray each takes some milliseconds, in which
all shards wait.

Everything is encrypted. The keys and a token, without which the shard takes no call, are passed on by Ray, once.
"""

from __future__ import annotations

import hmac
import pickle
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Thread
from typing import Any

from barymesh.errors import BarymeshError, NetworkError
from barymesh.extras import needs
from barymesh.transport.keys import KeyPair

with needs("peers"):
    import zmq
    from zmq.utils.monitor import recv_monitor_message

# milliseconds after which a caller that waits looks whether the shard is still there
LOOK = 200
# seconds that a line may take to open: where a firewall drops what is sent, it never does
OPENING = 30.0
# milliseconds between two signs of life, which keep firewalls from closing a line during a long call; and after which a
# line without any is broken: a large answer may be under way for as long
HEARTBEAT, SILENCE = 10_000, 120_000


class LineError(Exception):
    """The calls and answers that were under way are lost."""


@dataclass(frozen=True)
class LineContact:
    """How to reach a shard."""

    endpoint: str
    public_key: str
    token: bytes = field(repr=False)


@dataclass(frozen=True)
class Failure:
    """The answer to a call that failed."""

    error: BaseException


class ShardEnd:
    """The end of the shard: carries out the calls that come, in their order, on a thread of its own. ``address``: where
    it listens, as in a URL."""

    def __init__(self, call: Callable[..., Any], address: str) -> None:
        self._call, keys = call, KeyPair.create()
        self._socket: zmq.Socket[bytes] = zmq.Context().socket(zmq.PAIR)
        self._socket.setsockopt(zmq.CURVE_SERVER, 1)
        _set_keys(self._socket, keys)
        # addresses of IPv6 are written in brackets
        self._socket.setsockopt(zmq.IPV6, address.startswith("["))
        port = self._socket.bind_to_random_port(f"tcp://{address}")
        self.contact = LineContact(f"tcp://{address}:{port}", keys.public, secrets.token_bytes(32))
        Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            token, *request = self._socket.recv_multipart()
            # nothing of a stranger's message is looked into
            if len(request) == 1 and hmac.compare_digest(token, self.contact.token):
                self._socket.send(self._answer(request[0]))

    def _answer(self, request: bytes) -> bytes:
        """Always one: the caller waits for it."""
        try:
            return pickle.dumps(self._call(*pickle.loads(request)), pickle.HIGHEST_PROTOCOL)
        except BarymeshError as error:
            return pickle.dumps(Failure(error))
        except BaseException as error:
            # it may be of a kind that the caller does not know
            return pickle.dumps(Failure(RuntimeError(f"A shard failed: {type(error).__name__}: {error}")))


class CallerEnd:
    """The end of the caller."""

    def __init__(self, contact: LineContact) -> None:
        self._contact, own = contact, KeyPair.create()
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.PAIR)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.IPV6, contact.endpoint.startswith("tcp://["))
        self._socket.setsockopt(zmq.CURVE_SERVERKEY, contact.public_key.encode())
        self._socket.setsockopt(zmq.HEARTBEAT_IVL, HEARTBEAT)
        self._socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, SILENCE)
        _set_keys(self._socket, own)
        events = zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED
        self._events: zmq.Socket[bytes] = self._socket.get_monitor_socket(events)
        self._began, self._open = time.monotonic(), False
        self._socket.connect(contact.endpoint)

    def send(self, *arguments: Any) -> None:
        """Call the shard."""
        self._socket.send_multipart([self._contact.token, pickle.dumps(arguments, pickle.HIGHEST_PROTOCOL)])

    def answer(self, look: Callable[[], object]) -> Any:
        """Wait for the answer to the first call that has had none. ``look`` is called from time to time; what it raises
        ends the wait. LineError if no answer can come any more."""
        while not self._socket.poll(LOOK):
            look()
            self._check()
        found = pickle.loads(self._socket.recv())
        if isinstance(found, Failure):
            raise found.error
        return found

    def _check(self) -> None:
        """Whether the line is open still, or may yet be."""
        while self._events.poll(0):
            if recv_monitor_message(self._events)["event"] == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self._open = True
            elif self._open:
                raise LineError(f"The connection to {self._contact.endpoint} was lost.")
        if not self._open and time.monotonic() > self._began + OPENING:
            raise NetworkError(
                f"A shard listens at {self._contact.endpoint}, but cannot be reached there from the machine of the "
                "caller. Let the firewall between the machines of the cluster pass all ports, or run the program on "
                "one of these machines."
            )

    def close(self) -> None:
        """No more calls."""
        self._socket.disable_monitor()
        self._events.close(linger=0)
        self._socket.close()


def _set_keys(socket: zmq.Socket[bytes], keys: KeyPair) -> None:
    socket.setsockopt(zmq.CURVE_PUBLICKEY, keys.public.encode())
    socket.setsockopt(zmq.CURVE_SECRETKEY, keys.secret.encode())
