"""Network methods side by side: virtual time, messages and bytes until the nodes are within a distance of the truth.

The problem of the paper (Gaussians with means in [-4, 4] and deviations in [0.1, 0.6], 100 points, reg 0.1; and images
of the digit 3), its delays and its schedule, exact oracle. Methods with a step run with the best of STEPS, as multiples
of reg/lambda_max, chosen by the total variation that they end with; sinkhorn has no step. Time is virtual, so none
of this depends on the machine.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from barymesh.decentralized.build import choose_step
from barymesh.engines.simulate import simulate
from barymesh.errors import BarymeshError, DriftWarning
from barymesh.exact.reference import Reference, exact_reference
from barymesh.method_names import WITHOUT_STEP
from barymesh.network import as_network
from barymesh.network.topology import Network, adjacency
from barymesh.options import RunOptions
from barymesh.problem import Problem
from barymesh.result import Result
from benchmarks.images import Floats
from benchmarks.parts import Part, Row, Table
from benchmarks.problems import gaussians
from benchmarks.rivals.server_sinkhorn import server_sinkhorn
from benchmarks.tables import NEVER

Say = Callable[[str], None]
Make = Callable[[int, int], Problem]
# by network and method: virtual seconds, bytes sent until then, and the total variation, each (records,)
Curves = dict[tuple[str, str], tuple[Floats, Floats, Floats]]

LEVELS = (0.1, 0.01, 0.001, 1e-6)
STEPS = (0.25, 1.0, 4.0, 16.0, 64.0)
METHODS = ("sinkhorn", "rounds", "a2dwb_conserving", "a2dwb", "a2dwb_naive", "dcwb", "gossip_sinkhorn")
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
COLOURS = ("#0072B2", "#000000", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#777777")
SERVER, OURS = "server sinkhorn", ("sinkhorn", "rounds")


def run(quick: bool, say: Say) -> Part:
    """Sinkhorn against its targets, and all methods against one another."""
    curves: Curves = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DriftWarning)
        tables = list(quick_tables(say, curves) if quick else all_tables(say, curves))
    return Part(
        title="Methods on networks",
        text="Virtual seconds, messages and bytes until the mean total variation between the nodes' estimates and the "
        "true barycenter is down to a level; the paper's delays and schedule, exact oracle.",
        tables=tables,
        figures={"methods": lambda axes: draw(axes.figure, curves)},
    )


def all_tables(say: Say, curves: Curves) -> Iterable[Table]:
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
    yield rivals_table(("erdos_renyi", "star", "cycle"), 100, 200, STEPS, say, curves)
    yield Table(
        "Large diameters",
        f"500 nodes on networks that take long to cross. *limit*: the diameter times {HOP} s, the mean time of a hop.",
        large_diameters(say),
    )


def quick_tables(say: Say, curves: Curves) -> Iterable[Table]:
    yield gaussian_table([(100, network, 60, target) for _, network, _, target in GAUSSIANS[:3]], 1, say)
    yield small_reg_table(SMALL_REG[:1], say)
    yield rounds_table([(30, "erdos_renyi", 100)], say)
    yield rivals_table(("erdos_renyi",), 30, 30, (1.0, 16.0), say, curves)


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


def rivals_table(
    networks: Sequence[str], size: int, seconds: float, steps: Sequence[float], say: Say, curves: Curves
) -> Table:
    rows = [row for name in networks for row in rivals(size, name, seconds, steps, say, curves)]
    text = (
        f"All methods on {size} Gaussians for {seconds:g} virtual seconds, each with the best of {len(steps)} step(s), "
        "multiples of reg/lambda_max. Empty: not reached. *server sinkhorn* (Kroshnin et al., arXiv 1901.08686): all "
        "nodes send to a server, which waits for the last of them; what a network could save is that server. "
        "*gossip_sinkhorn* (arXiv 2509.14521) without its event triggers, its quantisation and its asynchronous "
        "operation: synchronous rounds of averaging with full messages, none of which is lost."
    )
    return Table("Rivals", text, rows)


def images(size: int, seed: int = 0) -> Problem:
    """Handwritten threes."""
    from benchmarks.images import digits

    return Problem.create(digits(size), reg=0.004, seed=seed)


def height(network: Network) -> int:
    """Hops from the root of sinkhorn's tree (the most neighbours, then the lowest number) to the farthest node."""
    from scipy.sparse.csgraph import dijkstra

    root = int(np.argmax(network.degrees))
    return int(dijkstra(adjacency(network.size, network.edges), unweighted=True, indices=root).max())


def reached(result: Result) -> Row:
    """Seconds, messages and megabytes until every level, if it was reached."""
    assert result.history is not None
    history, found = result.history, {}
    for level in LEVELS:
        there = np.flatnonzero(history["tv"] <= level)
        for name, column, unit in (("s", "time", 1), ("messages", "messages", 1), ("MB", "bytes", 1e6)):
            found[f"{name} to {level}"] = float(history[column][there[0]]) / unit if there.size else None
    return {**found, "last tv": float(history["tv"][-1])}


def run_method(
    problem: Problem, network: Network, method: str, seconds: float, reference: Reference, **more: Any
) -> Result:
    """One run with the options that these benchmarks share."""
    options = {"batch": "exact", "record_every": 0.2, "tol": 1e-9, **more}
    return simulate(problem, network, RunOptions(method=method, duration=seconds, reference=reference, **options))


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


def rivals(size: int, name: str, seconds: float, steps: Sequence[float], say: Say, curves: Curves) -> list[Row]:
    """Every method on the same problem, each with its best step; ``curves`` gets the histories of the first network."""
    problem, network = gaussians(size), as_network(name, size)
    reference, rows = exact_reference(problem), []
    for method in METHODS:
        best: Row = {}
        for factor in (None,) if method in WITHOUT_STEP else steps:
            step = None if factor is None else factor * choose_step(None, problem, network, 0)
            try:
                result = run_method(problem, network, method, seconds, reference, step=step)
            except BarymeshError as error:
                found = {"last tv": NEVER, "failed": str(error)}
            else:
                found = reached(result)
                if not best or found["last tv"] < best["last tv"]:
                    history = result.history
                    assert history is not None
                    curves[name, method] = history["time"], history["bytes"], history["tv"]
            if not best or found["last tv"] < best["last tv"]:
                best = {"network": name, "method": method, "step": step, "step over reg/lambda_max": factor, **found}
        rows.append(best)
        say(f"{method} on {name}: total variation {best['last tv']:.2g} after {seconds:g} virtual s")
    return [*rows, with_server(problem, name, seconds, reference, curves)]


def with_server(problem: Problem, name: str, seconds: float, reference: Reference, curves: Curves) -> Row:
    """The floor: the same iteration with a server that all nodes send to, and that waits for the last of them."""
    curve = server_sinkhorn(problem.oracle, seconds)
    times, sent = np.array(curve.times), np.array(curve.sent)
    distances = np.abs(np.array(curve.estimates) - reference.weights).sum(axis=1) / 2
    curves[name, SERVER] = times, sent, distances
    row: Row = {"network": "a server", "method": SERVER}
    for level in LEVELS:
        there = np.flatnonzero(distances <= level)
        row[f"s to {level}"] = float(times[there[0]]) if there.size else None
        row[f"MB to {level}"] = float(sent[there[0]]) / 1e6 if there.size else None
    return {**row, "last tv": float(distances[-1])}


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


def draw(figure: Any, curves: Curves) -> None:
    """Total variation over virtual time and over bytes, a column for each network."""
    names = list(dict.fromkeys(name for name, _ in curves))
    figure.clear()
    figure.set_size_inches(4.2 * len(names), 6.4)
    panels = figure.subplots(2, len(names), squeeze=False, sharey=True)
    for column, name in enumerate(names):
        for row, (label, unit) in enumerate((("virtual seconds", 1.0), ("megabytes sent by all nodes", 1e6))):
            axes = panels[row, column]
            for method, colour in zip((*METHODS, SERVER), COLOURS, strict=True):
                if (name, method) not in curves:
                    continue
                times, sent, distances = curves[name, method]
                style = {"lw": 2.5} if method in OURS else {"lw": 1.2, "ls": "--" if method == SERVER else "-"}
                x = (times, sent)[row] / unit
                axes.plot(x[x > 0], np.maximum(distances, 1e-9)[x > 0], color=colour, label=method, **style)
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_xlabel(label)
            axes.spines[["top", "right"]].set_visible(False)
        panels[0, column].set_title(name.replace("_", "-"))
    for axes in panels[:, 0]:
        axes.set_ylabel("total variation to the barycenter")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
