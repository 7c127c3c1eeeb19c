"""One barycenter solver in a process of its own, so that its peak memory can be read. Started by exact.py.

python -m benchmarks.contestants NAME TASK.npz PATIENCE
"""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from barymesh.resources import memory
from benchmarks.images import Floats
from benchmarks.timing import seconds_of

ACCURACY = 1e-5
# ours stops by a tolerance: the loosest of these that is accurate enough, as the others get just enough iterations
TOLERANCES = (1e-4, 7e-5, 5e-5, 3e-5, 2e-5, 1.4e-5, 1e-5, 7e-6, 5e-6, 3e-6, 2e-6, 1e-6, 1e-7)
# an accurate run may have this share of iterations too many
SLACK = 0.05
# how many numbers of iterations are tried, and how many where a run takes long
TRIES, FEW_TRIES = 10, 3
MOST_ITERATIONS = 5000
# a mass too small to matter
EMPTY = 1e-12


@dataclass(frozen=True)
class Task:
    """Histograms ``(m, n)`` on ``points (n, d)``, which form a grid of this ``shape`` unless it is empty; the true
    barycenter, ``reference (n,)``; and how a plain iteration is likely to get there: in ``guess`` steps, of which the
    last ones shrink the error by ``rate`` each."""

    histograms: Floats
    points: Floats
    shape: Floats
    reference: Floats
    reg: float
    guess: int
    rate: float

    def save(self, path: Path) -> None:
        np.savez(path, **asdict(self))

    @classmethod
    def load(cls, path: Path) -> Task:
        with np.load(path) as stored:
            histograms, points, shape, reference, *numbers = (stored[name] for name in cls.__annotations__)
            reg, guess, rate = (one.item() for one in numbers)
            return cls(histograms, points, shape, reference, reg, guess, rate)

    @property
    def sides(self) -> tuple[int, ...]:
        return tuple(int(side) for side in self.shape)

    def error(self, weights: Floats) -> float:
        """L1 distance to the true barycenter; infinite if the weights are not finite."""
        if not (np.isfinite(weights).all() and weights.sum() > 0):
            return math.inf
        return float(np.abs(weights / weights.sum() - self.reference).sum())


# from a number of iterations to a call that carries them out, everything compiled
Prepare = Callable[[int], Callable[[], Floats]]


class NotRunError(Exception):
    """A solver is not run, for the reason in the message."""


def pot_dense(task: Task, method: str) -> Prepare:
    """POT on a cost matrix."""
    import ot

    # the cost, the kernel and one array in between
    needed = 3 * 8 * len(task.points) ** 2
    free = memory.available_bytes()
    if free is not None and needed > 0.8 * free:
        raise NotRunError(f"would need {needed / memory.GIB:.0f} GB: not run")
    cost = ot.dist(task.points, task.points)
    columns = np.ascontiguousarray(task.histograms.T)
    return lambda count: (
        lambda: np.asarray(
            ot.bregman.barycenter(columns, cost, task.reg, method=method, numItermax=count, stopThr=0, warn=False)
        )
    )


def pot_convolutional(task: Task, method: str) -> Prepare:
    """POT's separable form, which is for images only."""
    import ot

    images = task.histograms.reshape(-1, *task.sides)
    return lambda count: (
        lambda: np.asarray(
            ot.bregman.convolutional_barycenter2d(
                images, task.reg, method=method, numItermax=count, stopThr=0, warn=False
            )
        ).ravel()
    )


def ott(task: Task, double: bool, log_domain: bool) -> Prepare:
    """OTT on its Grid, or on the kernel matrix of scattered points."""
    import jax

    jax.config.update("jax_enable_x64", double)
    import jax.numpy as jnp
    from ott.geometry.geometry import Geometry
    from ott.geometry.grid import Grid
    from ott.problems.linear.barycenter_problem import FixedBarycenterProblem
    from ott.solvers.linear.discrete_barycenter import FixedBarycenter

    if task.sides:
        geometry = Grid(x=[jnp.linspace(0, 1, side) for side in task.sides], epsilon=task.reg)
    else:
        cost = jnp.asarray(np.square(task.points[:, None] - task.points).sum(axis=2))
        # in the log domain it wants the cost, else the kernel, which it need not exponentiate again then
        given = {"cost_matrix": cost} if log_domain else {"kernel_matrix": jnp.exp(-cost / task.reg)}
        geometry = Geometry(**given, epsilon=task.reg)
    # in the log domain it goes astray (L1 0.2) where a pixel is exactly empty
    histograms = task.histograms + EMPTY if log_domain else task.histograms
    problem = FixedBarycenterProblem(geometry, jnp.asarray(histograms / histograms.sum(axis=1, keepdims=True)))

    def prepare(count: int) -> Callable[[], Floats]:
        solver = FixedBarycenter(
            threshold=-1.0, min_iterations=count, max_iterations=count, inner_iterations=count, lse_mode=log_domain
        )
        compiled = jax.jit(lambda p: solver(p).histogram).lower(problem).compile()
        return lambda: np.asarray(compiled(problem), dtype=float)

    return prepare


OURS = "barymesh"
OTHERS: dict[str, Callable[[Task], Prepare]] = {
    # the one that is mostly fastest is first: how long it takes is how long the others are waited for
    "OTT kernel, float64": lambda task: ott(task, double=True, log_domain=False),
    "POT sinkhorn": lambda task: pot_dense(task, "sinkhorn"),
    "POT convolutional": lambda task: pot_convolutional(task, "sinkhorn"),
    "POT sinkhorn_log": lambda task: pot_dense(task, "sinkhorn_log"),
    "POT convolutional log": lambda task: pot_convolutional(task, "sinkhorn_log"),
    "OTT kernel, float32": lambda task: ott(task, double=False, log_domain=False),
    "OTT log, float64": lambda task: ott(task, double=True, log_domain=True),
}
# so slow, or of such low precision, that they run on small problems only
FOR_SMALL_ONLY = ("POT sinkhorn_log", "POT convolutional log", "OTT kernel, float32", "OTT log, float64")
FOR_IMAGES_ONLY = ("POT convolutional", "POT convolutional log")
# the module each name begins with
PACKAGES = {"POT": "ot", "OTT": "ott"}


def contest_ours(task: Task, patience: float) -> dict[str, Any]:
    """The time of the loosest tolerance that is accurate enough."""
    import barymesh as bm

    solve = partial(bm.barycenter, task.histograms, task.points, reg=task.reg, progress=False)
    solve(tol=0, max_iter=3)  # loads what is loaded at first use
    path: list[tuple[float, float]] = []
    solve(
        tol=TOLERANCES[-1],
        callback=lambda record: path.append((record.figures["consensus"], task.error(record.weights))),
    )
    # where a run to each tolerance would have stopped, and how far it was then
    ends = {tol: next((l1 for error, l1 in path if error <= tol), path[-1][1]) for tol in TOLERANCES}
    # a looser tolerance begins with looser coarse points, so only a run of its own tells
    likely = [tol for tol, l1 in ends.items() if l1 <= ACCURACY]
    tol = next((tol for tol in likely if task.error(solve(tol=tol).weights) <= ACCURACY), None)
    if tol is None:
        return {"iterations": len(path), "L1": path[-1][1], "note": "accuracy not reached"}
    found: list[bm.Result] = []

    def run() -> None:
        # a result kept from the run before would count as memory
        found.clear()
        found.append(solve(tol=tol))

    seconds = best_of_runs(run, patience)
    return {"seconds": seconds, "iterations": found[0].iterations, "L1": task.error(found[0].weights), "tol": tol}


def best_of_runs(run: Callable[[], object], patience: float, first: float | None = None) -> float:
    """Seconds of the best of three runs, of which the ``first`` may have been timed already; long ones, which vary
    little, are not repeated."""
    best = seconds_of(run) if first is None else first
    return min([best, *(seconds_of(run) for _ in range(min(2, int(patience / 6 / best))))])


def least_count(
    error_of: Callable[[int], float], guess: int, rate: float, tries: int = TRIES
) -> tuple[int | None, dict[int, float]]:
    """About the least number of iterations that is accurate enough, and the error of all that were tried.

    The error shrinks by ``rate`` an iteration once it is small, which says where to look after one run. Between a
    count that is too small and one that is enough the search also leaves out an eighth of the counts at either end,
    so that it ends whatever the rate. None if the error stalls above ACCURACY.
    """
    errors: dict[int, float] = {}
    count, low, best = guess, 0, None
    for _ in range(tries):
        before = dict(errors)
        errors[count] = error = error_of(count)
        if not math.isfinite(error):
            break
        if error <= ACCURACY:
            best = count
        elif best is None and any(error > 0.9 * other for tried, other in before.items() if tried < count):
            break
        else:
            low = count
        for tried, other in before.items():
            shrunk = (error / other) ** (1 / (count - tried))
            rate = shrunk if 0 < shrunk < 1 else rate
        # a little below the goal, so that rounding up does not take another run
        missing = math.ceil(math.log(max(error, 1e-16) / (0.9 * ACCURACY)) / -math.log(rate))
        count = min(count + missing, 3 * count, MOST_ITERATIONS)
        if best is not None:
            if best - low <= max(SLACK * best, 1):
                break
            margin = max((best - low) // 8, 1)
            count = min(max(count, low + margin), best - margin)
        if count in errors:
            break
    return best, errors


def contest_other(name: str, task: Task, patience: float) -> dict[str, Any]:
    """The time of the least number of iterations that is accurate enough; no single run takes longer than
    ``patience`` seconds."""
    prepare = OTHERS[name](task)
    # loads what is loaded at first use, too
    once = seconds_of(prepare(1))
    if once < patience / 10:
        start = once if once > 1 else seconds_of(prepare(1))
        once = max((seconds_of(prepare(3)) - start) / 2, 1e-6)
    if once * task.guess > patience:
        return {"note": f"{once:.2g} s an iteration, some {once * task.guess:.0f} s in all: not run to the end"}
    seconds: dict[int, float] = {}

    def error_of(count: int) -> float:
        run = prepare(count)
        found: list[Floats] = []
        seconds[count] = seconds_of(lambda: found.append(run()))
        return task.error(found[0])

    tries = TRIES if once * task.guess < patience / 6 else FEW_TRIES
    count, errors = least_count(error_of, task.guess, task.rate, tries)
    if count is None:
        last = max(errors)
        return {"iterations": last, "L1": errors[last], "note": "accuracy not reached"}
    best = best_of_runs(prepare(count), patience, seconds[count])
    return {"seconds": best, "iterations": count, "L1": errors[count]}


def peak_mb() -> float | None:
    """The largest memory that this process has held, where the system reports it. (getrusage would include that of the
    parent before exec.)"""
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    lines = status.read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


def compete(name: str, task: Task, patience: float) -> dict[str, Any]:
    """The row of one solver: seconds, iterations, accuracy and memory, or a note that says why there are none."""
    warnings.simplefilter("ignore")
    try:
        row = contest_ours(task, patience) if name == OURS else contest_other(name, task, patience)
    except NotRunError as why:
        row = {"note": str(why)}
    return {**row, "peak MB": peak_mb()}


if __name__ == "__main__":
    _, name, path, patience = sys.argv
    print(json.dumps(compete(name, Task.load(Path(path)), float(patience))))
