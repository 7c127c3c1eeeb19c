"""Measures of the accuracy of duals and of the nodes' estimates."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from barymesh.core import kernels

Floats = NDArray[np.float64]


def feasibility_residual(duals: Floats, weights: Floats) -> float:
    """``max_l |sum_i w_i lam_i(l)|`` with its mean over l removed. Zero for feasible duals.

    Without it, a dual objective can be below the optimum and means nothing.
    """
    total = weights @ duals
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
