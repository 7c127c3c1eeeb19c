"""Coarser measures on coarser points, and potentials found there extended to the finer points.

The coarser measures have the same means. The potentials are extended by what a Sinkhorn step does anyway: with ``Z_i(y)
= sum_l exp(x_i(l) - c_l(y)/reg)`` over the coarse support, and the coarse atoms y,

    s_i(z) = log sum_y mu_i(y) / Z_i(y) exp(-c(z, y)/reg),      x_i(z) = sum_j w_j s_j(z) - s_i(z)

at every point z, so that the potentials sum to zero.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from barymesh.cost import Cost
from barymesh.measures import Atoms
from barymesh.oracle.atoms import AtomOracle
from barymesh.oracle.base import Indices, Oracle
from barymesh.oracle.dense import DenseOracle
from barymesh.oracle.gibbs import on_one_line
from barymesh.oracle.grid import GridOracle
from barymesh.problem import Problem
from barymesh.support.grid import Grid
from barymesh.support.points import Support

Floats = NDArray[np.float64]

# the most that a step between neighbouring coarser points may cost, in units of reg
LONGEST_STEP = 1.25
# an axis of a grid has at least so many points, and coarser scattered points are at most this share of the finer ones
LEAST_POINTS, MOST_LEFT = 8, 0.6
# points of a cell that become one, on average, if reg allows
CELL_POINTS = 4
# log 0, see oracle/
NO_MASS = -1e12


def coarser_support(support: Support, cost: Cost, reg: float) -> Support | None:
    """Points about twice as far apart, if reg allows it."""
    if cost.separable is None:
        return None
    if support.grid is not None:
        grid = _every_other(support.grid, cost, reg)
        return None if grid == support.grid else Support.of_grid(grid)
    cells = _cells(support.points, reg) if cost.squared else None
    return None if cells is None else Support(_centres(support.points, cells, np.ones(support.size)))


def coarser_problem(problem: Problem, support: Support) -> Problem:
    """The problem on this coarser support, with coarser measures."""
    return problem.on(support, _coarse_atoms(problem))


def _coarse_atoms(problem: Problem) -> list[Atoms]:
    """The atoms of all measures on coarser points, table by table."""
    coarse = list(problem.atoms)
    for nodes in _by_table(problem.atoms):
        some = [problem.atoms[node] for node in nodes]
        found: list[Atoms] | None = None
        if some[0].grid is not None:
            found = _on_grid(some, _every_other(some[0].grid, problem.cost, problem.reg))
        elif problem.cost.squared:
            found = _in_cells(some, problem.reg)
        for node, one in zip(nodes, found or some, strict=True):
            coarse[node] = one
    return coarse


def _by_table(atoms: list[Atoms]) -> list[list[int]]:
    """The measures that share a table of points, table by table."""
    users: dict[int, list[int]] = {}
    for node, one in enumerate(atoms):
        users.setdefault(id(one.table), []).append(node)
    return list(users.values())


def _every_other(grid: Grid, cost: Cost, reg: float) -> Grid:
    """Every other point along the axes where reg allows it, and one more where the last would be left out."""
    assert cost.separable is not None
    shape, upper = [], []
    for axis in grid.axes:
        count, last = axis.size, float(axis[-1])
        step = 2.0 * (axis[1] - axis[0]) if count > 1 else 0.0
        if count >= 2 * LEAST_POINTS and cost.separable(np.array(step)) <= LONGEST_STEP * reg:
            count = count // 2 + 1
            last = float(axis[0] + step * (count - 1))
        shape.append(count)
        upper.append(last)
    return Grid(tuple(shape), grid.lower, tuple(upper))


def _on_grid(some: list[Atoms], coarse: Grid) -> list[Atoms]:
    """Measures on one grid. Points between two coarser ones give half of their mass to each."""
    grid = some[0].grid
    assert grid is not None
    found = []
    for one in some:
        masses = np.zeros(grid.shape)
        masses.ravel()[one.index] = one.weights
        for axis, (fine, few) in enumerate(zip(grid.shape, coarse.shape, strict=True)):
            if few < fine:
                # a view with the axis in front
                finer = np.moveaxis(masses, axis, 0)
                even, half = finer[::2], finer[1::2] / 2.0
                coarser = np.zeros((few, *finer.shape[1:]))
                coarser[: len(even)] = even
                coarser[: len(half)] += half
                coarser[1 : len(half) + 1] += half
                masses = np.moveaxis(coarser, 0, axis)
        found.append(Atoms.from_weights(coarse.points, masses.ravel(), coarse))
    return found


def _in_cells(some: list[Atoms], reg: float) -> list[Atoms] | None:
    """Measures on one table of scattered points, with the points of a cell as one."""
    table = some[0].table
    cells = _cells(table, reg)
    if cells is None:
        return None
    # a measure that has its points for itself keeps its mean exactly
    weights = np.ones(len(table))
    if len(some) == 1:
        weights[some[0].index] += some[0].weights / some[0].weights.min()
    centres = _centres(table, cells, weights)
    masses = [np.bincount(cells[one.index], one.weights, len(centres)) for one in some]
    return [Atoms.from_weights(centres, own.astype(float)) for own in masses]


def _cells(points: Floats, reg: float) -> Indices | None:
    """``(N,)``: the cell of a regular grid that each of the points ``(N, d)`` lies in; None if there are nearly as
    many."""
    count, extent = len(points), np.ptp(points, axis=0)
    wide = extent[extent > 0]
    if wide.size == 0:
        return None
    side = float(np.exp((np.log(wide).sum() + np.log(CELL_POINTS / count)) / wide.size))
    side = min(side, float(np.sqrt(LONGEST_STEP * reg)))
    _, cells = np.unique(np.floor((points - points.min(axis=0)) / side), axis=0, return_inverse=True)
    cells = cells.reshape(count)
    return cells if cells.max() < MOST_LEFT * count else None


def _centres(points: Floats, cells: Indices, weights: Floats) -> Floats:
    """The centre of mass of the points of each cell."""
    sums = [np.bincount(cells, weights * axis) for axis in points.T]
    return np.stack(sums, axis=1) / np.bincount(cells, weights)[:, None]


def extended(coarser: Problem, x: Floats, support: Support) -> Floats:
    """``s (m, n)`` on the finer support, for the potentials ``x (m, k)`` on the coarser one."""
    oracle, atoms = coarser.oracle, coarser.atoms
    log_z = oracle.atom_log_sums(x)
    sums = np.empty((len(atoms), support.size))
    for nodes in _by_table(atoms):
        first = atoms[nodes[0]]
        ratios = np.full((len(nodes), len(first.table)), NO_MASS)
        for row, node in enumerate(nodes):
            own = slice(int(oracle.offsets[node]), int(oracle.offsets[node + 1]))
            ratios[row, atoms[node].index] = np.log(oracle.weights[own]) - log_z[own]
        sums[nodes] = _sums(first, ratios, support, coarser.cost, coarser.reg)
    return sums


def _sums(first: Atoms, ratios: Floats, support: Support, cost: Cost, reg: float) -> Floats:
    """``log sum_y exp(ratios(y) - c(z, y)/reg) (b, n)`` at the points z of the support, for ``ratios (b, k)`` on the
    table of the ``first`` of some measures. To an oracle the points z are atoms, and the table is a support."""
    one, nodes = np.ones(support.size), np.zeros(len(ratios), dtype=np.intp)
    table = Support.of_grid(first.grid) if first.grid is not None else _unchecked(first.table)
    if first.grid is not None and support.grid is not None and cost.separable is not None:
        if support.dimension > 1:
            every = Atoms.from_weights(support.points, one, support.grid)
            oracle: Oracle = GridOracle([every], support.grid, first.grid, cost.separable, reg)
            return oracle.atom_log_sums(ratios, nodes).reshape(len(ratios), -1)
        # on a line, the even and the odd points are as far apart as those of the table: their kernels are Toeplitz
        parts = [_part_of_line(support.grid, parity) for parity in (0, 1)]
        if all(on_one_line(first.grid, part) for part in parts):
            sums = np.empty((len(ratios), support.size))
            for parity, part in enumerate(parts):
                every = Atoms.from_weights(part.points, np.ones(part.shape[0]), part)
                oracle = DenseOracle([every], table, cost, reg)
                sums[:, parity::2] = oracle.atom_log_sums(ratios, nodes).reshape(len(ratios), -1)
            return sums
    every = Atoms.from_weights(support.points, one)
    oracle = (DenseOracle if len(ratios) > 1 else AtomOracle)([every], table, cost, reg)
    return oracle.atom_log_sums(ratios, nodes).reshape(len(ratios), -1)


def _part_of_line(grid: Grid, parity: int) -> Grid:
    """The even or the odd points of a line."""
    (axis,) = grid.axes
    return Grid((axis[parity::2].size,), (float(axis[parity]),), (float(axis[parity::2][-1]),))


def _unchecked(points: Floats) -> Support:
    """Points that need not be distinct, as a support."""
    support = Support.__new__(Support)
    support.points, support.grid, support.reason, support.names = points, None, "", None
    return support
