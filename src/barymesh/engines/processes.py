"""Real processes on one machine: every worker has some of the nodes, and talks to the others through sockets.

The caller starts the workers, watches them, starts those again that die, and gathers what they know now and then. It
takes no part in the computation: nodes hear from their neighbours only, and find out by themselves when to stop.
"""

from __future__ import annotations

import asyncio
import signal
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barymesh.algorithms.methods import Batch
from barymesh.checks import real_number, whole_number
from barymesh.cores import available_cores, one_thread_each
from barymesh.engines.recorder import Recorder
from barymesh.errors import BarymeshError, NumericalError, OptionError
from barymesh.interrupt import interruptible
from barymesh.network.topology import Network
from barymesh.peers.host import Host, local_algorithm
from barymesh.peers.runtime import Pace, Runtime, Snapshot
from barymesh.problem import Problem
from barymesh.result import Result
from barymesh.simulate import as_reference, certified_result
from barymesh.status import Status

# a worker that dies more often than this is not started again
MOST_STARTS = 10
# seconds: how often the caller looks after its workers, and these report to it
LOOK, REPORT = 0.05, 0.2


@dataclass(frozen=True, kw_only=True)
class ProcessOptions:
    """How to run a method in processes; see ``barymesh.barycenter`` for what each means."""

    method: str
    duration: float = 60.0
    workers: int | None = None
    interval: float = 0.0
    step: float | str | None = None
    batch: Batch | None = None
    tol: float = 1e-6
    record_every: float = 1.0
    reference: Any = False

    def checked(self, nodes: int) -> ProcessOptions:
        """The same with numbers checked, for so many nodes."""
        for name in ("duration", "record_every"):
            value = real_number(getattr(self, name))
            if value is None or value <= 0:
                raise OptionError(f"{name} is {getattr(self, name)!r}; it must be a positive number of seconds.")
        workers = available_cores() if self.workers is None else whole_number("workers", self.workers, 1)
        Pace(self.interval)
        return replace(self, workers=min(workers, nodes))


@dataclass(frozen=True)
class Assignment:
    """What a worker is told. ``problem`` has the measures of ``nodes`` only, whose ``weights`` are relative to the
    average; ``everybody``: the nodes of all workers, in their order."""

    number: int
    nodes: tuple[int, ...]
    everybody: tuple[tuple[int, ...], ...]
    problem: Problem
    weights: NDArray[np.float64]
    size: int
    edges: NDArray[np.intp]
    options: ProcessOptions
    folder: str
    run: str
    began: float


@dataclass(frozen=True)
class Report:
    """What a worker knows, and what it has sent so far."""

    snapshot: Snapshot
    messages: int
    bytes: int


# ---- a worker


def endpoint(folder: str, number: int) -> str:
    """Where a worker listens: a socket in a folder that nobody else can open."""
    return f"ipc://{folder}/{number}"


def work(told: Assignment, line: Connection) -> None:
    """The life of a worker: run until the caller ends it, or is gone."""
    # Ctrl-C is for the caller, who tells its workers
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        asyncio.run(_work(told, line))
    except BarymeshError as error:
        line.send(error)


async def _work(told: Assignment, line: Connection) -> None:
    from barymesh.peers.gate import Rules
    from barymesh.peers.link import Neighbour
    from barymesh.peers.links import Links
    from barymesh.peers.slots import SlotFile

    network, options = Network(told.size, told.edges), told.options
    algorithm = local_algorithm(
        options.method, told.problem, network, told.nodes, told.weights,
        step=options.step, batch=options.batch, tol=options.tol,
    )  # fmt: skip
    host = Host(algorithm, network, told.nodes, 1, told.run)
    around = {int(j) for i in told.nodes for j in network.neighbours_of(i)}
    neighbours = [
        Neighbour(f"worker {k}", endpoint(told.folder, k), nodes, None)
        for k, nodes in enumerate(told.everybody)
        if k != told.number and around.intersection(nodes)
    ]
    links = Links(
        told.nodes, endpoint(told.folder, told.number), neighbours, Rules(told.run, *algorithm.bounds()), curve=None
    )
    with SlotFile(Path(told.folder) / f"{told.number}.state", len(host.saved())) as store:
        runtime = Runtime(host, links, told.problem, Pace(options.interval), store, told.began)

        def tell(found: Snapshot) -> None:
            try:
                line.send(Report(found, links.sent_messages, links.sent_bytes))
            except (BrokenPipeError, ConnectionResetError):
                # the caller is gone
                runtime.stop()

        async with links:
            await runtime.run(every=min(options.record_every, REPORT), tell=tell)


# ---- the caller


class Worker:
    """A process with its assignment: started, watched, and started again if it dies."""

    def __init__(self, told: Assignment) -> None:
        self.told, self.starts = told, 0
        self.report: Report | None = None
        # what its earlier lives have sent
        self.messages, self.bytes = 0, 0
        self.start()

    def start(self) -> None:
        if self.starts == MOST_STARTS:
            raise NumericalError(
                f"The process of nodes {self.told.nodes} ended {self.starts} times. Its last words are on the terminal."
            )
        self.starts += 1
        context = get_context("spawn")
        self.line, theirs = context.Pipe()
        with one_thread_each():
            self.process = context.Process(target=work, args=(self.told, theirs), daemon=True)
            self.process.start()
        theirs.close()

    def look(self) -> None:
        """Take in what it has said; start it again if it is dead."""
        try:
            while self.line.poll():
                said = self.line.recv()
                if isinstance(said, BarymeshError):
                    raise said
                self.report = said
        except (EOFError, ConnectionResetError):
            if self.report is not None:
                self.messages += self.report.messages
                self.bytes += self.report.bytes
                self.report = replace(self.report, messages=0, bytes=0)
            self.process.join()
            self.start()

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.join()
        self.line.close()


def run_processes(
    problem: Problem,
    network: Network,
    options: ProcessOptions,
    *,
    callback: Callable[[Recorder], bool | None] | None = None,
) -> Result:
    """Run in processes, record on the way, and certify what comes out."""
    options = options.checked(network.size)
    began = time.perf_counter()
    recorder = Recorder(problem, network, as_reference(options.reference, problem), snapshots=False)
    # refuse now what a worker would have to refuse
    algorithm = local_algorithm(
        options.method, problem, network, range(network.size), problem.weights * network.size,
        step=options.step, batch=options.batch, tol=options.tol,
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="barymesh-") as folder:
        workers: list[Worker] = []
        try:
            for told in assignments(problem, network, options, folder):
                workers.append(Worker(told))
            status = _watched(workers, recorder, options, callback)
            reports = [worker.report for worker in workers if worker.report is not None]
        finally:
            for worker in workers:
                worker.kill()
    if len(reports) < len(workers):
        raise OptionError(f"The duration of {options.duration:g} s was over before all processes had begun. Give more.")
    duals, errors = _gathered(network.size, reports)
    told_errors = None if np.isnan(errors).any() else errors
    _record(recorder, options.duration if status is Status.FINISHED else None, reports, workers, duals)
    return certified_result(
        problem, network, recorder.oracle, duals,
        conserves=algorithm.conserves,
        method=options.method,
        status=status,
        iterations=sum(report.snapshot.activations * report.snapshot.nodes.size for report in reports),
        seconds=time.perf_counter() - began,
        history=recorder.history,
        messages=sum(worker.messages + report.messages for worker, report in zip(workers, reports, strict=True)),
        bytes=sum(worker.bytes + report.bytes for worker, report in zip(workers, reports, strict=True)),
        recording_seconds=recorder.seconds,
        node_errors=told_errors,
    )  # fmt: skip


def assignments(problem: Problem, network: Network, options: ProcessOptions, folder: str) -> Iterator[Assignment]:
    """Nodes in equal shares, neighbours in number together."""
    assert options.workers is not None
    shares = [tuple(int(i) for i in share) for share in np.array_split(np.arange(network.size), options.workers)]
    run, began = uuid.uuid4().hex, time.time()
    for number, nodes in enumerate(shares):
        own = problem.with_measures([problem.measures[i] for i in nodes], problem.weights[list(nodes)])
        # draws are addressed by place in the list: a seed of its own keeps those of different workers apart
        own = replace(own, seed=problem.seed + 1_000_003 * number)
        yield Assignment(
            number, nodes, tuple(shares), own, problem.weights[list(nodes)] * network.size, network.size, network.edges,
            replace(options, reference=False), folder, run, began,
        )  # fmt: skip


def _watched(
    workers: list[Worker],
    recorder: Recorder,
    options: ProcessOptions,
    callback: Callable[[Recorder], bool | None] | None,
) -> Status:
    """Look after the workers until all nodes have stopped, or the time is over."""
    began, due = time.monotonic(), 0.0
    with interruptible() as interrupted:
        while True:
            wait([worker.line for worker in workers], LOOK)
            for worker in workers:
                worker.look()
            now = time.monotonic() - began
            reports = [worker.report for worker in workers if worker.report is not None]
            if len(reports) == len(workers):
                if now >= due:
                    _record(recorder, now, reports, workers, _gathered(recorder.network.size, reports)[0])
                    due = now + options.record_every
                    if callback is not None and callback(recorder):
                        return Status.STOPPED
                if all(report.snapshot.stopped for report in reports):
                    return Status.CONVERGED
            if interrupted():
                return Status.INTERRUPTED
            if now >= options.duration:
                return Status.FINISHED


def _gathered(size: int, reports: list[Report]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    points = reports[0].snapshot.duals.shape[1]
    duals, errors = np.empty((size, points)), np.empty(size)
    for report in reports:
        duals[report.snapshot.nodes], errors[report.snapshot.nodes] = report.snapshot.duals, report.snapshot.errors
    return duals, errors


def _record(
    recorder: Recorder, now: float | None, reports: list[Report], workers: list[Worker], duals: NDArray[np.float64]
) -> None:
    latest = max(report.snapshot.seconds for report in reports) if now is None else now
    activations = sum(report.snapshot.activations * report.snapshot.nodes.size for report in reports)
    messages = sum(worker.messages + report.messages for worker, report in zip(workers, reports, strict=True))
    sent = sum(worker.bytes + report.bytes for worker, report in zip(workers, reports, strict=True))
    recorder.record(latest, duals, activations, messages, sent)
