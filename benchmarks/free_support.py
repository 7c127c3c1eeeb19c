"""Points that move: how long until the objective of the other free-support solvers is reached.

All solvers start at the same points (k-means++ among draws from all measures), all points weigh the same, and the cost
is the squared Euclidean distance. Two objectives: that of the regularised problem, with reg a hundredth of the median
cost, for the solvers that regularise; and the average squared Wasserstein distance, computed exactly, for those that
do not, where ours runs with reg a thousandth of the median cost. Every solver runs anew with more and more iterations
until that improves the objective of the run before by less than a fiftieth of its distance to the best known, twice in
a row, or until {seconds:g} s are spent on it; one whose first four iterations would take three times as long is not
run. Compiling does not count. Objectives are computed afterwards from the points alone. The best known is the least of
all, a long run of ours included.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import barymesh as bm
from barymesh.exact.transport import transport_costs
from barymesh.problem import Problem
from barymesh.support.free import kmeans_plus_plus
from benchmarks.courses import OURS, Patience, Prepare, compared, course, draw
from benchmarks.images import Floats
from benchmarks.parts import Part, Row, Table
from benchmarks.tables import in_line
from benchmarks.timing import seconds_of

# of the median cost
REG, SMALL_REG = 0.01, 0.001
# draws that the start is chosen among, and those that the median cost is estimated from
DRAWS = 2000
# distances to the best known below this share of the objective count as none
LEAST = 1e-6
SECONDS, QUICK_SECONDS = 10.0, 1.0
# rounds of a long run
LONG = 300
# transports for the objective are solved to this, in L1
ACCURACY, STEPS = 1e-7, 2000
# points of a cloud from which the time of a solver is estimated, and by what it may exceed the time for its course
FEW, HOPELESS = 50, 3.0
# pixels of a photograph that the comparison uses
PIXELS = 5000

Clouds = list[Floats]


@dataclass(frozen=True)
class Case:
    """Clouds ``(N_i, d)`` whose barycenter has n points."""

    title: str
    clouds: Clouds
    n: int

    @property
    def median(self) -> float:
        """The median cost between points of all clouds, estimated from draws."""
        one, other = np.array_split(self._draws(), 2)
        return float(np.median(np.square(one[:, None] - other).sum(axis=2)))

    @property
    def start(self) -> Floats:
        """``(n, d)``."""
        return kmeans_plus_plus(self.n, self._draws(), np.random.default_rng(0))

    def _draws(self) -> Floats:
        rng = np.random.default_rng(1)
        each = math.ceil(DRAWS / len(self.clouds))
        return rng.permutation(np.concatenate([rng.choice(cloud, min(each, len(cloud))) for cloud in self.clouds]))


def shapes(count: int, size: int) -> Clouds:
    """``count`` clouds of ``size`` points in the plane: rings, bars and discs, each with its own place and size."""
    rng = np.random.default_rng(0)
    clouds = []
    for k in range(count):
        turn, noise = rng.uniform(0, 2 * np.pi, size), rng.normal(size=(size, 2))
        ring = np.stack([np.cos(turn), np.sin(turn)], axis=1) * (1 + 0.1 * noise[:, :1])
        bar = np.stack([rng.uniform(-1.5, 1.5, size), 0.2 * noise[:, 1]], axis=1)
        clouds.append((ring, bar, noise)[k % 3] * rng.uniform(0.5, 1.5, 2) + rng.uniform(-1, 1, 2))
    return clouds


def cells() -> Clouds:
    """The ten populations of 700 blood cells that come with scanpy, as 50 principal components each."""
    import scanpy

    data = scanpy.datasets.pbmc68k_reduced()
    kinds = np.asarray(data.obs["bulk_labels"])
    return [np.asarray(data.obsm["X_pca"][kinds == kind], dtype=float) for kind in np.unique(kinds)]


def photographs() -> Clouds:
    """The colours ``(pixels, 3)``, from 0 to 1, of twenty halves of ten photographs that come with scikit-image,
    scikit-learn and matplotlib."""
    import matplotlib
    import skimage
    import sklearn
    from PIL import Image

    folders = {
        Path(skimage.__file__).parent / "data": (
            "astronaut.png", "chelsea.png", "coffee.png", "hubble_deep_field.jpg", "motorcycle_left.png", "retina.jpg",
            "rocket.jpg",
        ),
        Path(sklearn.__file__).parent / "datasets" / "images": ("china.jpg", "flower.jpg"),
        Path(matplotlib.get_data_path()) / "sample_data": ("grace_hopper.jpg",),
    }  # fmt: skip
    colours = []
    for folder, names in folders.items():
        for name in names:
            pixels = np.asarray(Image.open(folder / name).convert("RGB"), dtype=float) / 255
            colours += [half.reshape(-1, 3) for half in np.array_split(pixels, 2, axis=1)]
    return colours


def some(clouds: Clouds, size: int) -> Clouds:
    """At most ``size`` points of each cloud, drawn at random."""
    rng = np.random.default_rng(2)
    return [cloud if len(cloud) <= size else rng.choice(cloud, size, replace=False) for cloud in clouds]


def cases(quick: bool, say: Callable[[str], None]) -> list[Case]:
    """What is compared, as far as the packages that bring the data are installed."""
    if quick:
        return [Case("6 clouds of 100 points in the plane", shapes(6, 100), 10)]
    found = [Case("20 clouds of 5,000 points in the plane", shapes(20, 5000), 100)]
    if find_spec("scanpy"):
        found.append(Case("10 populations of cells, 50 components", cells(), 50))
    else:
        say("without scanpy there are no cells")
    if find_spec("skimage") and find_spec("sklearn"):
        found.append(Case(f"20 photographs, {PIXELS:,} pixels of each", some(photographs(), PIXELS), 50))
    else:
        say("without scikit-image and scikit-learn there are no photographs")
    return found


def run(quick: bool, say: Callable[[str], None]) -> Part:
    """Times and objectives of all solvers on all cases."""
    seconds = QUICK_SECONDS if quick else SECONDS
    warnings.simplefilter("ignore")
    regularised: list[Row] = []
    exact: list[Row] = []
    figures: dict[str, Callable[[Any], None]] = {}
    for place, case in enumerate(cases(quick, say), start=1):
        for rows, kind, solvers, objective in (
            (regularised, "regularised", REGULARISED, _regularised_objective(case)),
            (exact, "unregularised", UNREGULARISED, _exact_objective(case)),
        ):
            found, without = courses_of(case, solvers, objective, seconds, say)
            rows += compared(case.title, found, LEAST * objective(case.start), 1.0)
            rows += [{"problem": case.title, "solver": name, "ended": why} for name, why in without.items()]
            say(in_line(rows[-1]))
            figures[f"free-support-{place}-{kind}"] = partial(
                draw, title=f"{case.title}, {kind}", names=tuple(solvers), found=found,
                least=LEAST * objective(case.start),
            )  # fmt: skip
    tables = [
        Table("The regularised problem", COLUMNS, regularised),
        Table("Without regularisation", COLUMNS, exact),
    ]
    if not quick and find_spec("skimage") and find_spec("sklearn"):
        tables.append(Table("All pixels", ALL_PIXELS, [all_pixels(say)]))
    text = (__doc__ or "").partition("\n\n")[2].strip().format(seconds=seconds)
    return Part(title="Points that move", text=text, tables=tables, figures=figures)


COLUMNS = (
    "*above the best known*: its objective in the end. *seconds*: until then. *ours*: how long barymesh takes, "
    "certificate included, until its objective is as low. *ratio*: of the two. *ended*: whether it no longer improved, "
    "or had its time; or why it was not run."
)
ALL_PIXELS = (
    "The photographs with all their pixels, which the others cannot hold: they keep a cost matrix of every photograph. "
    "tol 1e-3."
)


def courses_of(
    case: Case, solvers: dict[str, Callable[[Case], Prepare]], objective: Callable[[Floats], float], seconds: float,
    say: Callable[[str], None],
) -> tuple[dict[str, Floats], dict[str, str]]:  # fmt: skip
    """Of every solver: its seconds, its objectives above the best known, and whether it had ended, ``(runs, 3)``; and
    of those that have none, why."""
    found: dict[str, Floats] = {}
    without: dict[str, str] = {}
    # a long run of ours, for the distance to the best known
    best, scale = objective(solvers[OURS](case)(LONG)()), objective(case.start)
    for name, make in solvers.items():
        if name != OURS and not find_spec(PACKAGES[name.split()[0]]):
            continue
        patience = Patience(4, 1.5 if name == OURS else 2.0, seconds, LEAST * scale)
        try:
            expected = _expected(case, make, patience.first)
            if name != OURS and expected > HOPELESS * seconds:
                without[name] = f"not run: {patience.first} iterations would take some {expected:.0f} s"
                continue
            one = course(make(case), objective, best, patience)
        except Exception as error:  # what another library cannot do is a finding, too
            without[name] = f"{type(error).__name__}: {error}"
            continue
        if not len(one):
            without[name] = "found no finite points"
            continue
        found[name] = one
        best = min(best, float(one[:, 1].min()))
        say(f"{case.title}, {name}: " + ", ".join(f"{row[0]:.3g} s {row[1]:.7g}" for row in one[-3:]))
    return {name: one - [0.0, best, 0.0] for name, one in found.items()}, without


def _expected(case: Case, make: Callable[[Case], Prepare], count: int) -> float:
    """The seconds that so many iterations will take, by those with few points of each cloud: what all these solvers
    do is in proportion to the points."""
    few = Case(case.title, some(case.clouds, FEW), case.n)
    shrunk = sum(map(len, case.clouds)) / sum(map(len, few.clouds))
    call = make(few)(count)
    call()
    return shrunk * seconds_of(call)


def _regularised_objective(case: Case) -> Callable[[Floats], float]:
    def objective(points: Floats) -> float:
        if not np.isfinite(points).all():
            return math.inf
        problem = Problem.create(case.clouds, points, reg=REG * case.median)
        uniform = np.full(case.n, 1 / case.n)
        costs, _ = transport_costs(problem.float64_oracle, uniform, max_iter=STEPS, tol=ACCURACY)
        return float(costs.mean())

    return objective


def _exact_objective(case: Case) -> Callable[[Floats], float]:
    import ot

    def objective(points: Floats) -> float:
        if not np.isfinite(points).all():
            return math.inf
        uniform = np.full(case.n, 1 / case.n)
        costs = [
            ot.emd2(uniform, np.full(len(cloud), 1 / len(cloud)), ot.dist(points, cloud), numItermax=10_000_000)
            for cloud in case.clouds
        ]
        return float(np.mean(costs))

    return objective


def all_pixels(say: Callable[[str], None]) -> Row:
    """Ours on every pixel of the photographs."""
    case = Case("20 photographs, all pixels", photographs(), 50)
    result = bm.barycenter(
        case.clouds, bm.FreeSupport(points=case.start), reg=REG * case.median, tol=1e-3, progress=False
    )
    row = {
        "problem": case.title,
        "pixels": sum(len(cloud) for cloud in case.clouds),
        "status": result.status.name,
        "rounds": result.iterations,
        "seconds": result.seconds,
    }
    say(in_line(row))
    return row


def barymesh(case: Case, reg: float) -> Prepare:
    start = bm.FreeSupport(points=case.start)
    solve = partial(bm.barycenter, case.clouds, start, reg=reg * case.median, tol=0, progress=False)
    return lambda count: lambda: solve(max_iter=count).support.points


def pot_unregularised(case: Case) -> Prepare:
    import ot

    weights = [np.full(len(cloud), 1 / len(cloud)) for cloud in case.clouds]
    return lambda count: (
        lambda: np.asarray(
            ot.lp.free_support_barycenter(
                case.clouds, weights, case.start, numItermax=count, stopThr=0, numThreads="max"
            )
        )
    )


def pot_sinkhorn(case: Case, method: str) -> Prepare:
    import ot

    weights = [np.full(len(cloud), 1 / len(cloud)) for cloud in case.clouds]
    return lambda count: (
        lambda: np.asarray(
            ot.bregman.free_support_sinkhorn_barycenter(
                case.clouds, weights, case.start, REG * case.median, numItermax=count, stopThr=0, method=method
            )
        )
    )


def pot_solve(case: Case, reg: float | None) -> Prepare:
    import ot

    return lambda count: (
        lambda: np.asarray(
            ot.solve_bary_sample(
                case.clouds,
                case.n,
                X_b_init=case.start,
                reg=None if reg is None else reg * case.median,
                max_iter_bary=count,
                tol_bary=0,
            ).X
        )
    )


def ott(case: Case) -> Prepare:
    import jax

    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp
    from ott.problems.linear.barycenter_problem import FreeBarycenterProblem
    from ott.solvers.linear.continuous_barycenter import FreeWassersteinBarycenter
    from ott.solvers.linear.sinkhorn import Sinkhorn

    # clouds of one size, filled up with points that weigh nothing
    most = max(len(cloud) for cloud in case.clouds)
    y = np.stack([np.pad(cloud, ((0, most - len(cloud)), (0, 0)), mode="edge") for cloud in case.clouds])
    b = np.stack([np.pad(np.full(len(cloud), 1 / len(cloud)), (0, most - len(cloud))) for cloud in case.clouds])
    equal = jnp.full(len(case.clouds), 1 / len(case.clouds))
    reg, start = REG * case.median, jnp.asarray(case.start)

    def prepare(count: int) -> Callable[[], Floats]:
        solver = FreeWassersteinBarycenter(
            linear_solver=Sinkhorn(), min_iterations=count, max_iterations=count, threshold=-1.0
        )

        def solve(y: jnp.ndarray, b: jnp.ndarray) -> jnp.ndarray:
            return solver(FreeBarycenterProblem(y, b, weights=equal, epsilon=reg), case.n, start).x

        arguments = jnp.asarray(y), jnp.asarray(b)
        compiled = jax.jit(solve).lower(*arguments).compile()
        return lambda: np.asarray(compiled(*arguments), dtype=float)

    return prepare


# the module each name begins with
PACKAGES = {"POT": "ot", "OTT": "ott"}
REGULARISED: dict[str, Callable[[Case], Prepare]] = {
    OURS: lambda case: barymesh(case, REG),
    "POT free_support_sinkhorn": lambda case: pot_sinkhorn(case, "sinkhorn"),
    "POT free_support_sinkhorn, log": lambda case: pot_sinkhorn(case, "sinkhorn_log"),
    "POT solve_bary_sample": lambda case: pot_solve(case, REG),
    "OTT FreeWassersteinBarycenter": ott,
}
UNREGULARISED: dict[str, Callable[[Case], Prepare]] = {
    OURS: lambda case: barymesh(case, SMALL_REG),
    "POT free_support_barycenter": pot_unregularised,
    "POT solve_bary_sample": lambda case: pot_solve(case, None),
}
