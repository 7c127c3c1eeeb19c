"""Small regularisations: which problems have one, and by which steps it is reached."""

from __future__ import annotations

import numpy as np

from barymesh.problem import Problem, support_cost

# reg is lowered by this factor, from this share of the largest cost on the support
FACTOR, FIRST_SHARE = 4.0, 0.02
# a reg below these shares of the largest cost on the support, and of that to the nearest point, is small; the latter is
# looked for on supports of so many points at most
SMALL, COARSE, FEW_POINTS = 1e-4, 0.25, 2000


def needs_rounds(problem: Problem) -> bool:
    """Whether the problem is of a kind that asynchronous work is known to fail on: reg is small compared with the costs
    on the support, or with that of a move to the nearest point."""
    return problem.reg < max(SMALL * support_cost(problem), COARSE * neighbour_cost(problem))


def neighbour_cost(problem: Problem) -> float:
    """The median cost from a point of the support to the nearest other one; of a cost matrix, how much more the second
    cheapest atom costs than the cheapest, on average. 0 if there is no other point, or too many to look at."""
    support, given = problem.support, problem.cost.matrix_given
    if given is not None:
        cheapest = np.sort(given, axis=1)[:, :2]
        return float(np.ptp(cheapest, axis=1).mean())
    if problem.cost.squared:
        return support.spacing**2 if support.size > 1 else 0.0
    if not 1 < support.size <= FEW_POINTS:
        return 0.0
    costs = problem.cost.matrix(support.points, support.points)
    return float(np.median((costs + np.diag(np.full(support.size, np.inf))).min(axis=1)))


def stages(reg: float, largest_cost: float) -> list[float]:
    """The regularisations on the way to reg."""
    found = [reg]
    while found[0] * FACTOR < FIRST_SHARE * largest_cost:
        found.insert(0, found[0] * FACTOR)
    return found
