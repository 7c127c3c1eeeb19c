"""Potentials to begin with, from an earlier result: of the same measures, or of some that have changed since."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from barymesh.errors import OptionError
from barymesh.problem import Problem
from barymesh.result import Result

Floats = NDArray[np.float64]


def start_potentials(start: Result | None, problem: Problem) -> Floats | None:
    """``lam (m, n)``: those of the result to continue from, if there is one.

    Measures with labels are recognised by them: one that was there before has its potentials, whatever has become of
    its data, and a new one begins at 0. Without labels there must be as many measures as before, in the same order.
    """
    if start is None:
        return None
    labels, before = [measure.label for measure in problem.measures], list(start.labels)
    named = None not in labels and None not in before and len(set(labels)) == len(labels) and len(start.duals) > 0
    expected = (len(problem.measures), problem.support.size)
    if start.duals.shape[1:] != expected[1:] or (start.duals.shape != expected and not named):
        raise OptionError(
            f"The result to continue from (start=, or --resume) has {start.duals.shape} (measures, support points); "
            f"this problem has {expected}. Leave it out, or give the measures and the support it was computed with. "
            "Measures that come and go need labels, which tell them apart."
        )
    if not named or labels == before:
        return start.duals
    found, places = np.zeros(expected), {label: k for k, label in enumerate(before)}
    for k, label in enumerate(labels):
        if label in places:
            found[k] = start.duals[places[label]]
    return found
