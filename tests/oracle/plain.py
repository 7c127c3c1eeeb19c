"""The oracle in plain NumPy, as in the formula: slow, obvious, and what the compiled kernels are tested against."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def log_sum_exp(values: Floats, axis: int) -> Floats:
    """``log sum exp`` along an axis, shifted by the largest value."""
    top = values.max(axis=axis, keepdims=True)
    return np.asarray((top + np.log(np.exp(values - top).sum(axis=axis, keepdims=True))).squeeze(axis))


def node_oracle(lam: Floats, cost: Floats, weights: Floats, reg: float) -> tuple[float, Floats]:
    """Value and log-gradient for one node: ``lam (n,)``, ``cost (N, n)`` from its atoms, ``weights (N,)``."""
    exponents = (lam[None, :] - cost) / reg
    log_z = log_sum_exp(exponents, axis=1)
    log_gradient = log_sum_exp(exponents - log_z[:, None] + np.log(weights)[:, None], axis=0)
    return float(reg * weights @ log_z), log_gradient
