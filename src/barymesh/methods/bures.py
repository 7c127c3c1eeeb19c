"""The Wasserstein barycenter of Gaussians, which is a Gaussian: its mean is the average of the means, and its
covariance S solves the fixed-point equation (Alvarez-Esteban, del Barrio, Cuesta-Albertos and Matran, 2016)

    S = avg_i (S^1/2 C_i S^1/2)^1/2,        by the iteration   S <- S^-1/2 (avg_i (S^1/2 C_i S^1/2)^1/2)^2 S^-1/2

    local:   contribution (mean_i, (S^1/2 C_i S^1/2)^1/2)
    root:    target (avg(mean), the next S)

which converges from every positive definite S; here from the average of the C_i. Where all C_i commute, as in one
dimension, one step is the solution: the deviations are averaged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from barymesh.errors import MeasureError
from barymesh.measures import Atoms, Gaussian
from barymesh.methods.base import UNKNOWN_ERROR, Answer, Contribution, Enough, Floats, Indices, RoundMethod
from barymesh.state import State


@dataclass
class BuresState(State):
    """``found (k, d + d d)``: the mean and covariance in the last target of each node; ``part``, its contribution;
    ``measure (k,)``."""

    found: Floats
    part: Floats
    measure: NDArray[np.int64]


class Bures(RoundMethod[BuresState]):
    """The barycenter of ``gaussians``, of which node i has the i-th. ``reach``: no mean has a larger coordinate, and no
    deviation is larger; None if that is not known."""

    name = "bures"
    final = True
    in_rounds = True

    def __init__(self, gaussians: list[Gaussian], reach: float | None = None) -> None:
        self.gaussians, self.d, self.reach = gaussians, gaussians[0].dimension, reach
        self.up = self.down = self.d + self.d * self.d
        self.fixed, self.fixed_sizes = slice(0, self.d), np.full(self.d, reach or 1.0)

    def limits(self) -> Floats | None:
        """``|(S^1/2 C_i S^1/2)^1/2| <= |S|^1/2 |C_i|^1/2`` in the spectral norm; and the trace of S is at most the
        average of those of the C_i, at every step, so ``|S| <= d reach^2``."""
        if self.reach is None:
            return None
        for k, one in enumerate(self.gaussians):
            largest = max(float(np.abs(one.mean).max()), float(np.linalg.eigvalsh(one.cov).max()) ** 0.5)
            if largest > self.reach:
                raise MeasureError(
                    f"Gaussian {k} has a mean or deviation of {largest:g}, beyond the reach {self.reach:g}. Give a "
                    "larger reach, the same at all nodes."
                )
        return np.repeat([self.reach, self.d * self.reach**2], [self.d, self.d * self.d])

    def start(self, count: int) -> BuresState:
        parts = [np.concatenate([one.mean, one.cov.ravel()]) for one in self.gaussians[:count]]
        return BuresState(np.zeros((count, self.down)), np.array(parts), np.arange(count))

    def first(self, state: BuresState) -> Contribution:
        return Contribution((state.part,), np.zeros(len(state.part)))

    def respond(
        self, state: BuresState, rows: Indices, targets: Floats, known: NDArray[np.bool_], fresh: NDArray[np.bool_]
    ) -> Contribution:
        for row in rows[fresh & known & targets[rows, : self.down].any(axis=1)]:
            root = power(self.covariance(targets[row]), 0.5)
            middle = power(root @ self.gaussians[state.measure[row]].cov @ root, 0.5)
            state.part[row, self.d :], state.found[row] = middle.ravel(), targets[row, : self.down]
        return Contribution((state.part[rows],), np.zeros(rows.size))

    def order(
        self, state: BuresState, row: int, average: Floats, target: Floats | None, weight: float, error: float,
        enough: Enough,
    ) -> Answer:  # fmt: skip
        if target is None or not target.any():
            return Answer(average.copy(), UNKNOWN_ERROR, UNKNOWN_ERROR)
        middle, last = self.covariance(average), self.covariance(target)
        inverse = power(last, -0.5)
        new = inverse @ middle @ middle @ inverse
        left = float(np.linalg.norm(new - last) / np.linalg.norm(last))
        found = Answer(np.concatenate([average[: self.d], new.ravel()]), min(left, UNKNOWN_ERROR), 0.0)
        done = enough(min(left, UNKNOWN_ERROR))
        return replace(found, decided=done, finished=done)

    def covariance(self, numbers: Floats) -> Floats:
        """``(d, d)``, symmetric up to the last digit."""
        matrix = numbers[self.d : self.up].reshape(self.d, self.d)
        return np.asarray((matrix + matrix.T) / 2)

    # the network works in rounds from the start

    def local(self, state: BuresState, rows: Indices, targets: Floats, known: NDArray[np.bool_]) -> Contribution:
        return Contribution((state.part[rows],), np.zeros(rows.size))

    def advance(
        self, state: BuresState, rows: Indices, contribution: Contribution, targets: Floats, moving: Indices
    ) -> None:
        """Nodes act when they respond."""

    def root(self, state: BuresState, row: int, average: Floats, target: Floats, loop: float, complete: bool) -> Answer:
        return Answer(target, 0.0, UNKNOWN_ERROR)

    def begin(self, state: BuresState, row: int, target: Floats, weight: float, close: bool) -> Answer:
        return Answer(target, 0.0, UNKNOWN_ERROR)

    def errors(self, state: BuresState) -> Floats:
        return np.zeros(len(state.part))

    def duals(self, state: BuresState) -> Floats:
        return np.zeros((len(state.part), 1))

    def change(self, state: BuresState, row: int, measure: int) -> None:
        state.measure[row] = measure

    def measures(self, state: BuresState) -> NDArray[np.int64]:
        return state.measure

    def known_atoms(self, state: BuresState, rows: Indices) -> list[Atoms] | None:
        return None

    def agrees(self, state: BuresState, rows: Indices, targets: Floats) -> NDArray[np.bool_]:
        # the last target is a step beyond the one before, by less than the tolerance
        return np.ones(rows.size, dtype=bool)

    def gaps(self, targets: Floats) -> Floats:
        return np.full(len(targets), np.nan)


def power(matrix: Floats, exponent: float) -> Floats:
    """A power of a symmetric positive definite matrix."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray((vectors * np.maximum(values, np.finfo(float).tiny) ** exponent) @ vectors.T)
