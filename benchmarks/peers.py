"""Real networks: the cost of a message and of an activation on each engine, and the time to accuracy of 32 nodes.

python -m benchmarks --only peers
"""

from __future__ import annotations

import asyncio
import importlib.util
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import zmq

import barymesh as bm
from barymesh.decentralized.algorithm import Nodes
from barymesh.engines.runtime import Pace, Place, Runtime, hosted_algorithm
from barymesh.network import as_network
from barymesh.problem import Problem
from barymesh.resources.cores import available_cores, one_thread_each
from barymesh.transport import wire
from barymesh.transport.keys import KeyPair
from barymesh.transport.subscriber import Neighbour
from benchmarks.parts import Part, Row, Table
from benchmarks.problems import REG, gaussians
from benchmarks.tables import in_line

NODES, GRAPH, POINTS = 32, "random_regular:degree=4", 100
LEVEL = 0.01
TEXT = (
    f"{NODES} nodes with the paper's Gaussians, {POINTS} points, reg {REG}, {GRAPH}, sinkhorn. Every engine runs the "
    "same algorithm; all but the simulation over real sockets, with their state on disk before every message. "
    "*Messages* are counted where they arrive."
)
RATES = (
    "The largest rates, in a steady state. The floor of the messages is a bare echo: one process sends frames of the "
    "same size by ZeroMQ and another sends them back, and does nothing else; both directions count, divided by two "
    "cores. With 100 frames under way many travel in one system call; a peer has one new message for each of its "
    "neighbours, so the echo with 4 is the floor of its pattern. The floor of the activations is the simulation, on "
    "one thread. *CPU us a message*: processor time of all threads, with what encrypts and decrypts. A process of "
    "peers has two threads that work, one of Python and one of ZeroMQ, and so may use two cores."
)
WALL = (
    f"Wall time from when all nodes act until they are within TV {LEVEL} of the true barycenter on average; beside it "
    "the whole call, with starting processes (on Ray: on a cluster that runs already), going on to the tolerance of "
    "1e-4, and the certificate. Engines report every 0.05 s at most; 0: the nodes were there before the first report."
)


def problem() -> Problem:
    return gaussians(NODES, points=POINTS)


def run(quick: bool, say: Callable[[str], None]) -> Part:
    """All engines that are installed."""
    # Ray's workers give way to all other processes; here they have the same priority as those of the other engines
    os.environ.setdefault("RAY_worker_niceness", "0")
    seconds = 2.0 if quick else 10.0
    size = _frame_size()
    rates: list[Row] = []
    floor: dict[bool, float] = {}
    for keys, name, window in (
        (False, "bare echo", 100),
        (True, "bare echo with CURVE", 100),
        (True, "bare echo with CURVE, 4 under way", 4),
    ):
        rate, own = echo(size, keys, seconds / 3, window)
        floor.setdefault(keys, rate)
        rates.append(
            {"engine": name, "frames of kB": size / 1e3, "messages/s a core": rate, "CPU us a message": 1e6 * own}
        )
        say(in_line(rates[-1]))
    alone: float | None = None
    walls: list[Row] = []
    for name, measure, encrypted in engines(quick):
        activations, messages, cost = measure.rates(seconds)
        alone = alone or activations
        row = {"engine": name, "activations/s a core": activations, "simulation over it": alone / activations}
        if encrypted is not None:
            row |= {"messages/s a core": messages, "echo over it": floor[encrypted] / messages}
        if cost is not None:
            row["CPU us a message"] = 1e6 * cost
        rates.append(row)
        say(in_line(row))
        if (found := measure.wall()) is not None:
            walls.append({"engine": name, f"s to TV {LEVEL}": found[1], "s of the call": found[0]})
            say(in_line(walls[-1]))
    return Part("Real networks", TEXT, [Table("Rates", RATES, rates), Table("Time to accuracy", WALL, walls)])


def engines(quick: bool) -> Iterator[tuple[str, Library | Peers, bool | None]]:
    """Name, how to run it, and whether its links are encrypted; None: it has none."""
    cores = available_cores()
    yield "simulation", Library(1, engine="simulation"), None
    yield f"processes ({cores})", Library(cores, engine="processes", workers=cores), False
    # starting a cluster takes longer than all the other engines together
    if not quick and importlib.util.find_spec("ray") is not None:
        yield f"ray ({cores} workers)", Library(cores, engine="ray", workers=cores), True
    yield f"peers ({NODES}, CURVE, in one process)", Peers(), True
    yield "peers (5, all connected, CURVE, a process each)", Peers(5, "complete", apart=True), True


class Library:
    """``barycenter(engine=...)`` on so many cores."""

    def __init__(self, cores: int, **options: Any) -> None:
        self.cores, self.options = cores, options

    def rates(self, seconds: float) -> tuple[float, float, None]:
        """Activations and messages a second and core, over the later half of a run that never stops by itself; what a
        message costs is not known here."""
        if self.options["engine"] == "simulation":
            bm.set_threads(1)
            self._run(duration=2.0, tol=0.0)
            began = time.perf_counter()
            result = self._run(duration=100.0 * seconds, tol=0.0, record_every=1e9)
            spent = time.perf_counter() - began
            return result.activations / spent, result.messages / spent, None
        result = self._run(duration=2.0 * seconds, tol=0.0, record_every=0.5)
        times = result.history["time"]
        half = times.size // 2
        span = float(times[-1] - times[half]) * self.cores
        return (
            float(result.history["activations"][-1] - result.history["activations"][half]) / span,
            float(result.history["messages"][-1] - result.history["messages"][half]) * self._crossing() / span,
            None,
        )

    def wall(self) -> tuple[float, float]:
        """Seconds of the whole call, on a running cluster, and from when all nodes act until the accuracy."""
        with self._cluster():
            began = time.perf_counter()
            result = self._run(duration=120.0, tol=1e-4, record_every=0.05, reference=True)
            total = time.perf_counter() - began
        if self.options["engine"] == "simulation":
            reached = np.flatnonzero(result.history["tv"] <= LEVEL)
            return total, total * float(reached[0] + 1) / result.history["tv"].size
        return total, float(result.history["time"][np.flatnonzero(result.history["tv"] <= LEVEL)[0]])

    def _cluster(self) -> AbstractContextManager[object]:
        if self.options["engine"] != "ray":
            return nullcontext()
        from barymesh.engines.ray import connected

        return connected(None, self.cores)

    def _crossing(self) -> float:
        """The share of the messages over links that goes from one worker to another, once for all of its nodes;
        neighbours in the same worker need none."""
        graph = as_network(GRAPH, NODES)
        share = np.concatenate(
            [np.full(len(part), k) for k, part in enumerate(np.array_split(np.arange(NODES), self.cores))]
        )
        links = [(int(i), int(j)) for i, j in [*graph.edges, *graph.edges[:, ::-1]]]
        return len({(i, share[j]) for i, j in links if share[i] != share[j]}) / len(links)

    def _run(self, **options: Any) -> Any:
        made = problem()
        with one_thread_each():
            return bm.barycenter(
                made.measures, made.support.points, reg=REG, network=GRAPH, progress=False, **self.options, **options
            )


class Peers:
    """Every node is a peer with its own keys, links over the loopback, and state on disk. ``apart``: in a process of
    its own, as between organisations; otherwise all are in one."""

    def __init__(self, size: int = NODES, graph: str = GRAPH, *, apart: bool = False) -> None:
        self.size, self.graph, self.apart = size, graph, apart

    def rates(self, seconds: float) -> tuple[float, float, float]:
        done = self._work(tol=0.0, seconds=seconds)
        activations, messages, spent, used = (sum(one[k] for one in done) for k in range(4))
        # processes share the cores
        span = spent / len(done) * min(len(done), available_cores())
        return activations / span, messages / span, used / messages

    def wall(self) -> tuple[float, float] | None:
        """None for peers that nobody can look into."""
        if self.apart:
            return None
        exact = bm.barycenter(problem().measures, np.linspace(-5, 5, POINTS), reg=REG, tol=1e-8)
        ((whole, reached),) = self._work(tol=1e-9, seconds=120.0, reference=exact.weights)
        return whole, reached

    def _work(self, **options: Any) -> list[tuple[float, ...]]:
        groups = [(k,) for k in range(self.size)] if self.apart else [tuple(range(self.size))]
        keys = [KeyPair.create() for _ in range(self.size)]
        with one_thread_each(), tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            common = {"size": self.size, "graph": self.graph, "keys": keys, "folder": folder, **options}
            lines = [stack.enter_context(_child(_peers, {"own": own, **common})) for own in groups]
            for line in lines:
                line.recv()
            for line in lines:
                line.send("all are here")
            return [line.recv() for line in lines]


@contextmanager
def _child(target: Callable[[Connection, Any], None], options: Any) -> Iterator[Connection]:
    """A process that ends with the block."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=target, args=(theirs, options), daemon=True)
    process.start()
    theirs.close()
    try:
        yield ours
    finally:
        process.kill()
        process.join()


def _peers(line: Connection, options: dict[str, Any]) -> None:
    asyncio.run(_run_peers(line, **options))


async def _run_peers(
    line: Connection, own: tuple[int, ...], size: int, graph: str, keys: list[KeyPair], folder: str, tol: float,
    seconds: float, reference: Any = None,
) -> None:  # fmt: skip
    """Run the peers ``own``. Sends the seconds to the accuracy of the ``reference``, from the start and from when they
    act; or else, over so many seconds, activations, messages, seconds and those of the processor."""
    started = time.perf_counter()
    network, whole = as_network(graph, size), gaussians(size, points=POINTS)
    endpoints = [f"ipc://{folder}/{k}.socket" for k in range(size)]
    peers = []
    for node in own:
        single = whole.with_measures([whole.measures[node]], np.ones(1))
        algorithm = hosted_algorithm("sinkhorn", single, Nodes(network, np.array([node]), np.ones(1)), tol=tol)
        around = [Neighbour(f"peer {j}", endpoints[j], (int(j),), keys[j].public) for j in network.neighbours_of(node)]
        place = Place("bench", endpoints[node], around, keys[node])
        peers.append(Runtime(algorithm, single, place, Pace(0.0), state_file=Path(folder) / f"{node}.state"))
    line.send("here")
    line.recv()
    for one in peers:
        await one.links.__aenter__()
    works = [asyncio.create_task(one.run()) for one in peers]
    began = time.perf_counter()
    if reference is not None:
        reached = await _reached(peers, reference, began + seconds)
        line.send((reached - started, reached - began))
    else:
        await asyncio.sleep(2.0)
        before, since, used = _counts(peers), time.perf_counter(), time.process_time()
        await asyncio.sleep(seconds)
        span, used, after = time.perf_counter() - since, time.process_time() - used, _counts(peers)
        line.send((after[0] - before[0], after[1] - before[1], span, used))
    # until the caller ends it: others may still be measured
    await asyncio.gather(*works)


async def _reached(peers: list[Runtime], reference: Any, deadline: float) -> float:
    while time.perf_counter() < deadline:
        await asyncio.sleep(0.05)
        apart = [0.5 * np.abs(one.snapshot().weights[0] - reference).sum() for one in peers]
        if np.mean(apart) <= LEVEL:
            return time.perf_counter()
    return float("inf")


def _counts(peers: list[Runtime]) -> tuple[int, int]:
    received = sum(link.received_messages for one in peers for link in one.links.status().values())
    return sum(one.host.activations for one in peers), received


# ---- the floor


def _frame_size() -> int:
    """Bytes of a message with all its numbers."""
    nodes = Nodes(as_network(GRAPH, NODES), np.arange(NODES), np.ones(NODES))
    return wire.frame_bytes(hosted_algorithm("sinkhorn", problem(), nodes).width)


def echo(size: int, encrypted: bool, seconds: float, window: int) -> tuple[float, float]:
    """Messages a second and core between two processes that do nothing but send frames back and forth, ``window`` at a
    time, and the processor time of one."""
    server, client = KeyPair.create(), KeyPair.create()
    with tempfile.TemporaryDirectory() as folder:
        where = f"ipc://{folder}/echo"
        with _child(_echo, (where, server if encrypted else None)) as line:
            line.recv()
            context = zmq.Context()
            try:
                socket = context.socket(zmq.PAIR)
                if encrypted:
                    socket.curve_serverkey = server.public.encode()
                    socket.curve_publickey, socket.curve_secretkey = client.public.encode(), client.secret.encode()
                socket.connect(where)
                frame = bytes(size)
                # an empty frame asks for the processor time of the other
                socket.send(b"")
                there, here = line.recv(), time.process_time()
                for _ in range(window):
                    socket.send(frame)
                count, began = 0, time.perf_counter()
                while time.perf_counter() < began + seconds:
                    socket.send(socket.recv())
                    count += 2
                span, here = time.perf_counter() - began, time.process_time() - here
                socket.send(b"")
                return count / span / 2, (here + line.recv() - there) / count
            finally:
                context.destroy(linger=0)


def _echo(line: Connection, options: tuple[str, KeyPair | None]) -> None:
    where, keys = options
    socket = zmq.Context().socket(zmq.PAIR)
    if keys is not None:
        socket.curve_server = True
        socket.curve_publickey, socket.curve_secretkey = keys.public.encode(), keys.secret.encode()
    socket.bind(where)
    line.send(True)
    while True:
        if frame := socket.recv():
            socket.send(frame)
        else:
            line.send(time.process_time())
