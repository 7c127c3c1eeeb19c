"""The machines of a Ray cluster: Ray places, supervises and restarts the workers; their messages go through links of
their own, always encrypted.

Ray restores no state. A worker that is started again on the same machine continues from its state file; on another
machine it begins as a new node, which the others admit. Its key pair is new each time, and never leaves it.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from barymesh.engines.runtime import Snapshot
from barymesh.engines.supervisor import MOST_STARTS, WorkerHandle, equal_shares, run_workers
from barymesh.engines.worker import REPORT, Assignment, CertificateRequest, Worker
from barymesh.errors import BarymeshError, NetworkError, OptionError
from barymesh.exact.certificate import NodeBounds
from barymesh.extras import needs
from barymesh.measures.lazy import Lazy
from barymesh.network.topology import Network
from barymesh.options import RunOptions
from barymesh.problem import Problem
from barymesh.resources.cores import available_cores, set_threads
from barymesh.result import Result
from barymesh.transport.keys import KeyPair

with needs("ray"):
    import ray
    from ray.exceptions import ActorDiedError, AuthenticationError, RayActorError, RayError, RayTaskError

LOOPBACK = "127.0.0.1"
# Ray listens at all addresses of the machine, unless it is told that there is no cluster beyond it. The name has to do
# with systems on which that is the default
ONE_MACHINE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
# the least that Ray takes; messages do not go through it
OBJECT_STORE_BYTES = 80 * 2**20
# a worker takes this much of the resource that every machine has under its address
PINNED = 0.001
# seconds for a worker to clean up after itself. One that is about to open does that first, on a busy machine slowly
LEAVE = 60.0
# seconds for the news that an actor has been started, and for a connection to a cluster
NEWS, CONNECT = 1.0, 10.0


def run_ray(problem: Problem, network: Network, options: RunOptions) -> Result:
    """Run on a Ray cluster, record on the way, and certify the result."""
    places = [measure.at if isinstance(measure, Lazy) else None for measure in problem.measures]
    return run_workers(problem, network, options, _ray_site(places, options))


@contextmanager
def _ray_site(
    places: list[str | None], options: RunOptions
) -> Iterator[tuple[list[tuple[int, ...]], Callable[[Assignment], WorkerHandle]]]:
    """``places``: the machine of each node, None for any."""
    actors: dict[int, Actor] = {}
    with connected(options.address, min(options.workers or available_cores(), len(places))) as own:

        def launch(assignment: Assignment) -> WorkerHandle:
            host, folder = (None, options.folder) if own is None else (LOOPBACK, options.folder or own)
            actors[assignment.number] = Actor(assignment, actors, host, places[assignment.nodes[0]], folder)
            return actors[assignment.number]

        yield placed_shares(places, options.workers), launch


# ---- the cluster


@contextmanager
def connected(address: str | None, workers: int) -> Iterator[str | None]:
    """Connected to the cluster at the address, or to the one this process is connected to already, or else to one of
    our own on this machine with room for so many workers. Yields the folder of our own, which goes with it, or None."""
    if ray.is_initialized():
        if address is not None:
            raise OptionError(
                f"This process is connected to a Ray cluster already; leave out address={address!r}, or call "
                "ray.shutdown() first."
            )
        yield None
        return
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    with _settings_kept():
        if address is not None:
            with _sigterm_kept():
                _join(address, quiet)
            try:
                yield None
            finally:
                ray.shutdown()
            return
        _require_loopback()
        _set(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32), **{ONE_MACHINE: "0"})
        # private, unlike Ray's own; paths of sockets must be short
        short = "/tmp" if os.path.isdir("/tmp") else None
        with tempfile.TemporaryDirectory(prefix="barymesh-", dir=short, ignore_cleanup_errors=True) as folder:
            try:
                with _sigterm_kept():
                    ray.init(
                        "local", num_cpus=workers, include_dashboard=False, object_store_memory=OBJECT_STORE_BYTES,
                        _temp_dir=folder, **quiet,
                    )  # fmt: skip
                yield folder
            finally:
                ray.shutdown()


@contextmanager
def _sigterm_kept() -> Iterator[None]:
    """Ray has SIGTERM end the program at once; if the program has a handler of its own, that stays."""
    own = signal.getsignal(signal.SIGTERM)
    yield
    if callable(own) and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, own)


def _require_loopback() -> None:
    """NetworkError if programs on this machine cannot connect to one another: Ray would try for minutes."""
    try:
        with socket.create_server((LOOPBACK, 0)) as server:
            socket.create_connection(server.getsockname(), timeout=5).close()
    except OSError as error:
        raise NetworkError(
            f"Programs on this machine cannot connect to one another at {LOOPBACK} ({error}), as Ray's must. Bring up "
            "the loopback interface, or let the firewall pass it; engine='processes' needs no ports."
        ) from error


def _join(address: str, quiet: dict[str, Any]) -> None:
    """Connect to a cluster that is there, with the user's token if there is one."""
    if "RAY_AUTH_MODE" not in os.environ and _has_token():
        _set(RAY_AUTH_MODE="token")
    try:
        _require_listener(address)
        ray.init(address, **quiet)
    except (AuthenticationError, OSError, OverflowError, RuntimeError, ValueError) as error:
        refused = isinstance(error, AuthenticationError) or isinstance(error.__cause__, AuthenticationError)
        if refused or "AuthToken" in str(error.__cause__):
            raise NetworkError(
                f"The Ray cluster at {address} requires its token, and there is none here, or another one. Put it into "
                "~/.ray/auth_token, into the file that RAY_AUTH_TOKEN_PATH names, or into RAY_AUTH_TOKEN."
            ) from error
        raise NetworkError(
            f"There is no Ray cluster at {address} ({error}). Start one with `ray start --head`, or leave out address= "
            "for one on this machine."
        ) from error


def _require_listener(address: str) -> None:
    """OSError if nobody listens at ``host:port``, where Ray would try for many minutes."""
    host, _, port = address.rpartition(":")
    if "://" not in address and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT).close()


def _has_token() -> bool:
    named = any(name in os.environ for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"))
    return named or (Path.home() / ".ray" / "auth_token").is_file()


@contextmanager
def _settings_kept() -> Iterator[None]:
    """Afterwards the environment, and what Ray has read from it, is as before; and so is what SIGTERM does, which Ray
    changes."""
    names = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", ONE_MACHINE)
    before = {name: os.environ.get(name) for name in names}
    main = threading.current_thread() is threading.main_thread()
    terminate = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        _set(**before)
        if main and terminate is not None:
            signal.signal(signal.SIGTERM, terminate)


def _set(**settings: str | None) -> None:
    """Ray reads these settings once, when it is loaded, so it has to be made to read them again."""
    from ray._private import ray_constants
    from ray._raylet import AuthenticationTokenLoader, Config

    for name, value in settings.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    on_its_own = sys.platform in ("darwin", "win32")
    ray_constants.ENABLE_RAY_CLUSTER = os.environ.get(ONE_MACHINE, "0" if on_its_own else "1") == "1"
    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()


def placed_shares(places: list[str | None], workers: int | None) -> list[tuple[int, ...]]:
    """The nodes of each worker: those whose measures are at one place together, each place with workers in proportion,
    and at least one."""
    machines = {node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}
    for node, place in enumerate(places):
        if place is not None and place not in machines:
            raise OptionError(
                f"Measure {node} is at {place}, which is no machine of the Ray cluster; those are "
                f"{', '.join(sorted(machines))}."
            )
    cores = int(ray.cluster_resources().get("CPU", 0))
    wanted = min(workers or max(cores, 1), len(places))
    groups: dict[str | None, list[int]] = {}
    for node, place in enumerate(places):
        groups.setdefault(place, []).append(node)
    shares = [
        share
        for nodes in groups.values()
        for share in equal_shares(nodes, max(1, round(wanted * len(nodes) / len(places))))
    ]
    if len(shares) > cores:
        raise OptionError(
            f"{len(shares)} workers need as many cores, and the Ray cluster has {cores}. Give fewer workers, or "
            "add cores; every machine that at= names needs a worker."
        )
    return shares


# ---- a worker, in the process of the caller


@dataclass(frozen=True)
class Contact:
    """How to reach a worker since its last start."""

    endpoint: str
    public_key: str


class Actor(WorkerHandle):
    """A worker that Ray supervises. There is one call to it at a time; the first after each start opens its links."""

    def __init__(
        self,
        assignment: Assignment,
        actors: dict[int, Actor],
        host: str | None,
        place: str | None,
        folder: str | Path | None,
    ) -> None:
        super().__init__(assignment)
        self.actors = actors
        self.contact: Contact | None = None
        self.opening, self.failures = True, 0
        self.call: Any = None
        self.due = 0.0
        self.connecting: list[Any] = []
        self.actor = (
            ray.remote(RemoteWorker)
            .options(
                num_cpus=1,
                max_restarts=MOST_STARTS - 1,
                scheduling_strategy="SPREAD" if place is None else "DEFAULT",
                resources={} if place is None else {f"node:{place}": PINNED},
            )
            .remote(assignment, host, folder)
        )
        self.there = self.actor.is_there.remote()

    def poll(self) -> None:
        self._check_connections()
        if self.call is None:
            if time.monotonic() >= self.due:
                self.call = self._next_call()
            return
        if not ray.wait([self.call], timeout=0)[0]:
            return
        done, self.call = self.call, None
        self.due = time.monotonic() + min(self.assignment.options.record_every, REPORT)
        try:
            answer = got(done)
        except RayActorError as error:
            self._lost(error)
            return
        if self.opening:
            self._connect(answer)
        else:
            self.receive(answer)

    def _next_call(self) -> Any:
        if self.opening:
            return self.actor.open.remote()
        if self.request is not None and self.bounds is None:
            return self.actor.answer.remote(self.request)
        return self.actor.report.remote()

    def _lost(self, error: RayActorError) -> None:
        """The actor died, or is being restarted. One that will not be restarted raises ActorDiedError at every call."""
        self.failures += self.opening and isinstance(error, ActorDiedError)
        if self.failures == MOST_STARTS:
            self.fail(f"Ray reports: {' '.join(str(error).split())}")
        self.opening = True

    def request_certificate(self, request: CertificateRequest) -> None:
        super().request_certificate(request)
        self.due = 0.0

    def _connect(self, contact: Contact) -> None:
        """Connect it with its neighbours, in both directions."""
        self.opening, self.failures = False, 0
        self.contact = contact
        for other in (self.actors[k] for k in self.assignment.around if k in self.actors):
            if other.contact is not None:
                self.connecting.append(self.actor.connect.remote(other.assignment.number, other.contact))
                self.connecting.append(other.actor.connect.remote(self.assignment.number, contact))

    def _check_connections(self) -> None:
        """Raise the errors of the connections requested. An actor that died is connected again when it restarts."""
        if self.connecting:
            done, self.connecting = ray.wait(self.connecting, num_returns=len(self.connecting), timeout=0)
            for call in done:
                with suppress(RayActorError):
                    got(call)

    def end(self) -> None:
        end_actor(self.actor, self.there)


def end_actor(actor: Any, there: Any) -> None:
    """End an actor, which has left nothing behind then; ``there``: the call that it answers once it has been
    started."""
    # Ray may be gone already
    with suppress(RayError):
        # one that waits for a core has made nothing yet, and may wait for ever
        if ray.wait([there], timeout=NEWS)[0]:
            ray.wait([actor.leave.remote()], timeout=LEAVE)
        ray.kill(actor)


def got(call: Any) -> Any:
    """What a call returns; errors of barymesh as they were raised."""
    try:
        return ray.get(call)
    except RayTaskError as error:
        if isinstance(error.cause, BarymeshError):
            raise error.cause from None
        raise


# ---- a worker, where it runs


class RemoteWorker:
    """Created at every start of the worker. ``host``: the address to listen at, None for that of the machine."""

    def __init__(self, assignment: Assignment, host: str | None, folder: str | Path | None) -> None:
        self.assignment, self.host = assignment, host
        above = Path(tempfile.gettempdir() if folder is None else folder)
        self.folder = above / f"barymesh-{assignment.run}" / str(assignment.number)
        self.contact: Contact | None = None
        self.contacts: dict[int, Contact] = {}
        self.latest: Snapshot | None = None
        self.changing = asyncio.Lock()
        self.leaving = False
        # Ray sees to it for other libraries. With a runtime_env it would not use the processes that it keeps ready
        set_threads(1)

    async def is_there(self) -> None:
        """It is, if there is an answer."""

    async def open(self) -> Contact:
        """Load the measures, listen, and begin to work; how to reach it."""
        async with self.changing:
            if self.leaving:
                # Ray may carry out calls in another order, and the files would be made again
                raise NetworkError("The worker has left the run, and cannot be opened again.")
            if self.contact is None:
                keys = KeyPair.create()
                address = self.host or ray.util.get_node_ip_address()
                self.worker = await asyncio.to_thread(self._built, f"tcp://{bracketed(address)}:0", keys)
                await self.worker.links.__aenter__()
                self.work = asyncio.create_task(self.worker.run(self._keep))
                self.contact = Contact(self.worker.links.endpoint, keys.public)
            return self.contact

    def _built(self, endpoint: str, keys: KeyPair) -> Worker:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Worker(self.assignment, endpoint, [], keys, self.folder)

    def _keep(self, report: Snapshot) -> None:
        self.latest = report

    async def connect(self, number: int, contact: Contact) -> None:
        """Connect to a neighbour, which may have been restarted."""
        async with self.changing:
            known = self.contacts.get(number)
            # one that is not open yet is connected to all neighbours when it opens
            if self.contact is None or known == contact:
                return
            neighbour = self.assignment.neighbour(number, contact.endpoint, contact.public_key)
            if known is not None:
                await self.worker.links.remove(neighbour.name)
            self.worker.links.add(neighbour)
            self.contacts[number] = contact

    async def report(self) -> Snapshot | None:
        """What its nodes knew last."""
        if self.work.done():
            self.work.result()
        return self.latest

    async def answer(self, request: CertificateRequest) -> NodeBounds:
        """Its share of the certificate."""
        return await asyncio.to_thread(self.worker.certify, request)

    async def leave(self) -> None:
        """Stop, and remove all files."""
        self.leaving = True
        async with self.changing:
            try:
                if self.contact is not None:
                    self.worker.runtime.stop()
                    await asyncio.gather(self.work, return_exceptions=True)
                    await self.worker.links.close()
                    self.worker.close()
            finally:
                shutil.rmtree(self.folder, ignore_errors=True)
                with suppress(OSError):
                    # unless others on this machine still have theirs in it
                    self.folder.parent.rmdir()


def bracketed(address: str) -> str:
    """As in a URL."""
    return f"[{address}]" if ":" in address else address
