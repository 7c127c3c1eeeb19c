"""Oracle for support points that move: where they are now, under the squared Euclidean cost, in any dimension.

Beside values and log-gradients it gives the **barycentric projection** of every node: with the plan ``pi(l, y) = mu(y)
softmax_l(x - c(y)/reg)``

    T(z_l) = sum_y pi(l, y) y / sum_y pi(l, y)

the mean place of the mass that comes to support point l; and the products of shares that Newton's steps need.

In few dimensions atoms are sorted, so that those which follow one another are near one another. The kernels then leave
out the support points that are too far from many of them at once to matter (core/moving.cpp): the more, the smaller reg
is.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import KDTree

from barymesh.core import kernels
from barymesh.measures.base import Atoms
from barymesh.oracle.atoms import AtomOracle, shared_table
from barymesh.oracle.base import Floats, Indices
from barymesh.resources import memory

# in more dimensions than this the costs are kept in a matrix, in fewer they are computed for every exponential
ON_THE_FLY = 4
# atoms in a leaf of the tree that sorts them
LEAF = 16


class MovingOracle(AtomOracle):
    """The nodes with these ``atoms``; ``place`` moves the support points, and sets the regularisation."""

    def __init__(self, atoms: list[Atoms], dtype: type = np.float64) -> None:
        self.offsets = np.concatenate([[0], np.cumsum([a.weights.size for a in atoms])]).astype(np.intp)
        if atoms[0].table.shape[1] <= ON_THE_FLY:
            atoms = [_sorted(one) for one in atoms]
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
            memory.require(
                dtype.itemsize * len(self.table) * self.size,
                f"The cost between {self.size} support points and {len(self.table)} atoms",
                "Use a smaller support, or draw fewer points of the measures.",
            )
            self.cost_rows = np.empty((len(self.table), self.size), dtype)
            kernels.squared_costs(self.support_t, self.table, self.cost_rows)

    def evaluate(
        self, x: Floats, nodes: Indices | None = None, weights: Floats | None = None, out: Floats | None = None
    ) -> tuple[Floats, Floats]:
        chosen = self.chosen(nodes)
        value, log_p = np.empty(chosen.size), np.empty(x.shape) if out is None else out
        kernels.evaluate_moving(*self._arguments(x, chosen, weights), value, log_p)
        return value, log_p

    def projections(self, x: Floats, nodes: Indices | None = None) -> tuple[Floats, Floats]:
        """``T(z) (b, n, d)`` of the listed nodes (all, if None) at ``x = lam/reg (b, n)``, and the masses ``p (b, n)``
        there. Where there is no mass, NaN."""
        chosen = self.chosen(nodes)
        x, support_t, table, cost_rows, index, weights, start, stop = self._arguments(x, chosen)
        sums: Floats = np.empty((chosen.size, 1 + self.coordinates.shape[1], self.size), self.weights.dtype)
        kernels.project_atoms(x, support_t, table, cost_rows, self.coordinates, index, weights, start, stop, sums)
        masses = sums[:, 0].astype(float)
        with np.errstate(invalid="ignore", divide="ignore"):
            places = sums[:, 1:] / masses[:, None]
        return np.swapaxes(places, 1, 2) + self.middle, masses

    def products(self, x: Floats, nodes: Indices | None = None) -> Floats:
        """``M (b, n, n)`` of the listed nodes (all, if None) at ``x (b, n)``: with the shares ``s(l, y) = softmax_l(x -
        c(y)/reg)`` the sums ``M(l, j) = sum_y mu(y) s(l, y) s(j, y)`` for ``j >= l``, and 0 below the diagonal."""
        chosen = self.chosen(nodes)
        products = np.empty((chosen.size, self.size, self.size))
        kernels.share_products(*self._arguments(x, chosen), products)
        return products

    def _arguments(
        self, x: Floats, nodes: Indices, weights: Floats | None = None
    ) -> tuple[Floats, Floats, Floats, Floats, Indices, Floats, Indices, Indices]:
        return (
            np.ascontiguousarray(x, self.weights.dtype),
            self.support_t,
            self.table,
            self.cost_rows,
            self.index,
            self.weights if weights is None else weights,
            self.offsets[nodes],
            self.offsets[nodes + 1],
        )


def _sorted(atoms: Atoms) -> Atoms:
    """The same atoms, in an order in which neighbours are near one another."""
    order = KDTree(atoms.points, LEAF, balanced_tree=False).indices
    return Atoms(atoms.table, atoms.index[order], atoms.weights[order])
