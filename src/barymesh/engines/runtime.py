"""The main loop of a process: its nodes act on their own clock, on the messages that have arrived, and never wait.

What the nodes must remember is on disk before the messages that depend on it leave. So a process may be killed at any
instant: when it starts again it continues from there, and the others never receive two different messages under one
number.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barymesh import readers as read
from barymesh.checks import real_number
from barymesh.decentralized.algorithm import AsynchronousAlgorithm, Batch, Nodes
from barymesh.decentralized.build import build_algorithm
from barymesh.decentralized.host import Host, Outgoing
from barymesh.engines.node_memory import NodeMemory
from barymesh.engines.socket_transport import SocketTransport
from barymesh.errors import NumericalError, OptionError
from barymesh.io.slot_file import SlotFile
from barymesh.metrics import tv_bound
from barymesh.problem import Problem
from barymesh.record import TreePlaces
from barymesh.transport.admission import Tolerance
from barymesh.transport.keys import KeyPair
from barymesh.transport.sockets import Links
from barymesh.transport.subscriber import Neighbour
from barymesh.transport.wire import MessageFormat

_log = logging.getLogger(__name__)

Floats = NDArray[np.float64]


class StopReason(StrEnum):
    """Why a process ended its work."""

    CONVERGED = "the network has converged to the tolerance"
    OUT_OF_TIME = "the duration is over"
    STOPPED = "it received a request to stop"


@dataclass(frozen=True)
class Pace:
    """A node acts every ``interval`` seconds, give or take a share ``jitter`` of it; 0 for as often as it can."""

    interval: float = 0.05
    jitter: float = 0.2

    def __post_init__(self) -> None:
        read.interval("The interval", self.interval)
        jitter = real_number(self.jitter)
        if jitter is None or not 0 <= jitter < 1:
            raise OptionError(f"The jitter is {self.jitter!r}; it must be a share of the interval, 0 or more, below 1.")


@dataclass(frozen=True)
class Snapshot:
    """What the nodes of a process know now. ``weights (k, n)``: their estimates of the barycenter; ``duals (k, n)``,
    and the ``values (k,)`` of their dual functions there; ``errors (k,)``: their own estimates of the distance
    from the barycenter, in L1, and ``gaps (k,)``: those they know to be certified, with the ``tv_bounds (k,)`` that
    follow, NaN where there is none; ``points (k, n, d)`` that each
    node has, where they move; ``activations`` of all nodes together, and the ``messages``
    and ``bytes`` that they have sent, since they last began without their memory; ``unreached``: why, of the
    neighbours that there has never been a connection with, by their names; ``places`` in the tree, if there is one."""

    nodes: NDArray[np.intp]
    weights: Floats
    duals: Floats
    values: Floats
    errors: Floats
    gaps: Floats
    tv_bounds: Floats
    points: Floats | None
    activations: int
    messages: int
    bytes: int
    stopped: bool
    seconds: float
    unreached: Mapping[str, str] = field(default_factory=dict)
    places: TreePlaces | None = None


def hosted_algorithm(method: str, problem: Problem, nodes: Nodes, **options: Any) -> AsynchronousAlgorithm[Any]:
    """The method for the nodes of a process, whose measures the problem has; ``options`` as for ``build_algorithm``."""
    algorithm = build_algorithm(method, problem, nodes, **options)
    if not isinstance(algorithm, AsynchronousAlgorithm):
        raise OptionError(
            f"{method} is synchronous: its nodes wait for one another. Real networks need another method."
        )
    return algorithm


@dataclass(frozen=True)
class Place:
    """Where a process is on the network: the ``endpoint`` it listens at, with its key pair ``curve``, its
    neighbours, and the id of the ``run`` that all its messages carry."""

    run: str
    endpoint: str
    neighbours: Iterable[Neighbour]
    curve: KeyPair | None


class Runtime:
    """Runs an algorithm on its nodes, whose measures the ``problem`` has.

    ``began``: when the run began, in seconds since 1970: from it, and the pace, nodes compute how often the others have
    acted. ``state_file``: where the nodes' memory is kept, None to keep none; that of another network is replaced.
    ``about``: what else the memory depends on. ``sync``: it survives a power cut too. ``incarnation``: of nodes without
    memory; by default a random one. ``tolerance`` of bad messages.
    """

    def __init__(
        self, algorithm: AsynchronousAlgorithm[Any], problem: Problem, place: Place, pace: Pace, *,
        began: float | None = None, state_file: Path | None = None, about: str = "", sync: bool = False,
        incarnation: int | None = None, tolerance: Tolerance | None = None,
    ) -> None:  # fmt: skip
        elapsed = 0.0 if began is None else time.time() - began
        # from here on the wall clock may jump: only the steady one is used
        self._began = time.monotonic() - elapsed
        self.pace = pace
        life = new_incarnation() if incarnation is None else incarnation
        message_format = MessageFormat(
            place.run,
            *algorithm.bounds(),
            private=algorithm.private,
            contradiction=algorithm.contradiction,
            opaque=algorithm.opaque,
        )
        nodes = algorithm.nodes
        self.links = Links(
            nodes.ids.tolist(), place.endpoint, place.neighbours, message_format, curve=place.curve, tolerance=tolerance
        )
        self.transport = SocketTransport(nodes, self.links, algorithm.width, life)
        self.host = Host(algorithm, self.transport, problem, life)
        self.memory = NodeMemory(self.host, self.transport, about, place.run)
        self._stop = asyncio.Event()
        self._random = np.random.default_rng()
        # the last memory that led to messages which could be sent
        self._kept: bytes | None = None
        self.store = None if state_file is None else SlotFile(state_file, len(self.memory.pack()), sync=sync)
        # whether the file has the memory of another network
        self.replaces_memory = False
        try:
            if self.store is not None and (kept := self.store.read()) is not None:
                if self.memory.is_of_this_run(kept):
                    self.memory.unpack(kept)
                    self._kept = kept
                    _log.info("continuing after %d activations", self.host.activations)
                else:
                    self.replaces_memory = True
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file of the state."""
        if self.store is not None:
            self.store.close()

    def stop(self) -> None:
        """Stop after the current activation."""
        self._stop.set()

    async def run(
        self, *, duration: float | None = None, linger: float | None = None,
        every: float = 1.0, report: Callable[[Snapshot], None] | None = None,
    ) -> StopReason:  # fmt: skip
        """Work until ``duration`` seconds are over, until ``linger`` seconds after the nodes know that the network has
        converged (None: continue, as others may still need their messages, or have new data), or until ``stop``.

        ``report`` is called with a Snapshot every so many seconds, and at the end.
        """
        if self.store is not None and self.replaces_memory:
            _log.info("the network has changed: beginning without the memory of the one before")
            self.store.clear(len(self.memory.pack()))
        due = started = time.monotonic()
        converged: float | None = None
        reported = -np.inf
        while True:
            now = time.monotonic()
            if self.links.outdated:
                self._begin_anew()
            batch = self.host.batch(self._usual())
            outgoing = self._activated(batch)
            if outgoing is not None:
                if self.store is not None:
                    self._kept = self.memory.pack()
                    self.store.write(self._kept)
                self.host.send(batch, outgoing)
            if linger is not None:
                converged = (converged or now) if self.host.stopped.all() else None
            reason = self._stop_reason(now - started, duration, converged and now - converged, linger)
            if report is not None and (now - reported >= every or reason is not None):
                report(self.snapshot())
                reported = now
            if reason is not None:
                return reason
            due = max(due + self._wait(), time.monotonic())
            await self._until(due)

    def _begin_anew(self) -> None:
        """The memory was an old one: begin without it, as a node that joins."""
        incarnation = new_incarnation()
        self.host.begin(incarnation)
        self.transport.begin(incarnation)
        self._kept = None

    def _activated(self, batch: Batch) -> Outgoing | None:
        """The messages of the nodes, which act. None if there is no finite answer to what they have received, or none
        that the neighbours would accept: then nothing is kept of what led there, neither on disk nor in memory.
        NumericalError if the nodes' own measures are to blame."""
        try:
            outgoing = self.host.activate(batch)
            self.transport.check(batch, outgoing.messages)
        except NumericalError as error:
            if self._kept is None or not self.transport.arrived.any():
                raise
            _log.error("%s The nodes go back to where they were, and drop what their neighbours have sent.", error)
            self.memory.unpack(self._kept)
            self.transport.drop()
            return None
        return outgoing

    def snapshot(self) -> Snapshot:
        """What the nodes know now."""
        host = self.host
        view = host.view(self._usual() * host.nodes.size, self.transport.inbox(np.arange(host.nodes.count)))
        return Snapshot(
            nodes=host.nodes.ids,
            weights=view.estimates,
            duals=view.duals,
            values=view.values,
            errors=view.errors,
            gaps=view.gaps,
            tv_bounds=np.array([tv_bound(gap, host.problem.reg, debias=host.problem.debias) for gap in view.gaps]),
            points=view.points,
            activations=host.activations,
            messages=host.traffic.messages,
            bytes=host.traffic.bytes,
            stopped=bool(host.stopped.all()),
            # a slow clock may show a time before the run began
            seconds=max(0.0, time.monotonic() - self._began),
            unreached=self.links.unreached(),
            places=host.algorithm.places(host.state),
        )

    def _usual(self) -> int:
        """How often a node has acted by now, if all keep the pace."""
        if self.pace.interval == 0:
            return int(self.host.activations / self.host.nodes.count)
        return max(0, int((time.monotonic() - self._began) / self.pace.interval))

    def _wait(self) -> float:
        if not self.pace.interval:
            return 0.0
        return float(self.pace.interval * (1.0 + self.pace.jitter * self._random.uniform(-1.0, 1.0)))

    async def _until(self, due: float) -> None:
        """Wait, and let the links work, even if there is no time to wait."""
        # what is ready to be read is read after all that is ready to run: it is here only a turn of the loop later
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        left = due - time.monotonic()
        if left > 0:
            try:
                await asyncio.wait_for(self._stop.wait(), left)
            except TimeoutError:
                return

    def _stop_reason(
        self, seconds: float, duration: float | None, since_converged: float | None, linger: float | None
    ) -> StopReason | None:
        if self._stop.is_set():
            return StopReason.STOPPED
        if linger is not None and since_converged is not None and since_converged >= linger:
            return StopReason.CONVERGED
        if duration is not None and seconds >= duration:
            return StopReason.OUT_OF_TIME
        return None


def new_incarnation() -> int:
    """A random one, which no node has had before. No clock is needed to tell the newer of two: a neighbour announces
    its own in every connection (transport/handshake.py). 1 is for nodes that cannot have been there before."""
    return 2 + secrets.randbelow(2**62)
