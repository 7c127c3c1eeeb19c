"""The exact solver against POT and OTT-JAX: same measures, same reg, same accuracy, one run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import barymesh as bm
from barymesh.errors import NumericalError
from barymesh.exact import Iteration
from barymesh.exact.rows import Rows
from barymesh.exact.solver import Solution, solve
from barymesh.oracle import build_oracle
from barymesh.problem import Problem
from barymesh.record import Record
from barymesh.status import Status
from benchmarks import images
from benchmarks.cases import SolverCase
from benchmarks.contestants import (
    ACCURACY,
    FOR_IMAGES_ONLY,
    FOR_SMALL_ONLY,
    MOST_ITERATIONS,
    OTHERS,
    OURS,
    PACKAGES,
    Task,
)
from benchmarks.images import Floats
from benchmarks.parts import Part, Row, Table
from benchmarks.tables import in_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes

REG = 0.004
CASES = [
    SolverCase(10, (28, 28)),
    SolverCase(100, (28, 28)),
    SolverCase(200, (28, 28)),
    SolverCase(500, (28, 28), target=5.0),
    SolverCase(5000, (28, 28)),
    SolverCase(200, (64, 64)),
    SolverCase(200, (128, 128), target=5.0),
    SolverCase(10, (256, 256), target=5.0),
    SolverCase(10, (32, 32, 32), target=5.0),
    SolverCase(10, (64, 64, 64), target=5.0),
    SolverCase(10, (10_000,)),
    SolverCase(100, (10_000,)),
    SolverCase(50, scattered=500, target=5.0),
    SolverCase(50, scattered=2000, target=5.0),
]
QUICK_CASES = [SolverCase(50, (28, 28)), SolverCase(20, scattered=200)]
# without the slow ones, which start as long as they run
QUICK_CONTESTANTS = ("POT sinkhorn", "POT convolutional", "OTT kernel, float64")
# seconds that a single run may take: a solver that needs longer is not run to the end. Nor is one that needs several
# times as long as the fastest other so far, unless that is a few seconds only
PATIENCE, QUICK_PATIENCE = 60.0, 5.0
HOPELESS, FEW = 2.0, 5.0
# problems with at most this many numbers in their histograms are given to every solver
SMALL = 30_000
# of the true barycenter, against which L1 is measured
REFERENCE_TOL = 1e-8
# the plain iterations that all measures need are estimated from this many of them
SOME = 10
# the time of an iteration where products underflow
SMALL_REGS = (5e-4, 2.5e-4, 1e-4)
STEEP = [(500, 28), (200, 64)]
# Okabe and Ito's colours, one for each contestant
COLOURS = ("#D55E00", "#0072B2", "#56B4E9", "#009E73", "#000000", "#CC79A7", "#E69F00", "#777777")
MARKERS = ("o", "s", "D", "^", "v", "P", "X", "*")

TEXT = (
    "Measures on the unit interval, square or cube, squared Euclidean cost, reg {reg}; images are {source}. Every "
    "solver gets about the least number of iterations that brings it within L1 {accuracy:g} of the converged "
    "barycenter (ours: the loosest of a few tolerances), and the best of up to three runs counts, each in a process of "
    "its own. *peak MB* is the most memory its process held, everything included. No seconds: it did not reach the "
    "accuracy, or a single run would have taken longer than {patience:g} s, or far longer than another's. The others' "
    "iterations are those of plain Sinkhorn, the floor of a solver that does not accelerate. Solvers in the log "
    "domain, and in float32, run on the small problems only.{missing}"
)
STEEP_TEXT = (
    "Milliseconds of one iteration of ours by reg, over that at the largest reg (the floor): where products underflow "
    "it goes through block floating point. Best of three runs of 40 iterations."
)


def contestants(case: SolverCase, quick: bool) -> list[str]:
    """The solvers that are installed and can solve the case, ours first."""
    excluded: tuple[str, ...] = () if len(case.shape) == 2 else FOR_IMAGES_ONLY
    if case.count * len(case.points) > SMALL:
        excluded += FOR_SMALL_ONLY
    names = QUICK_CONTESTANTS if quick else OTHERS
    return [OURS, *(name for name in names if find_spec(PACKAGES[name.split()[0]]) and name not in excluded)]


def task_of(case: SolverCase) -> Task:
    """The case with its true barycenter, and how a plain iteration is likely to get there."""
    histograms, points = case.histograms(), case.points
    reference = _solution(histograms, points, tol=REFERENCE_TOL).p
    some = histograms[:SOME]
    goal = reference if case.count <= SOME else _solution(some, points, tol=REFERENCE_TOL).p
    guess, rate = plain_iterations(some, points, goal)
    return Task(histograms, points, np.array(case.shape), reference, REG, guess, rate)


def plain_iterations(histograms: Floats, points: Floats, reference: Floats) -> tuple[int, float]:
    """How many iterations without acceleration are accurate enough, and by how much the last ones shrink the error."""
    errors: list[float] = []

    def accurate(now: Iteration) -> bool:
        errors.append(float(np.abs(now.weights - reference).sum()))
        return errors[-1] <= ACCURACY

    _solution(histograms, points, tol=0, depth=0, callback=accurate)
    last = min(10, len(errors) - 1)
    rate = (errors[-1] / errors[-1 - last]) ** (1 / last) if last else 0.5
    return len(errors), min(rate, 0.999)


def _solution(histograms: Floats, points: Floats, **how: Any) -> Solution:
    problem = Problem.create(histograms, points, reg=REG)
    oracle = build_oracle(problem.atoms, problem.support, problem.cost, REG)
    return _finished(solve(Rows(oracle, problem.weights), max_iter=MOST_ITERATIONS, **how))


def _finished(solution: Solution) -> Solution:
    """The solution, if it is one: Ctrl-C ends the solver with what it has, which is no reference."""
    if solution.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    if solution.status is Status.MAX_ITERATIONS:
        raise NumericalError(f"No reference within {MOST_ITERATIONS} iterations (error {solution.error:.1e}).")
    return solution


def compare(case: SolverCase, quick: bool, say: Callable[[str], None]) -> tuple[Row, list[Row]]:
    """Every solver on one case, each in its own process: the summary, and a row for each."""
    patience = QUICK_PATIENCE if quick else PATIENCE
    task = task_of(case)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "task.npz"
        task.save(path)
        for name in contestants(case, quick):
            others = [row["seconds"] for row in rows[1:] if row.get("seconds")]
            limit = max(FEW, min([patience, *(HOPELESS * seconds for seconds in others)]))
            rows.append({"case": case.title, "solver": name, **_contest(name, path, limit)})
            say(in_line(rows[-1]))
    return summary(case, rows, patience), rows


def _contest(name: str, path: Path, patience: float) -> Row:
    command = [sys.executable, "-m", "benchmarks.contestants", name, str(path), str(patience)]
    # POT loads every array library that it finds, unless it is forbidden; it is given NumPy arrays
    without = {f"POT_BACKEND_DISABLE_{library}": "1" for library in ("JAX", "PYTORCH", "TENSORFLOW", "CUPY")}
    quiet = os.environ | without | {"PYTHONWARNINGS": "ignore"}
    try:
        # the first guess, a second one, and the start
        ran = subprocess.run(command, capture_output=True, text=True, env=quiet, timeout=3 * patience + 60)
    except subprocess.TimeoutExpired:
        return {"note": "took too long: stopped"}
    if ran.returncode:
        lines = ran.stderr.strip().splitlines()
        return {"note": lines[-1] if lines else f"ended with code {ran.returncode}, as where memory runs out"}
    return dict(json.loads(ran.stdout.strip().splitlines()[-1]))


def summary(case: SolverCase, rows: list[Row], patience: float) -> Row:
    """Ours against the fastest of the others."""
    ours, *others = rows
    finished = [row for row in others if row.get("seconds")]
    row: Row = {"case": case.title, "our iterations": ours.get("iterations"), "our seconds": ours.get("seconds")}
    if finished and ours.get("seconds"):
        fastest = min(finished, key=lambda other: float(other["seconds"]))
        row |= {
            "fastest other": fastest["solver"],
            "its iterations": fastest["iterations"],
            "its seconds": fastest["seconds"],
        }
        row |= {"times faster": fastest["seconds"] / ours["seconds"]}
    elif others and ours.get("seconds"):
        row |= {
            "fastest other": f"none within {patience:g} s",
            "times faster": f"over {patience / ours['seconds']:.3g}",
        }
    peaks = [other["peak MB"] for other in finished if other.get("peak MB")]
    return row | {
        "target": case.target,
        "our peak MB": ours.get("peak MB"),
        "least other MB": min(peaks, default=None),
    }


def steep(count: int, side: int) -> list[Row]:
    """Milliseconds an iteration of our solver, by reg: where products underflow it must not be slow."""
    pictures = images.digits(count, side)
    rows: list[Row] = []
    for reg in (REG, *SMALL_REGS):
        bm.barycenter(pictures, reg=reg, tol=0, max_iter=3, progress=False)
        best = min(_iteration(pictures, reg) for _ in range(3))
        first = rows[0]["ms"] if rows else 1e3 * best
        rows.append({"case": f"{count} of {side} x {side}", "reg": reg, "ms": 1e3 * best, "ratio": 1e3 * best / first})
    return rows


def _iteration(pictures: Any, reg: float) -> float:
    marks: list[tuple[int, float]] = []

    def mark(record: Record) -> None:
        marks.append((record.step, time.perf_counter()))

    bm.barycenter(pictures, reg=reg, tol=0, max_iter=40, callback=mark, progress=False)
    # every evaluation of the oracle counts as an iteration, rejected steps too
    (first, began), (last, ended) = marks[5], marks[-1]
    return (ended - began) / (last - first)


def run(quick: bool, say: Callable[[str], None]) -> Part:
    """All comparisons."""
    summaries: list[Row] = []
    rows: list[Row] = []
    for case in QUICK_CASES if quick else CASES:
        line, found = compare(case, quick, say)
        say(in_line(line))
        summaries.append(line)
        rows += found
    tables = [Table("Ours against the fastest other", "", summaries), Table("All solvers", "", rows)]
    if not quick:
        tables.append(Table("Small reg", STEEP_TEXT, [row for case in STEEP for row in steep(*case)]))
    missing = [name for name, module in PACKAGES.items() if not find_spec(module)]
    words = f" Not installed, so left out: {', '.join(missing)}." if missing else ""
    patience = QUICK_PATIENCE if quick else PATIENCE
    text = TEXT.format(reg=REG, source=images.source(), accuracy=ACCURACY, patience=patience, missing=words)
    figures: dict[str, Callable[[Any], None]] = {"exact-times": partial(draw_times, rows=rows)}
    if not quick:
        figures["exact-growth"] = partial(draw_growth, rows=rows)
    return Part("The exact solver against POT and OTT-JAX", text, tables, figures)


def _styles() -> dict[str, tuple[str, str]]:
    """Colour and mark of every contestant."""
    return dict(zip((OURS, *OTHERS), zip(COLOURS, MARKERS, strict=True), strict=True))


def draw_times(axes: Axes, rows: list[Row]) -> None:
    """Seconds of every contestant, one line of marks for each case."""
    cases = list(dict.fromkeys(row["case"] for row in rows))
    for name, (colour, marker) in _styles().items():
        found = [
            (row["seconds"], cases.index(row["case"])) for row in rows if row["solver"] == name and row.get("seconds")
        ]
        if found:
            seconds, places = np.transpose(found)
            axes.scatter(seconds, places, color=colour, marker=marker, s=45, label=name, zorder=3)
    axes.set_yticks(range(len(cases)), cases)
    axes.set_xscale("log")
    axes.set_xlabel(f"seconds to L1 {ACCURACY:g}")
    axes.grid(axis="y", alpha=0.3)
    axes.margins(y=0.1)
    axes.invert_yaxis()
    axes.legend(fontsize=8, ncols=4, loc="lower center", bbox_to_anchor=(0.4, 1.0))


def draw_growth(axes: Axes, rows: list[Row]) -> None:
    """Seconds against the number of images of 28 x 28."""
    counts = {case.title: case.count for case in CASES if case.shape == (28, 28)}
    for name, (colour, marker) in _styles().items():
        found = [
            (counts[row["case"]], row["seconds"])
            for row in rows
            if row["solver"] == name and row["case"] in counts and row.get("seconds")
        ]
        if found:
            axes.plot(*np.transpose(found), color=colour, marker=marker, label=name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("number of images, 28 x 28")
    axes.set_ylabel(f"seconds to L1 {ACCURACY:g}")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
