"""A worker: a process that hosts some of the nodes, loads their measures, runs them, reports and certifies. It does not
depend on what started its process."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from barymesh.decentralized.algorithm import Nodes
from barymesh.engines.masks import owned_masks
from barymesh.engines.runtime import Pace, Place, Runtime, Snapshot, hosted_algorithm
from barymesh.errors import BarymeshError
from barymesh.exact.certificate import NodeBounds, node_bounds
from barymesh.measures.lazy import Lazy
from barymesh.network.topology import Network
from barymesh.options import RunOptions
from barymesh.problem import Problem
from barymesh.transport.keys import KeyPair
from barymesh.transport.subscriber import Neighbour

Floats = NDArray[np.float64]
# seconds: how often a worker reports, at least
REPORT = 0.2


@dataclass(frozen=True)
class Assignment:
    """The work of worker ``number``. ``shares``: the nodes of all workers. ``problem`` has only the measures of its own
    nodes, whose ``weights`` are relative to the average. ``run``, ``began``: which run it is, and since when. ``start
    (k, n)``: potentials that its nodes begin with."""

    number: int
    shares: tuple[tuple[int, ...], ...]
    problem: Problem
    weights: Floats
    network: Network
    options: RunOptions
    run: str
    began: float
    start: Floats | None = None

    @property
    def nodes(self) -> tuple[int, ...]:
        """Its own."""
        return self.shares[self.number]

    @cached_property
    def around(self) -> tuple[int, ...]:
        """The workers it exchanges messages with."""
        neighbours = {int(j) for i in self.nodes for j in self.network.neighbours_of(i)}
        return tuple(
            k for k, nodes in enumerate(self.shares) if k != self.number and not neighbours.isdisjoint(nodes)
        )  # fmt: skip

    def neighbour(self, number: int, endpoint: str, public_key: str | None) -> Neighbour:
        """Another worker, as the links know it."""
        return Neighbour(f"worker {number}", endpoint, self.shares[number], public_key)


@dataclass(frozen=True)
class CertificateRequest:
    """Requests from a worker the bounds of its nodes for the measure ``p (n,)``, from their potentials ``x (k, n)`` in
    units of reg; ``points (n, d)``: where the support's points have moved, if they move."""

    x: Floats
    p: Floats
    points: Floats | None = None


class Worker:
    """Listens at ``endpoint`` with the key pair ``curve``, and keeps the state of the nodes in ``folder``."""

    def __init__(
        self, assignment: Assignment, endpoint: str, neighbours: Iterable[Neighbour], curve: KeyPair | None,
        folder: Path,
    ) -> None:  # fmt: skip
        self.assignment, options = assignment, assignment.options
        nodes = Nodes(assignment.network, np.array(assignment.nodes, dtype=np.intp), assignment.weights)
        try:
            self.problem = loaded(assignment.problem)
            algorithm = hosted_algorithm(
                options.method, self.problem, nodes, step=options.step, batch=options.batch, tol=options.tol,
                start=assignment.start,
                masks=owned_masks(options, nodes.size, assignment.run, secrets.token_bytes(32)),
            )  # fmt: skip
        except BarymeshError as error:
            # the worker numbers its own measures from 0
            text = re.sub(r"^Measure (\d+)", lambda found: f"Measure {assignment.nodes[int(found[1])]}", str(error))
            raise type(error)(text) from error
        self.runtime = Runtime(
            algorithm, self.problem, Place(assignment.run, endpoint, neighbours, curve), Pace(options.interval),
            began=assignment.began, state_file=folder / f"{assignment.number}.state", about=assignment.run,
        )  # fmt: skip
        self.links = self.runtime.links

    async def run(self, report: Callable[[Snapshot], None]) -> None:
        """Work until the runtime is stopped, with the links open; ``report`` is called at intervals."""
        await self.runtime.run(every=min(self.assignment.options.record_every, REPORT), report=report)

    def certify(self, request: CertificateRequest) -> NodeBounds:
        """What the nodes add to the bounds of the certificate."""
        host = self.runtime.host
        known = host.known(np.arange(host.nodes.count))
        if request.points is not None:
            known = known.placed(request.points)
        oracle = known.float64_oracle
        weights = host.nodes.weights / host.nodes.size
        log_p = oracle.evaluate(request.x)[1]
        return node_bounds(oracle, weights, request.x, log_p, request.p, known.product_costs)

    def close(self) -> None:
        """Close the file of the state."""
        self.runtime.close()


def loaded(problem: Problem) -> Problem:
    """The problem with its lazy measures loaded."""
    if not any(isinstance(measure, Lazy) for measure in problem.measures):
        return problem
    items = []
    for k, measure in enumerate(problem.measures):
        try:
            items.append(measure.load() if isinstance(measure, Lazy) else measure)
        except BarymeshError as error:
            raise type(error)(f"Measure {k}: {error}") from error
    return replace(problem, measures=Problem.create(items, problem.free or problem.support, reg=problem.reg).measures)
