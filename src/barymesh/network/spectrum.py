"""Eigenvalues of the Laplacian, on networks of any shape.

Two ways, by what the network is like. Expanders have well separated eigenvalues, which Lanczos finds in a few steps,
but their factors fill up. Long thin networks have crowded eigenvalues, which only an inverse keeps apart, but their
factors stay sparse. So the first way is tried for a while, then the second.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# up to this many nodes all eigenvalues together take a moment
DENSE = 400
TOLERANCE = 1e-10
LANCZOS = {"k": 1, "ncv": 60, "tol": TOLERANCE, "return_eigenvectors": False}
RESTARTS = 60
SMOOTHING_STEPS = 200


def largest_eigenvalue(laplacian: Any) -> float:
    """max over x of x'Wx / x'x, for a Laplacian W ``(m, m)``."""
    size = laplacian.shape[0]
    if size <= DENSE:
        return float(np.linalg.eigvalsh(laplacian.toarray())[-1])
    from scipy.sparse.linalg import ArpackNoConvergence, eigsh

    try:
        return float(eigsh(laplacian, which="LA", v0=_start(size), maxiter=RESTARTS, **LANCZOS)[0])
    except ArpackNoConvergence:
        # just above the bound, where W - shift is sure to be regular
        shift = _bound(laplacian) * (1 + 1e-6)
        return float(eigsh(laplacian.tocsc(), sigma=shift, which="LM", v0=_start(size), **LANCZOS)[0])


def second_smallest_eigenvalue(laplacian: Any) -> float:
    """min over x with sum 0 of x'Wx / x'x, for a Laplacian W ``(m, m)``; infinite if m = 1."""
    size = laplacian.shape[0]
    if size == 1:
        return np.inf
    if size <= DENSE:
        return float(np.linalg.eigvalsh(laplacian.toarray())[1])
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh, splu

    bound = _bound(laplacian)
    lifted = LinearOperator(laplacian.shape, lambda x: laplacian @ x + bound * x.mean(), dtype=float)
    try:
        return float(eigsh(lifted, which="SA", v0=_start(size), maxiter=RESTARTS, **LANCZOS)[0])
    except ArpackNoConvergence:
        factors = splu(laplacian[1:, 1:].tocsc(), permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True})

    def pseudo_inverse(x: Floats) -> Floats:
        """W^+ x: with node 0 held at 0 the solution is unique, and its mean is taken off afterwards."""
        solved = np.concatenate([[0.0], factors.solve((x - x.mean())[1:])])
        return np.asarray(solved - solved.mean())

    inverse = LinearOperator(laplacian.shape, pseudo_inverse, dtype=float)
    return 1 / float(eigsh(inverse, which="LA", v0=_start(size), **LANCZOS)[0])


def smooth_layout(adjacency: Any) -> Floats:
    """Two vectors that vary slowly along the edges, as coordinates ``(m, 2)`` for drawing large networks.

    Subspace iteration of the lazy random walk x <- (x + D^-1 A x) / 2 on vectors of mean 0: the spectral layout, as far
    as a drawing needs it.
    """
    degrees = np.asarray(adjacency.sum(axis=1))[:, None]
    x = np.random.default_rng(0).normal(size=(adjacency.shape[0], 2))
    for _ in range(SMOOTHING_STEPS):
        x = (x + adjacency @ x / degrees) / 2
        x, _ = np.linalg.qr(x - x.mean(axis=0))
    return np.asarray(x / np.abs(x).max())


def _bound(laplacian: Any) -> float:
    """No eigenvalue lies above the largest d_i + d_j over the edges ij (Anderson and Morley)."""
    links = laplacian.tocoo()
    degrees = laplacian.diagonal()
    apart = links.row != links.col
    return float((degrees[links.row[apart]] + degrees[links.col[apart]]).max())


def _start(size: int) -> Floats:
    """The same start every time, so that results repeat to the last digit."""
    return np.random.default_rng(0).normal(size=size)
