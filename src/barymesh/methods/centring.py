"""Measures moved to one place, so that nothing that is computed with them depends on where they were.

For squared distances a node can work with its measure moved by -s, for any s of its own. With ``y = s + y'``

    |z - y|^2  =  |z - y'|^2 - 2 z.s + 2 y'.s + |s|^2

so the plans are the same; the potential ``x'`` and the dual value ``W*'`` that it finds belong to those of its own
measure,

    x = x' - 2 z.s / reg,        W* = W*' - (2 y'.s + |s|^2) / reg,  averaged over y'

and a cost to a measure p is larger by ``(2 y'.s + |s|^2 - 2 <z>_p.s) / reg``. A node sends ``s`` beside the rest, the
same in every round, and the root adds what follows from its average. What does not depend on z or p is not sent: it
changes the objective by a constant, which is then not known, and not the certified gap.

s is the middle of the box around a node's records. It is found, and subtracted, in whole numbers of a unit, so that
records of one shape have the same ``y'`` to the last bit, wherever they are: not even the way numbers are rounded tells
where that is. The unit is 1, .1, .01, ... if the records are multiples of it, up to the last digit or two of a double.
Others are rounded, to ``GRAIN`` of what they may range over. s is a fraction, and rounded once, so that it is as exact
where the support is far from 0.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from barymesh.errors import OptionError
from barymesh.measures import Atoms
from barymesh.measures.absent import Absent
from barymesh.methods.base import Floats, Indices
from barymesh.problem import Problem
from barymesh.support.grid import Grid, ends

# decimals of so many places are taken for what they are; others are rounded to this share of their range, which does
# less than the rounding of sums, and rarely depends on where they are
PLACES, GRAIN = 9, 2.0**-42
# whole numbers below this, and their sums, are exact
MOST_UNITS = 2.0**51
# s is sent with this share of the limit of potentials, which is enough for records as far out as are accepted
SHARE = 0.08
# how far from their places, relative to that range, points may be that count as those of a grid
REGULAR = 1e-12
# averages of s may be off by so much at most, in units in which potentials are; the rest of 1e-9 is for other rounding
COARSEST = 9e-10


class Centring:
    """The measures of a ``problem`` with squared distances, moved to the ``middle (d,)`` of a box that all nodes know,
    which is as far as ``reach`` from its sides at most. If ``middle`` has no numbers the measures stay where they are,
    and there is nothing to send or to add: for other costs, and without masks."""

    def __init__(self, problem: Problem, middle: Floats, reach: float) -> None:
        self.given, self.middle, self.reach = problem, middle, reach
        # how many numbers a node adds to the sums
        self.size = middle.size

    @cached_property
    def problem(self) -> Problem:
        """The problem with the measures in the middle."""
        if self.size == 0:
            return self.given
        atoms = [one for one, _ in self._moved]
        # only the atoms are used
        return replace(self.given, measures=[Absent()] * len(atoms)).on(self.given.support, atoms)

    @cached_property
    def shifts(self) -> Floats:
        """``(m, d)``: s of every measure."""
        if self.size == 0:
            return np.empty((len(self.given.measures), 0))
        return np.array([shift for _, shift in self._moved])

    @cached_property
    def _moved(self) -> list[tuple[Atoms, Floats]]:
        return [self._centred(atoms) for atoms in self.given.atoms]

    def columns(self, measures: NDArray[np.int64]) -> Floats:
        """``(b, d)``: what nodes with these measures add to the sums, s in units in which potentials are."""
        return np.asarray(2.0 * self.reach / self.given.reg * self.shifts[measures])

    def limits(self, largest: float) -> Floats:
        """``(d,)``: of these, where potentials are at most ``largest``."""
        return np.full(self.size, SHARE * largest)

    @property
    def sizes(self) -> Floats:
        """``(d,)``: how large these usually are: of measures in the box."""
        return np.full(self.size, 2.0 * self.reach**2 / self.given.reg)

    def gap_rounding(self, rounding: Floats) -> float:
        """What a certified gap is off by at most, in units of reg, if averages of the columns are off by the last ``d``
        numbers of ``rounding``: as if all measures had been moved by that much, which changes the costs to two measures
        differently."""
        return 2.0 * self._tilt(rounding)

    def check(self, rounding: Floats) -> None:
        """OptionError if the last ``d`` numbers of ``rounding`` may move the barycenter: potentials that are off by so
        much change it by no more in total variation."""
        if self._tilt(rounding) > COARSEST:
            raise OptionError(
                f"With masks potentials would be off by up to {self._tilt(rounding):.1g}, more than {COARSEST:g}: reg "
                f"({self.given.reg:g}) is too small compared with the costs on the support. Give one of "
                f"{2.0 * self.given.reg * self._tilt(rounding) / COARSEST:.2g}, or do without masks."
            )

    def _tilt(self, rounding: Floats) -> float:
        return float(rounding[rounding.size - self.size :].sum())

    def added(self, average: Floats, points: Floats) -> Floats:
        """``(n,)``, from the ``average (d,)`` of the columns: what is added to the average of the potentials at the
        ``points (n, d)``, in units of reg."""
        return np.asarray(-(self._from_middle(points) @ average) / self.reach)

    def shift(self, average: Floats) -> Floats:
        """``(d,)``: s, on average."""
        return average * self.given.reg / (2.0 * self.reach)

    def potentials(self, measures: NDArray[np.int64], points: Floats) -> Floats:
        """``(b, n)``: what is added to the potentials of single nodes at the ``points (n, d)``, in units of the
        cost."""
        return np.asarray(-2.0 * self.shifts[measures] @ self._from_middle(points).T)

    def constants(self, measures: NDArray[np.int64]) -> Floats:
        """``(b,)``: what is subtracted from the dual values of single nodes, in units of the cost."""
        if self.size == 0:
            return np.zeros(len(measures))
        atoms = self.problem.atoms
        means = np.array([atoms[k].weights @ self._from_middle(atoms[k].points) for k in measures])
        return np.asarray((self.shifts[measures] * (2.0 * means + self.shifts[measures])).sum(axis=1))

    def _from_middle(self, points: Floats) -> Floats:
        return points[:, : self.size] - self.middle

    def _centred(self, atoms: Atoms) -> tuple[Atoms, Floats]:
        """The atoms in the middle, and by how much they were moved."""
        # on a line the points themselves count, if they are not quite regular
        on_grids = self.given.support.grid is not None and atoms.grid is not None
        if on_grids and atoms.grid is not None and (atoms.grid.dimension > 1 or self._is_regular(atoms.table)):
            return self._cropped(atoms, atoms.grid)
        whole, units, origin = self._counted(atoms.points)
        low, high = ends(whole)
        middle = (low + high) / 2.0
        table = self.middle + (whole - middle) / units
        shift = [_exact(*one) for one in zip(origin, [units] * middle.size, middle, self.middle, strict=True)]
        return Atoms(table, np.arange(len(table)), atoms.weights), np.array(shift)

    def _is_regular(self, table: Floats) -> bool:
        """Whether the points ``(U, 1)`` are the same distance apart: of all that there are, with mass or without, and
        by differences alone, so that it does not depend on where the mass or the points are."""
        whole, units, _ = self._counted(table)
        apart = (whole - whole[0])[:, 0]
        places = np.arange(apart.size) * (apart[-1] / max(apart.size - 1, 1))
        return bool(np.abs(apart - places).max() <= REGULAR * self.reach * units)

    def _counted(self, points: Floats) -> tuple[Floats, float, Floats]:
        """The ``points (N, d)`` in whole numbers of a unit from an origin ``(d,)``, and how many units are 1."""
        for place in range(PLACES + 1):
            units = 10.0**place
            whole = np.rint(units * points)
            # a decimal is the double next to this quotient, or another that is next to that if it was computed
            off = np.abs(whole / units - points)
            if (off <= 2.0 * np.spacing(np.abs(points))).all() and np.abs(whole).max() < MOST_UNITS:
                return whole, units, np.zeros(points.shape[1])
        origin, units = ends(points)[0], 2.0 ** -np.floor(np.log2(GRAIN * self.reach))
        return np.rint(units * (points - origin)), float(units), origin

    def _cropped(self, atoms: Atoms, grid: Grid) -> tuple[Atoms, Floats]:
        """Of atoms on a grid the part that they are on, so that kernels stay separable."""
        places: Indices = np.stack(np.unravel_index(atoms.index, grid.shape), axis=1)
        low, high = places.min(axis=0), places.max(axis=0)
        whole, units, origin = self._counted(np.array([grid.lower, grid.upper]))
        steps = (whole[1] - whole[0]) / units / np.maximum(np.array(grid.shape) - 1, 1)
        shape = tuple((high - low + 1).tolist())
        half = steps * (high - low) / 2.0
        # from the first point of the grid to the middle of the part
        ahead = [
            Fraction(int(total), 2 * max(count - 1, 1)) * (Fraction(last) - Fraction(first))
            for total, count, first, last in zip(low + high, grid.shape, *whole.tolist(), strict=True)
        ]
        cropped = Grid(shape, tuple((self.middle - half).tolist()), tuple((self.middle + half).tolist()))
        index = np.ravel_multi_index(tuple((places - low).T), shape)
        shift = [
            _exact(start, units, Fraction(first) + part, middle)
            for start, first, part, middle in zip(origin, whole[0], ahead, self.middle, strict=True)
        ]
        return Atoms(cropped.points, index, atoms.weights, cropped), np.array(shift)


def _exact(origin: float, units: float, whole: float | Fraction, middle: float) -> float:
    """``origin + whole / units - middle``, rounded once."""
    return float(Fraction(origin) + Fraction(whole) / Fraction(units) - Fraction(middle))


def around_support(problem: Problem) -> Centring:
    """To the middle of the support, if the cost is squared distance."""
    if not problem.cost.squared:
        return Centring(problem, np.empty(0), 1.0)
    low, high = problem.support.ends
    return Centring(problem, (low + high) / 2.0, float((high - low).max()) / 2.0 or 1.0)
