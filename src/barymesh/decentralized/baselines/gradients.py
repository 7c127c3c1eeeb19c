"""Where algorithms get the gradient of a node's dual function from: the exact oracle, or fresh samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from barymesh.oracle import build_oracle
from barymesh.oracle.base import Floats, Indices
from barymesh.oracle.sampled import SampledOracle
from barymesh.problem import PRECISIONS, Problem


class Gradients(ABC):
    """``p_i(lam_i)``, or an estimate of it, for a batch of nodes. A row never depends on the rest of the batch."""

    @abstractmethod
    def at(self, lam: Floats, nodes: Indices, activations: NDArray[np.int64], steps: NDArray[np.int64]) -> Floats:
        """``(b, n)`` at ``lam (b, n)``, for activation number ``activations`` of each node at ``steps`` of the whole
        network."""


class ExactGradients(Gradients):
    """From every atom of the measures."""

    def __init__(self, problem: Problem) -> None:
        self.oracle = build_oracle(
            problem.atoms, problem.support, problem.cost, problem.reg, PRECISIONS[problem.precision]
        )

    def at(self, lam: Floats, nodes: Indices, activations: NDArray[np.int64], steps: NDArray[np.int64]) -> Floats:
        return self.oracle.value_and_gradient(lam, nodes)[1]


class SampledGradients(Gradients):
    """From ``sizes(steps)`` fresh samples each."""

    def __init__(self, problem: Problem, sizes: Callable[[NDArray[np.int64]], NDArray[np.int64]]) -> None:
        self.oracle, self.sizes = SampledOracle(problem), sizes

    def at(self, lam: Floats, nodes: Indices, activations: NDArray[np.int64], steps: NDArray[np.int64]) -> Floats:
        return self.oracle.gradient(lam, nodes, activations, self.sizes(steps))


class GradientsOfSome(Gradients):
    """For the nodes ``own`` alone, out of ``count``: ``of`` knows them by their places in this list."""

    def __init__(self, of: Gradients, own: Indices, count: int) -> None:
        self.of, self.place = of, places(own, count)

    def at(self, lam: Floats, nodes: Indices, activations: NDArray[np.int64], steps: NDArray[np.int64]) -> Floats:
        return self.of.at(lam, self.place[nodes], activations, steps)


def places(own: Indices, count: int) -> Indices:
    """The place of every node in the list ``own``; one that cannot be used for those who are not in it."""
    found = np.full(count, np.iinfo(np.intp).max, dtype=np.intp)
    found[own] = np.arange(len(own))
    return found
