"""The links of a peer: it publishes the newest messages of its nodes, hears those of its neighbours, and lets nobody
else in.

Peers may be lost, stopped, restarted or hostile; messages may be lost. The newest message of every node is repeated,
so that whoever missed it gets it, and all that is kept of what arrives is the newest of every node.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import zmq.asyncio
from numpy.typing import ArrayLike

from barymesh.errors import NetworkError, OptionError
from barymesh.transport import endpoints
from barymesh.transport.admission import Gate, Mark, Rules, Tolerance
from barymesh.transport.authentication import Doorkeeper
from barymesh.transport.keys import CurveKeyError, KeyPair
from barymesh.transport.publisher import Publisher
from barymesh.transport.subscriber import Link, LinkState, Neighbour
from barymesh.transport.timing import Timing
from barymesh.transport.wire import BadMessageError, Message, Reason

_log = logging.getLogger(__name__)

# bytes that may wait for a slow neighbour, on its side and on ours
_QUEUE_BYTES = 32 * 2**20


@dataclass(frozen=True)
class LinkStatus:
    """How a link fares. ``messages`` and ``bytes`` were received; of them so many were ``admitted``, ``repeated``, and
    ``refused`` by reason. ``silence``: seconds since the last that was admitted; None before the first."""

    state: LinkState
    since: float
    note: str
    messages: int
    bytes: int
    admitted: int
    repeated: int
    refused: dict[str, int]
    silence: float | None


class Links:
    """All links of the peer that hosts ``nodes`` and listens at ``endpoint``. They are open, once, for as long as
    ``async with``, and belong to its event loop.

    ``curve``: its key pair. None means links that everybody on this machine can read and write; all endpoints must then
    be local.
    """

    def __init__(
        self,
        nodes: Collection[int],
        endpoint: str,
        neighbours: Iterable[Neighbour],
        rules: Rules,
        *,
        curve: KeyPair | None,
        timing: Timing | None = None,
        tolerance: Tolerance | None = None,
    ) -> None:
        self.nodes = frozenset(nodes)
        self.rules = rules
        self._curve = curve
        self._timing = timing or Timing()
        self._tolerance = tolerance or Tolerance()
        # (incarnation, sequence) of the newest messages known from before
        self._marks: dict[int, Mark] = {}
        self._queue = max(16, _QUEUE_BYTES // rules.frame_limit)
        self._links: dict[str, Link] = {}
        self._listening: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._newest: dict[int, Message] = {}
        self._arrived = asyncio.Event()
        self._check_endpoint(endpoint)
        # None while closed
        self._context: zmq.asyncio.Context | None = None
        self._doorkeeper = Doorkeeper()
        self._publisher = Publisher(endpoint, curve, self._timing, self._queue, self._offended)
        for neighbour in neighbours:
            self.add(neighbour)

    async def __aenter__(self) -> Self:
        self._context = zmq.asyncio.Context()
        # what waits in a socket that is closed is of no use to anybody
        self._context.linger = 0
        try:
            # the doorkeeper first and last: there must be one while there is a door
            door = self._doorkeeper.open(self._context)
            self._publisher.open(self._context)
        except BaseException:
            await self.close()
            raise
        self._start(self._doorkeeper.serve(door))
        self._start(self._publisher.repeat())
        for link in self._links.values():
            self._listen(link, self._context)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Disconnect, and leave no task and no socket behind. Closing again does nothing."""
        context, self._context = self._context, None
        if context is None:
            return
        # one that ends may have started another
        while tasks := list(self._tasks):
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        self._publisher.close()
        context.destroy()

    @property
    def endpoint(self) -> str:
        """Where this peer listens; with the port that was found for port 0."""
        return self._publisher.endpoint

    def publish(self, sender: int, incarnation: int, sequence: int, vector: ArrayLike) -> None:
        """Send the newest state of an own node to all neighbours. Does not wait; it is repeated until there is a newer
        one."""
        if sender not in self.nodes:
            raise OptionError(f"Node {sender} is not a node of this peer; it has {sorted(self.nodes)}.")
        self._publisher.publish(sender, self.rules.encode(sender, incarnation, sequence, vector))

    def newest(self) -> dict[int, Message]:
        """By node, the newest of the messages that have arrived since this was last asked."""
        newest, self._newest = self._newest, {}
        self._arrived.clear()
        return newest

    async def arrival(self) -> None:
        """Wait until ``newest`` has something."""
        await self._arrived.wait()

    def status(self) -> dict[str, LinkStatus]:
        """How the link to each neighbour fares, by its name."""
        return {
            name: LinkStatus(
                link.state,
                link.since,
                link.note,
                link.messages,
                link.bytes,
                link.gate.admitted,
                link.gate.repeated,
                {reason.name: count for reason, count in link.gate.refused.items()},
                None if link.heard is None else time.monotonic() - link.heard,
            )
            for name, link in self._links.items()
        }

    @property
    def sent_messages(self) -> int:
        """Each counts once, however many neighbours hear it."""
        return self._publisher.messages

    @property
    def sent_bytes(self) -> int:
        return self._publisher.bytes

    @property
    def strangers(self) -> int:
        """How often somebody was not let in."""
        return self._doorkeeper.strangers

    def add(self, neighbour: Neighbour) -> None:
        """Let a new neighbour in, and listen to it."""
        self._check(neighbour)
        gate = Gate(neighbour.name, neighbour.nodes, self.rules, self._tolerance, self._marks)
        link = Link(neighbour, gate, self._curve, self._timing, self._queue, self._deliver)
        if neighbour.public_key is not None:
            self._doorkeeper.admit(neighbour.public_key, neighbour.name)
        self._links[neighbour.name] = link
        if self._context is not None:
            self._listen(link, self._context)

    def recall(self, marks: Mapping[int, Mark]) -> None:
        """Take messages older than these for old ones. The same once more is welcome: it may have been used, but what
        was heard is not kept."""
        self._marks |= {node: (life, number - 1) for node, (life, number) in marks.items()}
        for link in self._links.values():
            link.gate.marks |= {node: mark for node, mark in self._marks.items() if node in link.gate.nodes}

    async def remove(self, name: str) -> None:
        """Listen to the neighbour no more, and disconnect it. The others are disconnected for a moment too."""
        if name not in self._links:
            raise OptionError(f"There is no neighbour {name!r}; there are {', '.join(self._links) or 'none'}.")
        link = self._links.pop(name)
        # should it come back, it must not say again what it said before
        self._marks |= link.gate.marks
        await self._shut_out(link)

    def _check(self, neighbour: Neighbour) -> None:
        """Each neighbour is one peer with a key and nodes of its own: what it sends is known by its key."""
        self._check_endpoint(neighbour.endpoint)
        if not (neighbour.name.isascii() and neighbour.name.isprintable() and 0 < len(neighbour.name) <= 64):
            raise NetworkError(f"The name {neighbour.name!r} of a peer must be 1 to 64 printable ASCII characters.")
        if (self._curve is None) != (neighbour.public_key is None):
            raise CurveKeyError(
                f"Neighbour {neighbour.name!r} has {'no' if neighbour.public_key is None else 'a'} public key, and "
                f"this peer has {'no' if self._curve is None else 'a'} key pair. Give both, or neither on one machine."
            )
        if self._curve and neighbour.public_key == self._curve.public:
            raise NetworkError(
                f"Neighbour {neighbour.name!r} has this peer's own public key. Every peer needs its own."
            )
        if taken := self.nodes.intersection(neighbour.nodes):
            raise NetworkError(
                f"Neighbour {neighbour.name!r} has nodes of this peer: {sorted(taken)}. A node has one peer."
            )
        for other in (link.neighbour for link in self._links.values()):
            if other.name == neighbour.name:
                raise NetworkError(f"There are two neighbours {neighbour.name!r}. Every peer needs a name of its own.")
            if self._curve and other.public_key == neighbour.public_key:
                raise NetworkError(
                    f"Neighbours {other.name!r} and {neighbour.name!r} have the same public key. Every peer needs its "
                    "own."
                )
            if taken := frozenset(other.nodes).intersection(neighbour.nodes):
                raise NetworkError(
                    f"Neighbours {other.name!r} and {neighbour.name!r} both have nodes {sorted(taken)}. A node "
                    "has one peer."
                )

    def _check_endpoint(self, endpoint: str) -> None:
        endpoints.checked(endpoint)
        if self._curve is None and not endpoints.is_local(endpoint):
            raise OptionError(
                f"Without keys, links stay within one machine, and {endpoint} may be beyond it. Give every peer a key "
                "pair, or use a loopback address such as tcp://127.0.0.1:5555, or ipc://path."
            )

    def _listen(self, link: Link, context: zmq.asyncio.Context) -> None:
        self._listening[link.neighbour.name] = self._start(self._attend(link, context))

    async def _attend(self, link: Link, context: zmq.asyncio.Context) -> None:
        await link.run(context)
        self._start(self._cut_off(link))

    def _deliver(self, message: Message) -> None:
        self._newest[message.sender] = message
        self._arrived.set()

    def _offended(self, name: str) -> None:
        """A neighbour asked for what no peer asks for."""
        link = self._links.get(name)
        if link and not link.gate.cut_off:
            link.gate.blame(BadMessageError(Reason.BROKEN, "it subscribes to other things than everything"))
            if link.gate.cut_off:
                self._start(self._cut_off(link))

    async def _cut_off(self, link: Link) -> None:
        link.cut_off()
        await self._shut_out(link)

    async def _shut_out(self, link: Link) -> None:
        """End all that connects us with the neighbour, in both directions."""
        listening = self._listening.pop(link.neighbour.name, None)
        # first what needs no waiting
        if link.neighbour.public_key is not None:
            self._doorkeeper.dismiss(link.neighbour.public_key)
        if listening is not None:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
        if link.neighbour.public_key is not None:
            await self._publisher.reopen()

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            _log.critical("a part of the links has failed: %s", error, exc_info=error)
