"""Figures of a problem that can be computed before it is solved: typical and largest cost, mass that the support
misses, and the work of an iteration."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from barymesh.cost import Cost
from barymesh.measures import Atoms
from barymesh.random import addressed_generator
from barymesh.resources.cores import available_cores
from barymesh.support.points import Support

Floats = NDArray[np.float64]
# the median is exact up to so many pairs; beyond, of random blocks of so many points on either side
MEDIAN_PAIRS, BLOCKS, BLOCK = 1_000_000, 1000, 32
# measured for the oracle of atoms, in three dimensions, on a core of 2024
PAIRS_A_SECOND = 3e8
# a product of two numbers in a matrix takes about this share of the time of an exponential
PRODUCT = 0.05
# from so many pairs in an iteration on, users are warned
LARGE = 3e9


@dataclass(frozen=True)
class Work:
    """The work of one iteration of the exact solver: ``points`` of all measures against those of the support, in total
    as long as ``pairs`` exponentials take, one for each pair of an atom and a support point."""

    points: int
    support: int
    pairs: float

    @property
    def is_large(self) -> bool:
        """Whether an iteration takes so long that users should be warned."""
        return self.pairs > LARGE

    def __str__(self) -> str:
        cores = available_cores()
        return (
            f"An iteration compares {self.points:,} points of the measures with {self.support:,} of the support, "
            f"roughly {self.pairs / PAIRS_A_SECOND / cores:.2g} s on {cores} {'cores' if cores > 1 else 'core'}, and a "
            "barycenter takes tens to hundreds. It is faster with a subsample of each measure, with measures on one "
            "regular grid (Image, or Histogram on the points of a grid), or with a coarser support"
        )


def work(atoms: list[Atoms], support: Support, cost: Cost) -> Work:
    """What an iteration of the exact solver will take."""
    users: dict[int, int] = {}
    for a in atoms:
        users[id(a.table)] = users.get(id(a.table), 0) + 1
    pairs = 0.0
    for a in atoms:
        if cost.separable is not None and support.grid is not None and a.grid is not None:
            pairs += PRODUCT * _separable_products(support.grid.shape, a.grid.shape)
        elif users[id(a.table)] > 1:
            pairs += PRODUCT * 2 * support.size * a.table.shape[0]
        else:
            pairs += float(support.size) * a.weights.size
    return Work(sum(a.weights.size for a in atoms), support.size, pairs)


def _separable_products(support: tuple[int, ...], grid: tuple[int, ...]) -> float:
    """Products to pass from one grid to another axis by axis, and back."""
    there = sum(math.prod(support[: k + 1]) * math.prod(grid[k:]) for k in range(len(support)))
    back = sum(math.prod(grid[: k + 1]) * math.prod(support[k:]) for k in range(len(support)))
    return float(there + back)


def median_cost(atoms: list[Atoms], support: Support, cost: Cost, seed: int) -> float:
    """The median cost between a support point and a unit of the measures' mass, both drawn at random.

    Exact up to a million pairs of points; beyond, the median over a million random pairs, which the seed decides.
    """
    masses = _masses_of_tables(atoms)
    if support.size * sum(used.size for _, used, _ in masses) <= MEDIAN_PAIRS:
        places = np.concatenate([table[used] for table, used, _ in masses])
        mass = np.concatenate([mass[used] for _, used, mass in masses])
        return _weighted_median(cost.matrix(support.points, places), mass)
    rng = addressed_generator(seed, len(atoms), 1)
    points = support.points[rng.integers(support.size, size=BLOCKS * BLOCK)]
    chosen = rng.integers(len(atoms), size=BLOCKS * BLOCK)
    levels = rng.random(BLOCKS * BLOCK)
    places = np.empty(points.shape)
    for k in np.unique(chosen):
        rows, cumulative = chosen == k, np.cumsum(atoms[k].weights)
        drawn = np.searchsorted(cumulative, levels[rows] * cumulative[-1], side="right")
        places[rows] = atoms[k].table[atoms[k].index[np.minimum(drawn, cumulative.size - 1)]]
    blocks = (slice(k, k + BLOCK) for k in range(0, BLOCKS * BLOCK, BLOCK))
    return float(np.median([cost.matrix(points[block], places[block]) for block in blocks]))


def _weighted_median(values: Floats, masses: Floats) -> float:
    """The median of all entries, where column j counts ``masses[j]``."""
    if np.ptp(masses) <= 1e-9 * masses.max():
        return float(np.median(values))
    order = np.argsort(values, axis=None)
    mass = np.cumsum(np.broadcast_to(masses, values.shape).ravel()[order])
    return float(values.ravel()[order[np.searchsorted(mass, mass[-1] / 2)]])


def largest_cost(atoms: list[Atoms], support: Support, cost: Cost) -> float:
    """The largest cost between any support point and any atom, exactly."""
    return max(cost.largest(support, table[used]) for table, used, _ in _masses_of_tables(atoms))


def share_outside(points: Floats, masses: Floats, support: Support, margin: float) -> float:
    """The share of the mass that lies farther than ``margin`` outside the box around the support."""
    low, high = support.ends
    return float(masses[((points < low - margin) | (points > high + margin)).any(axis=1)].sum())


def _masses_of_tables(atoms: list[Atoms]) -> list[tuple[Floats, NDArray[np.intp], Floats]]:
    """Every distinct table of points, the rows of it that have mass, and the mass of each row, of all measures."""
    found: dict[int, tuple[Floats, Floats]] = {}
    for a in atoms:
        _, mass = found.setdefault(id(a.table), (a.table, np.zeros(len(a.table))))
        mass += np.bincount(a.index, a.weights, mass.size)
    return [(table, np.flatnonzero(mass), mass) for table, mass in found.values()]


def spacing_too_wide(support: Support, reg: float) -> bool:
    """Whether neighbouring points of the support are farther apart than the width ``sqrt(reg)`` of the blur.

    Two parts in a hundred are tolerated: 100 points are one interval short of dividing a length by 100. Beyond three
    dimensions no support is fine enough.
    """
    return support.size > 1 and support.dimension <= 3 and support.spacing > 1.02 * math.sqrt(reg)
