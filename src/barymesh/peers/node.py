"""A running node of an organisation: built from its kit and its data, with its state and its newest result on disk, and
its status on the same machine. What is done with the data is in the ledger and the audit log before it is done."""

from __future__ import annotations

import logging
import secrets
import time
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from barymesh import __version__
from barymesh.decentralized.algorithm import Nodes
from barymesh.decentralized.masks.streams import Masks
from barymesh.decentralized.tree import SpanningTree, TreeState
from barymesh.engines.runtime import Pace, Place, Runtime, Snapshot, StopReason, hosted_algorithm
from barymesh.errors import DamagedFileError, FileError, NetworkError, SupportError, WeightError
from barymesh.io.output import RESULT, TABLE, write_picture, write_weights
from barymesh.methods.entropic import require_reach
from barymesh.peers import audit
from barymesh.peers.doubts import Doubts
from barymesh.peers.kit import Kit
from barymesh.peers.last_run import LastRun
from barymesh.peers.logs import log_phase
from barymesh.peers.states import node_state, state_text
from barymesh.peers.status import StatusServer
from barymesh.privacy import private_measure
from barymesh.privacy.ledger import LEDGER, OpenUse, record_use
from barymesh.problem import Problem
from barymesh.result import Result
from barymesh.status import Status
from barymesh.support.free import FreeSupport
from barymesh.support.text import parse_support
from barymesh.transport import endpoints
from barymesh.transport.keys import raw_public
from barymesh.transport.rate_limit import RateLimit
from barymesh.transport.subscriber import Neighbour
from barymesh.transport.wire import VERSION

if TYPE_CHECKING:
    from barymesh.measures import Histogram
    from barymesh.privacy import Release
    from barymesh.privacy.ledger import Spent

_log = logging.getLogger(__name__)

# the state of the node, and the names of neighbours that are to be admitted again
STATE, READMIT = "state", "readmit"
# a node that has not been active for so many seconds beyond its interval is not healthy
_STUCK = 30.0
_STATUS = {
    StopReason.CONVERGED: Status.CONVERGED, StopReason.OUT_OF_TIME: Status.OUT_OF_TIME,
    StopReason.STOPPED: Status.INTERRUPTED,
}  # fmt: skip


class Peer:
    """The ``runtime`` of a node, which keeps ``result.npz`` in its ``folder`` up to date; made by ``open_peer``. When
    the network has converged, and at the end, the barycenter is written as a table too, and drawn if there is to be a
    ``picture``."""

    def __init__(
        self, kit: Kit, runtime: Runtime, folder: Path, spent: Spent, audit_head: str = audit.EMPTY, *,
        picture: bool = False,
    ) -> None:  # fmt: skip
        self.kit, self.runtime, self.folder, self.spent, self.picture = kit, runtime, folder, spent, picture
        self.audit_head = audit_head
        self._names = [node.name for node in kit.network.nodes]
        self.latest: Snapshot | None = None
        self.last_run = LastRun(kit, folder)
        self._ready, self._keeps_running = False, False
        self._started = self._seen = time.monotonic()
        self._log_limit = RateLimit()
        self._write_error: FileError | None = None
        self._state, self._shown = "", False
        self.doubts: Doubts | None = None
        if isinstance(algorithm := runtime.host.algorithm, SpanningTree):
            target = slice(algorithm.private.stop, algorithm.width)
            self.doubts = Doubts(kit.number, self._names, self._by_key, target)
            runtime.transport.observer = self.doubts.look

    async def run(self, *, duration: float | None = None, linger: float | None = None) -> StopReason:
        """Run as ``Runtime.run`` does. The last result is written in any case. FileError if it could not be."""
        self._keeps_running = linger is None
        async with AsyncExitStack() as stack:
            stack.callback(self.runtime.close)
            if self.kit.entry.status_port is not None:
                await stack.enter_async_context(StatusServer(self.facts, self.kit.entry.status_port, self.estimate))
            await stack.enter_async_context(self.runtime.links)
            self._ready, self._seen = True, time.monotonic()
            log_phase(
                "listening", f"at {self.runtime.links.endpoint}, for {', '.join(self.runtime.links.status())}",
                network=self.kit.network.fingerprint,
            )  # fmt: skip
            self.last_run.begun()
            try:
                ending = await self.runtime.run(duration=duration, linger=linger, report=self._on_snapshot)
            except BaseException as error:
                self._ended("failed", f"{type(error).__name__}: {error}".rstrip(": "))
                raise
            self._ended(ending.name.lower(), str(ending))
            if self.latest is not None:
                self._write(self.latest, Status.CONVERGED if self.latest.stopped else _STATUS[ending], shown=True)
        if self._write_error is not None:
            raise self._write_error
        return ending

    def _ended(self, ending: str, text: str) -> None:
        """Leave word of the end. What cannot be written must not hide it."""
        log_phase("ended", text)
        self.last_run.ended(ending, text, bool(self.runtime.host.stopped.all()))
        try:
            facts = {"network": self.kit.network.fingerprint, "node": self.kit.name, "ending": ending}
            self.audit_head = audit.record(self.folder / audit.AUDIT, "end", facts)
            _log.info("the head of the audit log is %s", self.audit_head)
        except FileError as error:
            _log.error("%s", error)

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
            "program": __version__,
            "wire_version": VERSION,
            "ready": self._ready,
            "healthy": not self._ready or now - self._seen <= _STUCK + 2 * kit.network.interval,
            "activations": self.runtime.host.activations,
            "incarnation": self.runtime.host.incarnation,
            "stopped": bool(self.runtime.host.stopped.all()),
            "keeps_running": self._keeps_running,
            "support": kit.network.support,
            "weight": kit.weight,
            "weights": dict(zip(self._names, kit.network.node_weights().tolist(), strict=True)),
            "tree": self._place(),
            "doubts": [] if self.doubts is None else [asdict(one) for one in self.doubts.all],
            "masks": self._masks(),
            "error": None if latest is None else float(latest.errors[0]),
            "gap": None if latest is None else _known(latest.gaps),
            "tv_bound": None if latest is None else _known(latest.tv_bounds),
            "uptime": now - self._started,
            "result": str(self.folder / RESULT),
            "privacy": asdict(self.spent),
            "audit_head": self.audit_head,
            "sent_messages": links.sent_messages,
            "sent_bytes": links.sent_bytes,
            "repeated_messages": links.repeated_messages,
            "repeated_bytes": links.repeated_bytes,
            "refused_connections": links.refused_connections,
            "links": {name: asdict(link) for name, link in links.status().items()},
        }

    def _place(self) -> dict[str, Any] | None:
        """Where the node is in the tree: its root and its parent, by name, and whether it works in rounds; None with
        methods that have no tree."""
        state = self.runtime.host.state
        if not isinstance(state, TreeState):
            return None
        return {
            "root": self._names[self._by_key(float(state.root[0]))],
            "parent": self._names[int(state.parent[0])],
            "distance": int(state.distance[0]),
            "epoch": float(state.epoch[0]),
            "epochs_left": int(min(state.allowance[0], 2**31)),
            "rounds": bool(state.rounds[0] > 0),
        }

    def _by_key(self, key: float) -> int:
        """The number of the node that this key of a root stands for."""
        graph = self.runtime.host.nodes.network
        return int(graph.by_centrality[int(key) + graph.size])

    def _compare_root(self) -> None:
        state = self.runtime.host.state
        if self.doubts is not None and isinstance(state, TreeState) and not self.runtime.host.stopped.all():
            order = [self._names[node] for node in self.runtime.host.nodes.network.by_centrality]
            root = self._names[self._by_key(float(state.root[0]))]
            self.doubts.compare_root(root, float(state.stamp[0]), order, self.runtime.links.status())

    def _masks(self) -> dict[str, Any] | None:
        """The members of the sums that the node contributes to and those that lack in them, by name, none before there
        is a roll; why it does not contribute; and how many sums could not be read, if it is the root. None if its
        reports are not masked."""
        algorithm, state = self.runtime.host.algorithm, self.runtime.host.state
        if not isinstance(algorithm, SpanningTree) or not isinstance(state, TreeState) or algorithm.masked is None:
            return None
        names, members = [node.name for node in self.kit.network.nodes], set(algorithm.members(state, 0))
        return {
            "members": [name for number, name in enumerate(names) if number in members],
            "absent": [name for number, name in enumerate(names) if members and number not in members],
            "min_members": self.kit.network.min_members,
            "why_not": algorithm.why_not(state, 0, names.__getitem__),
            "void": int(state.void[0]),
        }

    def estimate(self) -> dict[str, Any]:
        """The node's last estimate of the barycenter; empty before the first."""
        latest = self.latest
        if latest is None:
            return {}
        moved = {} if latest.points is None else {"points": latest.points[0].tolist()}
        return {"activations": latest.activations, "weights": latest.weights[0].tolist(), **moved}

    def result(self, found: Snapshot, status: Status) -> Result:
        """The barycenter as this node knows it. It cannot know the objective, nor how far the others are from it."""
        problem = self.runtime.host.problem
        if found.points is not None:
            problem = problem.placed(found.points[0])
            status = Status.STATIONARY if status is Status.CONVERGED else status
        return Result(
            weights=found.weights[0], support=problem.support, node_weights=found.weights, duals=found.duals,
            value=np.nan, gap=float(found.gaps[0]), consensus=np.nan, feasibility=np.nan, reg=problem.reg,
            objective="debiased" if problem.debias else "entropic",
            method=self.kit.network.method, status=status, seconds=found.seconds, activations=found.activations,
            messages=found.messages, bytes=found.bytes, node_errors=found.errors, node_gaps=found.gaps,
            measures=len(self.kit.network.nodes), problem=problem,
        )  # fmt: skip

    def _on_snapshot(self, found: Snapshot) -> None:
        self.latest, self._seen = found, time.monotonic()
        self._compare_root()
        facts = self.facts()
        if (text := state_text(facts)) != self._state:
            self._state = text
            log_phase(text, f"after {found.activations} activations", state=node_state(facts))
        self._readmit()
        # the table and the picture once each time the network converges
        self._write(found, Status.CONVERGED if found.stopped else Status.RUNNING, shown=found.stopped > self._shown)
        self._shown = found.stopped

    def _readmit(self) -> None:
        """Admit the neighbours again that `barymesh readmit` has named in a file."""
        path = self.folder / READMIT
        try:
            names = path.read_text().split()
            path.unlink()
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            # whoever has written it sees that nothing comes of it
            if self._log_limit.suppressed("readmit") is not None:
                _log.error("%s cannot be read: %s", path, error)
            return
        for name in names:
            if self.runtime.links.readmit(name):
                _log.warning("peer %s: admitted again by hand", name, extra={"peer": name})

    def _write(self, found: Snapshot, status: Status, *, shown: bool) -> None:
        try:
            result = self.result(found, status)
            # the duals tell much about the data of this node
            result.save(self.folder / RESULT, private=True)
            if shown:
                write_weights(self.folder / TABLE, result)
                if self.picture:
                    write_picture(self.folder, result)
            self._write_error = None
        except FileError as error:
            # the disk may have space again at the end, and the others need this node
            self._write_error = error
            if self._log_limit.suppressed("result") is not None:
                _log.error("the result could not be written: %s", error)


def _known(values: NDArray[np.float64]) -> float | None:
    """The first of the values, None if it is not known."""
    return None if np.isnan(values[0]) else float(values[0])


async def open_peer(
    kit: Kit, measure: Any, folder: Path, privacy: PrivacyLevel | None = None, *,
    budget: float | None = None, source: str = "", consent: str = "", picture: bool = False, sync: bool = False,
) -> Peer:  # fmt: skip
    """The node of the kit with this measure, ready to run in this event loop. State and result are in the
    ``folder``; if there is a state, the node continues from it.

    With ``privacy`` only a private release of the measure is used. The use is in the ledger and the audit log of the
    folder before this returns; PrivacyError if the ledger then exceeds the ``budget``, an epsilon. ``source``: where
    the data come from, and ``consent``: how it was given, for the audit log. ``picture``: whether to draw the result.
    ``sync``: the state survives a power cut too.
    """
    own = own_problem(kit, measure)
    problem, use = own, use_of(kit, own)
    if privacy is not None:
        histogram, use = released(kit, measure, privacy)
        problem = local_problem(kit, histogram)
    try:
        runtime = await open_runtime(kit, problem, folder / STATE, sync=sync)
    except DamagedFileError as error:
        # as after a power cut: the others take a node without memory in again, and nobody has to be called
        aside = (folder / STATE).replace(folder / f"{STATE}.damaged")
        _log.error("%s It is in %s now, and the node begins without it.", error, aside)
        runtime = await open_runtime(kit, problem, folder / STATE, sync=sync)
    try:
        # before the first message is sent
        spent = record_use(folder / LEDGER, use, budget)
        network = kit.network
        facts = {
            "node": kit.name, "run": network.run, "network": network.fingerprint, "method": network.method,
            "support": network.support, "reg": network.reg, "weight": kit.weight, "data": source,
            "records": use.records, "digest": use.digest, "epsilon": getattr(use, "epsilon", None),
            "delta": getattr(use, "delta", None), "consent": consent, "version": __version__,
        }  # fmt: skip
        head = audit.record(folder / audit.AUDIT, "begin", facts)
        _log.info("the head of the audit log is %s", head)
    except BaseException:
        runtime.close()
        raise
    return Peer(kit, runtime, folder, spent, head, picture=picture)


async def open_runtime(kit: Kit, problem: Problem, state_file: Path | None, *, sync: bool = False) -> Runtime:
    """The runtime of the node with the measure of the ``problem``, not connected yet."""
    require_reach(problem)
    network, graph = kit.network, kit.network.network()
    weights = network.relative_weights()
    # all data are here: nothing is gained by drawing samples of them
    nodes = Nodes(graph, np.array([kit.number]), weights[[kit.number]], weights)
    algorithm = hosted_algorithm(
        network.method, problem, nodes, tol=network.tol, batch="exact", masks=node_masks(kit) if network.masks else None
    )
    listen = kit.listen or await own_address(kit)
    return Runtime(
        algorithm, problem, Place(network.fingerprint, listen, neighbours(kit), kit.keys), Pace(network.interval),
        began=network.began.timestamp(), state_file=state_file, sync=sync,
        about=f"{network.fingerprint} {_digest(problem)}",
    )  # fmt: skip


def node_masks(kit: Kit) -> Masks:
    """The masks of the node, from the keys in the network file. What the fresh numbers come from is drawn anew at every
    start, so that a node without its disk cannot use a mask again."""
    network = kit.network
    return Masks(
        {kit.number: kit.keys.raw_secret}, [raw_public(node.public_key) for node in network.nodes],
        run=network.fingerprint.encode(), method=network.method, secret=secrets.token_bytes(32),
        min_members=network.min_members,
    )  # fmt: skip


@dataclass(frozen=True)
class PrivacyLevel:
    """The differential privacy of each record of the data."""

    epsilon: float
    delta: float


def released(kit: Kit, measure: Any, privacy: PrivacyLevel) -> tuple[Histogram, Release]:
    """The measure with noise computed from the secret key of this node, the same at every start."""
    support = parse_support(kit.network.support)
    if isinstance(support, FreeSupport):
        raise SupportError(
            f"A private release needs a support that stays, and that of the network is {kit.network.support!r}. Make a "
            "network with a grid, or leave out the privacy budget."
        )
    return private_measure(
        measure, support, reg=kit.network.reg, epsilon=privacy.epsilon,
        delta=privacy.delta, key=kit.keys.secret.encode(),
    )  # fmt: skip


def use_of(kit: Kit, problem: Problem) -> Release | OpenUse:
    """The use of the measure of the problem without privacy. Its digest reveals nothing without the node's key."""
    return OpenUse(_digest(problem, kit.keys.secret.encode()), problem.atoms[0].weights.size)


def neighbours(kit: Kit) -> list[Neighbour]:
    """The neighbours of the node."""
    known = kit.network.nodes
    return [
        Neighbour(known[j].name, known[j].endpoint, (int(j),), known[j].public_key)
        for j in kit.network.network().neighbours_of(kit.number)
    ]


def own_problem(kit: Kit, measure: Any) -> Problem:
    """The problem with the node's measure as it is. An error if that does not fit the network, or does not have the
    number of records that the network file declares."""
    problem, declared = local_problem(kit, measure), kit.entry.records
    records = problem.measures[0].records
    if declared is not None and records != declared:
        found = "no records to count: it is a histogram, an image or a formula" if records is None else f"{records}"
        raise WeightError(
            f"The network file declares {declared} records for {kit.name}, and the data have {found}. Name the data "
            f"that were declared, or have the file changed: `barymesh network declare network.toml {kit.name} "
            "--records NUMBER`."
        )
    return problem


def local_problem(kit: Kit, measure: Any) -> Problem:
    """The problem as the node works on it: with its own measure only. An error if that does not fit the network."""
    # each node has its own seed: two nodes must not draw the same samples
    network = kit.network
    return Problem.create(
        [measure], parse_support(network.support), reg=network.reg, seed=kit.number, debias=network.debias
    )


async def own_address(kit: Kit) -> str:
    """The endpoint with an address in place of the host name: a socket is bound to an address."""
    try:
        return await endpoints.resolved(kit.entry.endpoint)
    except (OSError, UnicodeError) as error:
        raise NetworkError(
            f"The host of {kit.entry.endpoint} cannot be resolved here: {error}. Write the address to listen at into "
            f'{kit.folder / "node.toml"}, such as listen = "tcp://0.0.0.0:5555".'
        ) from error


def _digest(problem: Problem, key: bytes = b"") -> str:
    """A digest of the measure: a node must not continue from the state of other data."""
    return problem.atoms[0].digest(key).hex()
