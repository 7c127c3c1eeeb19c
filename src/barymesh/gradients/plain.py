"""Gradients of the nodes' dual functions: from the exact oracle, or from fresh samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from barymesh.gradients.sampled import SampledOracle
from barymesh.oracle.base import Floats, Indices
from barymesh.problem import Problem


class Gradients(ABC):
    """``p_i(lam_i)``, or an estimate of it, for a batch of nodes. A row never depends on the rest of the batch."""

    @abstractmethod
    def at(self, lam: Floats, rows: Indices, activations: NDArray[np.int64], steps: NDArray[np.int64]) -> Floats:
        """``(b, n)`` at ``lam (b, n)`` of the measures ``rows (b,)``, for activation number ``activations`` of each
        node at ``steps`` of the whole network."""


class ExactGradients(Gradients):
    """From every atom of the measures."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def at(self, lam: Floats, rows: Indices, activations: NDArray[np.int64], steps: NDArray[np.int64]) -> Floats:
        return self.problem.oracle.value_and_gradient(lam, rows)[1]


class SampledGradients(Gradients):
    """From ``sizes(steps)`` fresh samples each."""

    def __init__(self, problem: Problem, sizes: Callable[[NDArray[np.int64]], NDArray[np.int64]]) -> None:
        self.oracle, self.sizes = SampledOracle(problem), sizes

    def at(self, lam: Floats, rows: Indices, activations: NDArray[np.int64], steps: NDArray[np.int64]) -> Floats:
        return self.oracle.gradient(lam, rows, activations, self.sizes(steps))
