"""Debiased barycenters: how long until the objective of the best other solver is reached.

The same problems for all: handwritten digits on a grid of the unit square, squared Euclidean cost. Every solver runs
with 10, 20, 40 and so on iterations until twice as many lower its objective by less than a hundredth of its distance to
the floor, or it has had its time. The objective is that of the Sinkhorn divergence, computed afterwards from the
weights; nothing in it depends on the solver. The floor is our certified lower bound: no measure has a lower objective.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import barymesh as bm
from barymesh.exact.transport import transport_costs
from barymesh.methods.debiasing import Debiasing
from barymesh.problem import Problem
from benchmarks.images import Floats, digits, source
from benchmarks.parts import Part, Row, Table
from benchmarks.tables import in_line

OURS = "barymesh"
FIRST, MOST, IMPROVEMENT, SECONDS = 10, 20_000, 1e-2, 20.0
# transports for the objective are solved to this, in L1
ACCURACY, STEPS = 1e-9, 2000

# from a number of iterations to a call that carries them out, everything compiled
Prepare = Callable[[int], Callable[[], Floats]]


@dataclass(frozen=True)
class Case:
    """So many images of this side."""

    count: int
    side: int
    reg: float

    @property
    def title(self) -> str:
        return f"{self.count} digits, {self.side} x {self.side}, reg {self.reg:g}"


CASES = (Case(100, 28, 0.004), Case(100, 28, 0.001), Case(20, 64, 0.004), Case(20, 64, 0.001))
QUICK = (Case(5, 28, 0.004),)


def run(quick: bool, say: Callable[[str], None]) -> Part:
    """Times and objectives of all solvers on all cases."""
    rows: list[Row] = []
    courses: dict[str, dict[str, Floats]] = {}
    for case in QUICK if quick else CASES:
        found = courses_of(case, say)
        courses[case.title] = {name: course for name, course in found.items() if len(course)}
        for row in compared(case, courses[case.title]):
            rows.append(row)
            say(in_line(row))
    return Part(
        title="Debiased barycenters",
        text=(__doc__ or "").partition("\n\n")[2].strip() + f" The images: {source()}.",
        tables=[
            Table(
                "Time to the objective that each reaches",
                "*objective above the floor*: where it no longer improves. *seconds*: until then. *ours*: how long "
                "barymesh takes, certificate included, until its objective is as low. *ratio*: of the two.",
                rows,
            )
        ],
        figures={"debiased.png": lambda axes: draw(axes, courses)},
    )


def courses_of(case: Case, say: Callable[[str], None]) -> dict[str, Floats]:
    """Of every solver: its seconds and its objectives above the floor, ``(runs, 2)``."""
    images = digits(case.count, case.side)
    problem = Problem.create(images, reg=case.reg, debias=True)
    debiasing = Debiasing(problem)
    ours = bm.barycenter(images, reg=case.reg, debias=True, tol=1e-6, max_iter=1500)
    floor = ours.value - ours.gap

    def above(weights: Floats) -> float:
        """The objective, less the floor; infinite if it is no measure."""
        if not (np.isfinite(weights).all() and weights.sum() > 0 and weights.min() >= 0):
            return math.inf
        p = np.ravel(weights) / weights.sum()
        costs, _ = transport_costs(problem.float64_oracle, p, max_iter=STEPS, tol=ACCURACY)
        return float(problem.weights @ costs + case.reg * debiasing.upper(p) - floor)

    found = {}
    for name, make in SOLVERS.items():
        try:
            found[name] = course(make(images, case.reg), above)
        except Exception as error:  # what another library cannot do is a finding, too
            say(f"{case.title}, {name}: {type(error).__name__}: {error}")
            continue
        say(f"{case.title}, {name}: " + ", ".join(f"{t:.3g} s {gap:.2e}" for t, gap in found[name][-3:]))
    return found


def course(prepare: Prepare, above: Callable[[Floats], float]) -> Floats:
    """Twice as many iterations each time, until it no longer improves."""
    rows: list[tuple[float, float]] = []
    count, spent = FIRST, 0.0
    while count <= MOST and spent < SECONDS:
        call = prepare(count)
        began = time.perf_counter()
        weights = call()
        seconds = time.perf_counter() - began
        reached = above(weights)
        if not math.isfinite(reached):
            break
        done = bool(rows) and rows[-1][1] - reached < IMPROVEMENT * abs(reached)
        rows.append((seconds, reached))
        if done:
            break
        count, spent = 2 * count, spent + seconds
    return np.array(rows).reshape(-1, 2)


def compared(case: Case, found: dict[str, Floats]) -> list[Row]:
    """A row for each solver."""
    rows = []
    mine = found[OURS]
    for name, one in found.items():
        best = float(one[:, 1].min())
        seconds = float(one[np.flatnonzero(one[:, 1] <= best)[0], 0])
        as_good = np.flatnonzero(mine[:, 1] <= best)
        ours = float(mine[as_good[0], 0]) if as_good.size else math.inf
        row: dict[str, Any] = {
            "problem": case.title,
            "solver": name,
            "objective above the floor": best,
            "seconds": seconds,
        }
        rows.append(row if name == OURS else row | {"ours": ours, "ratio": seconds / ours})
    return rows


def barymesh(images: Floats, reg: float) -> Prepare:
    return lambda count: lambda: bm.barycenter(images, reg=reg, debias=True, max_iter=count, tol=0).weights


def pot_dense(images: Floats, reg: float) -> Prepare:
    import ot

    m, side = len(images), images.shape[1]
    t = np.linspace(0, 1, side)
    points = np.stack(np.meshgrid(t, t, indexing="ij"), axis=-1).reshape(-1, 2)
    if len(points) > 1000:
        raise MemoryError("a matrix between all pixels takes too long here; not run")
    cost, columns = ot.dist(points, points), np.ascontiguousarray(images.reshape(m, -1).T)
    return lambda count: (
        lambda: np.asarray(ot.bregman.barycenter_debiased(columns, cost, reg, numItermax=count, stopThr=0, warn=False))
    )


def pot_convolutional(images: Floats, reg: float, method: str) -> Prepare:
    import ot

    return lambda count: (
        lambda: np.asarray(
            ot.bregman.convolutional_barycenter2d_debiased(
                images, reg, method=method, numItermax=count, stopThr=0, warn=False
            )
        )
    )


def ott(images: Floats, reg: float, log_domain: bool) -> Prepare:
    import jax

    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp
    from ott.geometry.grid import Grid
    from ott.problems.linear.barycenter_problem import FixedBarycenterProblem
    from ott.solvers.linear.discrete_barycenter import FixedBarycenter

    m, side = len(images), images.shape[1]
    rows = images.reshape(m, -1) + (1e-12 if log_domain else 0.0)
    geometry = Grid(x=[jnp.linspace(0, 1, side)] * 2, epsilon=reg)
    problem = FixedBarycenterProblem(geometry, jnp.asarray(rows / rows.sum(axis=1, keepdims=True)))

    def prepare(count: int) -> Callable[[], Floats]:
        solver = FixedBarycenter(
            threshold=-1.0, min_iterations=count, max_iterations=count, inner_iterations=count, lse_mode=log_domain,
            debiased=True,
        )  # fmt: skip
        compiled = jax.jit(lambda p: solver(p).histogram).lower(problem).compile()
        return lambda: np.asarray(compiled(problem), dtype=float)

    return prepare


SOLVERS: dict[str, Callable[[Floats, float], Prepare]] = {
    OURS: barymesh,
    "POT dense": pot_dense,
    "POT convolutional": lambda images, reg: pot_convolutional(images, reg, "sinkhorn"),
    "POT convolutional log": lambda images, reg: pot_convolutional(images, reg, "sinkhorn_log"),
    "OTT": lambda images, reg: ott(images, reg, log_domain=False),
    "OTT log": lambda images, reg: ott(images, reg, log_domain=True),
}


def draw(axes: Any, courses: dict[str, dict[str, Floats]]) -> None:
    """Objective against time, on the first problem."""
    title, found = next(iter(courses.items()))
    for name, one in found.items():
        axes.loglog(one[:, 0], one[:, 1], marker="o", linewidth=3 if name == OURS else 1.5, label=name)
    axes.set(title=title, xlabel="seconds", ylabel="objective above the certified floor")
    axes.legend()
