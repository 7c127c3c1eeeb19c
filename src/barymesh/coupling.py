"""The transport plan between a measure and the barycenter, and the means under it, from a potential.

For the potential ``lam (n,)`` of a measure with masses ``mu_k`` at ``y_k``, and ``x = lam / reg``, the plan is

    P_lk = mu_k exp(x_l - c(z_l, y_k) / reg) / Z_k,       Z_k = sum_l exp(x_l - c(z_l, y_k) / reg)

Its columns sum to the masses ``mu``, its rows to ``grad W*(lam)``, the measure's own estimate of the barycenter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barymesh.cost import Cost
from barymesh.errors import OptionError
from barymesh.measures.base import Atoms
from barymesh.oracle.base import Floats, Oracle
from barymesh.resources import memory
from barymesh.support.points import Support

# entries of a plan that are computed at once
BLOCK = 2**20
# plans with more are not written out, unless that is asked for
DENSE_ENTRIES = 2**22
FORMS = ("dense", "sparse", "operator")
# of the mass of a column, what a sparse plan may leave out
LEFT_OUT = 1e-9
# stands for log 0, as in the kernels
NO_MASS = -1e12
Costs = Callable[[slice], Floats]


class Coupling:
    """The plan ``P (n, N)`` between the ``n`` points of the support and the ``N`` rows of the table of the atoms. It is
    written out only where it is asked for."""

    def __init__(self, atoms: Atoms, support: Support, cost: Cost, reg: float, dual: Floats) -> None:
        self.atoms, self.support, self.cost, self.reg = atoms, support, cost, reg
        self.x = np.ascontiguousarray(dual, dtype=float)[None] / reg

    @property
    def shape(self) -> tuple[int, int]:
        return self.support.size, len(self.atoms.table)

    @property
    def on_grids(self) -> bool:
        """Whether products with the plan can be had axis by axis."""
        return self.cost.separable is not None and self.support.grid is not None and self.atoms.grid is not None

    def written(self, form: str | None) -> Any:
        """In this form, or in the one that fits its size."""
        if form is not None and form not in FORMS:
            raise OptionError(f"form is {form!r}; choose one of {', '.join(FORMS)}, or leave it out.")
        if form is None:
            large = np.prod(self.shape, dtype=float) > DENSE_ENTRIES
            form = "dense" if not large else "operator" if self.on_grids else "sparse"
        match form:
            case "dense":
                return self.dense()
            case "sparse":
                return self.sparse()
            case _:
                return self.operator()

    def dense(self) -> Floats:
        """The matrix ``(n, N)``."""
        memory.require(
            8 * self.support.size * len(self.atoms.table),
            f"A plan of {self.shape[0]} x {self.shape[1]} entries",
            'Ask for form="sparse" or form="operator".',
        )
        plan = np.zeros(self.shape)
        for block, shares in self._shares():
            plan[:, self.atoms.index[block]] = (shares * self.atoms.weights[block, None]).T
        return plan

    def sparse(self) -> Any:
        """The matrix ``(n, N)`` as a ``scipy.sparse.csr_array``, without the smallest entries: of each column less than
        ``LEFT_OUT`` of its mass is left out, and spread over the others."""
        from scipy.sparse import coo_array

        rows, columns, values, count = [], [], [], 0
        for block, shares in self._shares():
            shares[shares < LEFT_OUT / self.support.size] = 0.0
            shares *= (self.atoms.weights[block] / shares.sum(axis=1))[:, None]
            atom, point = np.nonzero(shares)
            count += atom.size
            memory.require(40 * count, f"A sparse plan of over {count} entries", 'Ask for form="operator".')
            rows.append(point)
            columns.append(self.atoms.index[block][atom])
            values.append(shares[atom, point])
        entries = np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))
        return coo_array(entries, shape=self.shape).tocsr()

    def operator(self) -> Any:
        """A ``scipy.sparse.linalg.LinearOperator``: products with the plan and its transpose, by the oracle."""
        from scipy.sparse.linalg import LinearOperator

        return LinearOperator(self.shape, matvec=self.times, rmatvec=self.transposed_times, dtype=np.dtype(float))

    @cached_property
    def _oracle(self) -> Oracle:
        # the compiled kernels are loaded when they are needed
        from barymesh.oracle.groups import build_oracle

        return build_oracle([self.atoms], self.support, self.cost, self.reg)

    def times(self, values: Floats) -> Floats:
        """``P v (n,)`` for ``v (N,)``."""

        def product(positive: Floats) -> Floats:
            return np.asarray(np.exp(self._oracle.evaluate(self.x, None, self.atoms.weights * positive)[1][0]))

        return _by_signs(product, np.ravel(values)[self.atoms.index])

    def transposed_times(self, values: Floats) -> Floats:
        """``P' u (N,)`` for ``u (n,)``."""
        log_z = self._oracle.atom_log_sums(self.x)

        def product(positive: Floats) -> Floats:
            tilted = np.where(positive > 0, self.x + np.log(np.maximum(positive, np.finfo(float).tiny)), NO_MASS)
            return np.asarray(np.exp(self._oracle.atom_log_sums(tilted) - log_z))

        out = np.zeros(len(self.atoms.table))
        out[self.atoms.index] = self.atoms.weights * _by_signs(product, np.ravel(values))
        return out

    def row_sums(self) -> Floats:
        """``grad W*(lam) (n,)``."""
        return np.asarray(np.exp(self._oracle.evaluate(self.x)[1][0]))

    def mean_cost(self) -> float:
        """``<C, P>``: the mean cost of moving a unit of mass."""
        if self.on_grids and self.cost.squared and np.prod(self.shape, dtype=float) > BLOCK:
            middle = self.support.points.mean(axis=0)
            z, y = self.support.points - middle, self.atoms.table - middle
            mixed = sum(float(z[:, a] @ self.times(y[:, a])) for a in range(z.shape[1]))
            own = float(np.square(z).sum(axis=1) @ self.times(np.ones(len(y))))
            return own + float(self.atoms.weights @ np.square(y[self.atoms.index]).sum(axis=1)) - 2.0 * mixed
        return float(
            sum(
                ((shares * self._costs(block)).sum(axis=1) * self.atoms.weights[block]).sum()
                for block, shares in self._shares()
            )
        )

    @cached_property
    def atom_potential(self) -> Floats:
        """``log mu_k - log Z_k`` of every atom: with it the plan is ``exp(x_l + atom_potential_k - c/reg)``."""
        return np.log(self.atoms.weights) - self._oracle.atom_log_sums(self.x)

    def _shares(self) -> Iterator[tuple[slice, Floats]]:
        """Blocks of atoms, and how the mass of each is spread over the support, ``(b, n)``; rows sum to 1."""
        for block in _blocks(self.atoms.weights.size, self.support.size):
            yield block, _softmax(self.x[0] - self._costs(block) / self.reg)

    def _costs(self, block: slice) -> Floats:
        """Costs ``(b, n)`` of some atoms to the support."""
        index = self.atoms.index[block]
        if self.cost.matrix_given is not None:
            return self.cost.matrix_given[:, index].T
        return self.cost.matrix(self.support.points, self.atoms.table[index]).T


def projected(potential: Floats, costs: Costs, targets: Floats, reg: float, count: int) -> Floats:
    """The means ``(count, d)`` of the ``targets (n, d)`` under ``softmax(potential - costs / reg)``; ``costs``: those
    ``(b, n)`` of a block of the points to the targets."""
    out = np.empty((count, targets.shape[1]))
    for block in _blocks(count, len(targets)):
        out[block] = _softmax(potential - costs(block) / reg) @ targets
    return out


def _softmax(exponents: Floats) -> Floats:
    exponents -= exponents.max(axis=1, keepdims=True)
    shares = np.exp(exponents, out=exponents)
    shares /= shares.sum(axis=1, keepdims=True)
    return shares


def _blocks(count: int, width: int) -> Iterator[slice]:
    rows = max(1, BLOCK // width)
    return (slice(k, k + rows) for k in range(0, count, rows))


def _by_signs(product: Callable[[Floats], Floats], values: NDArray[Any]) -> Floats:
    """A linear ``product`` that takes no negative numbers, of numbers of either sign."""
    positive, negative = np.maximum(values, 0.0), np.maximum(-values, 0.0)
    found = product(positive) if positive.any() or not negative.any() else 0.0
    return np.asarray(found - product(negative) if negative.any() else found)
