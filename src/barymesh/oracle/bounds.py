"""Bounds on the transport cost of every node to a given measure, from any potentials: what certificates are made of.

With ``W_i(p) = min_pi <C, pi> + reg * KL(pi | counting x mu_i)`` over plans with marginals p and mu_i, and any
potential ``lam_i``:

    <lam_i, p> - W*_i(lam_i)   <=   W_i(p)   <=   the value of any plan with exactly these marginals

Such a plan is built from the potential (after Altschuler, Weed and Rigollet): take one more Sinkhorn step, so that the
rows are right; shrink the columns that are too large; put what is missing back as a product. The entropy of the sum is
bounded by convexity, so no matrix is needed; the cost of the product part is exact where it is cheap to compute.
"""

from __future__ import annotations

import numpy as np

from barymesh.core import kernels
from barymesh.measures.base import Atoms
from barymesh.oracle.base import Floats, Indices, Oracle
from barymesh.support.points import Support

TINY = np.finfo(float).tiny


class ProductCosts:
    """Upper bounds on the costs of product plans between measures on the support and measures on the atoms of nodes,
    from the ``largest`` cost between any support point and any atom."""

    def __init__(self, largest: float, size: int) -> None:
        """``size``: of the support."""
        self.largest = largest
        # (k, n): what is summed over the rows
        self.features = np.empty((0, size))

    def of(self, nodes: Indices, sums: Floats, columns: Floats, starts: Indices) -> Floats:
        """``>= <C, r c'> / |r| (b,)`` for rows r on the support, known by the ``sums (b, k)`` of the features, and
        ``columns`` c on the atoms of the nodes, one node after the other from ``starts (b,)`` on, both with the same
        mass ``|r|``."""
        return np.asarray(np.add.reduceat(columns, starts) * self.largest)


class SquaredProductCosts(ProductCosts):
    """The same for squared Euclidean costs, exactly: they need the means and the mean squares only."""

    def __init__(self, largest: float, atoms: list[Atoms], support: Support) -> None:
        super().__init__(largest, support.size)
        # distances from the middle: squares of coordinates far from 0 would cancel
        self.atoms, self.middle = atoms, support.points.mean(axis=0)
        self.features = _squares_and_axes(support.points, self.middle)

    def of(self, nodes: Indices, sums: Floats, columns: Floats, starts: Indices) -> Floats:
        y = _squares_and_axes(np.concatenate([self.atoms[node].points for node in nodes]), self.middle)
        own = np.add.reduceat(columns * y, starts, axis=1)
        mixed = (sums[:, 1:].T * own[1:]).sum(axis=0)
        exact = sums[:, 0] + own[0] - 2.0 * mixed / np.maximum(np.add.reduceat(columns, starts), TINY)
        return np.asarray(np.clip(exact, 0.0, super().of(nodes, sums, columns, starts)))


def _squares_and_axes(points: Floats, middle: Floats) -> Floats:
    """``(1 + d, N)``: the squared distances of the points ``(N, d)`` from the middle, and their coordinates from it."""
    axes = np.array([axis - place for axis, place in zip(points.T, middle, strict=True)])
    return np.concatenate([np.square(axes).sum(axis=0, keepdims=True), axes])


def transport_bounds(
    oracle: Oracle, nodes: Indices, x: Floats, log_p: Floats, p: Floats, costs: ProductCosts
) -> tuple[Floats, Floats]:
    """``W*_i/reg (b,)`` at the potentials ``x = lam/reg (b, n)``, exactly, and upper bounds ``(b,)`` on ``W_i(p)/reg``
    for ``p (n,)``. ``log_p (b, n)``: the log-gradients at x."""
    flat = slice(int(oracle.offsets[nodes[0]]), int(oracle.offsets[nodes[-1] + 1]))
    starts = oracle.offsets[nodes] - flat.start
    mass = oracle.weights[flat].astype(float)
    stepped = np.log(np.maximum(p, TINY)) - log_p
    stepped += x
    log_z = oracle.atom_log_sums(x, nodes)
    log_z_stepped = oracle.atom_log_sums(stepped, nodes)
    dual = np.add.reduceat(mass * log_z, starts)
    # columns of the stepped plan hold mass * exp(excess); shrink those that hold too much
    kept = np.minimum(0.0, log_z_stepped - log_z)
    replaced = oracle.weights.astype(float)
    replaced[flat] = mass * np.exp(kept)
    _, log_rows = oracle.evaluate(stepped, nodes, replaced.astype(oracle.weights.dtype))
    missing_columns = mass * -np.expm1(kept)
    short = np.add.reduceat(missing_columns, starts)
    sums = np.empty((len(nodes), 3 + len(costs.features)))
    kernels.missing_rows(stepped, log_rows, p, costs.features, sums)
    plan = sums[:, 0] - np.add.reduceat(replaced[flat] * (log_z_stepped - kept), starts)
    # what is missing in the rows, scaled to what is missing in the columns: its entropy relative to its own mass, and
    # its cost
    scale = short / np.maximum(sums[:, 1], TINY)
    product = scale * sums[:, 2] + sums[:, 1] * scale * np.log(np.maximum(scale, TINY))
    product -= short * np.log(np.maximum(short, TINY))
    product += costs.of(nodes, scale[:, None] * sums[:, 3:], missing_columns, starts) / oracle.reg
    ratio = np.log(np.maximum(missing_columns, TINY) / mass)
    product += np.add.reduceat(missing_columns * ratio, starts) - short * np.log(np.maximum(short, TINY))
    mixing = -(1.0 - short) * np.log1p(-np.minimum(short, 1.0 - 1e-15))
    return dual, np.asarray(plan + product + mixing)
