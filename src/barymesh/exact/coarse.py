"""A start for the exact solver: the barycenter of the same measures on coarser points.

Sinkhorn's iteration is fast on what varies from point to point, and slow on what varies over long distances. The latter
can be found on fewer points, where an iteration costs a fraction. On points twice as far apart, and so on as long as a
step between neighbours costs no more than reg, the measures are replaced by coarser ones (coarser.py), and the
potentials found there are extended to the finer points. Any start is allowed, so nothing rests on its accuracy.
"""

from __future__ import annotations

from barymesh.cost import Cost
from barymesh.exact.coarser import coarser_support
from barymesh.exact.nodes import NodeGroup
from barymesh.exact.solver import solve
from barymesh.status import Status
from barymesh.support.points import Support

# potentials with fewer numbers in all are found as fast without
LEAST_NUMBERS = 2**14
# the tolerance on coarser points: what they leave out is larger, and a closer one is no use
SLACK, LEAST_TOL = 10.0, 1e-4


def coarse_start(nodes: NodeGroup, support: Support, cost: Cost, *, tol: float, max_iter: int) -> bool:
    """Give the nodes potentials to begin with, where coarser points help. Whether Ctrl-C was pressed on the way."""
    coarser = coarser_support(support, cost, nodes.reg) if nodes.count * support.size >= LEAST_NUMBERS else None
    if coarser is None:
        return False
    nodes.coarsen(coarser)
    interrupted = coarse_start(nodes, coarser, cost, tol=tol, max_iter=max_iter)
    if not interrupted:
        found = solve(nodes, max_iter=max_iter, tol=max(SLACK * tol, LEAST_TOL))
        interrupted = found.status is Status.INTERRUPTED
    nodes.shift(nodes.refine())
    return interrupted
