"""The simplest method there is: every node has a vector, and all are to know the weighted mean of the vectors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from barymesh.methods.base import UNKNOWN_ERROR, Answer, Contribution, Floats, Method
from barymesh.state import State


@dataclass
class AverageState(State):
    """``estimate (k, d)``; ``error, measure (k,)``."""

    estimate: Floats
    error: Floats
    measure: NDArray[np.int64]


class Average(Method[AverageState]):
    """The mean of the ``vectors (M, d)``, of which node i has the i-th until it changes to another."""

    name = "average"
    final = True

    def __init__(self, vectors):
        self.vectors = vectors
        self.up = self.down = vectors.shape[1]

    def start(self, count):
        return AverageState(np.zeros((count, self.down)), np.full(count, UNKNOWN_ERROR), np.arange(count))

    def first(self, state):
        return Contribution((self.vectors[state.measure],), state.error.copy())

    def local(self, state, rows, targets, known):
        apart = np.minimum(np.abs(state.estimate[rows] - targets[rows]).sum(axis=1), UNKNOWN_ERROR)
        state.error[rows] = np.where(known, apart, UNKNOWN_ERROR)
        return Contribution((self.vectors[state.measure[rows]],), state.error[rows])

    def advance(self, state, rows, contribution, targets, moving):
        state.estimate[rows[moving]] = targets[rows[moving]]

    def root(self, state, row, average, target, loop, complete):
        return Answer(average, min(float(np.abs(average - target).sum()), UNKNOWN_ERROR), 0.0)

    def errors(self, state):
        return state.error

    def duals(self, state):
        return state.estimate

    def change(self, state, row, measure):
        state.measure[row] = measure

    def measures(self, state):
        return state.measure

    def known_atoms(self, state, rows):
        return None
