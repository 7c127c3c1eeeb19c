"""What regularisation costs, and what methods without it, or with a server, reach in the same time.

Ten histograms on a line of the unit interval, few enough that a linear programme (POT's, solved by HiGHS) finds the
barycenter without regularisation. The error of a measure p is its excess: the mean of its exact transport costs, each
by POT's network simplex, above that optimum, as a share of it. So it does not matter which problem a method solves.
Methods with settings run with all of those listed, and the best by its last excess counts. Clock and delays are those
of the paper; time is virtual, so none of this depends on the machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from barymesh.engines.simulate import simulate
from barymesh.network import as_network
from barymesh.options import RunOptions
from barymesh.problem import Problem
from barymesh.record import Record
from benchmarks.parts import Part, Row, Table
from benchmarks.rivals.curve import Curve, Floats
from benchmarks.rivals.mirror_prox import mirror_prox
from benchmarks.rivals.server_sinkhorn import server_sinkhorn
from benchmarks.rivals.server_stochastic import server_stochastic
from benchmarks.tables import in_line

Say = Callable[[str], None]
Runs = Iterable[tuple[str, Curve]]

NETWORKS = ("complete", "erdos_renyi", "cycle")
# the settings that are tried, documented here and in the table
REGS = (0.01, 0.003, 0.001, 0.0003)
PROX_STEPS, PROX_WEIGHTS = (0.3, 1.0, 2.0, 3.0), (0.3, 1.0, 3.0, 10.0)
STOCHASTIC_STEPS, STOCHASTIC_BATCHES = (0.1, 0.3, 1.0, 3.0), (10, 100)
MOMENTS = (10.0, 50.0, 200.0)


@dataclass(frozen=True)
class Truth:
    """Histograms ``measures (m, n)`` on ``points (n,)`` of a line, and their barycenter without regularisation."""

    points: Floats
    measures: Floats
    costs: Floats
    barycenter: Floats
    optimum: float

    @classmethod
    def drawn(cls, count: int, size: int, seed: int = 0) -> Truth:
        """Normal densities on a grid, with means and deviations at random."""
        import ot

        rng, points = np.random.default_rng(seed), np.linspace(0.0, 1.0, size)
        means, deviations = rng.uniform(0.2, 0.8, count), rng.uniform(0.03, 0.12, count)
        measures = np.exp(-0.5 * ((points - means[:, None]) / deviations[:, None]) ** 2)
        measures /= measures.sum(axis=1, keepdims=True)
        costs = (points[:, None] - points) ** 2
        barycenter = np.maximum(ot.lp.barycenter(measures.T, costs, solver="highs"), 0.0)
        barycenter /= barycenter.sum()
        return cls(points, measures, costs, barycenter, _mean_cost(barycenter, measures, costs))

    def excess(self, p: Floats) -> float:
        """The mean transport cost of p above the optimum, as a share of it; infinite for a method that diverged."""
        if not np.isfinite(p).all():
            return math.inf
        return _mean_cost(p / p.sum(), self.measures, self.costs) / self.optimum - 1.0


def run(quick: bool, say: Say) -> Part:
    """All methods on all networks."""
    truth = Truth.drawn(5, 12) if quick else Truth.drawn(10, 30)
    seconds = 20.0 if quick else MOMENTS[-1]
    networks = NETWORKS[1:2] if quick else NETWORKS
    courses: dict[str, tuple[Floats, Floats]] = {}
    rows = []
    for place, method, runs in contestants(truth, networks, seconds, quick):
        row, course = best(truth, place, method, runs, seconds)
        rows.append(row)
        if place in ("a server", networks[-1 if quick else 1]):
            courses[f"{method}, {place}"] = course
        say(in_line(row))
    return Part(
        title="Without regularisation",
        text=(__doc__ or "").partition("\n\n")[2].strip(),
        tables=[
            Table(
                "Excess of the transport cost",
                "*excess at ... s*: as a share of the optimum. *setting*: the best of those tried; "
                f"reg {_listed(REGS)}; step {_listed(PROX_STEPS)} and weight of the agreement {_listed(PROX_WEIGHTS)} "
                f"for mirror-prox; step {_listed(STOCHASTIC_STEPS)} and samples a turn {_listed(STOCHASTIC_BATCHES)} "
                "for the stochastic method. *MB*: what all nodes sent until the last moment. Our nodes stop by "
                "themselves when they agree, so their excess is that of reg from then on.",
                rows,
            )
        ],
        figures={"unregularised.png": lambda axes: draw(axes, courses)},
    )


def contestants(truth: Truth, networks: Iterable[str], seconds: float, quick: bool) -> Iterable[tuple[str, str, Runs]]:
    """Where it runs, the method, and its runs with all settings."""
    costs, measures, points = truth.costs, truth.measures, truth.points
    few = 1 if quick else None
    yield "a server", "server Sinkhorn (Kroshnin et al.)", (
        (f"reg {reg:g}", server_sinkhorn(Problem.create(measures, points, reg=reg).oracle, seconds))
        for reg in REGS[:few]
    )  # fmt: skip
    yield "a server", "stochastic subgradients (Staib et al.)", (
        (f"step {step:g}, {batch} samples", server_stochastic(costs, measures, seconds, step=step, batch=batch))
        for step in STOCHASTIC_STEPS[:few] for batch in STOCHASTIC_BATCHES[:few]
    )  # fmt: skip
    for name in networks:
        network = as_network(name, len(measures))
        yield name, "mirror-prox (Rogozin et al.)", (
            (f"step {step:g}, weight {gamma:g}", mirror_prox(costs, measures, network, seconds, step=step, gamma=gamma))
            for step in PROX_STEPS[:few] for gamma in PROX_WEIGHTS[:few]
        )  # fmt: skip
        for debias in (False, True):
            yield name, "barymesh, debiased" if debias else "barymesh", (
                (f"reg {reg:g}", simulated(truth, name, seconds, reg, debias)) for reg in REGS[:few]
            )  # fmt: skip


def simulated(truth: Truth, network: str, seconds: float, reg: float, debias: bool) -> Curve:
    """The default method of the library."""
    curve = Curve()

    def keep(record: Record) -> None:
        curve.record(record.time, record.figures["bytes"], record.weights)

    problem = Problem.create(truth.measures, truth.points, reg=reg, debias=debias)
    options: dict[str, Any] = {"duration": seconds, "record_every": 1.0, "tol": 1e-4, "callback": keep}
    simulate(problem, as_network(network, len(truth.measures)), RunOptions(method="sinkhorn", **options))
    return curve


def best(truth: Truth, place: str, method: str, runs: Runs, seconds: float) -> tuple[Row, tuple[Floats, Floats]]:
    """The row and the course of the setting with the least excess in the end."""
    setting, curve = min(runs, key=lambda one: truth.excess(one[1].estimates[-1]))
    times = np.array(curve.times)
    moments = [moment for moment in MOMENTS if moment <= seconds]

    def at(moment: float) -> float:
        return truth.excess(curve.estimates[max(int(np.searchsorted(times, moment, side="right")) - 1, 0)])

    row: Row = {"where": place, "method": method, "setting": setting}
    row |= {f"excess at {moment:g} s": at(moment) for moment in moments} | {"MB": curve.sent[-1] / 1e6}
    shown = np.unique(np.geomspace(1, len(times), 60).astype(int)) - 1
    return row, (times[shown], np.array([truth.excess(curve.estimates[index]) for index in shown]))


def draw(axes: Any, courses: dict[str, tuple[Floats, Floats]]) -> None:
    """Excess over virtual time, each curve with its name at its end."""
    for name, (times, excess) in courses.items():
        (line,) = axes.loglog(times, np.maximum(excess, 1e-6))
        axes.annotate(
            name, (times[-1], max(excess[-1], 1e-6)), xytext=(4, 0), textcoords="offset points", color=line.get_color(),
            fontsize=8, va="center", annotation_clip=False,
        )  # fmt: skip
    axes.set_xlabel("virtual seconds")
    axes.set_ylabel("transport cost above the optimum, as a share of it")
    axes.spines[["top", "right"]].set_visible(False)


def _mean_cost(p: Floats, measures: Floats, costs: Floats) -> float:
    import ot

    return float(np.mean([ot.emd2(p, one, costs) for one in measures]))


def _listed(values: Iterable[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)
