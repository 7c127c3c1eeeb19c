"""The nodes that one process hosts: their state, their transport, and what they sent. No clock and no file here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

import numpy as np
from numpy.typing import NDArray

from barymesh.decentralized.algorithm import LIFE, Algorithm, AsynchronousAlgorithm, Batch, Floats, Indices
from barymesh.decentralized.inbox import Inbox
from barymesh.decentralized.transport import Transport
from barymesh.problem import Problem
from barymesh.state import S
from barymesh.transport import wire

# the number of lives of a node that the counts of its activations distinguish
LIVES = 2**20


@dataclass
class Traffic:
    """What nodes have sent, a message for each link that they sent it over, and their bytes on the wire."""

    messages: int = 0
    bytes: int = 0

    def add(self, links: int, width: int, private: int = 0, receivers: int = 0) -> None:
        """Messages over so many ``links``, of ``width`` numbers, ``private`` of which are only sent to so many
        ``receivers``."""
        self.messages += links
        self.bytes += links * wire.frame_bytes(width - private) + 8 * private * receivers


@dataclass(frozen=True)
class View:
    """What nodes know: their ``duals (k, n)``, the ``values (k,)`` of their dual functions there, their ``estimates (k,
    n)`` of the barycenter, their own estimates of the distance from it, ``errors (k,)`` in L1, and the certified
    ``gaps (k,)`` that they know, NaN where there is none; ``points (k, n, d)`` that they have, where these move."""

    duals: Floats
    values: Floats
    estimates: Floats
    errors: Floats
    gaps: Floats
    points: Floats | None = None

    def part(self, rows: Indices) -> View:
        """What the nodes in these rows know."""
        points = None if self.points is None else self.points[rows]
        return View(
            self.duals[rows], self.values[rows], self.estimates[rows], self.errors[rows], self.gaps[rows], points
        )

    def placed(self, problem: Problem, weights: Floats) -> Problem:
        """The problem on the mean of the nodes' points with these weights ``(k,)``, or as it is where they stay."""
        return problem if self.points is None else problem.placed(np.tensordot(weights, self.points, 1))

    def barycenter(self, problem: Problem, weights: Floats) -> Floats:
        """``(n,)``: the mean of the estimates with these weights ``(k,)``; uniform where that is wanted."""
        if problem.free is not None and not problem.free.learned:
            return np.full(problem.support.size, 1.0 / problem.support.size)
        p = weights @ self.estimates
        return np.asarray(p / p.sum())

    def potentials(self, problem: Problem, weights: Floats) -> Floats:
        """``(k, n)``: the duals in units of reg, for a certificate: without their mean, because its bounds are close
        for duals with ``sum_i w_i lam_i = 0`` only. Duals of transports to uniform weights have no such sum, and those
        of a debiased barycenter have another."""
        uniform = problem.free is not None and not problem.free.learned
        mean = 0.0 if uniform or problem.debias else weights @ self.duals
        return np.asarray((self.duals - mean) / problem.reg)


@dataclass(frozen=True)
class Outgoing:
    """The ``messages (b, width)`` of a batch; ``receivers`` and ``links`` as for ``Transport.send``."""

    messages: Floats
    receivers: NDArray[np.int64]
    links: NDArray[np.bool_] | None


class Host(Generic[S]):
    """Runs the algorithm on the nodes it was built for, whose measures the ``problem`` has, over a transport.

    ``incarnation``: another each time the nodes begin without their memory; 1 if they cannot have been there before.
    """

    def __init__(
        self, algorithm: AsynchronousAlgorithm[S], transport: Transport, problem: Problem, incarnation: int = 1
    ) -> None:
        self.algorithm, self.transport, self.problem, self.incarnation = algorithm, transport, problem, incarnation
        self.nodes, self.traffic = algorithm.nodes, Traffic()
        self._degrees = self.nodes.degrees.astype(np.intp)
        self.state: S = algorithm.start()
        self.begin(incarnation)

    def begin(self, incarnation: int) -> None:
        """Begin without memory, in this incarnation."""
        self.incarnation = incarnation
        if incarnation > 1:
            for row in range(self.nodes.count):
                # the neighbours may know it from before, and have continued without it
                self.algorithm.reset(self.state, row)
        self.counts = np.full(self.nodes.count, (incarnation % LIVES) * LIFE, dtype=np.int64)

    def batch(self, usual: int) -> Batch:
        """All nodes, to act once. ``usual``: how often a node of the network has acted by now, estimated
        from a clock; accelerated methods need to agree on it."""
        steps = usual * self.nodes.size + self.nodes.ids
        return Batch(np.arange(self.nodes.count), self.counts.copy(), steps)

    def activate(self, batch: Batch) -> Outgoing:
        """The nodes of the batch act on what they have received. Returns their messages, which are counted but not sent
        yet: what they depend on may have to be stored first, and the counts with it."""
        inbox = self.transport.receive(batch)
        messages = self.algorithm.activate(self.state, batch, inbox)
        self.counts[batch.rows] += 1
        receivers = self.algorithm.private_receivers(messages)
        links = self.algorithm.recipients(self.state, batch, inbox, messages)
        private, degrees = self.algorithm.private, self._degrees[batch.rows]
        if links is not None and self.transport.broadcasts:
            owner = np.repeat(np.arange(batch.rows.size), degrees)
            links = (np.bincount(owner, links, batch.rows.size) > 0)[owner]
        if links is None:
            count, private_count = int(degrees.sum()), int(np.count_nonzero(receivers >= 0))
        else:
            ids = np.concatenate([self.nodes.network.neighbours_of(int(node)) for node in self.nodes.ids[batch.rows]])
            count, private_count = int(links.sum()), int((links & (ids == np.repeat(receivers, degrees))).sum())
        self.traffic.add(count, self.algorithm.width, private.stop - private.start, private_count)
        return Outgoing(messages, receivers, links)

    def send(self, batch: Batch, outgoing: Outgoing) -> None:
        """Send what ``activate`` returned."""
        self.transport.send(batch, outgoing.messages, outgoing.receivers, outgoing.links)

    def act(self, batch: Batch) -> None:
        """Act and send."""
        self.send(batch, self.activate(batch))

    @property
    def activations(self) -> int:
        """How often the nodes have acted in this life, all together."""
        return int((self.counts % LIFE).sum())

    @property
    def stopped(self) -> NDArray[np.bool_]:
        """``(k,)``: the nodes that know that the network has converged."""
        return self.algorithm.stopped(self.state)

    def view(self, steps: int, received: Inbox | None = None) -> View:
        """What the nodes know after so many activations of the whole network; ``received`` as for
        ``Algorithm.duals``."""
        return view_of(self.algorithm, self.state, self.problem, steps, received)

    def known(self, rows: Indices) -> Problem:
        """The problem of the nodes in these rows, as far as they know their measures: for a certificate."""
        return known_problem(self.algorithm, self.state, self.problem, rows)


def view_of(algorithm: Algorithm[S], state: S, problem: Problem, steps: int, received: Inbox | None = None) -> View:
    """What the nodes of the algorithm know; see ``Host.view``."""
    duals = algorithm.duals(state, steps, received)
    rows, measures = np.arange(len(duals)), algorithm.measures(state).astype(np.intp)
    atoms, moved, points = algorithm.known_atoms(state, rows), algorithm.placed(state), None
    if moved is not None:
        points, values, estimates = moved
    elif atoms is None:
        values, estimates = problem.float64_oracle.value_and_gradient(duals, measures)
    else:
        known = problem.part(measures, problem.weights[rows], atoms)
        values, estimates = known.float64_oracle.value_and_gradient(duals)
    errors = algorithm.node_errors(state)
    if errors is None:
        errors = np.full(len(duals), np.nan)
    return View(duals, values, estimates, errors, algorithm.gaps(state), points)


def known_problem(algorithm: Algorithm[S], state: S, problem: Problem, rows: Indices) -> Problem:
    """The problem of some nodes of the algorithm; see ``Host.known``."""
    atoms, measures = algorithm.known_atoms(state, rows), algorithm.measures(state)[rows]
    if atoms is None and np.array_equal(measures, np.arange(len(problem.measures))):
        return problem
    return problem.part(measures, problem.weights[rows], atoms)
