"""The nodes of one worker at work: their measures loaded, run over links, reported, and certified. It lives in the
worker's process and does not know who started that."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from barymesh.engines.host import Host, local_algorithm
from barymesh.engines.runtime import Pace, Runtime, Snapshot
from barymesh.errors import BarymeshError
from barymesh.exact import certify
from barymesh.io.slot_file import SlotFile
from barymesh.measures.lazy import Stays
from barymesh.network.topology import Network
from barymesh.oracle import build_oracle
from barymesh.peers.node import incarnation
from barymesh.problem import PRECISIONS, Problem
from barymesh.transport.keys import KeyPair
from barymesh.transport.sockets import Links
from barymesh.transport.subscriber import Neighbour
from barymesh.transport.wire import MessageFormat

if TYPE_CHECKING:
    from barymesh.engines.supervisor import WorkerOptions

Floats = NDArray[np.float64]
# seconds: how often a worker looks at what it knows, at least
REPORT = 0.2


@dataclass(frozen=True)
class Assignment:
    """What worker ``number`` is told. ``shares``: the nodes of all workers. ``problem`` has the measures of its own
    nodes only, whose ``weights`` are relative to the average. ``run``, ``began``: which run it is, and since when."""

    number: int
    shares: tuple[tuple[int, ...], ...]
    problem: Problem
    weights: Floats
    network: Network
    options: WorkerOptions
    run: str
    began: float

    @property
    def nodes(self) -> tuple[int, ...]:
        """Its own."""
        return self.shares[self.number]

    @cached_property
    def around(self) -> tuple[int, ...]:
        """The workers it talks to."""
        heard = {int(j) for i in self.nodes for j in self.network.neighbours_of(i)}
        return tuple(
            k for k, nodes in enumerate(self.shares) if k != self.number and not heard.isdisjoint(nodes)
        )  # fmt: skip

    def neighbour(self, number: int, endpoint: str, public_key: str | None) -> Neighbour:
        """Another worker, as the links know it."""
        return Neighbour(f"worker {number}", endpoint, self.shares[number], public_key)


@dataclass(frozen=True)
class Report:
    """What the nodes of a worker know, the dual objectives ``values (k,)`` of that, and what was sent so far."""

    snapshot: Snapshot
    values: Floats
    messages: int
    bytes: int


@dataclass(frozen=True)
class Question:
    """What is the share of the worker's nodes in the certificate of the measure ``p (n,)``, with their potentials ``x
    (k, n)``, in units of reg?"""

    x: Floats
    p: Floats


@dataclass(frozen=True)
class Share:
    """The answer: what the nodes add to the lower and to the upper bound."""

    lower: float
    upper: float


class Shard:
    """Listens at ``endpoint`` with the key pair ``curve``, and keeps the state of the nodes in ``folder``."""

    def __init__(
        self, told: Assignment, endpoint: str, neighbours: Iterable[Neighbour], curve: KeyPair | None, folder: Path
    ) -> None:
        self.told, options = told, told.options
        try:
            self.problem = loaded(told.problem)
            algorithm = local_algorithm(
                options.method, self.problem, told.network, told.nodes, told.weights,
                step=options.step, batch=options.batch, tol=options.tol,
            )  # fmt: skip
        except BarymeshError as error:
            # the worker numbers its own measures from 0
            said = re.sub(r"^Measure (\d+)", lambda found: f"Measure {told.nodes[int(found[1])]}", str(error))
            raise type(error)(said) from error
        host = Host(algorithm, told.network, told.nodes, incarnation(time.time() - told.began), told.run)
        self.links = Links(told.nodes, endpoint, neighbours, MessageFormat(told.run, *algorithm.bounds()), curve=curve)
        self.store = SlotFile(folder / f"{told.number}.state", len(host.saved()))
        self.runtime = Runtime(host, self.links, self.problem, Pace(options.interval), self.store, told.began)
        self.oracle = build_oracle(
            self.problem.atoms, self.problem.support, self.problem.cost, self.problem.reg,
            PRECISIONS[self.problem.precision],
        )  # fmt: skip
        self.runtime.warm_up()

    async def run(self, tell: Callable[[Report], None]) -> None:
        """Work until the runtime is asked to stop, with the links open; ``tell`` is called now and then."""
        every = min(self.told.options.record_every, REPORT)
        await self.runtime.run(every=every, tell=lambda found: tell(self._report(found)))

    def _report(self, found: Snapshot) -> Report:
        values, _ = self.oracle.value_and_gradient(found.duals)
        return Report(found, values, self.links.sent_messages, self.links.sent_bytes)

    def answer(self, asked: Question) -> Share:
        """The sums over the nodes in the certificate; what ``certify`` adds for all nodes together is left out."""
        weights = self.told.weights / self.told.network.size
        _, log_p = self.oracle.evaluate(asked.x)
        bounds = certify(self.oracle, weights, asked.x, log_p, asked.p, self.problem.largest_cost())
        return Share(bounds.lower - self.problem.reg * float((weights @ asked.x).min()), bounds.upper)


def loaded(problem: Problem) -> Problem:
    """The problem with those measures loaded that stay where they are."""
    if not any(isinstance(measure, Stays) for measure in problem.measures):
        return problem
    items = []
    for k, measure in enumerate(problem.measures):
        try:
            items.append(measure.load() if isinstance(measure, Stays) else measure)
        except BarymeshError as error:
            raise type(error)(f"Measure {k}: {error}") from error
    return replace(problem, measures=Problem.create(items, problem.support, reg=problem.reg).measures)
