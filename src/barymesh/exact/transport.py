"""The regularised transport cost of every measure to one given measure on the support."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from barymesh.exact.anderson import Anderson
from barymesh.exact.solver import ROUNDING
from barymesh.oracle.base import Oracle

Floats = NDArray[np.float64]


def transport_costs(oracle: Oracle, target: Floats, *, max_iter: int, tol: float) -> tuple[Floats, float]:
    """``W_i(target) (m,)`` of every node, and how far the worst of its plans is from having the right rows (L1)."""
    _, costs, error = transport_potentials(oracle, target, max_iter=max_iter, tol=tol)
    return costs, error


def transport_potentials(
    oracle: Oracle, target: Floats, *, max_iter: int, tol: float, start: Floats | None = None
) -> tuple[Floats, Floats, float]:
    """The potentials ``x (m, n)`` of the transport of every node to the target, from ``start (m, n)`` if it is given,
    and what ``transport_costs`` returns.

    Sinkhorn in the dual, node by node: with ``x = lam / reg`` and ``p_i = grad W*_i``,

        x_i <- x_i + log target - log p_i(x_i),      W_i(target) >= reg <x_i, target> - W*_i(lam_i)

    until ``|p_i - target|_1 <= tol``. The bound is what is returned. Each step raises it by at least
    ``reg KL(target | p_i)``; an accelerated one that raises the sum over all nodes by less is undone.
    """
    log_target = np.log(np.maximum(target, np.finfo(float).tiny))
    x = np.zeros((oracle.count, oracle.size)) if start is None else start.copy()
    no_drift, weights = np.zeros(oracle.size), np.ones(oracle.count)
    anderson, goal = Anderson(x.shape), -np.inf
    for _ in range(max_iter):
        value, log_p = oracle.evaluate(x)
        bounds = x @ target - value
        reached = float(bounds.sum())
        if not anderson.keep(x, bool(reached >= goal - ROUNDING * (1.0 + np.abs(bounds).sum()))):
            continue
        best, costs, error = x.copy(), oracle.reg * bounds, float(np.abs(np.exp(log_p) - target).sum(axis=1).max())
        if error <= tol:
            break
        short = log_target - log_p
        goal = reached + float((short @ target).sum())
        anderson.step(x, short, no_drift, weights, target)
    return best, costs, error
