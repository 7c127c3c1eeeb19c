"""The measures behind a result: which one is meant, the plans to them, and measures that are given again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from barymesh.checks import is_array, whole_number
from barymesh.cost import Cost, CostLike
from barymesh.errors import AccuracyWarning, BarymeshError, MeasureError, warn
from barymesh.measures.absent import Absent
from barymesh.measures.lazy import Lazy
from barymesh.problem import Problem
from barymesh.problem_input import measures_on

if TYPE_CHECKING:
    from barymesh.coupling import Coupling
    from barymesh.result import Result

# measures given again whose estimates are farther from those kept (L1) are probably others
OTHER_MEASURES = 0.02


def with_measures(result: Result, measures: Iterable[Any], cost: CostLike | None) -> Result:
    """See ``Result.with_measures``."""
    known = known_problem(result)
    given: Any = measures if is_array(measures) else list(measures)
    if len(given) != len(result.duals):
        raise MeasureError(
            f"The result is a barycenter of {len(result.duals)} measures, and {len(given)} were given. Give all in "
            "their order, with None for those that are not at hand."
        )
    if not is_array(given):
        given = [Absent(label) if one is None else one for one, label in zip(given, result.labels, strict=True)]
    moving = known.cost if cost is None else Cost(cost)
    problem = replace(known, measures=measures_on(result.support, moving, given), cost=moving)
    found = replace(result, problem=problem)
    for i, measure in enumerate(problem.measures):
        if not isinstance(measure, Absent):
            apart = float(np.abs(coupling_of(found, i).row_sums() - result.node_weights[i]).sum())
            if apart > OTHER_MEASURES:
                warn(
                    f"With measure {i} the potentials of the result give an estimate at an L1 distance of "
                    f"{apart:.2g} from the one it has. Give the measures in the order, and with the cost, with "
                    "which it was computed.",
                    AccuracyWarning,
                )
    return found


def number_of(result: Result, measure: int | str) -> int:
    """The number of the measure with this number, perhaps counted from the end, or this label."""
    count = len(result.duals)
    if isinstance(measure, str):
        known = [label for label in result.labels if label is not None]
        if known.count(measure) != 1:
            raise MeasureError(
                f"{known.count(measure) or 'No'} measures are called {measure!r}. "
                + (f"Their labels are {', '.join(known)}." if known else "They have no labels; give a number.")
            )
        return result.labels.index(measure)
    number = whole_number("The number of a measure", measure)
    if not -count <= number < count:
        raise MeasureError(f"There is no measure {number}: the result has {count}, numbered from 0.")
    return number % count


def known_problem(result: Result) -> Problem:
    """What was solved, if the result has it."""
    if result.problem is None:
        raise MeasureError(
            "This result does not know its problem: it was written by an older version, or found without one. "
            "Compute it again, with barymesh.barycenter(..., start=result)."
        )
    return result.problem


def coupling_of(result: Result, number: int) -> Coupling:
    """The plan to the measure with this number."""
    # oracles are loaded when they are needed
    from barymesh.coupling import Coupling

    problem = known_problem(result)
    if isinstance(problem.measures[number], Lazy):
        raise MeasureError(
            f"Measure {number}: {problem.measures[number]!r} stayed with its node. Where it is at hand, use "
            "result.with_measures([...]), with None for the others."
        )
    try:
        atoms = problem.atoms_of(number)
    except BarymeshError as error:
        raise type(error)(f"Measure {number}: {error}") from error
    return Coupling(atoms, result.support, problem.cost, result.reg, result.duals[number])
