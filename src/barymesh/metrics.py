"""Measures of the accuracy of duals and of the nodes' estimates."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from barymesh.core import kernels

Floats = NDArray[np.float64]


def feasibility_residual(total: Floats) -> float:
    """``max_l |total_l|`` of ``total = sum_i w_i lam_i (n,)``, with its mean over l removed. Zero for feasible duals.

    Without it, a dual objective can be below the optimum and means nothing.
    """
    return float(np.abs(total - total.mean()).max())


def consensus_error(node_weights: Floats, p: Floats, weights: Floats) -> float:
    """``sum_i w_i |p_i - p|_1``: how far the nodes' own estimates are from the barycenter, on average."""
    return float(weights @ np.abs(node_weights - p).sum(axis=1))


def total_variations(estimates: Floats, p: Floats) -> Floats:
    """``|p_i - p|_1 / 2`` over the last axis."""
    return np.asarray(0.5 * np.abs(estimates - p).sum(axis=-1))


def total_variation(node_weights: Floats, p: Floats) -> float:
    """The mean over the nodes of ``|p_i - p|_1 / 2``."""
    return float(total_variations(np.atleast_2d(node_weights), p).mean())


def consensus_distance(node_weights: Floats, edges: NDArray[np.intp]) -> float:
    """``|sqrt(W) p|^2 = sum over the edges (i, j) of |p_i - p_j|^2``: the paper's consensus distance."""
    differences = np.empty(len(edges))
    kernels.squared_differences(np.ascontiguousarray(node_weights), np.ascontiguousarray(edges), differences)
    return float(differences.sum())


def tv_bound(gap: float, reg: float, *, debias: bool = False) -> float:
    """A bound on the total variation to the barycenter of a measure whose objective exceeds the best by ``gap`` at
    most: ``sqrt(gap / (2 reg))``, since the objective is strongly convex with modulus ``reg`` in the L1 norm; NaN if
    the gap is not known. The debiased objective is not, and the bound is 1."""
    if debias:
        return 1.0 if gap == gap else np.nan
    return float(np.fmin(1.0, np.sqrt(max(gap, 0.0) / (2.0 * reg)))) if gap == gap else np.nan
