"""The response of the logarithms of the estimates to the duals, predicted from the barycenter alone.

A node's ``h = log p(x)`` answers to its dual x by ``dh = (I - S) dx``, where S averages over the atoms y that a point z
exchanges mass with, and back: ``(S v)(z) = E[E[v(z') | y] | z]``. Its own measure decides S, but the measures of all
nodes are transported to the same barycenter q, and the transport of q to itself has the typical S:

    pi(z, y) = u(z) exp(-c(z, y)/reg) u(y),  with both marginals q,      (S v)(z) = E[E[v | y] | z]

``response(v) = v - S v`` needs nothing but q. It is 0 on constants, near 1 on what varies within the blur of reg, and
small on what varies slowly, which is what makes plain Sinkhorn iteration slow there.
"""

from __future__ import annotations

import numpy as np

from barymesh.oracle.base import Floats
from barymesh.oracle.gibbs import smoothing
from barymesh.problem import Problem

# the symmetric iteration halves its error each time, and it only shapes a direction
ITERATIONS = 10
TINY = 1e-300


class SelfTransport:
    """Responses on the support of a problem."""

    def __init__(self, problem: Problem) -> None:
        self.size = problem.support.size
        self.smooth = smoothing(problem.support, problem.cost, problem.reg)

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
