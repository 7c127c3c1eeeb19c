"""What the nodes of a process must remember to continue after a restart as if there had been none, as bytes."""

from __future__ import annotations

import hashlib
import struct
from typing import Any

import numpy as np

from barymesh.decentralized.host import Host
from barymesh.engines.socket_transport import SocketTransport
from barymesh.errors import FileError
from barymesh.transport.wire import run_digest

RUN, DIGEST = 16, 16
# incarnation, sequence, messages and bytes
_COUNTS = struct.Struct("<4q")
NUMBERS = 4


class NodeMemory:
    """Packs and unpacks the memory of a host, which depends on its ``run``, and on what it is ``about``."""

    def __init__(self, host: Host[Any], transport: SocketTransport, about: str, run: str = "") -> None:
        self.host, self.transport = host, transport
        self._run = run_digest(run)
        saved = host.state.saved()
        # they change in place
        self._arrays = list(saved.values())
        layout = [(name, str(array.dtype), array.shape) for name, array in saved.items()]
        facts = repr((about, layout, host.nodes.ids.tolist()))
        self._digest = hashlib.blake2b(facts.encode(), digest_size=DIGEST).digest()

    def pack(self) -> bytes:
        """All of it; always the same number of bytes."""
        # the messages that depend on this state are sent under the next sequence number
        host, sent = self.host, self.host.traffic
        counts = _COUNTS.pack(host.incarnation, self.transport.sequence + 1, sent.messages, sent.bytes)
        arrays: list[Any] = [host.counts, self.transport.newest, *self._arrays]
        return b"".join([self._run, self._digest, counts, *arrays])

    def is_of_this_run(self, kept: bytes) -> bool:
        """Whether ``pack`` gave it in this run, and not in one with another network."""
        return kept[:RUN] == self._run

    def unpack(self, kept: bytes) -> None:
        """Continue from what ``pack`` gave, with the incarnation it had."""
        host, transport = self.host, self.transport
        head = RUN + DIGEST
        if kept[:head] != self._run + self._digest:
            raise FileError(
                "What is kept belongs to another run: other data, weight, nodes, network, support, reg or method. Name "
                "another folder, or remove the old one; keep its privacy.json, if there is one."
            )
        numbers = np.frombuffer(kept, "<i8", NUMBERS + host.nodes.count + transport.newest.size, head)
        host.incarnation = transport.incarnation = int(numbers[0])
        transport.sequence = int(numbers[1])
        host.traffic.messages, host.traffic.bytes = int(numbers[2]), int(numbers[3])
        host.counts = numbers[NUMBERS : NUMBERS + host.nodes.count].astype(np.int64)
        transport.newest = numbers[NUMBERS + host.nodes.count :].reshape(transport.newest.shape).astype(np.int64)
        place, stored = head + numbers.nbytes, {}
        for name, array in host.state.saved().items():
            stored[name] = np.frombuffer(kept, array.dtype, array.size, place).reshape(array.shape)
            place += array.nbytes
        host.state.restore(stored)
        transport.links.restore_marks(transport.marks)
        transport.links.continue_from(transport.incarnation, transport.sequence)
