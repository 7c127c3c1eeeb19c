"""Oracle for support points that move: where they are now, under the squared Euclidean cost, in any dimension.

Beside values and log-gradients it gives the **barycentric projection** of every node: with the plan ``pi(l, y) = mu(y)
softmax_l(x - c(y)/reg)``

    T(z_l) = sum_y pi(l, y) y / sum_y pi(l, y)

the mean place of the mass that comes to support point l.
"""

from __future__ import annotations

import numpy as np

from barymesh.core import kernels
from barymesh.measures.base import Atoms
from barymesh.oracle.atoms import AtomOracle, shared_table
from barymesh.oracle.base import Floats, Indices
from barymesh.oracle.gibbs import padded

# in more dimensions than this the costs are kept in a matrix, in fewer they are computed for every exponential
ON_THE_FLY = 4


class MovingOracle(AtomOracle):
    """The nodes with these ``atoms``; ``place`` moves the support points, and sets the regularisation."""

    def __init__(self, atoms: list[Atoms], dtype: type = np.float64) -> None:
        self.offsets = np.concatenate([[0], np.cumsum([a.weights.size for a in atoms])]).astype(np.intp)
        self.weights = np.concatenate([a.weights for a in atoms]).astype(dtype)
        table, self.index = shared_table(atoms)
        # coordinates far from 0 would lose digits to their distance from it
        self.middle = table.mean(axis=0)
        self.coordinates: Floats = np.ascontiguousarray(table - self.middle, dtype)

    def place(self, points: Floats, reg: float) -> None:
        """Move the support to the ``points (n, d)``."""
        dtype, root = self.weights.dtype, np.sqrt(reg)
        self.reg, self.size = reg, len(points)
        self.support_t = np.ascontiguousarray((points - self.middle).T / root, dtype)
        self.table = np.ascontiguousarray(self.coordinates / root, dtype)
        self.cost_rows = np.empty((0, self.size), dtype)
        if points.shape[1] > ON_THE_FLY:
            self.cost_rows = np.empty((len(self.table), self.size), dtype)
            kernels.squared_costs(self.support_t, self.table, self.cost_rows)

    def projections(self, x: Floats, nodes: Indices | None = None) -> tuple[Floats, Floats]:
        """``T(z) (b, n, d)`` of the listed nodes (all, if None) at ``x = lam/reg (b, n)``, and the masses ``p (b, n)``
        there. Where there is no mass, NaN."""
        chosen = self.chosen(nodes)
        x = np.ascontiguousarray(x, self.weights.dtype)
        d = self.coordinates.shape[1]
        sums: Floats = np.empty((chosen.size, 1 + d, padded(self.size)), self.weights.dtype)
        kernels.project_atoms(
            x, self.support_t, self.table, self.cost_rows, self.coordinates, self.index, self.weights,
            self.offsets[chosen], self.offsets[chosen + 1], sums,
        )  # fmt: skip
        masses = sums[:, 0, : self.size].astype(float)
        with np.errstate(invalid="ignore", divide="ignore"):
            places = sums[:, 1:, : self.size] / masses[:, None]
        return np.swapaxes(places, 1, 2) + self.middle, masses
