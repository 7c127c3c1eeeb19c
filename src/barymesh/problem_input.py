"""What users give for a problem: measures, weights and costs, checked and completed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from barymesh import readers as read
from barymesh.checks import normalised
from barymesh.cost import Cost
from barymesh.errors import CostError, DimensionError, MeasureError, SupportError, WeightError
from barymesh.measures import Distribution, Empirical, Histogram, Image, Measure, as_measures
from barymesh.measures.absent import Absent
from barymesh.subsample import evenly
from barymesh.support.free import FreeSupport, normal_draws
from barymesh.support.points import Support

Floats = NDArray[np.float64]
# points of the support between which a cost is looked at, and the relative difference that is rounding
SYMMETRY_POINTS, SYMMETRY = 200, 1e-9


def measures_on(support: Support, cost: Cost, given: Any) -> list[Measure]:
    """The measures that a user gives for a problem with this support and this cost."""
    matrix = cost.matrix_given
    nodes = exact_measures(as_measures(given, support, histograms_have_cost=matrix is not None))
    if matrix is None:
        check_dimensions(nodes, support)
        return nodes
    columns = np.arange(matrix.shape[1], dtype=float)[:, None]
    return [node if isinstance(node, Absent) else on_columns(k, node, columns) for k, node in enumerate(nodes)]


def unplaced(free: FreeSupport, nodes: list[Measure]) -> Support:
    """A support of the right shape for points that have no place yet: their given start, or random draws."""
    known = next((k for k, node in enumerate(nodes) if node.dimension is not None), None)
    dimension = free.dimension or (None if known is None else nodes[known].dimension)
    if dimension is None:
        raise SupportError(
            "No measure shows how many dimensions the free support has. Give it dimension=, or points= to start from."
        )
    points = normal_draws(free, dimension) if free.points is None else free.points
    return Support.scattered(points, reason=f"{free.n} points that moved from their start")


def check_symmetric(cost: Cost, support: Support) -> None:
    """A debiased barycenter is transported to itself: costs between the points of the support must be known, and the
    same both ways."""
    given = cost.matrix_given
    if given is not None and given.shape[0] != given.shape[1]:
        raise CostError(
            f"A debiased barycenter needs the costs between the points of its support; the cost matrix has shape "
            f"{given.shape}. Give the square matrix of points that the barycenter and the measures share, or leave out "
            "debias."
        )
    if given is None and cost.function is None:
        return
    some = support.points[evenly(support.size, SYMMETRY_POINTS)]
    costs = given if given is not None else cost.matrix(some, some)
    apart = np.abs(costs - costs.T)
    if apart.max(initial=0.0) > SYMMETRY * costs.max(initial=0.0):
        k, j = np.unravel_index(apart.argmax(), apart.shape)
        raise CostError(
            f"A debiased barycenter needs a cost that is the same both ways; between two points of the support it is "
            f"{costs[k, j]:.6g} one way and {costs[j, k]:.6g} the other. Make it symmetric, or leave out debias."
        )


def lives_on(support: Support, measure: Measure) -> bool:
    """Whether the measure is given by masses on the points of the support."""
    if isinstance(measure, Image):
        return measure.grid == support.grid
    if not isinstance(measure, Histogram | Empirical):
        return False
    return measure.points is None or measure.points is support.points or np.array_equal(measure.points, support.points)


def exact_measures(measures: list[Measure]) -> list[Measure]:
    """Distributions as the Gaussians or masses that they are."""
    return [(isinstance(measure, Distribution) and measure.exact) or measure for measure in measures]


def common_names(nodes: list[Measure]) -> tuple[str, ...] | None:
    """What the measures call their coordinates, if all that have names for them agree."""
    named = [(k, node.names) for k, node in enumerate(nodes) if isinstance(node, Empirical) and node.names]
    if not named:
        return None
    first, names = named[0]
    for k, others in named[1:]:
        if sorted(others) == sorted(names) and others != names:
            raise MeasureError(
                f"Measure {k} has the coordinates {', '.join(others)}, measure {first} has {', '.join(names)}: the "
                "same in another order. Read both in one order, with columns= (on the command line --columns)."
            )
    return names if all(others == names for _, others in named) else None


def checked_weights(weights: ArrayLike | str | None, measures: Sequence[Measure], *, zero: bool = False) -> Floats:
    """The weights of the measures, with sum 1. ``zero``: whether some may be 0."""
    count = len(measures)
    if weights is None:
        return np.full(count, 1.0 / count)
    given = read.weights("weights", weights)
    values = _sizes(measures) if isinstance(given, str) else given
    if values.shape != (count,):
        raise WeightError(f"There are {count} measures, but weights has shape {values.shape}; give one weight each.")
    good = np.isfinite(values) & (values > 0) | (zero and (values == 0) & (values.max() > 0))
    bad = np.flatnonzero(~good)
    if bad.size:
        if values[bad[0]] == 0:
            raise WeightError(
                f"The weight of measure {bad[0]} is 0, so it would play no part. Leave out the measure (on the command "
                "line its file) and its weight."
            )
        raise WeightError(f"The weight of measure {bad[0]} is {values[bad[0]]}; weights must be positive and finite.")
    return normalised(values)


def _sizes(measures: Sequence[Measure]) -> Floats:
    """The number of records of every measure."""
    unknown = [k for k, measure in enumerate(measures) if measure.records is None]
    if unknown:
        raise WeightError(
            f"weights={read.SIZE!r} counts records, and measure {unknown[0]} has none to count: it is a "
            f"{type(measures[unknown[0]]).__name__}, not samples. Give the weights as numbers."
        )
    return np.array([measure.records for measure in measures], dtype=float)


def on_columns(position: int, node: Measure, columns: Floats) -> Measure:
    """With a cost matrix, histograms are masses on its columns."""
    if not isinstance(node, Histogram) or node.points is not None:
        raise MeasureError(
            f"Measure {position}: a precomputed cost needs histograms on its columns, not {type(node).__name__}. "
            "Write barymesh.Histogram(masses)."
        )
    if node.masses.size != len(columns):
        raise MeasureError(
            f"Measure {position}: the histogram has {node.masses.size} entries, but the cost matrix {len(columns)} "
            f"columns; give one mass for each column."
        )
    return Histogram(node.masses, columns)


def check_dimensions(nodes: list[Measure], support: Support) -> None:
    for position, node in enumerate(nodes):
        if isinstance(node, Histogram) and node.points is None and node.masses.size != support.size:
            raise MeasureError(
                f"Measure {position}: a histogram with {node.masses.size} masses does not fit the support's "
                f"{support.size} points. "
                "Give it points= of its own, or another support."
            )
        if node.dimension is not None and node.dimension != support.dimension:
            raise DimensionError(
                f"Measure {position} lives in {node.dimension} dimensions, the support in {support.dimension}. They "
                f"must agree."
            )
