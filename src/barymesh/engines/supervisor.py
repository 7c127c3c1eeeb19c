"""Workers as their caller sees them: what they are told, how what they tell is put together, and when it is over.

The caller takes no part in the computation, and needs no measures: nodes hear from their neighbours only, find out by
themselves when to stop, and certify the outcome together, each with its own share.
"""

from __future__ import annotations

import time
import uuid
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barymesh.engines.host import local_algorithm
from barymesh.engines.recorder import COLUMNS, Reference
from barymesh.engines.simulate import as_reference, warn_of_drift
from barymesh.engines.worker import Assignment, Question, Report, Share
from barymesh.errors import AccuracyWarning, BarymeshError, NetworkError, NumericalError
from barymesh.history import History
from barymesh.interrupt import interruptible
from barymesh.measures import Empirical
from barymesh.measures.lazy import Stays
from barymesh.metrics import consensus_distance, consensus_error, feasibility_residual, total_variation
from barymesh.network.topology import Network
from barymesh.options import RunOptions
from barymesh.problem import Problem
from barymesh.progress import following_time
from barymesh.result import Result
from barymesh.status import Status

Floats = NDArray[np.float64]
Callback = Callable[[Any], bool | None]

# a worker that dies more often than this is not started again
MOST_STARTS = 10
# seconds: between two looks at the workers; until all must have begun; until all must have certified
LOOK, BEGIN, ANSWER = 0.05, 600.0, 60.0


class Worker(ABC):
    """One worker: started, watched, and started again if it dies. ``report`` and ``share``: what it told last."""

    def __init__(self, told: Assignment) -> None:
        self.told = told
        self.report: Report | None = None
        self.question: Question | None = None
        self.share: Share | None = None
        # what its earlier lives have sent
        self.messages, self.bytes = 0, 0

    @abstractmethod
    def look(self) -> None:
        """Take in what it has said; see to it that it lives."""

    @abstractmethod
    def end(self) -> None:
        """End it, and leave nothing behind."""

    def ask(self, question: Question) -> None:
        """Let it certify; the answer will be its ``share``."""
        self.question, self.share = question, None

    def hear(self, said: Report | Share | BarymeshError | None) -> None:
        """Take in one thing it has said."""
        if isinstance(said, BarymeshError):
            raise said
        if isinstance(said, Share):
            self.share = said
        elif said is not None:
            self.report = said

    def begin_again(self) -> None:
        """A new life begins: it counts its messages from 0."""
        if self.report is not None:
            self.messages += self.report.messages
            self.bytes += self.report.bytes
            self.report = replace(self.report, messages=0, bytes=0)

    def give_up(self, why: str) -> None:
        """It has died too often."""
        raise NumericalError(f"The worker of nodes {self.told.nodes} ended {MOST_STARTS} times. {why}")


# where workers run, while it is open: the nodes of each, and how to start one
Place = AbstractContextManager[tuple[Sequence[Sequence[int]], Callable[[Assignment], Worker]]]


class Gathering:
    """What all workers have told, put together.

    Attributes
    ----------
    duals, node_weights : array (m, n)
        Every node's potential and estimate, as told last.
    errors : array (m,)
        How far each node believes to be from the barycenter.
    rows : list of tuple
        The rows of the history so far.
    now : float
        Seconds since all had begun.
    activations, messages, bytes : int
        What it took so far.
    """

    def __init__(self, problem: Problem, network: Network, reference: Reference | None) -> None:
        self.problem, self.network, self.reference = problem, network, reference
        self.duals, self.node_weights = (np.empty((network.size, problem.support.size)) for _ in range(2))
        self.errors, self.values = np.empty(network.size), np.empty(network.size)
        self.now, self.activations, self.messages, self.bytes = 0.0, 0, 0, 0
        self.rows: list[tuple[float, ...]] = []
        self.seconds = 0.0

    def record(self, now: float, workers: Sequence[Worker]) -> None:
        """Put together what they told last, and add it to the history."""
        began = time.perf_counter()
        reports = [worker.report for worker in workers if worker.report is not None]
        for report in reports:
            found = report.snapshot
            self.duals[found.nodes], self.node_weights[found.nodes] = found.duals, found.weights
            self.errors[found.nodes], self.values[found.nodes] = found.errors, report.values
        self.now = now
        self.activations = sum(report.snapshot.activations * report.snapshot.nodes.size for report in reports)
        self.messages = sum(worker.messages for worker in workers) + sum(report.messages for report in reports)
        self.bytes = sum(worker.bytes for worker in workers) + sum(report.bytes for report in reports)
        weights, known, p = self.problem.weights, self.reference, self.node_weights
        objective = float(weights @ self.values)
        if not (np.isfinite(objective) and np.isfinite(p).all()):
            raise NumericalError(
                f"The duals are no longer finite numbers at time {now:.6g}. If a step was given, it is too large: give "
                "a smaller one, or leave it out."
            )
        tv, gap = (np.nan, np.nan) if known is None else (total_variation(p, known.weights), objective - known.optimum)
        consensus, feasibility = consensus_distance(p, self.network.edges), feasibility_residual(self.duals, weights)
        counts = (self.activations, self.messages, self.bytes)
        self.rows.append((now, objective, consensus, feasibility, tv, gap, *counts))
        self.seconds += time.perf_counter() - began

    @property
    def history(self) -> History:
        """All records, as named columns; without a reference there is no ``tv`` and no ``gap``."""
        table = np.array(self.rows, dtype=float).reshape(-1, len(COLUMNS))
        left_out = ("tv", "gap") if self.reference is None else ()
        return History({name: table[:, k] for k, name in enumerate(COLUMNS) if name not in left_out})


def run_workers(
    problem: Problem, network: Network, options: RunOptions, place: Place
) -> Result:  # fmt: skip
    """Start the workers at the place, watch them, record on the way, and certify what comes out."""
    began = time.perf_counter()
    algorithm = checked_algorithm(problem, network, options)
    # the step depends on all weights, of which a worker knows some
    options = replace(options, step=getattr(algorithm, "step", None))
    gathering = Gathering(problem, network, as_reference(options.reference, problem))
    workers: list[Worker] = []
    with place as (shares, launch):
        try:
            for told in assignments(problem, network, options, shares):
                workers.append(launch(told))
            shown = following_time(options.duration, options.method, bool(options.progress), options.callback)
            with interruptible() as interrupted:
                with shown as watch:
                    status = _watched(workers, gathering, options, watch, interrupted)
                p, lower, upper = _certified(workers, gathering)
        finally:
            for worker in workers:
                worker.end()
    feasibility = feasibility_residual(gathering.duals, problem.weights)
    if not algorithm.conserves:
        warn_of_drift(options.method, feasibility, 3)
    return Result(
        weights=p,
        support=problem.support,
        node_weights=gathering.node_weights,
        duals=gathering.duals,
        value=upper,
        gap=upper - lower,
        consensus=consensus_error(gathering.node_weights, p, problem.weights),
        feasibility=feasibility,
        reg=problem.reg,
        method=options.method,
        status=status,
        activations=gathering.activations,
        seconds=time.perf_counter() - began,
        history=gathering.history,
        messages=gathering.messages,
        bytes=gathering.bytes,
        recording_seconds=gathering.seconds,
        network=network,
        node_errors=None if np.isnan(gathering.errors).any() else gathering.errors,
    )


def checked_algorithm(problem: Problem, network: Network, options: RunOptions) -> Any:
    """Refuse now what a worker would have to refuse. Single points stand in for measures that the caller does not
    have."""
    point = Empirical(problem.support.points[:1])
    known = [point if isinstance(measure, Stays) else measure for measure in problem.measures]
    return local_algorithm(
        options.method, replace(problem, measures=known), network, range(network.size), problem.weights * network.size,
        step=options.step, batch=options.batch, tol=options.tol,
    )  # fmt: skip


def equal_shares(nodes: Sequence[int], workers: int) -> list[tuple[int, ...]]:
    """The nodes in equal shares, neighbours in number together."""
    return [tuple(int(i) for i in share) for share in np.array_split(np.array(nodes), min(workers, len(nodes)))]


def assignments(
    problem: Problem, network: Network, options: RunOptions, shares: Sequence[Sequence[int]]
) -> list[Assignment]:
    """What each worker is told."""
    run, began, told = uuid.uuid4().hex, time.time(), []
    for number, nodes in enumerate(shares):
        own = problem.with_measures([problem.measures[i] for i in nodes], problem.weights[list(nodes)])
        # draws are addressed by place in the list: a seed of its own keeps those of different workers apart
        own = replace(own, seed=problem.seed + 1_000_003 * number)
        everybody = tuple(tuple(share) for share in shares)
        relative = problem.weights[list(nodes)] * network.size
        settings = replace(options, reference=False, callback=None, start=None)
        told.append(Assignment(number, everybody, own, relative, network, settings, run, began))
    return told


def _watched(
    workers: list[Worker], gathering: Gathering, options: RunOptions, callback: Callback | None,
    interrupted: Callable[[], bool],
) -> Status:  # fmt: skip
    """Look after the workers until all nodes have stopped, or the time is over; it counts from when all have begun."""
    _begun(workers, interrupted)
    began, due = time.monotonic(), 0.0
    while True:
        now = time.monotonic() - began
        converged = all(worker.report is not None and worker.report.snapshot.stopped for worker in workers)
        status = _ending(converged, interrupted(), now >= options.duration)
        if now >= due or status is not None:
            gathering.record(options.duration if status is Status.OUT_OF_TIME else now, workers)
            due = now + options.record_every
            if callback is not None and callback(gathering) and status is None:
                return Status.STOPPED
        if status is not None:
            return status
        _look(workers)


def _begun(workers: list[Worker], interrupted: Callable[[], bool]) -> None:
    """Wait for the first report of every worker."""
    patience = time.monotonic() + BEGIN
    while silent := [worker for worker in workers if worker.report is None]:
        if interrupted():
            raise KeyboardInterrupt
        if time.monotonic() > patience:
            raise NetworkError(
                f"The worker of nodes {silent[0].told.nodes} did not begin within {BEGIN:g} s. Look at the machine it "
                "is to run on, and at what else runs there."
            )
        _look(workers)


def _look(workers: list[Worker]) -> None:
    time.sleep(LOOK)
    for worker in workers:
        worker.look()


def _ending(converged: bool, interrupted: bool, over: bool) -> Status | None:
    if converged:
        return Status.CONVERGED
    if interrupted:
        return Status.INTERRUPTED
    return Status.OUT_OF_TIME if over else None


def _certified(workers: list[Worker], gathering: Gathering) -> tuple[Floats, float, float]:
    """The barycenter, and bounds on the objective, from the shares of all workers in the certificate."""
    problem = gathering.problem
    p = problem.weights @ gathering.node_weights
    p = p / p.sum()
    # bounds hold for feasible duals only
    x = (gathering.duals - problem.weights @ gathering.duals) / problem.reg
    for worker in workers:
        worker.ask(Question(x[list(worker.told.nodes)], p))
    patience = time.monotonic() + ANSWER
    while missing := [worker for worker in workers if worker.share is None]:
        if time.monotonic() > patience:
            warnings.warn(
                f"The worker of nodes {missing[0].told.nodes} did not certify its share within {ANSWER:g} s: the "
                "result has no certificate, and its gap is infinite.",
                AccuracyWarning,
                stacklevel=5,
            )
            return p, -np.inf, np.inf
        _look(missing)
    shares = [worker.share for worker in workers if worker.share is not None]
    lower = problem.reg * float((problem.weights @ x).min()) + sum(share.lower for share in shares)
    return p, lower, sum(share.upper for share in shares)
