"""Network methods side by side: virtual time, messages and bytes until the nodes are within a distance of the truth.

python -m benchmarks.network [--quick]

The problem of the paper (Gaussians with means in [-4, 4] and deviations in [0.1, 0.6], 100 points, reg 0.1; and images
of the digit 3), its delays and its schedule, exact oracle. Methods with a step run with the best of STEPS, as multiples
of reg/lambda_max, chosen by the total variation they end with; sinkhorn has nothing to choose.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from barymesh.algorithms import WITHOUT_STEP
from barymesh.algorithms.methods import choose_step
from barymesh.config import Gaussians
from barymesh.engines.recorder import Reference
from barymesh.errors import BarymeshError, DriftWarning
from barymesh.network import as_network
from barymesh.problem import Problem
from barymesh.simulate import Options, exact_reference, simulate
from benchmarks.images import digits
from benchmarks.tables import NEVER, table

LEVELS = (0.1, 0.01, 0.001)
STEPS = (0.25, 1.0, 4.0, 16.0, 64.0)
METHODS = ("sinkhorn", "a2dwb_conserving", "a2dwb", "a2dwb_naive", "dcwb", "gossip_sinkhorn")
# nodes, network, seconds, target for sinkhorn
GAUSSIANS = (
    (500, "complete", 60, 5), (500, "erdos_renyi", 100, 10), (500, "star", 60, 15),
    (500, "barabasi_albert:k=2", 100, 20), (500, "grid:rows=20", 150, 60), (50, "cycle", 150, 60),
)  # fmt: skip
IMAGES = (
    (100, "complete", 100, 8), (100, "erdos_renyi", 100, 12), (100, "star", 100, 25), (100, "grid:rows=10", 150, 50),
)  # fmt: skip
LONG = ((500, "cycle", 1000), (500, "path", 2000))
SEEDS = range(5)


def gaussians(size: int, seed: int = 0) -> Problem:
    measures = Gaussians(count=size, mean=[-4, 4], std=[0.1, 0.6], seed=seed).draw()
    return Problem.create(measures, np.linspace(-5, 5, 100), reg=0.1, seed=seed)


def images(size: int, seed: int = 0) -> Problem:
    return Problem.create(digits(size), reg=0.004, seed=seed)


def reached(result: Any) -> dict[str, Any]:
    """Seconds, messages and megabytes until every level, if it was reached."""
    history, found = result.history, {}
    for level in LEVELS:
        there = np.flatnonzero(history["tv"] <= level)
        for name, column, unit in (("s", "time", 1), ("messages", "messages", 1), ("MB", "bytes", 1e6)):
            found[f"{name} to {level}"] = float(history[column][there[0]]) / unit if there.size else None
    return {**found, "last tv": float(history["tv"][-1])}


def run(problem: Problem, network: str, method: str, seconds: float, reference: Reference, **options: Any) -> Any:
    graph = as_network(network, len(problem.measures), problem.seed)
    options = {"batch": "exact", "record_every": 0.2, "tol": 1e-9, **options}
    return simulate(problem, graph, Options(method=method, duration=seconds, reference=reference, **options))


def targets(cases: Any, make: Any, seeds: Any, **options: Any) -> list[dict[str, Any]]:
    """Sinkhorn with nothing chosen: the median over the seeds of the seconds to 0.01."""
    rows = []
    for size, network, seconds, target in cases:
        times: dict[float, list[float]] = {level: [] for level in LEVELS}
        ends = []
        for seed in seeds:
            problem = make(size, seed)
            found = reached(run(problem, network, "sinkhorn", seconds, exact_reference(problem), **options))
            ends.append(found["last tv"])
            for level in LEVELS:
                times[level].append(found[f"s to {level}"] or NEVER)
        row = {"nodes": size, "network": network, **{f"s to {k}": float(np.median(v)) for k, v in times.items()}}
        rows.append({**row, "target to 0.01": target, f"tv at {seconds} s": float(np.median(ends))})
        print(rows[-1], flush=True)
    return rows


def rivals(size: int, network: str, seconds: float, make: Any) -> list[dict[str, Any]]:
    """Every method on the same problem, each with its best step."""
    problem = make(size)
    reference, graph, rows = exact_reference(problem), as_network(network, size, problem.seed), []
    for method in METHODS:
        best: dict[str, Any] = {}
        for factor in (None,) if method in WITHOUT_STEP else STEPS:
            step = None if factor is None else factor * choose_step(None, problem, graph, 0)
            try:
                found = reached(run(problem, network, method, seconds, reference, step=step))
            except BarymeshError as error:
                found = {"last tv": NEVER, "failed": str(error)}
            if not best or found["last tv"] < best["last tv"]:
                best = {"network": network, "method": method, "step": step, "step over reg/lambda_max": factor, **found}
        rows.append(best)
        print(best, flush=True)
    return rows


def long_ways() -> list[dict[str, Any]]:
    """Where information itself is slow: seconds to 0.01 against the diameter times the mean time of a hop."""
    rows = []
    for size, network, seconds in LONG:
        problem = gaussians(size)
        diameter = as_network(network, size).diameter
        found = reached(run(problem, network, "sinkhorn", seconds, exact_reference(problem), record_every=5.0))
        # the mean delay, and half the time between two activations
        limit = (0.6 + 0.1) * diameter
        times = {name: seconds for name, seconds in found.items() if name.startswith("s ")}
        over = (found["s to 0.01"] or NEVER) / limit
        rows.append({"network": network, "diameter": diameter, **times, "limit": limit, "to 0.01 over the limit": over})
        print(rows[-1], flush=True)
    return rows


def frugality(network: str = "erdos_renyi") -> list[dict[str, Any]]:
    """Megabytes to every accuracy, with and without sparing the network."""
    problem, rows = gaussians(200), []
    reference = exact_reference(problem)
    for frugal in (False, True):
        found = reached(run(problem, network, "sinkhorn", 60, reference, frugal=frugal))
        rows.append({"network": network, "frugal": frugal, **found})
        print(rows[-1], flush=True)
    return rows


ABOUT = {
    "gaussians": "Sinkhorn, nothing chosen: virtual seconds until the mean total variation is down to a level; the "
    "median of five seeds.",
    "images": "The same for 100 handwritten threes, 28 x 28, reg 0.004 on the unit square.",
    "100 new samples an activation": "The same Gaussians, known to the nodes only by samples: 100 more at every "
    "activation.",
    "frugality": "What is sent until then, by 200 nodes, and with `frugal=True`.",
    "rivals": "All methods on 100 Gaussians for 100 virtual seconds, each with the best of five steps (multiples of "
    "reg/lambda_max).",
    "long ways": "500 nodes where information itself is slow. *limit*: the diameter times the mean time of a hop.",
}


def page(results: dict[str, Any]) -> str:
    """The results as a page people can read."""
    parts = [
        "# Methods on networks",
        "Made by `python -m benchmarks.network` (part of `make bench`): virtual time, paper's delays and schedule.",
    ]
    for name, rows in results.items():
        parts += [f"## {name.capitalize()}", ABOUT[name], table(rows)]
    return "\n\n".join(parts) + "\n"


def main(quick: bool) -> dict[str, Any]:
    """Everything, written down part by part."""
    warnings.simplefilter("ignore", DriftWarning)
    seeds = range(1) if quick else SEEDS
    sampled = [(m, name, 200, 2 * target) for m, name, _, target in GAUSSIANS[:3]]
    parts: dict[str, Callable[[], list[dict[str, Any]]]] = {
        "gaussians": lambda: targets(GAUSSIANS, gaussians, seeds),
        "images": lambda: targets(IMAGES, images, range(1)),
        "100 new samples an activation": lambda: targets(sampled, gaussians, range(1), batch=100, record_every=1.0),
        "frugality": frugality,
        "rivals": lambda: [row for name in ("erdos_renyi", "star") for row in rivals(100, name, 100, gaussians)],
    }
    if not quick:
        parts["long ways"] = long_ways
    results: dict[str, Any] = {}
    target = Path(__file__).with_name("results") / "network.json"
    for name, part in parts.items():
        results[name] = part()
        target.write_text(json.dumps(results, indent=1) + "\n")
        target.with_suffix(".md").write_text(page(results))
    return results


if __name__ == "__main__":
    main("--quick" in sys.argv)
