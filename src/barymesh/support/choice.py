"""Choose a support from the data when the user gave none."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
from numpy.typing import NDArray

from barymesh.errors import AccuracyWarning, DimensionError, SupportError
from barymesh.measures import Atoms, Discretisation, Measure, discretise
from barymesh.random import addressed_generator
from barymesh.resources import memory
from barymesh.support.grid import Grid
from barymesh.support.points import Support

Floats = NDArray[np.float64]
# points along each axis, fewest and most, by dimension
COUNTS = {1: (100, 1000), 2: (40, 128), 3: (16, 32)}
# this share of a measure's mass may lie outside, at each end of each axis
TAIL = 1e-4
# tails are heavy if they make the range so many times as long as that of the bulk of the mass: of all but this share at
# each end, and as far again on both sides as that is long
HEAVY, BULK_TAIL, BULK_MARGIN = 3.0, 0.02, 1.0
# beyond three dimensions: this many points, drawn from the measures themselves
CLOUD = 1000


def choose_support(measures: list[Measure], reg: float | None, *, own: bool, seed: int, samples: int) -> Support:
    """The measures' common points if ``own`` and they have some, else a grid around the data, else a cloud drawn from
    it.

    The grid spans all but the outermost 1e-4 of every measure's mass, and is fine enough to resolve ``sqrt(reg)`` if
    that takes no more than 1000 points in 1-D, 128 x 128 in 2-D, 32 x 32 x 32 in 3-D. If it takes more because tails
    are heavy or samples have outliers, the grid spans the bulk of every measure's mass, and a warning names the share
    of the mass outside.
    """
    unplaced = [k for k, measure in enumerate(measures) if measure.dimension is None]
    if unplaced:
        raise SupportError(
            f"Measure {unplaced[0]} has no points that are known here, so the support cannot be chosen from the data. "
            "Give support=, or points= to the histogram."
        )
    other = next((k for k, measure in enumerate(measures) if measure.dimension != measures[0].dimension), None)
    if other is not None:
        raise DimensionError(
            f"Measure {other} lives in {measures[other].dimension} dimensions, measure 0 in {measures[0].dimension}. "
            "A barycenter needs all to be the same."
        )

    def how(k: int) -> Discretisation:
        resolution = np.sqrt(reg) if reg else 0.1
        return Discretisation(resolution=resolution, samples=samples, generator=partial(addressed_generator, seed, k))

    memory.require(16 * len(measures) * samples, f"{samples} samples of each of {len(measures)} measures", "Use fewer.")
    atoms = discretise(measures, how)
    table, grid = atoms[0].table, atoms[0].grid
    if own and all(a.table is table and (grid is not None or len(measures) > 1) for a in atoms):
        if grid is not None:
            return Support.of_grid(grid, reason=f"the {_sides(grid.shape)} grid that all measures share")
        distinct = np.unique(table, axis=0)
        points = distinct if len(distinct) < len(table) else table
        return Support(points, reason=f"the {len(points)} points that all measures share")
    d = table.shape[1]
    if d > max(COUNTS):
        rng = addressed_generator(seed, len(measures))
        share = -(-CLOUD // len(measures))
        drawn = np.concatenate([m.sample(share, rng) for m in measures])
        points = np.unique(drawn, axis=0)
        return Support(
            points,
            reason=f"{len(points)} points drawn from the measures, because a grid in {d} dimensions would be too large",
        )
    ranges = np.array([_range(a.points, a.weights, TAIL) for a in atoms])
    lower, upper = ranges[:, 0].min(axis=0), ranges[:, 1].max(axis=0)
    step = _step(upper - lower, reg)
    note = ""
    if reg is None or step > np.sqrt(reg):
        bulks = np.array([_bulk(a.points, a.weights, *box) for a, box in zip(atoms, ranges, strict=True)])
        low, high = bulks[:, 0].min(axis=0), bulks[:, 1].max(axis=0)
        if ((upper - lower) > HEAVY * (high - low)).any():
            lower, upper = low, high
            step = _step(upper - lower, reg)
            note = _warn_of_tails(atoms, lower, upper)
    extent = upper - lower
    if not extent.max() > 0:
        return Support(lower[None], reason="the one point where all the mass lies")
    many = COUNTS[d][1]
    counts = tuple(int(np.clip(np.ceil(side / step - 1e-9) + 1, 1, many)) for side in extent)
    spans = " x ".join(f"[{a:.4g}, {b:.4g}]" for a, b in zip(lower, upper, strict=True))
    fineness = "" if reg is None else f", spacing {step:.2g} for sqrt(reg) = {np.sqrt(reg):.2g}"
    reason = f"a grid of {_sides(counts)} points on {spans}, the range of all {len(measures)} measures{note}{fineness}"
    return Support.of_grid(Grid(counts, tuple(map(float, lower)), tuple(map(float, upper))), reason=reason)


def _step(extent: Floats, reg: float | None) -> float:
    """The spacing of a grid of this extent."""
    few, many = COUNTS[extent.size]
    longest = float(extent.max())
    step = longest / (few - 1)
    return step if reg is None else float(min(step, max(np.sqrt(reg) / 2, longest / (many - 1))))


def _range(points: Floats, weights: Floats, tail: float) -> tuple[Floats, Floats]:
    """The box that holds all but this share of the mass at each end of each axis."""
    lower, upper = np.empty(points.shape[1]), np.empty(points.shape[1])
    for axis in range(points.shape[1]):
        order = np.argsort(points[:, axis])
        mass = np.cumsum(weights[order])
        ends = np.searchsorted(mass, [tail * mass[-1], (1 - tail) * mass[-1]])
        lower[axis], upper[axis] = points[order[np.minimum(ends, order.size - 1)], axis]
    return lower, upper


def _bulk(points: Floats, weights: Floats, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """The box around the bulk of the mass, within the box that holds nearly all."""
    low, high = _range(points, weights, BULK_TAIL)
    margin = BULK_MARGIN * (high - low)
    # where nearly all the mass is in one place, the rest is what there is to see
    flat = margin == 0
    return np.where(flat, lower, np.maximum(lower, low - margin)), np.where(
        flat, upper, np.minimum(upper, high + margin)
    )


def _warn_of_tails(atoms: list[Atoms], lower: Floats, upper: Floats) -> str:
    """Warn that the grid leaves out the tails; returns a part of its reason."""
    outside = [a.weights[((a.points < lower) | (a.points > upper)).any(axis=1)].sum() for a in atoms]
    share, most = float(np.mean(outside)), int(np.argmax(outside))
    warnings.warn(
        f"The data have outliers or heavy tails: the chosen support leaves out {share:.2g} of the mass, up to "
        f"{outside[most]:.2g} of measure {most}, which counts as if it were at the edge. Give support= to reach "
        "further, or a larger reg.",
        AccuracyWarning,
        stacklevel=5,
    )
    return f" but for {share:.2g} of the mass, in heavy tails or outliers"


def _sides(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
