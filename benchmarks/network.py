"""Our methods on networks: virtual time, messages and bytes until the nodes are within a distance of the truth.

The problem of the paper (Gaussians with means in [-4, 4] and deviations in [0.1, 0.6], 100 points, reg 0.1; and images
of the digit 3), its delays and its schedule, exact oracle. Time is virtual, so none of this depends on the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from barymesh.engines.simulate import simulate
from barymesh.exact.reference import Reference, exact_reference
from barymesh.history import History
from barymesh.network import as_network
from barymesh.network.topology import Network, adjacency
from barymesh.options import RunOptions
from barymesh.problem import Problem
from benchmarks.parts import Part, Row, Table
from benchmarks.problems import gaussians
from benchmarks.tables import NEVER

Say = Callable[[str], None]
Make = Callable[[int, int], Problem]

LEVELS = (0.1, 0.01, 0.001, 1e-6)
RECORD_EVERY = 0.2
# mean seconds of a hop: the paper's mean delay, and half the time between two activations
HOP = 0.6 + 0.1
# nodes, network, seconds, target for sinkhorn
GAUSSIANS = (
    (500, "complete", 60, 5), (500, "erdos_renyi", 100, 10), (500, "star", 60, 15),
    (500, "barabasi_albert:k=2", 100, 20), (500, "grid:rows=20", 150, 60), (50, "cycle", 150, 60),
)  # fmt: skip
IMAGES = (
    (100, "complete", 100, 8), (100, "erdos_renyi", 100, 12), (100, "star", 100, 25), (100, "grid:rows=10", 150, 50),
)  # fmt: skip
SAMPLED = tuple((size, network, 200, 2 * target) for size, network, _, target in GAUSSIANS[:3])
# share of the largest cost, seconds, target to 0.01
SMALL_REG = ((1e-3, 150.0, 80.0), (3e-4, 300.0, 200.0), (1e-4, 600.0, 400.0))
GAUSSIANS_IN_ROUNDS = (
    (100, "complete", 150), (100, "erdos_renyi", 150), (100, "star", 150), (100, "barabasi_albert:k=2", 150),
    (100, "grid:rows=10", 300), (50, "cycle", 400),
)  # fmt: skip
LONG = ((500, "cycle", 1000), (500, "path", 2000))
SEEDS = 5
FLOOR = (
    "*floor*: the way from the farthest node up to the root of the tree and down again, once, at "
    f"{HOP} s a hop, the mean delay and half the time between two activations."
)


def run(quick: bool, say: Say) -> Part:
    """Sinkhorn against its targets, and what rounds send."""
    return Part(
        title="Methods on networks",
        text="Virtual seconds, messages and bytes until the mean total variation between the nodes' estimates and the "
        "true barycenter is down to a level; the paper's delays and schedule, exact oracle.",
        tables=list(quick_tables(say) if quick else all_tables(say)),
    )


def all_tables(say: Say) -> Iterable[Table]:
    yield gaussian_table(GAUSSIANS, SEEDS, say)
    yield Table(
        "Images",
        f"The same for 100 handwritten threes, 28 x 28, reg 0.004 on the unit square. {FLOOR}",
        targets(IMAGES, images, 1, say),
    )
    yield Table(
        "100 new samples an activation",
        "The same Gaussians, known to the nodes only by samples: 100 more at every activation.",
        targets(SAMPLED, gaussians, 1, say, batch=100, record_every=1.0),
    )
    yield small_reg_table(SMALL_REG, say)
    yield rounds_table(GAUSSIANS_IN_ROUNDS, say)
    yield Table(
        "Large diameters",
        f"500 nodes on networks that take long to cross. *limit*: the diameter times {HOP} s, the mean time of a hop.",
        large_diameters(say),
    )


def quick_tables(say: Say) -> Iterable[Table]:
    yield gaussian_table([(100, network, 60, target) for _, network, _, target in GAUSSIANS[:3]], 1, say)
    yield small_reg_table(SMALL_REG[:1], say)
    yield rounds_table([(12, "erdos_renyi", 60)], say)


def rounds_table(cases: Sequence[tuple[int, str, float]], say: Say) -> Table:
    """What is sent in rounds, beside what the asynchronous method sends."""
    rows = []
    for size, name, seconds in cases:
        problem, network = gaussians(size), as_network(name, size)
        reference = exact_reference(problem)
        for method in ("sinkhorn", "rounds"):
            found = reached(run_method(problem, network, method, seconds, reference))
            each = {key: value if key.startswith("s ") else value and value / size for key, value in found.items()}
            rows.append({"nodes": size, "network": name, "method": method, **each, "last tv": found["last tv"]})
            say(f"{method} on {name}, m={size}: {each['messages to 1e-06']} messages a node to 1e-6")
    text = "The same Gaussians: virtual seconds, messages a node and megabytes a node to a total variation."
    return Table("Rounds", text, rows)


def small_reg_table(cases: Sequence[tuple[float, float, float]], say: Say) -> Table:
    """Digits of eight by eight pixels at small reg, with the default method."""
    from sklearn.datasets import load_digits

    rows = []
    for share, seconds, target in cases:
        images = load_digits().images[:20]
        problem = Problem.create(images / images.sum(axis=(1, 2), keepdims=True), reg=2.0 * share)
        network = as_network("erdos_renyi", 20)
        found = reached(run_method(problem, network, "sinkhorn", seconds, exact_reference(problem), record_every=0.4))
        times = {key: value for key, value in found.items() if key.startswith("s ")}
        rows.append(
            {"reg over the largest cost": share, **times, "target to 0.01": target, "last tv": found["last tv"]}
        )
        say(f"digits at {share:g} of the largest cost: {found['s to 0.01']} virtual s to 0.01 (target {target})")
    text = "Twenty handwritten digits of 8 x 8 pixels on an Erdos-Renyi network, the default method: virtual seconds."
    return Table("Small reg", text, rows)


def gaussian_table(cases: Sequence[tuple[int, str, float, float]], seeds: int, say: Say) -> Table:
    text = f"Sinkhorn with its defaults: virtual seconds to a total variation; medians of {seeds} seed(s). {FLOOR}"
    return Table("Gaussians", text, targets(cases, gaussians, seeds, say))


def images(size: int, seed: int = 0) -> Problem:
    """Handwritten threes."""
    from benchmarks.images import digits

    return Problem.create(digits(size), reg=0.004, seed=seed)


def height(network: Network) -> int:
    """Hops from the root of sinkhorn's tree (the most neighbours, then the lowest number) to the farthest node."""
    from scipy.sparse.csgraph import dijkstra

    root = int(np.argmax(network.degrees))
    return int(dijkstra(adjacency(network.size, network.edges), unweighted=True, indices=root).max())


def reached(history: History) -> Row:
    """Seconds, messages and megabytes until every level, if it was reached and they were counted."""
    found: Row = {}
    for level in LEVELS:
        there = np.flatnonzero(history["tv"] <= level)
        for name, column, unit in (("s", "time", 1), ("messages", "messages", 1), ("MB", "bytes", 1e6)):
            counted = there.size and column in history.columns
            found[f"{name} to {level}"] = float(history[column][there[0]]) / unit if counted else None
    return {**found, "last tv": float(history["tv"][-1])}


def run_method(
    problem: Problem, network: Network, method: str, seconds: float, reference: Reference, **more: Any
) -> History:
    """What one run records, with the options that these benchmarks share."""
    options = {"batch": "exact", "record_every": RECORD_EVERY, "tol": 1e-9, **more}
    run_options = RunOptions(method=method, duration=seconds, reference=reference, **options)
    history = simulate(problem, network, run_options).history
    assert history is not None
    return history


def targets(
    cases: Sequence[tuple[int, str, float, float]], make: Make, seeds: int, say: Say, **options: Any
) -> list[Row]:
    """Sinkhorn with its defaults: medians over the seeds."""
    rows = []
    for size, name, seconds, target in cases:
        times: dict[float, list[float]] = {level: [] for level in LEVELS}
        ends, heights = [], []
        for seed in range(seeds):
            problem, network = make(size, seed), as_network(name, size, seed)
            found = reached(run_method(problem, network, "sinkhorn", seconds, exact_reference(problem), **options))
            ends.append(found["last tv"])
            heights.append(height(network))
            for level in LEVELS:
                times[level].append(found[f"s to {level}"] or NEVER)
        middle = {f"s to {level}": float(np.median(some)) for level, some in times.items()}
        rows.append(
            {
                "nodes": size, "network": name, **middle, "target to 0.01": target,
                "floor": 2 * HOP * float(np.median(heights)), "last tv": float(np.median(ends)),
            }
        )  # fmt: skip
        say(f"{name}, m={size}: {middle['s to 0.01']:.3g} virtual s to 0.01 (target {target})")
    return rows


def large_diameters(say: Say) -> list[Row]:
    """Large diameters: seconds to 0.01 against the diameter times the mean time of a hop."""
    rows = []
    for size, name, seconds in LONG:
        problem, network = gaussians(size), as_network(name, size)
        found = reached(run_method(problem, network, "sinkhorn", seconds, exact_reference(problem), record_every=5.0))
        limit = HOP * network.diameter
        times = {key: value for key, value in found.items() if key.startswith("s ")}
        over = (found["s to 0.01"] or NEVER) / limit
        rows.append(
            {"network": name, "diameter": network.diameter, **times, "limit": limit, "to 0.01 over the limit": over}
        )
        say(f"{name}, m={size}: {over:.2f} times the limit to 0.01")
    return rows
