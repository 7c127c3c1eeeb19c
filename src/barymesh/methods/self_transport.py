"""How the logarithms of the estimates answer to the duals, as far as the barycenter alone can tell.

A node's ``h = log p(x)`` answers to its dual x by ``dh = (I - S) dx``, where S averages over the atoms y that a point z
exchanges mass with, and back: ``(S v)(z) = E[E[v(z') | y] | z]``. Its own measure decides S, but the measures of all
nodes are transported to the same barycenter q, and the transport of q to itself has the typical S:

    pi(z, y) = u(z) exp(-c(z, y)/reg) u(y),  with both marginals q,      (S v)(z) = E[E[v | y] | z]

``response(v) = v - S v`` needs nothing but q. It is 0 on constants, near 1 on what varies within the blur of reg, and
small on what varies slowly, which is what makes plain Sinkhorn iteration slow there.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from barymesh.decentralized.algorithm import Floats
from barymesh.problem import Problem
from barymesh.resources import memory

# the symmetric iteration halves its error each time, and it only shapes a direction
ITERATIONS = 10
TINY = 1e-300


class SelfTransport:
    """Responses on the support of a problem."""

    def __init__(self, problem: Problem) -> None:
        self.size = problem.support.size
        self.smooth = _kernel(problem)

    def response(self, log_q: Floats, v: Floats) -> Floats:
        """``v - S v`` for the measure with logarithms ``log_q (n,)``, up to a constant; its mean under q is 0."""
        q = np.exp(log_q - log_q.max())
        q /= q.sum()
        log_mass = np.log(np.maximum(q, TINY))
        f = np.zeros(self.size)
        for _ in range(ITERATIONS):
            u = np.exp(f - f.max())
            f = 0.5 * (f - f.max() + log_mass - np.log(np.maximum(self.smooth(u), TINY)))
        u = np.exp(f - f.max())
        # where there is no mass nothing is averaged, and the response is v itself
        masses = np.maximum(self.smooth(u), TINY)
        v = v - q @ v
        for_each_atom = self.smooth(u * v) / masses
        answer = v - self.smooth(u * for_each_atom) / masses
        return np.asarray(answer - q @ answer)


def _kernel(problem: Problem) -> Callable[[Floats], Floats]:
    """``v -> sum_y exp(-c(z, y)/reg) v(y)`` on the support: axis by axis on a grid, else by one matrix."""
    grid, separable = problem.support.grid, problem.cost.separable
    if grid is not None and separable is not None:
        matrices = [np.exp(-separable(axis[:, None] - axis[None, :]) / problem.reg) for axis in grid.axes]

        def by_axes(v: Floats) -> Floats:
            block = v
            for matrix in matrices:
                # takes the first axis off and puts the result last: after all of them the order is back
                block = block.reshape(len(matrix), -1).T @ matrix.T
            return block.ravel()

        return by_axes
    size = problem.support.size
    memory.require(8 * size**2, f"The matrix between {size} support points", "Use fewer support points, or a grid.")
    if problem.cost.matrix_given is None:
        kernel = np.exp(-problem.cost.matrix(problem.support.points, problem.support.points) / problem.reg)
    else:
        # costs to the atoms are all there is: to an atom and back
        there = np.exp(-problem.cost.matrix_given / problem.reg)
        kernel = there @ there.T
    return lambda v: np.asarray(kernel @ v)
