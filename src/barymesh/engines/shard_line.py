"""The calls to a shard and its answers, over a socket of their own: through Ray each takes some milliseconds, in which
all shards wait.

Everything is encrypted. The keys and a token, without which the shard takes no call, are passed on by Ray, once.
"""

from __future__ import annotations

import hmac
import pickle
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Thread
from typing import Any

from barymesh.errors import BarymeshError
from barymesh.extras import needs
from barymesh.transport.keys import KeyPair

with needs("peers"):
    import zmq

# milliseconds after which a caller that waits looks whether the shard is still there
LOOK = 200


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
                self._socket.send(pickle.dumps(self._answer(pickle.loads(request[0])), pickle.HIGHEST_PROTOCOL))

    def _answer(self, arguments: tuple[Any, ...]) -> Any:
        try:
            return self._call(*arguments)
        except BarymeshError as error:
            return Failure(error)
        except BaseException as error:
            # it may be of a kind that the caller does not know
            return Failure(RuntimeError(f"A shard failed: {type(error).__name__}: {error}"))


class CallerEnd:
    """The end of the caller."""

    def __init__(self, contact: LineContact) -> None:
        self._contact, own = contact, KeyPair.create()
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.PAIR)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.IPV6, contact.endpoint.startswith("tcp://["))
        self._socket.setsockopt(zmq.CURVE_SERVERKEY, contact.public_key.encode())
        _set_keys(self._socket, own)
        self._socket.connect(contact.endpoint)

    def send(self, *arguments: Any) -> None:
        """Call the shard."""
        self._socket.send_multipart([self._contact.token, pickle.dumps(arguments, pickle.HIGHEST_PROTOCOL)])

    def answer(self, look: Callable[[], object]) -> Any:
        """Wait for the answer to the first call that has had none. ``look`` is called from time to time; what it raises
        ends the wait."""
        while not self._socket.poll(LOOK):
            look()
        found = pickle.loads(self._socket.recv())
        if isinstance(found, Failure):
            raise found.error
        return found

    def close(self) -> None:
        """No more calls."""
        self._socket.close()


def _set_keys(socket: zmq.Socket[bytes], keys: KeyPair) -> None:
    socket.setsockopt(zmq.CURVE_PUBLICKEY, keys.public.encode())
    socket.setsockopt(zmq.CURVE_SECRETKEY, keys.secret.encode())
