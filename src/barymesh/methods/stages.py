"""Small regularisations: which problems have one, and by which steps it is reached."""

from __future__ import annotations

import numpy as np

from barymesh.problem import Problem, support_cost

# reg is lowered by this factor, from this share of the largest cost on the support
FACTOR, FIRST_SHARE = 4.0, 0.02
# a reg below these shares of the largest cost on the support, and of that of a step between its points, is small. Steps
# are to connect this share of the points; they are looked for on supports of so many points at most
SMALL, COARSE, CONNECTED, FEW_POINTS = 1e-4, 0.25, 0.95, 2000


def needs_rounds(problem: Problem) -> bool:
    """Whether the problem is of a kind that asynchronous work is known to fail on: reg is small compared with the costs
    on the support, or with that of the steps that mass must take to get from one part of it to another."""
    return problem.reg < max(SMALL * support_cost(problem), COARSE * step_cost(problem))


def step_cost(problem: Problem) -> float:
    """The cost of a step between neighbouring points of the support: the least one with which steps no more expensive
    connect nearly all points, so that the gaps between clusters count; on a regular grid, and where there are too many
    points to look at, that of the spacing. Of a cost matrix, how much more the second cheapest atom costs than the
    cheapest, on average. 0 if there is no other point."""
    support, cost = problem.support, problem.cost
    if cost.matrix_given is not None:
        cheapest = np.sort(cost.matrix_given, axis=1)[:, :2]
        return float(np.ptp(cheapest, axis=1).mean())
    if support.size < 2:
        return 0.0
    if cost.squared and (support.grid is not None or support.size > FEW_POINTS):
        return support.spacing**2
    if support.size > FEW_POINTS:
        return 0.0
    from scipy.cluster.hierarchy import linkage

    costs = cost.matrix(support.points, support.points)
    # each row joins two clusters of points: at which cost, and the size of the new one
    _, _, joined, sizes = linkage(costs[np.triu_indices(support.size, 1)], "single").T
    return float(joined[sizes >= CONNECTED * support.size].min())


def stages(reg: float, largest_cost: float, first_share: float = FIRST_SHARE) -> list[float]:
    """The regularisations on the way to reg, from this share of the largest cost."""
    found = [reg]
    while found[0] * FACTOR < first_share * largest_cost:
        found.insert(0, found[0] * FACTOR)
    return found
