"""What a run on a network leaves behind: a row of figures at each record, whichever engine runs it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from barymesh.decentralized.host import Traffic, View
from barymesh.errors import NumericalError
from barymesh.exact.reference import Reference
from barymesh.history import History
from barymesh.methods.debiasing import debiasing_of
from barymesh.metrics import consensus_distance, consensus_error, feasibility_residual, total_variation
from barymesh.network.topology import Network
from barymesh.problem import Problem, support_cost
from barymesh.record import NodeDetails, Record
from barymesh.subsample import MOST_PICTURED, evenly

Floats = NDArray[np.float64]

COLUMNS = (
    "time", "dual_objective", "consensus", "consensus_distance", "feasibility", "tv", "dual_error", "activations",
    "messages", "bytes",
)  # fmt: skip
WITH_REFERENCE = ("tv", "dual_error")
# duals that range over more than so many times the largest cost on the support have diverged
GROWTH = 1e9


class Recorder:
    """Keeps the history of a run. ``seconds`` is the time this took, apart from the algorithm's own; ``snapshots``: the
    estimates of some nodes at every record, if wanted; ``virtual``: whether time is virtual."""

    def __init__(
        self, problem: Problem, network: Network, *, reference: Reference | None = None, snapshots: bool = False,
        virtual: bool = False,
    ) -> None:  # fmt: skip
        self.problem, self.network, self.reference, self.virtual = problem, network, reference, virtual
        self.rows: list[tuple[float, ...]] = []
        self.pictured = evenly(network.size, MOST_PICTURED) if snapshots else None
        self.snapshots: list[NDArray[np.float32]] = []
        self.seconds = 0.0
        self.debiasing = debiasing_of(problem)
        self.limit = GROWTH * support_cost(problem)

    def weights(self, members: NDArray[np.bool_]) -> Floats:
        """``(m,)``, with sum 1: the weights of the nodes that are members, 0 for the others."""
        weights = np.where(members, self.problem.weights[: members.size], 0.0)
        return np.asarray(weights / weights.sum())

    def record(
        self, now: float, view: View, members: NDArray[np.bool_], activations: int, traffic: Traffic,
        details: Callable[[], NodeDetails],
    ) -> Record:  # fmt: skip
        """Add a row for time ``now``: what all nodes know, the barycenter being that of the ``members (m,)``."""
        began = time.perf_counter()
        weights, p = self.weights(members), view.estimates
        objective = float(weights @ view.values)
        if not (np.isfinite(objective) and np.isfinite(p).all()):
            raise NumericalError(
                f"The duals are no longer finite numbers at time {now:.6g}. If a step was given, it is too large: give "
                "a smaller one, or leave it out."
            )
        spread = np.ptp(view.duals, axis=1)
        limit, placed = self.limit, view.placed(self.problem, weights)
        if view.points is not None:
            # before their first target the nodes have no points
            limit = max(GROWTH * support_cost(placed), limit)
        if spread.max() > limit:
            raise NumericalError(
                f"The duals of node {int(spread.argmax())} range over {spread.max():.3g} at time {now:.6g}; those of a "
                "barycenter range over the largest cost at most, so these grow without bound. If a step was given, it "
                "is too large: give a smaller one, or leave it out. Or use method='rounds', which cannot diverge."
            )
        mean = view.barycenter(self.problem, weights)
        known = self.reference
        row = (
            now,
            objective,
            consensus_error(p, mean, weights),
            self._consensus_distance(p, members),
            self._feasibility(view.duals, weights, mean),
            np.nan if known is None else total_variation(p[members], known.weights),
            np.nan if known is None else objective - known.optimum,
            activations,
            traffic.messages,
            traffic.bytes,
        )
        self.rows.append(tuple(float(value) for value in row))
        if self.pictured is not None:
            self.snapshots.append(p[self.pictured].astype(np.float32))
        self.seconds += time.perf_counter() - began
        return Record(
            step=activations,
            time=now,
            figures={name: value for name, value in zip(COLUMNS, self.rows[-1], strict=True) if math.isfinite(value)},
            weights=mean,
            support=placed.support,
            size=self.network.size,
            find_estimates=lambda nodes: p[nodes],
            network=self.network,
            virtual=self.virtual,
            find_details=details,
        )

    def _feasibility(self, duals: Floats, weights: Floats, p: Floats) -> float:
        if self.debiasing is None:
            return feasibility_residual(weights @ duals)
        return self.problem.reg * self.debiasing.infeasibility(p, weights @ duals / self.problem.reg)

    def truncate(self, count: int) -> None:
        """Drop all records after the first ``count``."""
        del self.rows[count:], self.snapshots[count:]

    def _consensus_distance(self, p: Floats, members: NDArray[np.bool_]) -> float:
        """Over the edges between members. If these are all pairs, it is their number times the squared distances from
        the mean, ``k sum_i |p_i - mean|^2``."""
        edges = self.network.edges
        if 2 * len(edges) == members.size * (members.size - 1):
            here = p[members]
            return float(len(here) * ((here - here.mean(axis=0)) ** 2).sum())
        return consensus_distance(p, edges if members.all() else edges[members[edges].all(axis=1)])

    @property
    def history(self) -> History:
        """All records, as named columns; without a reference there is no ``tv`` and no ``dual_error``."""
        table = np.array(self.rows, dtype=float).reshape(-1, len(COLUMNS))
        missing = WITH_REFERENCE if self.reference is None else ()
        return History({name: table[:, k] for k, name in enumerate(COLUMNS) if name not in missing})

    @property
    def kept_snapshots(self) -> NDArray[np.float32] | None:
        """``(records, nodes, n)``, or None if they were not wanted."""
        return np.array(self.snapshots) if self.pictured is not None else None
