"""Error against time on one machine: entropic and debiased barycenters by barymesh, POT and OTT-JAX.

One problem for all: {count} handwritten digits of {side} x {side} pixels on a grid of the unit square, squared
Euclidean cost, reg {reg:g}. Every solver runs anew with more and more iterations until that improves the objective of
the run before by less than a fiftieth of its distance to the best known, twice in a row, or until {seconds:g} s are
spent on it. All take turns three times, and the fastest run with the same iterations counts. Compiling does not. The
error is the objective above the best known: the least that any of them reached, a long run of ours included. The
objective is computed afterwards from the weights, so nothing in it depends on the solver. A mark is one run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import barymesh as bm
from barymesh.exact.transport import transport_costs
from barymesh.methods.debiasing import Debiasing
from barymesh.problem import Problem
from benchmarks import debiased
from benchmarks.contestants import OTHERS, Task
from benchmarks.courses import COLOURS, OURS, Patience, Prepare, compared, course
from benchmarks.debiased import ACCURACY, LEAST, STEPS, Case
from benchmarks.images import Floats, digits, source
from benchmarks.labels import label_ends
from benchmarks.parts import Part, Row, Table
from benchmarks.tables import in_line

Say = Callable[[str], None]
Courses = dict[str, Floats]

CASE, QUICK_CASE = Case(100, 28, 0.001), Case(5, 28, 0.004)
PATIENCE, QUICK_PATIENCE = Patience(5, 1.6, 8.0, LEAST), Patience(40, 4.0, 0.4, LEAST)
# of ours, for the best known
LONG = 3000
# all solvers take turns so many times, and the fastest run with the same iterations counts
TURNS = 3
# the names in the figure: of both kinds of barycenter, of the entropic one and of the debiased one
NAMES = {
    OURS: (OURS, OURS),
    "POT": ("POT sinkhorn", "POT dense"),
    "POT convolutional": ("POT convolutional", "POT convolutional"),
    "POT convolutional log": ("POT convolutional log", "POT convolutional log"),
    "OTT": ("OTT kernel, float64", "OTT"),
    "OTT log": ("OTT log, float64", "OTT log"),
}
QUICK_NAMES = (OURS, "POT convolutional")


def run(quick: bool, say: Say) -> Part:
    """Courses of all solvers, for both kinds of barycenter."""
    case, patience = (QUICK_CASE, QUICK_PATIENCE) if quick else (CASE, PATIENCE)
    names = {name: NAMES[name] for name in QUICK_NAMES} if quick else NAMES
    images = digits(case.count, case.side)
    courses = {
        "entropic": courses_of(case, images, {name: entropic(case, images, one) for name, (one, _) in names.items()},
                               debias=False, patience=patience, say=say),
        "debiased": courses_of(case, images, {name: partial(debiased.SOLVERS[one], images, case.reg)
                                              for name, (_, one) in names.items()},
                               debias=True, patience=patience, say=say),
    }  # fmt: skip
    rows: list[Row] = []
    for kind, found in courses.items():
        for row in compared(kind, found, LEAST, debiased.TARGET):
            rows.append({key: value for key, value in row.items() if key != "target"})
            say(in_line(rows[-1]))
    text = (__doc__ or "").partition("\n\n")[2].strip()
    text = text.format(count=case.count, side=case.side, reg=case.reg, seconds=patience.seconds)
    return Part(
        title="Error against time on one machine",
        text=f"{text} The images: {source()}.",
        tables=[
            Table(
                "Time to the objective that each reaches",
                "*above the best known*: its objective in the end. *seconds*: until then. *ours*: how long barymesh "
                "takes, certificate included, until its objective is as low. *ratio*: of the two.",
                rows,
            )
        ],
        figures={"one-machine": partial(draw, courses=courses)},
    )


def entropic(case: Case, images: Floats, name: str) -> Callable[[], Prepare]:
    """The solver of this name, among those of contestants.py."""
    if name == OURS:
        return lambda: (
            lambda count: lambda: bm.barycenter(images, reg=case.reg, max_iter=count, tol=0, progress=False).weights
        )
    t = np.linspace(0, 1, case.side)
    points = np.stack(np.meshgrid(t, t, indexing="ij"), axis=-1).reshape(-1, 2)
    rows, shape = images.reshape(case.count, -1), np.array([case.side, case.side])
    return partial(OTHERS[name], Task(rows, points, shape, rows.mean(axis=0), case.reg, 0, 0.0))


def courses_of(
    case: Case, images: Floats, solvers: dict[str, Callable[[], Prepare]], *, debias: bool, patience: Patience, say: Say
) -> Courses:
    """Of every solver: its seconds, its objectives above the best known, and whether it had ended, ``(runs, 3)``."""
    problem = Problem.create(images, reg=case.reg, debias=debias)
    divergence = Debiasing(problem) if debias else None

    def objective(weights: Floats) -> float:
        """Infinite if it is no measure."""
        if not (np.isfinite(weights).all() and weights.sum() > 0 and weights.min() >= 0):
            return math.inf
        p = np.ravel(weights) / weights.sum()
        costs, _ = transport_costs(problem.float64_oracle, p, max_iter=STEPS, tol=ACCURACY)
        return float(problem.weights @ costs + (case.reg * divergence.upper(p) if divergence else 0.0))

    steps = LONG if patience is PATIENCE else 100
    best = objective(bm.barycenter(images, reg=case.reg, debias=debias, tol=1e-9, max_iter=steps).weights)
    found: Courses = {}
    for name, make in TURNS * list(solvers.items()):
        try:
            one = course(make(), objective, best, patience)
        except Exception as error:  # what another library cannot do is a finding, too
            say(f"{name}: {type(error).__name__}: {error}")
            continue
        if len(one):
            found[name] = faster(found.get(name, one), one)
            say(f"{name}: " + ", ".join(f"{row[0]:.3g} s {row[1] - best:.2e}" for row in found[name][-3:]))
    best = min(best, *(one[:, 1].min() for one in found.values()))
    return {name: one - [0.0, best, 0.0] for name, one in found.items()}


def faster(one: Floats, two: Floats) -> Floats:
    """The longer of two courses of a solver, each run with the less of its seconds in both. The iterations of a run
    follow from its place."""
    short, long = sorted((one, two), key=len)
    merged = long.copy()
    merged[: len(short), 0] = np.minimum(merged[: len(short), 0], short[:, 0])
    return merged


def draw(axes: Any, courses: dict[str, Courses]) -> None:
    """Two panels, one above the other, that share their scales; each curve has its name at its end."""
    figure = axes.figure
    axes.remove()
    panels = figure.subplots(2, 1, sharey=True, sharex=True)
    for panel, (kind, found) in zip(panels, courses.items(), strict=True):
        for name, colour in zip(NAMES, COLOURS, strict=False):
            if name in found:
                seconds, above = found[name][:, 0], np.maximum(found[name][:, 1], LEAST)
                panel.loglog(seconds, above, "o-", ms=3, color=colour, lw=3 if name == OURS else 1.3)
        panel.set_title(kind)
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(alpha=0.25)
    panels[1].set_xlabel("seconds")
    figure.supylabel("objective above the best known", fontsize="medium")
    figure.get_layout_engine().execute(figure)
    for panel, found in zip(panels, courses.values(), strict=True):
        label_ends(panel, [name for name in NAMES if name in found])
