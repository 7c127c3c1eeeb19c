"""A certificate: how far the objective of a result can be from the best value.

With the transport costs ``W_i`` of oracle/bounds.py, and potentials that sum to zero (``sum_i w_i lam_i = 0``):

    lower = -sum_i w_i W*_i(lam_i)   <=   min_q sum_i w_i W_i(q)   <=   sum_i w_i W_i(p)   <=   upper

``upper`` is the value of explicit plans with exactly the marginals p and mu_i. ``gap = upper - lower`` bounds the error
in the objective.

Both bounds are sums over the nodes, but for one term of the lower bound, ``min_l sum_i w_i lam_i(l)``, which allows for
potentials that sum to zero only up to rounding. So nodes in different places can certify together: ``node_bounds`` are
added up, and ``completed`` adds that term.

**Debiased** (methods/debiasing.py) the objective is ``sum_i w_i W_i(p) - V(p)/2``, without the terms of the measures
alone. The lower bound holds for all potentials. For every measure q, with the log-gradients ``h_i`` at them,

    W_i(q) - reg <q, log q>  >=  <lam_i - reg h_i, q> - W*_i(lam_i)

since ``lam_i - reg h_i`` is the potential of the other side's, and what debiasing adds is bounded by its ``lower``
with ``ratio = sum_i w_i (h_i - x_i)``. So the terms to be completed are sums over the nodes too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from barymesh.core import kernels
from barymesh.methods.debiasing import Debiasing
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


@dataclass(frozen=True)
class NodeBounds:
    """What nodes add to a certificate: to its bounds, and to the weighted sums ``(n,)`` of the potentials x and of
    ``log_p``."""

    lower: float
    upper: float
    x: Floats
    log_p: Floats

    def __add__(self, other: NodeBounds) -> NodeBounds:
        return NodeBounds(
            self.lower + other.lower, self.upper + other.upper, self.x + other.x, self.log_p + other.log_p
        )


def certify(
    oracle: Oracle, weights: Floats, x: Floats, log_p: Floats, p: Floats, costs: ProductCosts,
    debiasing: Debiasing | None = None,
) -> Certificate:  # fmt: skip
    """Bounds for the measure ``p (n,)`` from the potentials ``x = lam/reg (m, n)`` of all nodes and ``log_p = log
    p_i(lam_i) (m, n)``; ``debiasing``: for the debiased objective."""
    return completed(node_bounds(oracle, weights, x, log_p, p, costs), p, oracle.reg, debiasing)


def completed(bounds: NodeBounds, p: Floats, reg: float, debiasing: Debiasing | None = None) -> Certificate:
    """The certificate of ``p (n,)`` from the bounds of all nodes added up."""
    if debiasing is None:
        return Certificate(bounds.lower + reg * float(bounds.x.min()), bounds.upper)
    lower = debiasing.lower(bounds.log_p - bounds.x, bounds.x)
    return Certificate(bounds.lower + reg * lower, bounds.upper + reg * debiasing.upper(p))


def node_bounds(
    oracle: Oracle, weights: Floats, x: Floats, log_p: Floats, p: Floats, costs: ProductCosts
) -> NodeBounds:
    """What the nodes of the oracle add to the two bounds; arguments as for ``certify``."""
    sums = np.empty((2, oracle.size))
    kernels.weighted_mean(np.ascontiguousarray(x), weights, sums[0])
    kernels.weighted_mean(np.ascontiguousarray(log_p), weights, sums[1])
    total = NodeBounds(0.0, 0.0, *sums)
    batch = max(BATCH_NUMBERS // oracle.size, LEAST_BATCH)
    for start in range(0, oracle.count, batch):
        part = slice(start, min(start + batch, oracle.count))
        nodes = np.arange(part.start, part.stop)
        dual, plans = transport_bounds(oracle, nodes, x[part], log_p[part], p, costs)
        own = weights[part]
        lower, upper = -oracle.reg * float((own * dual).sum()), oracle.reg * float((own * plans).sum())
        total = replace(total, lower=total.lower + lower, upper=total.upper + upper)
    return total
