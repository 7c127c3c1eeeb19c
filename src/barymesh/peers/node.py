"""A node of an organisation at work: put together from its kit and its data, with its state and its newest result on
disk, and its status for those on the same machine."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
import warnings
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from barymesh.checks import real_number
from barymesh.decentralized import WITHOUT_STEP
from barymesh.engines.host import Host, local_algorithm
from barymesh.engines.runtime import Ending, Pace, Runtime, Snapshot
from barymesh.errors import AccuracyWarning, BarymeshError, FileError, NetworkError, WeightError
from barymesh.io.files import read_measure
from barymesh.io.slot_file import SlotFile
from barymesh.peers.network_file import Kit
from barymesh.peers.status import StatusServer
from barymesh.privacy import private_measure
from barymesh.privacy.ledger import LEDGER, enter
from barymesh.problem import Problem
from barymesh.support.text import parse_support
from barymesh.transport import endpoints
from barymesh.transport.admission import Rules
from barymesh.transport.rate_limit import Seldom
from barymesh.transport.sockets import Links
from barymesh.transport.subscriber import Neighbour

if TYPE_CHECKING:
    from barymesh.measures import Histogram
    from barymesh.privacy import Release
    from barymesh.privacy.ledger import Spent

_log = logging.getLogger(__name__)

STATE, RESULT = "state", "result.npz"
# a node that has not acted for so many seconds, beyond its interval, is not well
_STUCK = 30.0
# a support that misses more of a measure's mass than this is not one for these data
_MOST_OUTSIDE = 0.5
# seconds to wait for a neighbour's door to open, in a check
_KNOCK = 3.0


class Peer:
    """The ``runtime`` of a node, which keeps ``result.npz`` in its ``folder`` up to date; made by ``open_peer``."""

    def __init__(self, kit: Kit, runtime: Runtime, folder: Path, spent: Spent | None = None) -> None:
        self.kit, self.runtime, self.folder, self.spent = kit, runtime, folder, spent
        self.latest: Snapshot | None = None
        self._ready, self._stays = False, False
        self._started = self._seen = time.monotonic()
        self._seldom = Seldom()
        self._unwritten: FileError | None = None

    async def run(self, *, duration: float | None = None, linger: float | None = None) -> Ending:
        """Work as ``Runtime.run`` does. The last result is written in any case; an error if it could not be."""
        self._stays = linger is None
        async with AsyncExitStack() as stack:
            if self.runtime.store is not None:
                stack.callback(self.runtime.store.close)
            if self.kit.entry.status_port is not None:
                await stack.enter_async_context(StatusServer(self.facts, self.kit.entry.status_port, self.estimate))
            await asyncio.to_thread(self.runtime.warm_up)
            self._ready, self._seen = True, time.monotonic()
            await stack.enter_async_context(self.runtime.links)
            _log.info(
                "at work, listening at %s", self.runtime.links.endpoint, extra={"network": self.kit.network.fingerprint}
            )
            ending = await self.runtime.run(duration=duration, linger=linger, tell=self._tell)
        if self._unwritten is not None:
            raise self._unwritten
        return ending

    def stop(self) -> None:
        """Ask it to end after the activation at hand."""
        self.runtime.stop()

    def facts(self) -> dict[str, Any]:
        """How the node fares, for its status."""
        kit, links, latest = self.kit, self.runtime.links, self.latest
        now = time.monotonic()
        return {
            "name": kit.name,
            "node": kit.number,
            "run": kit.network.run,
            "method": kit.network.method,
            "fingerprint": kit.network.fingerprint,
            "ready": self._ready,
            "healthy": not self._ready or now - self._seen <= _STUCK + 2 * kit.network.interval,
            "activations": self.runtime.host.activations,
            "incarnation": self.runtime.host.incarnation,
            "stopped": self.runtime.host.stopped,
            "stays": self._stays,
            "support": kit.network.support,
            "error": None if latest is None else float(latest.errors[0]),
            "uptime": now - self._started,
            "result": str(self.folder / RESULT),
            "privacy": None if self.spent is None else asdict(self.spent),
            "messages": {"sent": links.sent_messages, "sent_bytes": links.sent_bytes},
            "strangers": links.strangers,
            "links": {name: asdict(link) for name, link in links.status().items()},
        }

    def estimate(self) -> dict[str, Any]:
        """What the node took for the barycenter when it last looked; nothing before that."""
        latest = self.latest
        return {} if latest is None else {"activations": latest.activations, "weights": latest.weights[0].tolist()}

    def _tell(self, found: Snapshot) -> None:
        self.latest, self._seen = found, time.monotonic()
        try:
            self.runtime.write(self.folder / RESULT, found)
            self._unwritten = None
        except FileError as error:
            # a disk that is full now need not be so at the end, and the others need this node
            self._unwritten = error
            if self._seldom.held("result") is not None:
                _log.error("the result is not written: %s", error)


async def open_peer(kit: Kit, measure: Any, weight: float, folder: Path, promise: Promise | None = None) -> Peer:
    """The node of the kit, which has the measure, with a ``weight`` relative to the 1 of an ordinary node, ready to
    run in this event loop. Its state and result are in the ``folder``: if there is a state, it goes on from there.
    With a ``promise`` only a private release of the measure is used, and entered into the ledger in the folder."""
    release = None
    if promise is not None:
        measure, release = released(kit, measure, promise)
    network, graph = kit.network, kit.network.network()
    _require_usable(weight, network.method)
    problem = local_problem(kit, measure, weight)
    # the data are all here: there is nothing to gain from drawing a few of them
    algorithm = local_algorithm(
        network.method, problem, graph, [kit.number], np.array([weight]), tol=network.tol, batch="exact"
    )
    began = network.began.timestamp()
    about = f"{network.fingerprint} {weight!r} {_digest(problem)}"
    host = Host(algorithm, graph, [kit.number], incarnation(time.time() - began), about)
    listen = kit.listen or await _own_address(kit)
    store = _store(folder, len(host.saved()))
    try:
        rules = Rules(network.fingerprint, *algorithm.bounds())
        links = Links([kit.number], listen, neighbours(kit), rules, curve=kit.keys)
        runtime = Runtime(host, links, problem, Pace(network.interval), store, began)
        # before a word of it is said
        spent = None if release is None else enter(folder / LEDGER, release)
    except BaseException:
        store.close()
        raise
    return Peer(kit, runtime, folder, spent)


@dataclass(frozen=True)
class Promise:
    """How much a node may tell about any one record of its data."""

    epsilon: float
    delta: float


def released(kit: Kit, measure: Any, promise: Promise) -> tuple[Histogram, Release]:
    """The measure with noise that only this node can make, the same at every start."""
    return private_measure(
        measure, parse_support(kit.network.support), reg=kit.network.reg, epsilon=promise.epsilon,
        delta=promise.delta, key=kit.keys.secret.encode(),
    )  # fmt: skip


def incarnation(seconds: float) -> int:
    """That of a node which begins without its memory so many seconds after the run began: larger than any before."""
    return 1 + max(0, int(seconds))


def neighbours(kit: Kit) -> list[Neighbour]:
    """Those the node talks to."""
    known = kit.network.nodes
    return [
        Neighbour(known[j].name, known[j].endpoint, (int(j),), known[j].public_key)
        for j in kit.network.network().neighbours_of(kit.number)
    ]


def local_problem(kit: Kit, measure: Any, weight: float) -> Problem:
    """What the node knows of the problem: its own measure. An error if that does not fit the network."""
    number = real_number(weight)
    if number is None or number <= 0:
        raise WeightError(f"The weight is {weight!r}; it must be a positive number. An ordinary node has 1.")
    # of their own seed: nodes must not draw the same samples
    return Problem.create([measure], parse_support(kit.network.support), reg=kit.network.reg, seed=kit.number)


@dataclass(frozen=True)
class Finding:
    """One thing that was checked: ``ok`` or not, and what there is to say or to do."""

    what: str
    ok: bool
    text: str


async def check(
    folder: Path, data: Path, weight: float = 1.0, promise: Promise | None = None, **reading: Any
) -> list[Finding]:
    """Whether the node of the kit in the folder could run now with these data. Starts nothing, and changes nothing."""
    try:
        kit = Kit.open(folder)
    except BarymeshError as error:
        return [Finding("kit", False, str(error))]
    network = kit.network
    found = [Finding("kit", True, f"{kit.name} of {network.run}, network {network.fingerprint}")]
    found.append(Finding("key", True, f"{kit.keys.fingerprint}, private, and the one in the network file"))
    try:
        measure = read_measure(data, **reading)
        _require_usable(weight, network.method)
        fit = _fit(kit, measure, weight)
        if promise is not None:
            # made and thrown away: nobody sees it
            local_problem(kit, released(kit, measure, promise)[0], weight)
        found.append(fit)
    except BarymeshError as error:
        found.append(Finding("data", False, str(error)))
    found.append(_clock(network.began))
    found.append(await _door(kit))
    if (port := kit.entry.status_port) is not None:
        try:
            async with StatusServer(dict, port):
                found.append(Finding("status", True, f"can be served at port {port}"))
        except NetworkError as error:
            found.append(Finding("status", False, str(error)))
    found += await asyncio.gather(*(_knock(one) for one in neighbours(kit)))
    return found


def _fit(kit: Kit, measure: Any, weight: float) -> Finding:
    """Whether the measure fits the support of the network, and lies where that is."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", AccuracyWarning)
        problem = local_problem(kit, measure, weight)
    sentences = [str(one.message) for one in caught if issubclass(one.category, AccuracyWarning)]
    size, fits = problem.atoms[0].weights.size, problem.share_outside() <= _MOST_OUTSIDE
    text = f"{size} points, {'fit' if fits else 'do not fit'} {problem.support!r}"
    return Finding("data", fits, ". ".join([text, *sentences]))


def _require_usable(weight: float, method: str) -> None:
    if weight != 1 and method not in WITHOUT_STEP:
        raise WeightError(
            f"The weight is {weight!r}, and {method} needs weights of 1: its step depends on all weights, which nobody "
            "knows. Make the network with method sinkhorn."
        )


def _clock(began: datetime) -> Finding:
    now = datetime.now(UTC).replace(microsecond=0)
    if now < began:
        text = f"This machine has {now.isoformat()}, and the run begins at {began.isoformat()}. Set the clock, or wait."
        return Finding("clock", False, text)
    return Finding("clock", True, f"{now.isoformat()}, after the run began")


async def _door(kit: Kit) -> Finding:
    """Whether the node could listen where it shall."""
    try:
        listen = kit.listen or await _own_address(kit)
        if listen.startswith("ipc://"):
            # to try it would take the place of who listens there
            return Finding("endpoint", True, f"{listen} is on this machine")
        # with nobody admitted, and closed at once
        async with Links([kit.number], listen, [], Rules("check", np.zeros(1), np.ones(1)), curve=kit.keys):
            pass
    except BarymeshError as error:
        return Finding("endpoint", False, str(error))
    return Finding("endpoint", True, f"can listen at {listen}")


async def _knock(neighbour: Neighbour) -> Finding:
    """Whether somebody listens at the neighbour's endpoint. Who it is, only a run can tell."""
    what, where = f"neighbour {neighbour.name}", neighbour.endpoint
    try:
        async with asyncio.timeout(_KNOCK):
            kind, _, address = (await endpoints.resolved(where)).partition("://")
            if kind == "ipc":
                _, writer = await asyncio.open_unix_connection(address)
            else:
                host, _, port = address.rpartition(":")
                _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
            writer.close()
    except (OSError, UnicodeError) as error:
        why = "no answer" if isinstance(error, TimeoutError) else getattr(error, "strerror", None) or error
        text = f"{where} cannot be reached: {why}. It may not be running yet; else look at its address and firewalls."
        return Finding(what, False, text)
    return Finding(what, True, f"somebody listens at {where}")


async def _own_address(kit: Kit) -> str:
    """Its endpoint with an address for the name: one listens at addresses."""
    try:
        return await endpoints.resolved(kit.entry.endpoint)
    except (OSError, UnicodeError) as error:
        raise NetworkError(
            f"The own endpoint {kit.entry.endpoint} is not known here: {error}. Write where to listen into "
            f'{kit.folder / "node.toml"}, such as listen = "tcp://0.0.0.0:5555".'
        ) from error


def _store(folder: Path, room: int) -> SlotFile:
    try:
        return SlotFile(folder / STATE, room)
    except FileError:
        raise
    except OSError as error:
        raise FileError(
            f"The folder {folder} cannot be used: {error.strerror or error}. Choose another with write permission."
        ) from error


def _digest(problem: Problem) -> str:
    """Of the measure: a node that has stopped must not take new data for the old."""
    atoms = problem.atoms[0]
    digest = hashlib.blake2b(digest_size=16)
    for array in (atoms.points, atoms.weights):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
