"""Debiased barycenters: how long until the objective of the best other solver is reached.

The same problems for all: handwritten digits on a grid of the unit square, squared Euclidean cost. Every solver runs
anew with more and more iterations (the others twice as many each time, ours half as many again) until that improves
the objective of the run before by less than a fiftieth of its distance to the best known, twice in a row, or until
{seconds:g} s are spent on it. Compiling does not count. The objective is that of the Sinkhorn divergence, computed
afterwards from the weights; nothing in it depends on the solver. The best known is the least of all objectives that any
of them reached, a long run of ours included.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

import barymesh as bm
from barymesh.exact.transport import transport_costs
from barymesh.methods.debiasing import Debiasing
from barymesh.problem import Problem
from benchmarks.courses import OURS, Patience, Prepare, compared, course, draw
from benchmarks.images import Floats, digits, source
from benchmarks.parts import Part, Row, Table
from benchmarks.tables import in_line

# smaller distances to the best known count as none
LEAST = 1e-11
PATIENCE, OUR_PATIENCE = Patience(10, 2.0, 60.0, LEAST), Patience(10, 1.5, 60.0, LEAST)
QUICK_PATIENCE = Patience(40, 4.0, 0.4, LEAST)
TARGET = 10.0
# of the long run of ours
LONG = 3000
# transports for the objective are solved to this, in L1
ACCURACY, STEPS = 1e-9, 2000


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
        courses[case.title] = courses_of(case, quick, say)
        for row in compared(case.title, courses[case.title], LEAST, TARGET):
            rows.append(row)
            say(in_line(row))
    text = (__doc__ or "").partition("\n\n")[2].strip().format(seconds=(QUICK_PATIENCE if quick else PATIENCE).seconds)
    return Part(
        title="Debiased barycenters",
        text=f"{text} The images: {source()}.",
        tables=[
            Table(
                "Time to the objective that each reaches",
                "*above the best known*: its objective in the end. *seconds*: until then. *ours*: how long barymesh "
                "takes, certificate included, until its objective is as low. *ratio*: of the two. *ended*: whether it "
                "no longer improved, or had its time.",
                rows,
            )
        ],
        figures={
            f"debiased-{place}": partial(draw, title=title, names=tuple(SOLVERS), found=found, least=LEAST)
            for place, (title, found) in enumerate(courses.items(), start=1)
        },
    )


def courses_of(case: Case, quick: bool, say: Callable[[str], None]) -> dict[str, Floats]:
    """Of every solver: its seconds, its objectives above the best known, and whether it had ended, ``(runs, 3)``."""
    images = digits(case.count, case.side)
    problem = Problem.create(images, reg=case.reg, debias=True)
    debiasing = Debiasing(problem)
    known = bm.barycenter(images, reg=case.reg, debias=True, tol=1e-8, max_iter=100 if quick else LONG).weights

    def objective(weights: Floats) -> float:
        """Infinite if it is no measure."""
        if not (np.isfinite(weights).all() and weights.sum() > 0 and weights.min() >= 0):
            return math.inf
        p = np.ravel(weights) / weights.sum()
        costs, _ = transport_costs(problem.float64_oracle, p, max_iter=STEPS, tol=ACCURACY)
        return float(problem.weights @ costs + case.reg * debiasing.upper(p))

    best = objective(known)
    found: dict[str, Floats] = {}
    for name, make in QUICK_SOLVERS.items() if quick else SOLVERS.items():
        patience = QUICK_PATIENCE if quick else OUR_PATIENCE if name == OURS else PATIENCE
        try:
            one = course(make(images, case.reg), objective, best, patience)
        except Exception as error:  # what another library cannot do is a finding, too
            say(f"{case.title}, {name}: {type(error).__name__}: {error}")
            continue
        if len(one):
            found[name] = one
            say(f"{case.title}, {name}: " + ", ".join(f"{row[0]:.3g} s {row[1] - best:.2e}" for row in one[-3:]))
    best = min(best, *(one[:, 1].min() for one in found.values()))
    return {name: one - [0.0, best, 0.0] for name, one in found.items()}


def barymesh(images: Floats, reg: float) -> Prepare:
    return lambda count: lambda: bm.barycenter(images, reg=reg, debias=True, max_iter=count, tol=0).weights


def pot_dense(images: Floats, reg: float) -> Prepare:
    import ot

    m, side = len(images), images.shape[1]
    t = np.linspace(0, 1, side)
    points = np.stack(np.meshgrid(t, t, indexing="ij"), axis=-1).reshape(-1, 2)
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
QUICK_SOLVERS = {name: SOLVERS[name] for name in (OURS, "POT convolutional", "OTT")}
