"""What a run leaves behind: the metrics at chosen virtual times, measured with the exact oracle from outside."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from barymesh.errors import NumericalError
from barymesh.history import History
from barymesh.metrics import consensus_distance, feasibility_residual, total_variation
from barymesh.network.topology import Network
from barymesh.oracle import build_oracle
from barymesh.problem import PRECISIONS, Problem
from barymesh.subsample import MOST_PICTURED, evenly

Floats = NDArray[np.float64]

COLUMNS = ("time", "dual_objective", "consensus", "feasibility", "tv", "gap", "activations", "messages", "bytes")


@dataclass(frozen=True)
class Reference:
    """The true barycenter, ``weights (n,)``, and ``optimum``, the dual objective there."""

    weights: Floats
    optimum: float


class Recorder:
    """Measures the state of a run, now and then.

    ``seconds`` is the time this took, apart from the algorithm's own. ``snapshots``: the estimates of some nodes at
    every record, if asked for.
    """

    def __init__(self, problem: Problem, network: Network, reference: Reference | None, snapshots: bool) -> None:
        self.problem, self.network, self.reference = problem, network, reference
        self.oracle = build_oracle(
            problem.atoms, problem.support, problem.cost, problem.reg, PRECISIONS[problem.precision]
        )
        self.everybody = np.arange(network.size)
        self.rows: list[tuple[float, ...]] = []
        self.pictured = evenly(network.size, MOST_PICTURED) if snapshots else None
        self.snapshots: list[NDArray[np.float32]] = []
        # what the nodes believed at the last record, (m, n)
        self.estimates: Floats = np.empty((0, problem.support.size))
        self.seconds = 0.0

    def record(
        self, now: float, duals: Floats, activations: int, messages: int, sent: int,
        present: NDArray[np.bool_] | None = None, measures: NDArray[np.int64] | None = None,
    ) -> None:  # fmt: skip
        """Measure the duals ``(m, n)`` at time ``now``, of the nodes ``present (m,)`` with ``measures (m,)``."""
        began = time.perf_counter()
        who = np.ones(self.network.size, dtype=bool) if present is None else present
        weights = np.where(who, self.problem.weights[: who.size], 0.0)
        weights /= weights.sum()
        values, p = self.oracle.value_and_gradient(duals, self.everybody if measures is None else measures)
        objective = float(weights @ values)
        if not (np.isfinite(objective) and np.isfinite(p).all()):
            raise NumericalError(
                f"The duals are no longer finite numbers at time {now:.6g}. If a step was given, it is too large: give "
                "a smaller one, or leave it out."
            )
        known = self.reference
        self.rows.append(
            (
                now,
                objective,
                self._consensus(p, who),
                feasibility_residual(duals, weights),
                np.nan if known is None else total_variation(p[who], known.weights),
                np.nan if known is None else objective - known.optimum,
                activations,
                messages,
                float(sent),
            )
        )
        self.estimates = p
        if self.pictured is not None:
            self.snapshots.append(p[self.pictured].astype(np.float32))
        self.seconds += time.perf_counter() - began

    def _consensus(self, p: Floats, who: NDArray[np.bool_]) -> float:
        """The consensus distance over the edges between those who are there. If these are all pairs, it is their number
        times the squared distances from the mean, ``k sum_i |p_i - mean|^2``."""
        edges = self.network.edges
        if 2 * len(edges) == who.size * (who.size - 1):
            here = p[who]
            return float(len(here) * ((here - here.mean(axis=0)) ** 2).sum())
        return consensus_distance(p, edges if who.all() else edges[who[edges].all(axis=1)])

    @property
    def history(self) -> History:
        """All records, as named columns; without a reference there is no ``tv`` and no ``gap``."""
        table = np.array(self.rows, dtype=float).reshape(-1, len(COLUMNS))
        columns = {name: table[:, k] for k, name in enumerate(COLUMNS)}
        if self.reference is None:
            del columns["tv"], columns["gap"]
        return History(columns)

    @property
    def kept_snapshots(self) -> NDArray[np.float32] | None:
        """``(records, nodes, n)``, or None if they were not asked for."""
        return np.array(self.snapshots) if self.pictured is not None else None
