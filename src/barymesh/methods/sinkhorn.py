"""The transports of nodes to given weights, each node for itself: Sinkhorn's steps, preconditioned and accelerated.

A node with potential ``x (n,)`` and ``h = log p(x)`` looks for ``p(x) = a``. It maximises the dual function ``D(x) =
<x, a> - W*(x)`` (in units of reg), whose gradient is ``a - p``.

**Sinkhorn's step** is ``x += r`` with ``r = log a - h``. Where it is slow,

**Newton's step** for ``h(x) = log a`` takes its place: h answers to x by ``dh = (I - S) dx``, ``S = diag(1/p) M`` with
the products M of shares (``MovingOracle.products``), so ``((1 + damping) I - S + 1 p') dx = r``; the last term concerns
constants only. M costs as much as several evaluations, and is used for as long as it serves.

**Anderson's acceleration** over the last steps of either kind. With ``f`` the step from x, the accelerated one is ``f -
(dX + dF) g`` where g minimises ``|f - dF g|_a``.

**The safeguard.** D may not fall. Where it does the node goes back, forgets the last steps, and dampens Newton's step,
or takes Sinkhorn's, which never lowers D.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from barymesh.core import kernels
from barymesh.methods.base import Floats, Indices

# the differences that a node remembers
DEPTH = 6
# matrices are made on supports of so many points at most
MATRIX_POINTS = 512
# a step that leaves more than this share of the error calls for a matrix
SLOW = 0.3
# the damping of Newton's step: at first, what it is divided and multiplied by after good and bad steps, its limits
DAMPING, RELIEF, RISE, LEAST_DAMPING, MOST_DAMPING = 1e-2, 10.0, 10.0, 1e-8, 1.0
# what rounding may have done to a node's dual function, as a share of it
ROUNDING = 1e-13
# nothing but rounding is left where an error below this has not shrunk to the share in so many evaluations
ROUNDED, SHRUNK, PATIENCE = 1e-9, 0.9, 8
# keeps the small system of the acceleration regular
RIDGE = 1e-10
# stands for the square root of a mass that is too small to divide by
LEAST_ROOT = 1e-150


class Transported(Protocol):
    """The dual functions of some nodes, and how they answer to potentials."""

    def evaluate(self, x: Floats, nodes: Indices) -> tuple[Floats, Floats]:
        """``W* (b,)`` and ``log p(x) (b, n)`` at ``x (b, n)``, in units of reg."""

    def products(self, x: Floats, nodes: Indices) -> Floats:
        """``(b, n, n)``: the sums of ``mu(y) P(l, y) P(k, y)`` over the atoms, with the shares P of the points in an
        atom."""


def solved(oracle: Transported, x: Floats, log_a: Floats, accuracy: float, most: int) -> Floats:
    """The potentials ``x (b, n)`` of all nodes of the oracle after steps until ``|p_i(x_i) - a|_1 <= accuracy``, or
    nothing but rounding is left, or after ``most`` evaluations."""
    a = np.exp(log_a)
    x, rows = x.copy(), np.arange(len(x))
    nodes = [_Node(log_a) for _ in rows]
    for _ in range(most):
        value, h = oracle.evaluate(x[rows], rows)
        dual = x[rows] @ a - value
        errors = np.abs(np.exp(h) - a).sum(axis=1)
        for k, row in enumerate(rows):
            nodes[row].judge(x[row], h[k], float(dual[k]), float(errors[k]))
        going = np.array([nodes[row].goes_on(accuracy) for row in rows])
        rows = rows[going]
        if rows.size == 0:
            break
        slow = np.array([row for row in rows if nodes[row].slow and x.shape[1] <= MATRIX_POINTS], dtype=np.intp)
        if slow.size:
            for row, products in zip(slow, oracle.products(x[slow], slow), strict=True):
                nodes[row].precondition(products)
        systems = [nodes[row] for row in rows if nodes[row].unfactored]
        if systems:
            factors = np.array([node.system() for node in systems])
            kernels.factor_systems(factors)
            for node, factor in zip(systems, factors, strict=True):
                node.factor, node.unfactored = factor, False
        for row in rows:
            x[row] = nodes[row].next()
    return np.array([node.x for node in nodes])


class _Node:
    """Where a node is, ``x`` and ``h (n,)``, its dual value and its error there, and its last steps. ``fell``: the last
    step was taken back; ``slow``: it was kept, but gained little."""

    def __init__(self, log_a: Floats) -> None:
        self.log_a, self.a = log_a, np.exp(log_a)
        self.dual, self.error, self.damping = -np.inf, np.inf, DAMPING
        self.x = self.h = self.root = np.empty(0)
        self.fell = self.slow = self.unfactored = False
        self.least, self.fruitless = np.inf, 0
        self.matrix: Floats | None = None
        self.factor = np.empty((0, 0))
        self.last: tuple[Floats, Floats] | None = None
        self.moves: list[Floats] = []
        self.changes: list[Floats] = []

    def judge(self, x: Floats, h: Floats, dual: float, error: float) -> None:
        """Keep the last step, to x, or take it back."""
        self.fell = dual < self.dual - ROUNDING * (1.0 + abs(dual))
        if self.fell:
            self._forget()
            self.slow, self.damping = False, self.damping * RISE
            if self.damping > MOST_DAMPING:
                self.matrix, self.damping = None, DAMPING
            self.unfactored = self.matrix is not None
            return
        self.slow = error > SLOW * self.error
        self.x, self.h, self.dual, self.error = x.copy(), h, dual, error

    def goes_on(self, accuracy: float) -> bool:
        """Whether another step may come closer."""
        if self.error <= SHRUNK * self.least:
            self.least, self.fruitless = self.error, 0
        else:
            self.fruitless += 1
        rounded = self.error <= ROUNDED and self.fruitless >= PATIENCE
        return not rounded and (self.fell or self.error > accuracy)

    def precondition(self, products: Floats) -> None:
        """Newton's steps from now on, with the ``products (n, n)`` of the shares at x."""
        if self.matrix is not None:
            self.damping = max(self.damping / RELIEF, LEAST_DAMPING)
        # a point without mass has no products, and its step is Sinkhorn's
        self.root = np.maximum(np.exp(0.5 * self.h), LEAST_ROOT)
        self.matrix = np.outer(self.root, self.root) - products / self.root / self.root[:, None]
        self.unfactored = True
        self._forget()

    def system(self) -> Floats:
        """The matrix ``(n, n)`` of Newton's step for ``sqrt(p) dx``, which is symmetric."""
        assert self.matrix is not None
        system = self.matrix.copy()
        system[np.diag_indices(len(system))] += 1.0 + self.damping
        return system

    def next(self) -> Floats:
        """Where to evaluate next."""
        step = self.log_a - self.h
        step -= self.a @ step
        if self.matrix is not None:
            step *= self.root
            kernels.solve_systems(self.factor[None], step[None])
            step /= self.root
        if self.last is not None:
            self.moves = [*self.moves, self.x - self.last[0]][-DEPTH:]
            self.changes = [*self.changes, step - self.last[1]][-DEPTH:]
        self.last = self.x, step
        if not self.moves:
            return self.x + step
        changes = np.array(self.changes)
        gram = (changes * self.a) @ changes.T
        gram[np.diag_indices(len(gram))] += RIDGE * np.trace(gram) + np.finfo(float).tiny
        found = np.linalg.solve(gram, (changes * self.a) @ step)
        better = step - found @ (np.array(self.moves) + changes)
        return self.x + (better if np.isfinite(better).all() else step)

    def _forget(self) -> None:
        self.last, self.moves, self.changes = None, [], []
