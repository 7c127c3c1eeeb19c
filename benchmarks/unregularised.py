"""What regularisation costs, and what methods without it, or with a server, reach in the same time.

Ten histograms on a line of the unit interval, few enough that a linear programme (POT's, solved by HiGHS) finds the
barycenter without regularisation. The error of a measure p is its excess: the mean of its exact transport costs, each
by POT's network simplex, above that optimum, as a share of it. So it does not matter which problem a method solves.
Methods with settings run with all of those listed, and the best by its last excess counts. Methods with a server do not
depend on the network; the figure repeats their curves for comparison. Clock and delays are those of the paper on A2DWB;
time is virtual, so none of this depends on the machine.
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
from benchmarks.courses import OURS
from benchmarks.labels import label_ends
from benchmarks.parts import Part, Row, Table
from benchmarks.rivals.curve import Curve, Floats
from benchmarks.rivals.mirror_prox import mirror_prox
from benchmarks.rivals.server_sinkhorn import server_sinkhorn
from benchmarks.rivals.server_stochastic import server_stochastic
from benchmarks.tables import in_line

Say = Callable[[str], None]
Runs = Iterable[tuple[str, Curve]]
# virtual seconds, bytes sent until then, and the excess, each (records,)
Course = tuple[Floats, Floats, Floats]

NETWORKS = ("complete", "erdos_renyi", "cycle")
# the settings that are tried, documented here and in the table
REGS = (0.01, 0.003, 0.001, 0.0003)
SERVER_REGS = (*REGS, 0.0001, 0.00003)
PROX_STEPS, PROX_WEIGHTS = (0.5, 1.0, 1.4, 2.0, 2.8, 4.0), (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
# tried once: 1,000 samples end at 0.022 at best; step 0.3 with 100 samples ends at 0.017 to 0.040 on five seeds
STOCHASTIC_STEPS, STOCHASTIC_BATCHES = (0.1, 0.2, 0.3, 0.4, 0.8, 1.6), (10, 100)
MOMENTS = (10.0, 50.0, 200.0)
SERVER = "a server"
COLOURS = ("#777777", "#009E73", "#D55E00", "#0072B2", "#000000")


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
    courses: dict[tuple[str, str], Course] = {}
    rows = []
    for place, method, runs in contestants(truth, networks, seconds, quick):
        row, courses[place, method] = best(truth, place, method, runs, seconds)
        rows.append(row)
        say(in_line(row))
    return Part(
        title="Without regularisation",
        text=(__doc__ or "").partition("\n\n")[2].strip(),
        tables=[
            Table(
                "Excess of the transport cost",
                "*excess at ... s*: as a share of the optimum. *setting*: the best of those tried; "
                f"reg {_listed(REGS)} for ours; reg {_listed(SERVER_REGS)} for Sinkhorn with a server; "
                f"step {_listed(PROX_STEPS)} and weight of the agreement {_listed(PROX_WEIGHTS)} for mirror-prox; "
                f"step {_listed(STOCHASTIC_STEPS)} and samples a turn {_listed(STOCHASTIC_BATCHES)} for the stochastic "
                "method. All runs have one seed, and a setting is chosen by the excess of the very run that is shown: "
                "that favours methods with many settings, and with chance in them. *MB*: what all nodes sent until the "
                "last moment. Our nodes stop by themselves when they agree, so their excess is that of reg "
                "from then on.",
                rows,
            )
        ],
        figures={"unregularised.png": lambda axes: draw(axes.figure, courses)},
    )


def contestants(truth: Truth, networks: Iterable[str], seconds: float, quick: bool) -> Iterable[tuple[str, str, Runs]]:
    """Where it runs, the method, and its runs with all settings."""
    costs, measures, points = truth.costs, truth.measures, truth.points
    few = 1 if quick else None
    yield SERVER, "server Sinkhorn (Kroshnin et al.)", (
        (f"reg {reg:g}", server_sinkhorn(Problem.create(measures, points, reg=reg).oracle, seconds))
        for reg in SERVER_REGS[:few]
    )  # fmt: skip
    yield SERVER, "stochastic subgradients (Staib et al.)", (
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


def best(truth: Truth, place: str, method: str, runs: Runs, seconds: float) -> tuple[Row, Course]:
    """The row and the course of the setting with the least excess in the end."""
    setting, curve = min(runs, key=lambda one: truth.excess(one[1].estimates[-1]))
    times = np.array(curve.times)
    moments = [moment for moment in MOMENTS if moment <= seconds]

    def at(moment: float) -> float:
        return truth.excess(curve.estimates[max(int(np.searchsorted(times, moment, side="right")) - 1, 0)])

    row: Row = {"where": place, "method": method, "setting": setting}
    row |= {f"excess at {moment:g} s": at(moment) for moment in moments} | {"MB": curve.sent[-1] / 1e6}
    shown = np.unique(np.geomspace(1, len(times), 60).astype(int)) - 1
    excess = np.array([truth.excess(curve.estimates[index]) for index in shown])
    return row, (times[shown], np.array(curve.sent)[shown], excess)


def draw(figure: Any, courses: dict[tuple[str, str], Course]) -> None:
    """A row for each network: excess over bytes and over time, where the curves have their names; dashed with a
    server."""
    networks = [place for place in dict.fromkeys(place for place, _ in courses) if place != SERVER]
    methods = list(dict.fromkeys(method for _, method in courses))
    end = max(times[-1] for times, _, _ in courses.values())
    figure.clear()
    figure.set_size_inches(8.0, 2.3 * len(networks) + 0.4)
    panels = figure.subplots(len(networks), 2, squeeze=False, sharex="col", sharey=True)
    for row, name in zip(panels, networks, strict=True):
        for method, colour in zip(methods, COLOURS, strict=True):
            served = (SERVER, method) in courses
            times, sent, excess = courses[SERVER if served else name, method]
            # nodes that have stopped keep what they have
            over_time = np.append(times, end), np.append(excess, excess[-1])
            for axes, (x, y) in zip(row, ((sent / 1e6, excess), over_time), strict=True):
                style = {"color": colour, "lw": 2.5 if method.startswith(OURS) else 1.3, "ls": "--" if served else "-"}
                axes.plot(x[x > 0], y[x > 0], **style)
                axes.set(xscale="log", yscale="log")
                axes.spines[["top", "right"]].set_visible(False)
        row[0].set_ylabel(f"{name.replace('_', '-').title()}\nexcess of the cost")
    for axes, label in zip(panels[-1], ("MB sent by all nodes", "virtual seconds"), strict=True):
        axes.set_xlabel(label)
    figure.get_layout_engine().execute(figure)
    for axes in panels[:, -1]:
        label_ends(axes, [method.partition(" (")[0] for method in methods])


def _mean_cost(p: Floats, measures: Floats, costs: Floats) -> float:
    import ot

    return float(np.mean([ot.emd2(p, one, costs) for one in measures]))


def _listed(values: Iterable[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)
