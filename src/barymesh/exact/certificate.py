"""A certificate: how far the objective of a result can be from the best value.

With ``W_i(p) = min_pi <C, pi> + reg * KL(pi | counting x mu_i)`` over plans with marginals p and mu_i, and potentials
that sum to zero (``sum_i w_i lam_i = 0``):

    lower = -sum_i w_i W*_i(lam_i)   <=   min_q sum_i w_i W_i(q)   <=   sum_i w_i W_i(p)   <=   upper

``upper`` is the value of explicit plans with *exactly* the marginals p and mu_i, built from the potentials (after
Altschuler, Weed and Rigollet): take one more Sinkhorn step, so that the rows are right; shrink the columns that are too
large; put what is missing back as a product. The value of that sum is bounded by convexity, and the cost of the product
part by the largest cost, so the bound needs no matrix. ``gap = upper - lower`` bounds the error in the objective.

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

Floats = NDArray[np.float64]
# nodes done together; bounds the memory of the check
BATCH = 64


@dataclass(frozen=True)
class Certificate:
    """Bounds on the best objective value, and on that of the measure certified."""

    lower: float
    upper: float

    @property
    def gap(self) -> float:
        """The most by which the objective of the measure can exceed the best. Bounds that rounding has put in the wrong
        order are no more accurate than they are apart."""
        return abs(self.upper - self.lower)

    def __add__(self, other: Certificate) -> Certificate:
        return Certificate(self.lower + other.lower, self.upper + other.upper)


def certify(oracle: Oracle, weights: Floats, x: Floats, log_p: Floats, p: Floats, largest_cost: float) -> Certificate:
    """Bounds for the measure ``p (n,)`` from the potentials ``x = lam/reg (m, n)`` of all nodes and ``log_p = log
    p_i(lam_i) (m, n)``."""
    total = np.empty(oracle.size)
    kernels.weighted_mean(np.ascontiguousarray(x), weights, total)
    return completed(node_bounds(oracle, weights, x, log_p, p, largest_cost), total, oracle.reg)


def completed(bounds: Certificate, total: Floats, reg: float) -> Certificate:
    """The certificate from the bounds of all nodes added up, and ``total = sum_i w_i x_i (n,)``."""
    return Certificate(bounds.lower + reg * float(total.min()), bounds.upper)


def node_bounds(
    oracle: Oracle, weights: Floats, x: Floats, log_p: Floats, p: Floats, largest_cost: float
) -> Certificate:
    """What the nodes of the oracle add to the two bounds; arguments as for ``certify``."""
    log_target = np.log(np.maximum(p, np.finfo(float).tiny))
    lower, upper = 0.0, 0.0
    replaced = oracle.weights.astype(float)
    for start in range(0, oracle.count, BATCH):
        nodes = np.arange(start, min(start + BATCH, oracle.count))
        flat = slice(int(oracle.offsets[nodes[0]]), int(oracle.offsets[nodes[-1] + 1]))
        bounds = oracle.offsets[nodes] - flat.start
        mass = oracle.weights[flat].astype(float)
        stepped = x[nodes] + log_target - log_p[nodes]
        log_z = oracle.atom_log_sums(x[nodes], nodes)
        log_z_stepped = oracle.atom_log_sums(stepped, nodes)
        lower -= float(weights[nodes] @ np.add.reduceat(mass * log_z, bounds))
        # columns of the stepped plan hold mass * exp(excess); shrink those that hold too much
        excess = log_z_stepped - log_z
        kept = np.minimum(0.0, excess)
        replaced[flat] = mass * np.exp(kept)
        _, log_rows = oracle.evaluate(stepped, nodes, replaced.astype(oracle.weights.dtype))
        rows = np.exp(log_rows)
        missing_columns = mass * -np.expm1(kept)
        short = np.add.reduceat(missing_columns, bounds)
        plan = (stepped * rows).sum(axis=1) - np.add.reduceat(replaced[flat] * (log_z_stepped - kept), bounds)
        missing_rows = np.maximum(p - rows, 0.0)
        missing_rows *= (short / np.maximum(missing_rows.sum(axis=1), np.finfo(float).tiny))[:, None]
        product = short * largest_cost / oracle.reg + _entropy(missing_rows, short)
        ratio = np.log(np.maximum(missing_columns, np.finfo(float).tiny) / mass)
        product += np.add.reduceat(missing_columns * ratio, bounds) - short * np.log(
            np.maximum(short, np.finfo(float).tiny)
        )
        mixing = -(1.0 - short) * np.log1p(-np.minimum(short, 1.0 - 1e-15))
        upper += float(weights[nodes] @ (plan + product + mixing))
    return Certificate(oracle.reg * lower, oracle.reg * upper)


def _entropy(rows: Floats, totals: Floats) -> Floats:
    """``sum_l r_l log(r_l / total)`` for each row."""
    tiny = np.finfo(float).tiny
    return np.asarray((rows * np.log(np.maximum(rows, tiny))).sum(axis=1) - totals * np.log(np.maximum(totals, tiny)))
