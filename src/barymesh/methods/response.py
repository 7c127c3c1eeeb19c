"""The response of a node's estimate to its potential, exactly, and its damped inverse.

A node's ``h = log p(x)`` answers to its potential x by ``dh = (I - S) dx`` with

    S = R P',    P(l, y) = softmax_l(x - c(y)/reg),    R(l, y) = mu(y) P(l, y) / p_l

P holds the shares of the support points in every atom y, R those of the atoms in every support point l. Rows of R and
columns of P sum to 1, so S takes weighted means of means: ``S 1 = 1``, and its eigenvalues lie in [0, 1]. Where p is
too small for a float its row of R is still exact, because it is computed from logarithms.
"""

from __future__ import annotations

import numpy as np

from barymesh.oracle.base import Floats
from barymesh.problem import Problem

# costs that are kept, in numbers; others are computed again each time
KEPT = 4_000_000
ALL = slice(None)


class Response:
    """Responses of the measures of a problem."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._costs: dict[int, Floats] = {}

    def inverse(self, measure: int, x: Floats, reg: float, damping: float) -> Floats:
        """``((1 + damping) I - S + 1 p')^-1 (n, n)`` at ``x = lam/reg (n,)``. The last term makes constants, to which h
        does not answer, a mode like the others."""
        exponents, shares, sums = _shares(x, self._cost(measure), reg)
        exponents += np.log(self.problem.atoms[measure].weights / sums)
        top = exponents.max(axis=1, keepdims=True)
        rows = np.exp(exponents - top)
        totals = rows.sum(axis=1, keepdims=True)
        p = np.exp(top + np.log(totals))[:, 0]
        rows /= totals
        matrix = p - rows @ shares.T
        matrix[np.diag_indices(x.size)] += 1.0 + damping
        return np.linalg.inv(matrix)

    def products(self, measure: int, x: Floats, reg: float) -> Floats:
        """``sum_y mu(y) P(l, y) P(k, y) (n, n)`` at ``x = lam/reg (n,)``, which is ``diag(p) S``."""
        weights, most = self.problem.atoms[measure].weights, max(KEPT // x.size, 1)
        found = np.zeros((x.size, x.size))
        for start in range(0, weights.size, most):
            some = slice(start, start + most)
            _, shares, _ = _shares(x, self._cost(measure, some), reg)
            found += (shares * weights[some]) @ shares.T
        return found

    def _cost(self, measure: int, some: slice = ALL) -> Floats:
        """``c (n, N)`` between the support and ``some`` atoms of a measure, all by default."""
        found = self._costs.get(measure)
        if found is not None:
            return found[:, some]
        atoms, cost = self.problem.atoms[measure], self.problem.cost
        if cost.matrix_given is not None:
            found = cost.matrix(self.problem.support.points, atoms.table)[:, atoms.index[some]]
        else:
            found = cost.matrix(self.problem.support.points, atoms.points[some])
        whole = found.shape[1] == atoms.weights.size
        if whole and sum(one.size for one in self._costs.values()) + found.size <= KEPT:
            self._costs[measure] = found
        return found


def _shares(x: Floats, costs: Floats, reg: float) -> tuple[Floats, Floats, Floats]:
    """``x - c/reg (n, N)`` less its largest number in each column, the shares P, and the sums (N,) that these were
    divided by."""
    exponents = x[:, None] - costs / reg
    exponents -= exponents.max(axis=0)
    shares = np.exp(exponents)
    sums = shares.sum(axis=0)
    shares /= sums
    return exponents, shares, sums
