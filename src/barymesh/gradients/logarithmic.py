"""Logarithms of the gradients of the nodes' dual functions. Everything is in units of reg.

With ``x_i = lam_i / reg`` this is ``h_i = log p_i(x_i) = log E_{y ~ mu_i} softmax(x_i - c(y)/reg)``. It is never the
logarithm of a gradient computed first: where ``p`` is too small for a float, its logarithm still determines how the
mass must move.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from barymesh.gradients.growing import GrowingOracle
from barymesh.measures import Atoms
from barymesh.oracle.base import Floats, Indices
from barymesh.problem import Problem

Counts = NDArray[np.int64]


class LogGradients(ABC):
    """``log p_i(x_i)``, or an estimate of it, for a batch of nodes. A row never depends on the rest of the batch.

    ``final``: whether it is the same at every activation, so that nodes can converge and stop; samples that grow
    get better all the time.
    """

    final = True

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    @abstractmethod
    def at(self, x: Floats, measures: Indices, drawn: Counts) -> Floats:
        """``(b, n)``, a new array: the log-gradients at ``x = lam/reg (b, n)`` of the ``measures (b,)``, from each of
        which ``drawn (b,)`` batches were drawn before."""

    @abstractmethod
    def known_atoms(self, measures: Indices, drawn: Counts) -> list[Atoms]:
        """What is known of the ``measures (b,)`` after so many batches, as atoms."""


class ExactLogGradients(LogGradients):
    """From every atom of the measures."""

    def at(self, x: Floats, measures: Indices, drawn: Counts) -> Floats:
        return self.problem.oracle.evaluate(x, measures)[1]

    def known_atoms(self, measures: Indices, drawn: Counts) -> list[Atoms]:
        return [self.problem.atoms[number] for number in measures]


class GrowingLogGradients(LogGradients):
    """From a sample that grows by ``batch`` draws every time the node acts. Fresh draws each time would make the
    logarithm too noisy to iterate on; these are noisy once, and ever less."""

    final = False

    def __init__(self, problem: Problem, batch: int) -> None:
        super().__init__(problem)
        self.oracle = GrowingOracle(problem, batch)

    def at(self, x: Floats, measures: Indices, drawn: Counts) -> Floats:
        return self.oracle.log_gradient(x, measures, drawn + 1)

    def known_atoms(self, measures: Indices, drawn: Counts) -> list[Atoms]:
        points, weights, offsets = self.oracle.sample(measures, drawn + 1)
        if self.problem.cost.matrix_given is not None:
            # atoms are the numbers of the matrix's columns
            columns, index = self.problem.atoms[0].table, points[:, 0].astype(np.intp)
            return [Atoms(columns, index[a:b], weights[a:b]) for a, b in pairwise(offsets)]
        points = points * self.oracle.sampled.unit
        return [Atoms(points[a:b], np.arange(b - a), weights[a:b]) for a, b in pairwise(offsets)]


class BestLogGradients(LogGradients):
    """Exact where the measure is known, from a sample that grows where it can only be drawn from."""

    def __init__(self, problem: Problem, batch: int) -> None:
        super().__init__(problem)
        self.drawn_from = np.array([measure.sampled_only for measure in problem.measures])
        self.exact = None if self.drawn_from.all() else ExactLogGradients(problem)
        self.growing = GrowingLogGradients(problem, batch) if self.drawn_from.any() else None
        self.final = self.growing is None

    def at(self, x: Floats, measures: Indices, drawn: Counts) -> Floats:
        if self.growing is None and self.exact is not None:
            return self.exact.at(x, measures, drawn)
        out = np.empty_like(x)
        for part, some in ((self.exact, ~self.drawn_from[measures]), (self.growing, self.drawn_from[measures])):
            if part is not None and some.any():
                out[some] = part.at(x[some], measures[some], drawn[some])
        return out

    def known_atoms(self, measures: Indices, drawn: Counts) -> list[Atoms]:
        found: list[Atoms | None] = [None] * len(measures)
        for part, some in ((self.exact, ~self.drawn_from[measures]), (self.growing, self.drawn_from[measures])):
            if part is not None and some.any():
                places = np.flatnonzero(some)
                for place, atoms in zip(places, part.known_atoms(measures[some], drawn[some]), strict=True):
                    found[place] = atoms
        return [atoms for atoms in found if atoms is not None]
