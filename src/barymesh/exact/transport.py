"""The regularised transport cost of every measure to one given measure on the support."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from barymesh.exact.anderson import Anderson
from barymesh.exact.rows import Rows
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
    rows = Rows(oracle, np.ones(oracle.count))
    x, log_p, no_drift = rows.x, rows.log_p, np.zeros(oracle.size)
    if start is not None:
        x[:] = start
    anderson, goal = Anderson(rows), -np.inf
    for _ in range(max_iter):
        value, _ = oracle.evaluate(x, out=log_p)
        bounds = x @ target - value
        reached = float(bounds.sum())
        if not anderson.keep(bool(reached >= goal - ROUNDING * (1.0 + np.abs(bounds).sum()))):
            continue
        best, costs, error = x.copy(), oracle.reg * bounds, float(np.abs(np.exp(log_p) - target).sum(axis=1).max())
        if error <= tol:
            break
        # the residuals
        np.subtract(log_target, log_p, out=log_p)
        goal = reached + float((log_p @ target).sum())
        anderson.step(no_drift, target)
    return best, costs, error
