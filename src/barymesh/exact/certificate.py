"""A certificate: how far the objective of a result can be from the best value.

With the transport costs ``W_i`` of oracle/bounds.py, and potentials that sum to zero (``sum_i w_i lam_i = 0``):

    lower = -sum_i w_i W*_i(lam_i)   <=   min_q sum_i w_i W_i(q)   <=   sum_i w_i W_i(p)   <=   upper

``upper`` is the value of explicit plans with exactly the marginals p and mu_i. ``gap = upper - lower`` bounds the error
in the objective.

Both bounds are sums over the nodes, but for one term of the lower bound, ``min_l sum_i w_i lam_i(l)``, which allows for
potentials that sum to zero only up to rounding. So nodes in different places can certify together: ``node_bounds`` are
added up, and ``completed`` adds that term.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from barymesh.core import kernels
from barymesh.oracle.base import Oracle
from barymesh.oracle.bounds import ProductCosts, transport_bounds

Floats = NDArray[np.float64]
# of the bounds
ROUNDING = 1e-14
# numbers of the potentials done together: few enough to stay in a cache, enough for several threads
BATCH_NUMBERS, LEAST_BATCH = 2**16, 4


@dataclass(frozen=True)
class Certificate:
    """Bounds on the best objective value, and on that of the measure certified."""

    lower: float
    upper: float

    @property
    def gap(self) -> float:
        """The most by which the objective of the measure can exceed the best, with what rounding may have done to the
        bounds. Those that it has put in the wrong order are no more accurate than they are apart."""
        return abs(self.upper - self.lower) + ROUNDING * (abs(self.upper) + abs(self.lower))

    def __add__(self, other: Certificate) -> Certificate:
        return Certificate(self.lower + other.lower, self.upper + other.upper)


def certify(oracle: Oracle, weights: Floats, x: Floats, log_p: Floats, p: Floats, costs: ProductCosts) -> Certificate:
    """Bounds for the measure ``p (n,)`` from the potentials ``x = lam/reg (m, n)`` of all nodes and ``log_p = log
    p_i(lam_i) (m, n)``."""
    total = np.empty(oracle.size)
    kernels.weighted_mean(np.ascontiguousarray(x), weights, total)
    return completed(node_bounds(oracle, weights, x, log_p, p, costs), total, oracle.reg)


def completed(bounds: Certificate, total: Floats, reg: float) -> Certificate:
    """The certificate from the bounds of all nodes added up, and ``total = sum_i w_i x_i (n,)``."""
    return Certificate(bounds.lower + reg * float(total.min()), bounds.upper)


def node_bounds(
    oracle: Oracle, weights: Floats, x: Floats, log_p: Floats, p: Floats, costs: ProductCosts
) -> Certificate:
    """What the nodes of the oracle add to the two bounds; arguments as for ``certify``."""
    total = Certificate(0.0, 0.0)
    batch = max(BATCH_NUMBERS // oracle.size, LEAST_BATCH)
    for start in range(0, oracle.count, batch):
        nodes = np.arange(start, min(start + batch, oracle.count))
        dual, upper = transport_bounds(oracle, nodes, x[nodes], log_p[nodes], p, costs)
        own = weights[nodes]
        total += Certificate(-oracle.reg * float((own * dual).sum()), oracle.reg * float((own * upper).sum()))
    return total
