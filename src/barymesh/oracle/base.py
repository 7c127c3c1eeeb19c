"""The node oracle: value and gradient of the dual function of every node, for a batch of nodes at once.

For node i with measure mu_i, potential ``lam (n,)`` and cost ``c_l(y) = c(z_l, y)``:

    W*_i(lam)      = E_{y ~ mu_i} [ reg * log sum_l exp((lam_l - c_l(y)) / reg) ]
    grad W*_i(lam) = E_{y ~ mu_i} softmax((lam - c(y)) / reg)                       a probability vector

Every kind of oracle works in units of reg, x = lam / reg, and in the log domain.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from barymesh.core import kernels

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


class Oracle(ABC):
    """Oracles of ``count`` nodes over a support of ``size`` points.

    The atoms of all nodes are listed one node after the other: node i has ``offsets[i] : offsets[i + 1]``, with
    ``weights``.
    """

    reg: float
    size: int
    offsets: Indices
    weights: Floats

    @property
    def count(self) -> int:
        return int(self.offsets.size - 1)

    @abstractmethod
    def evaluate(
        self, x: Floats, nodes: Indices | None = None, weights: Floats | None = None, out: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """``W*/reg (b,)`` and ``log grad W* (b, n)`` at ``x = lam/reg (b, n)`` of the listed nodes (all, if None).

        ``weights`` replaces the weights of the atoms for this call; the gradient then sums to their sum. ``out (b, n)``
        takes the log-gradient, if given.
        """

    def approach(
        self, x: Floats, rows: Indices, nodes: Indices, targets: Floats, steps: int, largest: float, *, centred: bool
    ) -> None:
        """So many times ``x_r += target_r - log grad W*``, less the mean of this step, for the ``rows (b,)`` of ``x (k,
        n)`` and of ``targets (k, n or more)``, which belong to the ``nodes (b,)``. ``centred``: the mean of x is
        removed too. No number leaves ``[-largest, largest]``."""
        ones = np.ones(len(x))
        for _ in range(steps):
            kernels.move_potentials(rows, ones, self.evaluate(x[rows], nodes)[1], targets, largest, centred, x)

    @abstractmethod
    def atom_log_sums(self, x: Floats, nodes: Indices | None = None) -> Floats:
        """``log sum_l exp(x_l - c_l(y)/reg)`` at every atom y of the listed nodes, one node after the other."""

    def value_and_log_gradient(self, lam: Floats, nodes: Indices | None = None) -> tuple[Floats, Floats]:
        """``W*_i(lam_i) (b,)`` and ``log grad W*_i(lam_i) (b, n)`` for ``lam (b, n)``."""
        value, log_gradient = self.evaluate(np.ascontiguousarray(lam, dtype=float) / self.reg, nodes)
        return self.reg * value, log_gradient

    def value_and_gradient(
        self, lam: Floats, nodes: Indices | None = None, out: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """``W*_i(lam_i) (b,)`` and ``grad W*_i(lam_i) (b, n)``, in ``out`` if given; each is a probability vector."""
        value, log_gradient = self.value_and_log_gradient(lam, nodes)
        return value, np.exp(log_gradient, out=log_gradient if out is None else out)

    def chosen(self, nodes: Indices | None) -> Indices:
        return np.arange(self.count) if nodes is None else np.asarray(nodes, dtype=np.intp)
