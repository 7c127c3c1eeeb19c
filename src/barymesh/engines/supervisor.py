"""Workers as their caller sees them: their assignments, how their reports are put together, and when a run is over.

The caller takes no part in the computation, and needs no measures: nodes receive messages of their neighbours only,
detect by themselves when to stop, and certify the result together, each with its own part of the bounds.
"""

from __future__ import annotations

import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barymesh.decentralized.algorithm import Nodes
from barymesh.decentralized.host import Traffic, View
from barymesh.engines.masks import owned_masks
from barymesh.engines.outcome import network_result
from barymesh.engines.recorder import Recorder
from barymesh.engines.runtime import Snapshot, hosted_algorithm
from barymesh.engines.worker import Assignment, CertificateRequest
from barymesh.errors import AccuracyWarning, BarymeshError, NetworkError, NumericalError, warn
from barymesh.exact.certificate import Certificate, NodeBounds, completed
from barymesh.exact.reference import as_reference
from barymesh.exact.start import start_potentials
from barymesh.interrupt import interruptible
from barymesh.measures import Empirical
from barymesh.measures.lazy import Lazy
from barymesh.methods.debiasing import debiasing_of
from barymesh.network.topology import Network
from barymesh.options import RunOptions
from barymesh.problem import Problem
from barymesh.progress import time_progress
from barymesh.record import Callback, NodeDetails, NodeState, Record, TreePlaces
from barymesh.result import Result
from barymesh.status import Status

Floats = NDArray[np.float64]

# a worker that dies more often than this is not started again
MOST_STARTS = 10
# seconds: between two polls of the workers; until all must have begun, have reached their neighbours, have certified
POLL, START_LIMIT, REACH_LIMIT, ANSWER_LIMIT = 0.05, 600.0, 60.0, 60.0


class WorkerHandle(ABC):
    """One worker: started, watched, and started again if it dies. ``report`` and ``bounds``: its last ones."""

    def __init__(self, assignment: Assignment) -> None:
        self.assignment = assignment
        self.report: Snapshot | None = None
        self.request: CertificateRequest | None = None
        self.bounds: NodeBounds | None = None
        # activations, messages and bytes from before it lost its memory
        self.earlier = np.zeros(3, dtype=np.int64)

    @abstractmethod
    def poll(self) -> None:
        """Receive its messages, and start it again if it has died."""

    @abstractmethod
    def end(self) -> None:
        """End it, and leave nothing behind."""

    def request_certificate(self, request: CertificateRequest) -> None:
        """Request its part of the certificate; the answer becomes its ``bounds``."""
        self.request, self.bounds = request, None

    def receive(self, message: Snapshot | NodeBounds | BarymeshError | None) -> None:
        """Receive one message of the worker."""
        if isinstance(message, BarymeshError):
            raise message
        if isinstance(message, NodeBounds):
            self.bounds = message
        elif message is not None:
            if self.report is not None and message.activations < self.report.activations:
                self.earlier += _counts(self.report)
            self.report = message

    def fail(self, why: str) -> None:
        """An error, because the worker has died too often."""
        raise NumericalError(f"The worker of nodes {self.assignment.nodes} ended {MOST_STARTS} times. {why}")


# where workers run, while it is open: the nodes of each, and how to start one
Site = AbstractContextManager[tuple[Sequence[Sequence[int]], Callable[[Assignment], WorkerHandle]]]


def run_workers(problem: Problem, network: Network, options: RunOptions, site: Site) -> Result:
    """Start the workers at the site, watch them, record on the way, and certify the result."""
    began = time.perf_counter()
    algorithm = checked_algorithm(problem, network, options)
    # the step depends on all weights, of which a worker knows some
    options = replace(options, step=getattr(algorithm, "step", None))
    recorder = Recorder(problem, network, reference=as_reference(options.reference, problem))
    workers: list[WorkerHandle] = []
    with site as (shares, launch):
        try:
            for assignment in assignments(problem, network, options, shares):
                workers.append(launch(assignment))
            shown = time_progress(options.duration, options.method, bool(options.progress), options.callback)
            with interruptible() as interrupted:
                with shown as watch:
                    status, last = _supervise(workers, recorder, options, watch, interrupted)
                certificate = _gathered_certificate(workers, recorder, last.view)
        finally:
            for worker in workers:
                worker.end()
    return network_result(
        algorithm, recorder, last.view, np.ones(network.size, dtype=bool), last.view.placed(problem, problem.weights),
        certificate,
        status=status,
        activations=last.activations,
        traffic=last.traffic,
        seconds=time.perf_counter() - began,
    )  # fmt: skip


def checked_algorithm(problem: Problem, network: Network, options: RunOptions) -> Any:
    """The algorithm; errors that a worker would find are raised here. Single points take the place of measures that the
    caller does not have."""
    point = Empirical(problem.support.points[:1])
    known = [point if isinstance(measure, Lazy) else measure for measure in problem.measures]
    return hosted_algorithm(
        options.method, replace(problem, measures=known), Nodes.all_of(network, problem.weights),
        step=options.step, batch=options.batch, tol=options.tol, masks=owned_masks(options, network.size, 0),
        start=start_potentials(options.start, problem),
    )  # fmt: skip


def equal_shares(nodes: Sequence[int], workers: int) -> list[tuple[int, ...]]:
    """The nodes in equal shares, neighbours in number together."""
    return [tuple(int(i) for i in share) for share in np.array_split(np.array(nodes), min(workers, len(nodes)))]


def assignments(
    problem: Problem, network: Network, options: RunOptions, shares: Sequence[Sequence[int]]
) -> list[Assignment]:
    """The work of each worker."""
    run, began, found = uuid.uuid4().hex, time.time(), []
    all_shares = tuple(tuple(share) for share in shares)
    start = start_potentials(options.start, problem)
    settings = replace(options, reference=False, callback=None, start=None, progress=None)
    for number, nodes in enumerate(shares):
        own = problem.with_measures([problem.measures[i] for i in nodes], problem.weights[list(nodes)])
        # draws are addressed by place in the list: a seed of its own keeps those of different workers apart
        own = replace(own, seed=problem.seed + 1_000_003 * number)
        relative = problem.weights[list(nodes)] * network.size
        first = None if start is None else start[list(nodes)]
        found.append(Assignment(number, all_shares, own, relative, network, settings, run, began, first))
    return found


@dataclass(frozen=True)
class Gathering:
    """What all nodes know, where they are in the tree and whether they have ``stopped (m,)``, how often they have acted
    and what they have sent, from the last reports of their workers."""

    view: View
    activations: int
    traffic: Traffic
    stopped: NDArray[np.bool_]
    places: TreePlaces | None


def gathered(workers: Sequence[WorkerHandle], size: int) -> Gathering:
    """The last reports put together."""
    reports = [worker.report for worker in workers if worker.report is not None]
    points = reports[0].duals.shape[1]
    moved = None if reports[0].points is None else np.empty((size, *reports[0].points.shape[1:]))
    view = View(np.empty((size, points)), np.empty(size), np.empty((size, points)), np.full(size, np.nan),
                np.full(size, np.nan), moved)  # fmt: skip
    for report in reports:
        view.duals[report.nodes], view.values[report.nodes] = report.duals, report.values
        view.estimates[report.nodes], view.errors[report.nodes] = report.weights, report.errors
        view.gaps[report.nodes] = report.gaps
        if moved is not None:
            moved[report.nodes] = report.points
    counts = [*map(_counts, reports), *(worker.earlier for worker in workers)]
    activations, messages, sent = (int(total) for total in np.sum(counts, axis=0))
    stopped = np.zeros(size, dtype=bool)
    for report in reports:
        stopped[report.nodes] = report.stopped
    return Gathering(view, activations, Traffic(messages, sent), stopped, _gathered_places(reports, size))


def _gathered_places(reports: Sequence[Snapshot], size: int) -> TreePlaces | None:
    found = [(report.nodes, report.places) for report in reports if report.places is not None]
    if len(found) < len(reports):
        return None
    whole = TreePlaces(np.arange(size), np.zeros(size), np.zeros(size, dtype=bool), np.zeros(size, dtype=bool))
    for nodes, some in found:
        whole.parents[nodes], whole.epochs[nodes] = some.parents, some.epochs
        whole.rounds[nodes], whole.masked[nodes] = some.rounds, some.masked
    return whole


def _counts(report: Snapshot) -> NDArray[np.int64]:
    return np.array([report.activations, report.messages, report.bytes], dtype=np.int64)


def _supervise(
    workers: list[WorkerHandle], recorder: Recorder, options: RunOptions, callback: Callback | None,
    interrupted: Callable[[], bool],
) -> tuple[Status, Gathering]:  # fmt: skip
    """Supervise the workers until all nodes have stopped, or the time is over; it counts from when all have begun.
    Returns why it ended, and what was recorded last."""
    _await_start(workers, interrupted)
    began, due = time.monotonic(), 0.0
    while True:
        now = time.monotonic() - began
        converged = all(worker.report is not None and worker.report.stopped for worker in workers)
        status = _final_status(converged, interrupted(), now >= options.duration)
        if now >= REACH_LIMIT or status is Status.OUT_OF_TIME:
            _require_reached(workers, now)
        if now >= due or status is not None:
            last = gathered(workers, recorder.network.size)
            record = _record(recorder, options.duration if status is Status.OUT_OF_TIME else now, last)
            due = now + options.record_every
            if callback is not None and callback(record) and status is None:
                return Status.STOPPED, last
        if status is not None:
            return status, last
        _poll(workers)


def _require_reached(workers: Sequence[WorkerHandle], seconds: float) -> None:
    """NetworkError if workers have not reached one another at all: then a firewall is in between."""
    for worker in workers:
        for name, why in () if worker.report is None else worker.report.unreached.items():
            raise NetworkError(
                f"Worker {worker.assignment.number} has not reached {name} in {seconds:.0f} s ({why}). Workers connect "
                "to one another at ports that the system chooses. Let the machines of the cluster connect to one "
                "another at all ports, or use one machine."
            )


def _record(recorder: Recorder, now: float, found: Gathering) -> Record:
    size = recorder.network.size
    states = np.full(size, NodeState.WORKING, dtype=object)
    states[found.stopped] = NodeState.CONVERGED
    return recorder.record(
        now, found.view, np.ones(size, dtype=bool), found.activations, found.traffic,
        lambda: NodeDetails(states, None, found.view.gaps, found.places),
    )  # fmt: skip


def _await_start(workers: list[WorkerHandle], interrupted: Callable[[], bool]) -> None:
    """Wait for the first report of every worker."""
    limit = time.monotonic() + START_LIMIT
    while silent := [worker for worker in workers if worker.report is None]:
        if interrupted():
            raise KeyboardInterrupt
        if time.monotonic() > limit:
            raise NetworkError(
                f"The worker of nodes {silent[0].assignment.nodes} did not begin within {START_LIMIT:g} s. Look at the "
                "machine it is to run on, and at what else runs there."
            )
        _poll(workers)


def _poll(workers: list[WorkerHandle]) -> None:
    time.sleep(POLL)
    for worker in workers:
        worker.poll()


def _final_status(converged: bool, interrupted: bool, over: bool) -> Status | None:
    if converged:
        return Status.CONVERGED
    if interrupted:
        return Status.INTERRUPTED
    return Status.OUT_OF_TIME if over else None


def _gathered_certificate(workers: list[WorkerHandle], recorder: Recorder, view: View) -> Certificate:
    """Bounds on the objective, from those of all workers added up."""
    problem = recorder.problem
    p, x = view.barycenter(problem, problem.weights), view.potentials(problem, problem.weights)
    points = None if view.points is None else view.placed(problem, problem.weights).support.points
    for worker in workers:
        worker.request_certificate(CertificateRequest(x[list(worker.assignment.nodes)], p, points))
    limit = time.monotonic() + ANSWER_LIMIT
    while missing := [worker for worker in workers if worker.bounds is None]:
        if time.monotonic() > limit:
            warn(
                f"The worker of nodes {missing[0].assignment.nodes} did not certify its part in {ANSWER_LIMIT:g} s: "
                "the result has no certificate, and its gap is infinite.",
                AccuracyWarning,
            )
            return Certificate(-np.inf, np.inf)
        _poll(missing)
    first, *others = [worker.bounds for worker in workers if worker.bounds is not None]
    return completed(sum(others, start=first), p, problem.reg, debiasing_of(problem))
