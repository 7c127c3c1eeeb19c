"""The true barycenter, for runs on a network to be compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barymesh.checks import as_floats
from barymesh.errors import OptionError
from barymesh.exact.debiased import solve_debiased
from barymesh.exact.rows import Rows
from barymesh.exact.solver import solve
from barymesh.exact.transport import transport_costs
from barymesh.methods.debiasing import debiasing_of
from barymesh.problem import Problem
from barymesh.status import Status

Floats = NDArray[np.float64]

# how closely the reference is computed
TOL, ITERATIONS = 1e-9, 20_000
# that of a debiased one, whose finest details hardly matter to its objective
DEBIASED_TOL = 1e-7


@dataclass(frozen=True)
class Reference:
    """The true barycenter, ``weights (n,)``, and ``optimum``, the dual objective there."""

    weights: Floats
    optimum: float


def exact_reference(problem: Problem) -> Reference:
    """The true barycenter, from the exact solver."""
    debiasing, nodes = debiasing_of(problem), Rows(problem.float64_oracle, problem.weights)
    if debiasing is None:
        found = solve(nodes, max_iter=ITERATIONS, tol=TOL)
    else:
        found = solve_debiased(nodes, debiasing, max_iter=ITERATIONS, tol=DEBIASED_TOL)
    if found.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return Reference(found.p, problem.reg * found.dual)


def as_reference(wanted: Any, problem: Problem) -> Reference | None:
    """The reference that a user wants: True to compute it, the weights of a measure, or none."""
    if isinstance(wanted, Reference) or wanted is None:
        return wanted
    if isinstance(wanted, bool | np.bool_):
        return exact_reference(problem) if wanted else None
    weights = as_floats(wanted, "The reference", OptionError)
    if weights.shape != (problem.support.size,) or not abs(weights.sum() - 1) < 1e-6 or (weights < 0).any():
        raise OptionError(
            f"The reference must be True, or the {problem.support.size} weights of a measure on the support, none "
            f"negative, with sum 1; it has shape {weights.shape} and sum {weights.sum():.6g}."
        )
    # what the dual objective would be at the optimum if this were the barycenter: -sum_i w_i W_i(weights)
    costs, _ = transport_costs(problem.float64_oracle, weights, max_iter=ITERATIONS, tol=TOL)
    return Reference(weights, -float(problem.weights @ costs))
