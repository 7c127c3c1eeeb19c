"""The simplest method there is: every node has a vector, and all are to know the weighted mean of the vectors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import barymesh as bm
from barymesh.decentralized.algorithm import Nodes
from barymesh.decentralized.tree import SpanningTree
from barymesh.methods.base import UNKNOWN_ERROR, Answer, Contribution, Floats, Method
from barymesh.network import as_network
from barymesh.problem import Problem
from barymesh.state import State

WIDTH = 3
TOL = 1e-9


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


def vectors_of(size, seed):
    return np.random.default_rng(seed).uniform(-1, 1, (size, WIDTH))


def weights_of(size, seed):
    weights = np.random.default_rng(seed + 1).uniform(0.2, 3.0, size)
    return weights / weights.sum()


def average_tree(network, vectors, weights, tol=TOL, kind=SpanningTree):
    return kind(Average(vectors), Nodes.all_of(network, weights), tol)


def problem_of(size, weights=None):
    """What a simulation records needs a problem; the average has nothing to do with it."""
    return Problem.create([bm.Empirical([[0.0]])] * size, np.arange(float(WIDTH)), reg=1.0, weights=weights)


def network_of(name, size, seed):
    try:
        return as_network(name, size, seed)
    except bm.BarymeshError:
        # there is no hypercube of eleven nodes
        return as_network("cycle", size)
