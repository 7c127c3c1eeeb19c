"""Real processes on one machine: every worker has some of the nodes, and exchanges messages through sockets.

The caller starts the workers, watches them, and starts those again that die.
"""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

from barymesh.engines.runtime import Snapshot
from barymesh.engines.supervisor import MOST_STARTS, WorkerHandle, equal_shares, run_workers
from barymesh.engines.worker import Assignment, CertificateRequest, Worker
from barymesh.errors import BarymeshError, OptionError
from barymesh.measures.lazy import Lazy
from barymesh.network.topology import Network
from barymesh.options import RunOptions
from barymesh.problem import Problem
from barymesh.resources.cores import available_cores, one_thread_each
from barymesh.result import Result

# bytes of a path beside which there is room for the names of folder and socket: all may have 103
LONGEST_FOLDER = 70


def run_processes(problem: Problem, network: Network, options: RunOptions) -> Result:
    """Run in processes, record on the way, and certify the result."""
    for measure in problem.measures:
        if isinstance(measure, Lazy) and measure.at is not None:
            raise OptionError(
                f"{measure!r} is at {measure.at}; processes run on this machine. Use engine='ray', or leave out at=."
            )
    shares = equal_shares(range(network.size), options.workers or available_cores())
    return run_workers(problem, network, options, _process_site(shares))


@contextmanager
def _process_site(
    shares: list[tuple[int, ...]],
) -> Iterator[tuple[list[tuple[int, ...]], Callable[[Assignment], WorkerHandle]]]:
    # paths of sockets must be short
    parent = tempfile.gettempdir()
    short = "/tmp" if len(parent) > LONGEST_FOLDER and os.path.isdir("/tmp") else parent
    with tempfile.TemporaryDirectory(prefix="barymesh-", dir=short) as folder:
        yield shares, lambda assignment: Process(assignment, folder)


class Process(WorkerHandle):
    """A worker in a process of its own."""

    def __init__(self, assignment: Assignment, folder: str) -> None:
        super().__init__(assignment)
        self.folder, self.starts = folder, 0
        self._start()

    def _start(self) -> None:
        if self.starts == MOST_STARTS:
            self.fail("Its last error is on the terminal.")
        self.starts += 1
        context = get_context("spawn")
        self.line, theirs = context.Pipe()
        with one_thread_each():
            self.process = context.Process(target=_work, args=(self.assignment, self.folder, theirs), daemon=True)
            self.process.start()
        theirs.close()

    def poll(self) -> None:
        try:
            while self.line.poll():
                self.receive(self.line.recv())
        except (EOFError, ConnectionResetError):
            self.process.join()
            self._start()
            if self.request is not None:
                self.request_certificate(self.request)

    def request_certificate(self, request: CertificateRequest) -> None:
        super().request_certificate(request)
        try:
            self.line.send(request)
        except (BrokenPipeError, ConnectionResetError):
            # it is dead: the next poll starts it again, and repeats the request
            return

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.line.close()


# ---- in the process


def _endpoint(folder: str, number: int) -> str:
    """Where a worker listens: a socket in a folder that no other user can open."""
    return f"ipc://{folder}/{number}"


def _work(assignment: Assignment, folder: str, line: Connection) -> None:
    """Run a worker until the caller ends it, or is gone."""
    # Ctrl-C is for the caller, which ends its workers
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        asyncio.run(_run(assignment, folder, line))
    except BarymeshError as error:
        line.send(error)


async def _run(assignment: Assignment, folder: str, line: Connection) -> None:
    neighbours = [assignment.neighbour(k, _endpoint(folder, k), None) for k in assignment.around]
    worker = Worker(assignment, _endpoint(folder, assignment.number), neighbours, None, Path(folder))

    def send(report: Snapshot) -> None:
        try:
            line.send(report)
        except (BrokenPipeError, ConnectionResetError):
            # the caller is gone
            worker.runtime.stop()

    def answer() -> None:
        try:
            line.send(worker.certify(line.recv()))
        except (EOFError, BrokenPipeError, ConnectionResetError):
            asyncio.get_running_loop().remove_reader(line.fileno())
            worker.runtime.stop()

    asyncio.get_running_loop().add_reader(line.fileno(), answer)
    with closing(worker):
        async with worker.links:
            await worker.run(send)
