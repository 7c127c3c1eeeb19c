"""A running node of an organisation: built from its kit and its data, with its state and its newest result on disk, and
its status on the same machine."""

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
from numpy.typing import NDArray

from barymesh.checks import real_number
from barymesh.decentralized.algorithm import Nodes
from barymesh.engines.runtime import Pace, Place, Runtime, Snapshot, StopReason, hosted_algorithm
from barymesh.errors import AccuracyWarning, BarymeshError, FileError, NetworkError, WeightError
from barymesh.io.files import read_measure
from barymesh.method_names import WITHOUT_STEP
from barymesh.peers.network_file import Kit
from barymesh.peers.status import StatusServer
from barymesh.privacy import private_measure
from barymesh.privacy.ledger import LEDGER, record_release
from barymesh.problem import Problem
from barymesh.support.text import parse_support
from barymesh.transport import endpoints
from barymesh.transport.rate_limit import RateLimit
from barymesh.transport.sockets import Links
from barymesh.transport.subscriber import Neighbour
from barymesh.transport.wire import MessageFormat

if TYPE_CHECKING:
    from barymesh.measures import Histogram
    from barymesh.privacy import Release
    from barymesh.privacy.ledger import Spent

_log = logging.getLogger(__name__)

STATE, RESULT = "state", "result.npz"
# a node that has not been active for so many seconds beyond its interval is not healthy
_STUCK = 30.0
# a support that misses more of a measure's mass than this is not one for these data
_MOST_OUTSIDE = 0.5
# seconds to wait for a neighbour to accept a connection, in a check
_REACH_TIMEOUT = 3.0


class Peer:
    """The ``runtime`` of a node, which keeps ``result.npz`` in its ``folder`` up to date; made by ``open_peer``."""

    def __init__(self, kit: Kit, runtime: Runtime, folder: Path, spent: Spent | None = None) -> None:
        self.kit, self.runtime, self.folder, self.spent = kit, runtime, folder, spent
        self.latest: Snapshot | None = None
        self._ready, self._keeps_running = False, False
        self._started = self._seen = time.monotonic()
        self._log_limit = RateLimit()
        self._write_error: FileError | None = None

    async def run(self, *, duration: float | None = None, linger: float | None = None) -> StopReason:
        """Run as ``Runtime.run`` does. The last result is written in any case. FileError if it could not be."""
        self._keeps_running = linger is None
        async with AsyncExitStack() as stack:
            stack.callback(self.runtime.close)
            if self.kit.entry.status_port is not None:
                await stack.enter_async_context(StatusServer(self.facts, self.kit.entry.status_port, self.estimate))
            await stack.enter_async_context(self.runtime.links)
            self._ready, self._seen = True, time.monotonic()
            _log.info(
                "at work, listening at %s", self.runtime.links.endpoint, extra={"network": self.kit.network.fingerprint}
            )
            ending = await self.runtime.run(duration=duration, linger=linger, report=self._on_snapshot)
        if self._write_error is not None:
            raise self._write_error
        return ending

    def stop(self) -> None:
        """Ask it to end after the current activation."""
        self.runtime.stop()

    def facts(self) -> dict[str, Any]:
        """The facts of its status."""
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
            "stopped": bool(self.runtime.host.stopped.all()),
            "keeps_running": self._keeps_running,
            "support": kit.network.support,
            "error": None if latest is None else float(latest.errors[0]),
            "gap": None if latest is None else _known(latest.gaps),
            "tv_bound": None if latest is None else _known(latest.tv_bounds),
            "uptime": now - self._started,
            "result": str(self.folder / RESULT),
            "privacy": None if self.spent is None else asdict(self.spent),
            "sent_messages": links.sent_messages,
            "sent_bytes": links.sent_bytes,
            "repeated_messages": links.repeated_messages,
            "repeated_bytes": links.repeated_bytes,
            "refused_connections": links.refused_connections,
            "links": {name: asdict(link) for name, link in links.status().items()},
        }

    def estimate(self) -> dict[str, Any]:
        """The node's last estimate of the barycenter; empty before the first."""
        latest = self.latest
        return {} if latest is None else {"activations": latest.activations, "weights": latest.weights[0].tolist()}

    def _on_snapshot(self, found: Snapshot) -> None:
        self.latest, self._seen = found, time.monotonic()
        try:
            self.runtime.write(self.folder / RESULT, found)
            self._write_error = None
        except FileError as error:
            # the disk may have space again at the end, and the others need this node
            self._write_error = error
            if self._log_limit.suppressed("result") is not None:
                _log.error("the result could not be written: %s", error)


def _known(values: NDArray[np.float64]) -> float | None:
    """The first of the values, None if it is not known."""
    return None if np.isnan(values[0]) else float(values[0])


async def open_peer(kit: Kit, measure: Any, weight: float, folder: Path, budget: PrivacyBudget | None = None) -> Peer:
    """The node of the kit with this measure, ready to run in this event loop. ``weight`` is relative to that of an
    ordinary node, which is 1. State and result are in the ``folder``; if there is a state, the node continues from it.
    With a ``budget`` only a private release of the measure is used, and recorded in the ledger in the folder."""
    release = None
    if budget is not None:
        measure, release = released(kit, measure, budget)
    network, graph = kit.network, kit.network.network()
    _require_usable(weight, network.method)
    problem = local_problem(kit, measure, weight)
    # all data are here: nothing is gained by drawing samples of them
    nodes = Nodes(graph, np.array([kit.number]), np.array([weight]))
    algorithm = hosted_algorithm(network.method, problem, nodes, tol=network.tol, batch="exact")
    listen = kit.listen or await _own_address(kit)
    runtime = Runtime(
        algorithm, problem, Place(network.fingerprint, listen, neighbours(kit), kit.keys), Pace(network.interval),
        began=network.began.timestamp(), state_file=folder / STATE,
        about=f"{network.fingerprint} {weight!r} {_digest(problem)}",
    )  # fmt: skip
    try:
        # before the first message is sent
        spent = None if release is None else record_release(folder / LEDGER, release)
    except BaseException:
        runtime.close()
        raise
    return Peer(kit, runtime, folder, spent)


@dataclass(frozen=True)
class PrivacyBudget:
    """The differential privacy of each record of the data."""

    epsilon: float
    delta: float


def released(kit: Kit, measure: Any, budget: PrivacyBudget) -> tuple[Histogram, Release]:
    """The measure with noise computed from the secret key of this node, the same at every start."""
    return private_measure(
        measure, parse_support(kit.network.support), reg=kit.network.reg, epsilon=budget.epsilon,
        delta=budget.delta, key=kit.keys.secret.encode(),
    )  # fmt: skip


def neighbours(kit: Kit) -> list[Neighbour]:
    """The neighbours of the node."""
    known = kit.network.nodes
    return [
        Neighbour(known[j].name, known[j].endpoint, (int(j),), known[j].public_key)
        for j in kit.network.network().neighbours_of(kit.number)
    ]


def local_problem(kit: Kit, measure: Any, weight: float) -> Problem:
    """The problem as the node knows it: with its own measure only. An error if that does not fit the network."""
    number = real_number(weight)
    if number is None or number <= 0:
        raise WeightError(f"The weight is {weight!r}; it must be a positive number. An ordinary node has 1.")
    # each node has its own seed: two nodes must not draw the same samples
    return Problem.create([measure], parse_support(kit.network.support), reg=kit.network.reg, seed=kit.number)


@dataclass(frozen=True)
class CheckResult:
    """The outcome of one check: ``ok`` or not, and a text with the finding or the remedy."""

    what: str
    ok: bool
    text: str


async def check(
    folder: Path, data: Path, weight: float = 1.0, budget: PrivacyBudget | None = None, **reading: Any
) -> list[CheckResult]:
    """Whether the node of the kit in the folder could run now with these data. Nothing is started or changed."""
    try:
        kit = Kit.open(folder)
    except BarymeshError as error:
        return [CheckResult("kit", False, str(error))]
    network = kit.network
    found = [CheckResult("kit", True, f"{kit.name} of {network.run}, network {network.fingerprint}")]
    found.append(CheckResult("key", True, f"{kit.keys.fingerprint}, private, and the one in the network file"))
    try:
        measure = read_measure(data, **reading)
        _require_usable(weight, network.method)
        fit = _fit(kit, measure, weight)
        if budget is not None:
            # made for the check only, and not released
            local_problem(kit, released(kit, measure, budget)[0], weight)
        found.append(fit)
    except BarymeshError as error:
        found.append(CheckResult("data", False, str(error)))
    found.append(_clock(network.began))
    found.append(await _can_listen(kit))
    if (port := kit.entry.status_port) is not None:
        try:
            async with StatusServer(dict, port):
                found.append(CheckResult("status", True, f"can be served at port {port}"))
        except NetworkError as error:
            found.append(CheckResult("status", False, str(error)))
    found += await asyncio.gather(*(_reachable(one) for one in neighbours(kit)))
    return found


def _fit(kit: Kit, measure: Any, weight: float) -> CheckResult:
    """Whether the measure fits the support of the network, and lies where that is."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", AccuracyWarning)
        problem = local_problem(kit, measure, weight)
    sentences = [str(one.message) for one in caught if issubclass(one.category, AccuracyWarning)]
    size, fits = problem.atoms[0].weights.size, problem.share_outside() <= _MOST_OUTSIDE
    text = f"{size} points, {'fit' if fits else 'do not fit'} {problem.support!r}"
    return CheckResult("data", fits, ". ".join([text, *sentences]))


def _require_usable(weight: float, method: str) -> None:
    if weight != 1 and method not in WITHOUT_STEP:
        raise WeightError(
            f"The weight is {weight!r}, and {method} needs weights of 1: its step depends on the weights of all nodes, "
            "which no node knows. Make the network with method sinkhorn."
        )


def _clock(began: datetime) -> CheckResult:
    now = datetime.now(UTC).replace(microsecond=0)
    if now < began:
        text = f"It is {now.isoformat()} here, and the run begins at {began.isoformat()}. Set the clock, or wait."
        return CheckResult("clock", False, text)
    return CheckResult("clock", True, f"{now.isoformat()}, after the run began")


async def _can_listen(kit: Kit) -> CheckResult:
    """Whether the node can listen at its address."""
    try:
        listen = kit.listen or await _own_address(kit)
        if listen.startswith("ipc://"):
            # binding it would take it from a program that listens there
            return CheckResult("endpoint", True, f"{listen} is on this machine")
        # with no key admitted, and closed at once
        async with Links([kit.number], listen, [], MessageFormat("check", np.zeros(1), np.ones(1)), curve=kit.keys):
            pass
    except BarymeshError as error:
        return CheckResult("endpoint", False, str(error))
    return CheckResult("endpoint", True, f"can listen at {listen}")


async def _reachable(neighbour: Neighbour) -> CheckResult:
    """Whether a program listens at the neighbour's endpoint. Only a run shows whether it has the right key."""
    what, where = f"neighbour {neighbour.name}", neighbour.endpoint
    try:
        async with asyncio.timeout(_REACH_TIMEOUT):
            kind, _, address = (await endpoints.resolved(where)).partition("://")
            if kind == "ipc":
                _, writer = await asyncio.open_unix_connection(address)
            else:
                host, _, port = address.rpartition(":")
                _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
            writer.close()
    except (OSError, UnicodeError) as error:
        why = "no answer" if isinstance(error, TimeoutError) else getattr(error, "strerror", None) or error
        text = f"{where} cannot be reached: {why}. It may not run yet; otherwise check its address and the firewalls."
        return CheckResult(what, False, text)
    return CheckResult(what, True, f"a program listens at {where}")


async def _own_address(kit: Kit) -> str:
    """The endpoint with an address in place of the host name: a socket is bound to an address."""
    try:
        return await endpoints.resolved(kit.entry.endpoint)
    except (OSError, UnicodeError) as error:
        raise NetworkError(
            f"The host of {kit.entry.endpoint} cannot be resolved here: {error}. Write the address to listen at into "
            f'{kit.folder / "node.toml"}, such as listen = "tcp://0.0.0.0:5555".'
        ) from error


def _digest(problem: Problem) -> str:
    """A digest of the measure: a node must not continue from the state of other data."""
    atoms = problem.atoms[0]
    digest = hashlib.blake2b(digest_size=16)
    for array in (atoms.points, atoms.weights):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
