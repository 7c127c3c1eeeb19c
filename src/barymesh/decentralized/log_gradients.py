"""Where Sinkhorn-like algorithms get the logarithm of a node's gradient from. Everything is in units of reg.

With ``x_i = lam_i / reg`` this is ``h_i = log p_i(x_i) = log E_{y ~ mu_i} softmax(x_i - c(y)/reg)``. It is never the
logarithm of a gradient computed first: where ``p`` is too small for a float, its logarithm still tells how the mass
must move.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from barymesh.decentralized.algorithm import LIFE, Floats, Indices
from barymesh.decentralized.baselines.gradients import places
from barymesh.measures import Distribution, Sampler
from barymesh.oracle import build_oracle
from barymesh.oracle.growing import GrowingOracle
from barymesh.problem import PRECISIONS, Problem


class LogGradients(ABC):
    """``log p_i(x_i)``, or an estimate of it, for a batch of nodes. A row never depends on the rest of the batch.

    ``final``: asked again, it gives the same; estimates that grow better do not.
    """

    final = True

    @abstractmethod
    def at(self, x: Floats, nodes: Indices, numbers: NDArray[np.int64]) -> Floats:
        """``(b, n)``, a new array: the log-gradients at ``x = lam/reg (b, n)`` of ``nodes (b,)``, each of which has
        acted ``numbers (b,)`` times before."""


class ExactLogGradients(LogGradients):
    """From every atom of the measures; the same whenever it is asked."""

    def __init__(self, problem: Problem) -> None:
        self.oracle = build_oracle(
            problem.atoms, problem.support, problem.cost, problem.reg, PRECISIONS[problem.precision]
        )

    def at(self, x: Floats, nodes: Indices, numbers: NDArray[np.int64]) -> Floats:
        return self.oracle.evaluate(x, nodes)[1]


class GrowingLogGradients(LogGradients):
    """From a sample that grows by ``batch`` draws every time the node acts. Fresh draws each time would make the
    logarithm too noisy to iterate on; these are noisy once, and ever less."""

    def __init__(self, problem: Problem, batch: int) -> None:
        self.oracle = GrowingOracle(problem, batch)
        self.final = False

    def at(self, x: Floats, nodes: Indices, numbers: NDArray[np.int64]) -> Floats:
        return self.oracle.log_gradient(x, nodes, numbers % LIFE + 1)


class BestLogGradients(LogGradients):
    """Exact where the measure is known, from a sample that grows where it can only be drawn from."""

    def __init__(self, problem: Problem, batch: int) -> None:
        self.drawn = np.array([isinstance(measure, Sampler | Distribution) for measure in problem.measures])
        self.exact = None if self.drawn.all() else ExactLogGradients(problem)
        self.growing = GrowingLogGradients(problem, batch) if self.drawn.any() else None
        self.final = self.growing is None

    def at(self, x: Floats, nodes: Indices, numbers: NDArray[np.int64]) -> Floats:
        if self.growing is None and self.exact is not None:
            return self.exact.at(x, nodes, numbers)
        out = np.empty_like(x)
        for part, some in ((self.exact, ~self.drawn[nodes]), (self.growing, self.drawn[nodes])):
            if part is not None and some.any():
                out[some] = part.at(x[some], nodes[some], numbers[some])
        return out


class LogGradientsOfSome(LogGradients):
    """For the nodes ``own`` alone, out of ``count``: ``of`` knows them by their places in this list."""

    def __init__(self, of: LogGradients, own: Indices, count: int) -> None:
        self.of, self.place, self.final = of, places(own, count), of.final

    def at(self, x: Floats, nodes: Indices, numbers: NDArray[np.int64]) -> Floats:
        return self.of.at(x, self.place[nodes], numbers)
