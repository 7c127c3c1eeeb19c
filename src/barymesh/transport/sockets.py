"""The links of a peer: it sends the newest messages of its nodes to its neighbours, receives theirs, and refuses all
other connections.

Peers may be lost, stopped, restarted or hostile; messages may be lost. The newest message of every node is repeated for
neighbours that missed it. Of the messages that arrive, only the newest of every node is kept.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple, Self

from numpy.typing import ArrayLike

from barymesh.errors import NetworkError, OptionError
from barymesh.extras import needs
from barymesh.transport import endpoints
from barymesh.transport.admission import Admission, Tolerance
from barymesh.transport.authentication import AdmittedKeys, PeerAuthenticator
from barymesh.transport.handshake import Reply, Request
from barymesh.transport.keys import CurveKeyError, KeyPair
from barymesh.transport.publisher import OutgoingMessage, Publisher
from barymesh.transport.subscriber import Link, LinkState, Neighbour
from barymesh.transport.timing import Timing
from barymesh.transport.wire import BadMessageError, Floats, Mark, Message, MessageFormat, Reason

with needs("peers"):
    import zmq

_log = logging.getLogger(__name__)

# bytes that may wait for a slow neighbour, on its side and on ours
_QUEUE_BYTES = 32 * 2**20


@dataclass(frozen=True)
class LinkStatus:
    """The state of a link, ``since`` when, and a ``note`` for people. Of the ``received_messages``, so many were
    ``accepted_messages``, ``duplicate_messages``, and ``refused_messages`` by reason. ``silence``: seconds since the
    last one accepted; None before the first. ``cut_offs``: how often the neighbour was cut off, ``cut_off_until``:
    when it is admitted again, None if it is not cut off now. ``program``, ``version`` of the format in common, and
    ``network`` of the neighbour; None before it has answered."""

    state: LinkState
    since: float
    note: str
    received_messages: int
    received_bytes: int
    accepted_messages: int
    duplicate_messages: int
    refused_messages: dict[str, int]
    silence: float | None
    cut_offs: int
    cut_off_until: float | None
    program: str | None
    version: int | None
    network: str | None


class Publication(NamedTuple):
    """The state ``(width,)`` of a node to be sent; ``private_to`` and ``to`` as for ``Links.publish``."""

    sender: int
    vector: Floats
    private_to: int | None
    to: Iterable[int] | None = None


class Links:
    """All links of the peer that hosts ``nodes`` and listens at ``endpoint``. They are open, once, within ``async
    with``, and belong to its event loop.

    ``curve``: the key pair of this peer. None means links that every program on this machine can read and write; all
    endpoints must then be local.
    """

    def __init__(
        self,
        nodes: Collection[int],
        endpoint: str,
        neighbours: Iterable[Neighbour],
        message_format: MessageFormat,
        *,
        curve: KeyPair | None,
        timing: Timing | None = None,
        tolerance: Tolerance | None = None,
    ) -> None:
        self.nodes = frozenset(nodes)
        self.format = message_format
        self._curve = curve
        self._timing = timing or Timing()
        self._tolerance = tolerance or Tolerance()
        # (incarnation, sequence) of the newest messages known from before
        self._marks: dict[int, Mark] = {}
        # of the newest own message, and whether an earlier process began its incarnation
        self._own: Mark = (-1, -1)
        self._continued = False
        self.outdated = False
        # set to end the pause of a neighbour that is cut off
        self._pardons: dict[str, asyncio.Event] = {}
        neighbours = tuple(neighbours)
        nodes_of_one = max([len(self.nodes), *(len(one.nodes) for one in neighbours)])
        self._queue = max(16, _QUEUE_BYTES // message_format.longest_packet(nodes_of_one))
        self._links: dict[str, Link] = {}
        # the neighbour that hosts a node
        self._hosts: dict[int, str] = {}
        self._receiving: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._newest: dict[int, Message] = {}
        self._arrived = asyncio.Event()
        self._check_endpoint(endpoint)
        # None while closed
        self._context: zmq.Context[Any] | None = None
        self._authenticator: PeerAuthenticator | None = None
        self._admitted = AdmittedKeys()
        self._publisher = Publisher(
            endpoint, curve, self._timing, self._queue, message_format, self._identify, self._on_misuse
        )
        for neighbour in neighbours:
            self.add(neighbour)

    async def __aenter__(self) -> Self:
        self._context = zmq.Context()
        # what waits in a socket that is closed is of no use
        self._context.linger = 0
        try:
            if self._curve is not None:
                # the first to start and the last to stop: libzmq admits all connections while there is none
                self._authenticator = PeerAuthenticator(self._context, self._admitted)
                self._authenticator.start()
            self._publisher.open(self._context)
        except BaseException:
            await self.close()
            raise
        self._start(self._publisher.repeat())
        self._start(self._publisher.guard())
        for link in self._links.values():
            self._receive(link, self._context)
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
        # a task that ends may have started another
        while tasks := list(self._tasks):
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        self._publisher.close()
        if self._authenticator is not None:
            self._authenticator.stop()
            # its task has been cancelled, and ends now
            await asyncio.sleep(0)
        context.destroy()

    @property
    def endpoint(self) -> str:
        """Where this peer listens; with the port that was found for port 0."""
        return self._publisher.endpoint

    def publish(
        self, sender: int, incarnation: int, sequence: int, vector: ArrayLike, private_to: int | None = None,
        to: Iterable[int] | None = None,
    ) -> None:  # fmt: skip
        """Send the newest state ``(width,)`` of the own node ``sender`` to all neighbours, or to those that host the
        nodes ``to``, and repeat it until there is a newer one. Does not wait. NumericalError if no neighbour would
        accept it.

        The peer that hosts the node ``private_to`` gets all of it, the others get it without the private columns. If no
        neighbour hosts that node, or if it is None, they are not sent.
        """
        values = self.format.as_vector(sender, vector)
        shown = private_to is not None and private_to in self._hosts
        self.format.require_sendable([sender], (values if shown else self.format.public(values))[None])
        self.publish_all([Publication(sender, values, private_to, to)], incarnation, sequence)

    def publish_all(self, messages: Iterable[Publication], incarnation: int, sequence: int) -> None:
        """Send the newest states of several own nodes as ``publish`` does, those for one neighbour together. Nothing is
        checked: see ``MessageFormat.require_sendable``."""
        outgoing = []
        for sender, vector, private_to, to in messages:
            if sender not in self.nodes:
                raise OptionError(f"Node {sender} is not a node of this peer; it has {sorted(self.nodes)}.")
            receiver = None if private_to is None else self._hosts.get(private_to)
            public, private = self.format.frames(
                sender, incarnation, sequence, vector, with_private=receiver is not None
            )
            peers = None if to is None else {name for node in to if (name := self._hosts.get(node)) is not None}
            outgoing.append(OutgoingMessage(sender, incarnation, public, private, receiver, peers))
        self._publisher.read_requests()
        if incarnation != self._own[0]:
            self._continued = self.outdated = False
        self._own = (incarnation, sequence)
        if outgoing and not self.outdated:
            self._publisher.publish(outgoing)

    def continue_from(self, incarnation: int, sequence: int) -> None:
        """This process continues an incarnation that an earlier one began, from this message on. If a neighbour turns
        out to have a newer one, the memory is ``outdated``: nothing is sent until messages of another incarnation
        are published."""
        self._own, self._continued = (incarnation, sequence), True

    def admission(self, name: str) -> Admission:
        """What decides which frames of a neighbour are used."""
        return self._links[name].admission

    def newest(self) -> dict[int, Message]:
        """By node, the newest message among those that have arrived since the last call."""
        newest, self._newest = self._newest, {}
        self._arrived.clear()
        return newest

    async def arrival(self) -> None:
        """Wait until ``newest`` has something."""
        await self._arrived.wait()

    def status(self) -> dict[str, LinkStatus]:
        """The state of the link to each neighbour, by its name."""
        return {
            name: LinkStatus(
                link.state,
                link.since,
                link.note,
                link.received_messages,
                link.received_bytes,
                link.admission.accepted,
                link.admission.duplicates,
                {reason.name: count for reason, count in link.admission.refused.items()},
                None if link.last_accepted is None else time.monotonic() - link.last_accepted,
                link.admission.cut_offs,
                link.cut_off_until,
                *_about(link.admission.reply),
            )
            for name, link in self._links.items()
        }

    def unreached(self) -> dict[str, str]:
        """Why, by their names, of the neighbours that there has never been a connection with."""
        return {
            name: f"{link.neighbour.endpoint}: {link.note or 'it does not answer'}"
            for name, link in self._links.items()
            if link.state is LinkState.NEVER
        }

    @property
    def sent_messages(self) -> int:
        """Messages sent: one for each message and each neighbour that it was handed to the socket for."""
        return self._publisher.messages

    @property
    def sent_bytes(self) -> int:
        """The bytes of the sent messages."""
        return self._publisher.bytes

    @property
    def repeated_messages(self) -> int:
        """Messages sent again to a neighbour that had been sent them before."""
        return self._publisher.repeated_messages

    @property
    def repeated_bytes(self) -> int:
        """The bytes of the repeated messages."""
        return self._publisher.repeated_bytes

    @property
    def refused_connections(self) -> int:
        """How often a connection with an unknown key was refused."""
        return self._admitted.refused_connections

    def add(self, neighbour: Neighbour) -> None:
        """Admit a new neighbour, and receive from it."""
        self._check(neighbour)
        admission = Admission(neighbour.name, neighbour.nodes, self.format, self._tolerance, self._marks)
        link = Link(neighbour, min(self.nodes), admission, self._curve, self._timing, self._queue, self.deliver)
        if neighbour.public_key is not None:
            self._admitted.admit(neighbour.public_key, neighbour.name)
        self._links[neighbour.name] = link
        self._hosts |= dict.fromkeys(neighbour.nodes, neighbour.name)
        if self._context is not None:
            self._receive(link, self._context)

    def restore_marks(self, marks: Mapping[int, Mark]) -> None:
        """Refuse messages older than these marks. A message with the same mark is accepted once more: it was used
        before, but it is not kept."""
        self._marks |= {node: (life, number - 1) for node, (life, number) in marks.items()}
        for link in self._links.values():
            known = link.admission
            known.marks |= {node: mark for node, mark in self._marks.items() if node in known.nodes}

    async def remove(self, name: str) -> None:
        """Receive from the neighbour no more, and disconnect it. The others are disconnected for a moment too."""
        if name not in self._links:
            raise OptionError(f"There is no neighbour {name!r}; there are {', '.join(self._links) or 'none'}.")
        link = self._links.pop(name)
        self._hosts = {node: host for node, host in self._hosts.items() if host != name}
        # if it comes back, its old messages are refused
        self._marks |= link.admission.marks
        await self._disconnect(link)

    def _check(self, neighbour: Neighbour) -> None:
        """Each neighbour must be one peer with its own key and its own nodes: its messages are known by its key."""
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
                f"Without keys all endpoints must be on this machine, and {endpoint} may not be. Give every peer a key "
                "pair, or use a loopback address such as tcp://127.0.0.1:5555, or ipc://path."
            )

    def _receive(self, link: Link, context: zmq.Context[Any]) -> None:
        self._receiving[link.neighbour.name] = self._start(self._receive_until_cut_off(link, context))

    async def _receive_until_cut_off(self, link: Link, context: zmq.Context[Any]) -> None:
        await link.run(context)
        self._start(self._cut_off(link))

    def deliver(self, message: Message) -> None:
        """Take a message that has been accepted."""
        self._newest[message.sender] = message
        self._arrived.set()

    def _identify(self, request: Request, user: str | None) -> str | None:
        """The neighbour that requests messages: the one that has authenticated; without keys, the one that hosts the
        node it names."""
        name = self._hosts.get(request.node) if self._curve is None else user
        link = self._links.get(name) if name is not None else None
        if link is None or link.admission.cut_off:
            return None
        if request.run == self.format.run and request.mark is not None:
            self._note_known(request.mark)
        return name

    def _note_known(self, mark: Mark) -> None:
        """A neighbour has this message of ours. If it is newer than all that this process knows of, or of another
        life, then the memory that this process continues from may be an old one."""
        incarnation, sequence = self._own
        newer = mark[0] != incarnation or mark[1] > sequence
        if self._continued and newer and not self.outdated:
            self.outdated = True
            self._publisher.withdraw()
            _log.warning("a neighbour has newer messages of this node than its memory, which is old: it begins anew")

    def _on_misuse(self, name: str, fault: BadMessageError) -> None:
        link = self._links.get(name)
        if link and not link.admission.cut_off:
            link.admission.report(fault)
            if fault.reason is Reason.VERSION:
                link.speaks_old_version()
            if link.admission.cut_off:
                self._start(self._cut_off(link))

    async def _cut_off(self, link: Link) -> None:
        """Do without the neighbour until its pause is over, or until somebody readmits it."""
        name = link.neighbour.name
        if name in self._pardons:
            return
        self._pardons[name] = pardon = asyncio.Event()
        link.cut_off()
        await self._disconnect(link)
        with suppress(TimeoutError):
            await asyncio.wait_for(pardon.wait(), link.admission.pause)
        self._pardons.pop(name, None)
        if self._links.get(name) is link and self._context is not None:
            link.readmit()
            if link.neighbour.public_key is not None:
                self._admitted.admit(link.neighbour.public_key, name)
            self._receive(link, self._context)

    def readmit(self, name: str) -> bool:
        """End the pause of a neighbour that is cut off; False if it is not."""
        pardon = self._pardons.get(name)
        if pardon is not None:
            pardon.set()
        return pardon is not None

    async def _disconnect(self, link: Link) -> None:
        """End the connections with the neighbour in both directions, and admit its key no more."""
        receiving = self._receiving.pop(link.neighbour.name, None)
        # first what needs no waiting
        if link.neighbour.public_key is not None:
            self._admitted.dismiss(link.neighbour.public_key)
        if receiving is not None:
            receiving.cancel()
            await asyncio.gather(receiving, return_exceptions=True)
        await self._publisher.reopen()

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            _log.critical("a task of the links has failed: %s", error, exc_info=error)


def _about(reply: Reply | None) -> tuple[str | None, int | None, str | None]:
    """Program, version of the format in common, and network."""
    return (None, None, None) if reply is None else (reply.program, reply.version or None, reply.run)
