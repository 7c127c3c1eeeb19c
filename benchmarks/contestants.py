"""One barycenter solver in a process of its own, so that its peak memory can be read. Started by exact.py.

python -m benchmarks.contestants NAME CASE.npz REG OUT.npz
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Weights = np.ndarray[Any, np.dtype[np.float64]]
Solver = Callable[[int], Weights]
ACCURACY = 1e-5
# a contestant whose single run would take longer than this many seconds is not run to the end
PATIENCE = 60.0
COUNTS = [200, 240, 260, 270, 280, 300, 320, 350, 400, 500, 700, 1000, 1500]


def barymesh_solver(images: Weights, reg: float) -> Solver:
    """Ours, to a tolerance set by hand so that it just meets ACCURACY, as the others get just enough iterations."""
    import barymesh as bm

    return lambda count: bm.barycenter(images, reg=reg, tol=2e-5, max_iter=count).weights


def pot_dense(images: Weights, reg: float, method: str) -> Solver:
    import ot

    m, side = images.shape[0], images.shape[1]
    t = np.linspace(0, 1, side)
    points = np.stack([g.ravel() for g in np.meshgrid(t, t, indexing="ij")], axis=1)
    cost = ot.dist(points, points)
    columns = np.ascontiguousarray(images.reshape(m, -1).T)
    return lambda count: np.asarray(
        ot.bregman.barycenter(columns, cost, reg, method=method, numItermax=count, stopThr=0, warn=False)
    )


def pot_convolutional(images: Weights, reg: float, method: str) -> Solver:
    import ot

    return lambda count: np.asarray(
        ot.bregman.convolutional_barycenter2d(images, reg, method=method, numItermax=count, stopThr=0, warn=False)
    ).ravel()


def ott(images: Weights, reg: float, double: bool, log_domain: bool) -> Solver:
    import jax

    jax.config.update("jax_enable_x64", double)
    import jax.numpy as jnp
    from ott.geometry.grid import Grid
    from ott.problems.linear.barycenter_problem import FixedBarycenterProblem
    from ott.solvers.linear.discrete_barycenter import FixedBarycenter

    m, side = images.shape[0], images.shape[1]
    geometry = Grid(x=[jnp.linspace(0, 1, side)] * 2, epsilon=reg)
    problem = FixedBarycenterProblem(geometry, jnp.asarray(images.reshape(m, -1)))

    def solve(count: int) -> Weights:
        solver = FixedBarycenter(
            threshold=-1.0, min_iterations=count, max_iterations=count, inner_iterations=count, lse_mode=log_domain
        )
        return np.asarray(solver(problem).histogram, dtype=float)

    return solve


MAKERS: dict[str, Callable[[Weights, float], Solver]] = {
    "barymesh": barymesh_solver,
    "POT sinkhorn": lambda images, reg: pot_dense(images, reg, "sinkhorn"),
    "POT sinkhorn_log": lambda images, reg: pot_dense(images, reg, "sinkhorn_log"),
    "POT convolutional": lambda images, reg: pot_convolutional(images, reg, "sinkhorn"),
    "POT convolutional log": lambda images, reg: pot_convolutional(images, reg, "sinkhorn_log"),
    "OTT kernel, float32": lambda images, reg: ott(images, reg, double=False, log_domain=False),
    "OTT kernel, float64": lambda images, reg: ott(images, reg, double=True, log_domain=False),
    "OTT log, float64": lambda images, reg: ott(images, reg, double=True, log_domain=True),
}


def peak_mb() -> float:
    """The most memory this process has held. (getrusage would include the parent's, from before exec.)"""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def compete(name: str, images: Weights, reg: float, reference: Weights) -> dict[str, Any]:
    """The least number of iterations (from COUNTS) that is accurate enough, and the best time of three runs with it."""
    warnings.simplefilter("ignore")
    before = peak_mb()
    if name == "POT sinkhorn_log" and images[0].size > 1000:
        return {"note": "20 s an iteration already at 28 x 28: not run"}
    solver = MAKERS[name](images, reg)
    counts = [5000] if name == "barymesh" else COUNTS
    found, errors = None, []
    if name != "barymesh":
        solver(2)  # compiles, where there is something to compile
        began = time.perf_counter()
        solver(2)
        once = (time.perf_counter() - began) / 2
        # all of them are the same plain iteration, which needs about three hundred steps here
        if 300 * once > PATIENCE:
            return {"note": f"{once:.1f} s an iteration: not run to the end", "peak MB": peak_mb()}
    for count in counts:
        p = solver(count)
        error = float(np.abs(p / p.sum() - reference).sum()) if np.isfinite(p).all() else float("nan")
        errors.append(error)
        if error <= ACCURACY:
            found = count
            break
        if len(errors) > 3 and not errors[-1] < 0.9 * errors[-3]:
            break
    best = float("inf")
    for _ in range(3 if found else 0):
        began = time.perf_counter()
        solver(found or 0)
        best = min(best, time.perf_counter() - began)
    row = {"seconds": best if found else None, "L1": errors[-1], "peak MB": peak_mb(), "solve MB": peak_mb() - before}
    if name != "barymesh":
        row["iterations"] = found or counts[len(errors) - 1]
    return row


if __name__ == "__main__":
    name, case, reg, out = sys.argv[1:]
    with np.load(case) as stored:
        print(json.dumps(compete(name, stored["images"], float(reg), stored["reference"])))
