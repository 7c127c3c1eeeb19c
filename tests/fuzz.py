"""Random problems on random networks, far wider than users go: none may diverge, none may claim what is not so.

    python -m tests.fuzz --count 1000 --seed 0

Connected graphs of many shapes, 2 to 200 nodes, weights up to 100:1 and down to 1e-6, reg from 1e-4 of the largest cost
to 1, coarse and fine supports, clusters, every clock, delay and fault. A run that says it has converged must be within
ten tolerances of the barycenter, which the exact solver computes, and within the bound that every node has certified.
Any other run must say that it has not converged. Case k of a seed is the same in every run.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np

import barymesh as bm
from barymesh.exact.run import solve_problem
from barymesh.network import Network
from barymesh.problem import Problem
from barymesh.scenario import Constant, Crash, Loss, Periodic, Poisson
from barymesh.scenario.delays import Categorical, LogNormal, Uniform
from barymesh.scenario.faults import Duplication, LinkDown, Reordering, Sleep
from barymesh.scenario.schedules import Windowed

TOL = 1e-5
# activations of a run, about
ACTIVATIONS = 40_000


@dataclass(frozen=True)
class Case:
    """A problem, a network, and the options of the run."""

    problem: Problem
    network: Network
    options: dict[str, Any]
    description: str


def case(seed: int, number: int) -> Case:
    """Case ``number`` of a seed."""
    rng = np.random.default_rng([seed, number])
    size = int(np.exp(rng.uniform(np.log(2), np.log(200))))
    shape, network = _network(rng, size)
    kind, problem = _problem(rng, network.size)
    schedule, delays, faults = _schedule(rng), _delays(rng), _faults(rng, network)
    method = "rounds" if rng.random() < 0.3 else "sinkhorn"
    duration = float(np.clip(ACTIVATIONS / network.size / 5, 60, 1500))
    options = {
        "method": method, "schedule": schedule, "delays": delays, "faults": faults, "duration": duration, "tol": TOL,
        "record_every": duration / 10,
    }  # fmt: skip
    text = (
        f"{method}, {shape} of {network.size}, {kind} on {problem.support.size} points, reg {problem.reg:.2g}, weights "
        f"{problem.weights.max() / problem.weights.min():.3g}:1, {schedule}, {delays}, {faults}, {duration:.0f} s"
    )
    return Case(problem, network, options, text)


def _network(rng: np.random.Generator, size: int) -> tuple[str, Network]:
    shape = str(rng.choice(["path", "tree", "grid", "hub", "cliques", "cycle", "complete", "random"]))
    match shape:
        case "path":
            graph = nx.path_graph(min(size, 60))
        case "tree":
            graph = nx.random_labeled_tree(size, seed=int(rng.integers(2**31)))
        case "grid":
            side = max(2, int(np.sqrt(size)))
            graph = nx.convert_node_labels_to_integers(nx.grid_2d_graph(side, side))
        case "hub":
            graph = nx.star_graph(size - 1)
            extra = rng.integers(0, size, (size // 4, 2))
            graph.add_edges_from((int(a), int(b)) for a, b in extra if a != b)
        case "cliques":
            graph = nx.barbell_graph(max(3, min(size, 60) // 2), 0)
        case "cycle":
            graph = nx.cycle_graph(max(3, min(size, 60)))
        case "complete":
            graph = nx.complete_graph(min(size, 60))
        case _:
            graph = nx.random_labeled_tree(size, seed=int(rng.integers(2**31)))
            extra = rng.integers(0, size, (size, 2))
            graph.add_edges_from((int(a), int(b)) for a, b in extra if a != b)
    edges = np.array(list(graph.edges), dtype=np.intp).reshape(-1, 2)
    return shape, Network(graph.number_of_nodes(), edges)


def _problem(rng: np.random.Generator, size: int) -> tuple[str, Problem]:
    kind = str(rng.choice(["gaussians", "histograms", "clusters", "scattered", "sparse", "grid", "samples"]))
    points = int(np.exp(rng.uniform(np.log(4), np.log(120))))
    measures: Any
    match kind:
        case "gaussians":
            support: Any = np.linspace(-5, 5, points)
            measures = [bm.Gaussian(rng.uniform(-4, 4), rng.uniform(0.05, 1.0)) for _ in range(size)]
        case "samples":
            support = np.linspace(-1, 1, points)
            measures = [bm.Empirical(rng.standard_t(3, (int(rng.integers(1, 30)), 1)) / 3) for _ in range(size)]
        case "clusters":
            support = np.concatenate([np.linspace(0, 0.2, points // 2), np.linspace(0.8, 1, points - points // 2)])
            measures = rng.dirichlet(np.full(points, 0.5), size)
        case "scattered":
            support = rng.random((points, 2))
            measures = rng.dirichlet(np.ones(points), size)
        case "grid":
            side = max(2, int(np.sqrt(points)))
            axis = np.linspace(0, 1, side)
            support = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
            measures = rng.dirichlet(np.full(side * side, 0.3), size)
        case _:
            support = np.linspace(0, 1, points)
            measures = rng.dirichlet(np.full(points, 0.1 if kind == "sparse" else 1.0), size)
    if isinstance(measures, np.ndarray):
        # masses far below what matters only slow the reference down
        measures = np.where(measures > 1e-12, measures, 0.0)
        measures /= measures.sum(axis=1, keepdims=True)
    weights = np.ones(size)
    match str(rng.choice(["equal", "spread", "heavy", "light"])):
        case "spread":
            weights = np.exp(rng.uniform(0, np.log(100), size))
        case "heavy":
            weights[rng.integers(size)] = 100.0
        case "light":
            weights[rng.integers(size)] = 1e-6 * size
    largest = float(
        np.ptp(np.reshape(support, (len(support), -1)), axis=0)
        @ np.ptp(np.reshape(support, (len(support), -1)), axis=0)
    )
    reg = largest * float(np.exp(rng.uniform(np.log(1e-4), 0)))
    return kind, Problem.create(measures, support, reg=reg, weights=weights, seed=int(rng.integers(100)))


def _schedule(rng: np.random.Generator) -> Any:
    slow = {"slow_share": 0.2, "slowdown": 8.0} if rng.random() < 0.3 else {}
    return [Windowed(), Poisson(5.0, **slow), Periodic(0.2, float(rng.choice([0.0, 0.1, 0.5])), **slow)][
        rng.integers(3)
    ]


def _delays(rng: np.random.Generator) -> Any:
    return [
        Categorical(), Constant(float(rng.choice([0.0, 0.1, 1.0]))), Uniform(0.05, 0.6), LogNormal(0.3, 0.8),
    ][rng.integers(4)]  # fmt: skip


def _faults(rng: np.random.Generator, network: Network) -> tuple[Any, ...]:
    node = int(rng.integers(network.size))
    first, second = (int(k) for k in network.edges[rng.integers(len(network.edges))])
    every = (
        (), (), (), (Loss(float(rng.choice([0.05, 0.3]))),), (Duplication(0.3),), (Reordering(0.3, 2.0),),
        (Sleep(node, 3.0, 12.0),), (Crash(node, 4.0, 9.0),), (Crash(node, 4.0, 9.0, memory=False),),
        (LinkDown(first, second, 2.0, 10.0),), (Loss(0.1), Crash(node, 6.0, 8.0, memory=False)),
    )  # fmt: skip
    return every[rng.integers(len(every))]


def judge(found: Case) -> tuple[str, str]:
    """How the run ended, and what is wrong with that, empty if nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        truth = solve_problem(found.problem, max_iter=20_000, tol=1e-9)
        result = bm.barycenter(
            found.problem.measures, found.problem.support, reg=found.problem.reg, weights=found.problem.weights,
            network=found.network, seed=found.problem.seed, progress=False, **found.options,
        )  # fmt: skip
    away = np.abs(result.node_weights - truth.weights).sum(axis=1).max()
    ended = result.status.name
    if not (np.isfinite(result.duals).all() and np.isfinite(result.node_weights).all()):
        return ended, "numbers that are not finite"
    if not truth.success:
        return f"{ended}, not known to the exact solver", ""
    if result.success and away > 10 * TOL:
        return ended, f"it is {away:.2g} from the barycenter"
    if result.success and result.node_tv_bounds is not None:
        bound = float(np.nanmin(result.node_tv_bounds))
        total = 0.5 * np.abs(result.weights - truth.weights).sum()
        if total > bound + truth.tv_bound + 1e-9:
            return ended, f"the certified bound {bound:.2g} does not hold: {total:.2g}"
    if not result.success and result.status is not bm.Status.OUT_OF_TIME:
        return ended, "another status"
    return ended, ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    ends: Counter[str] = Counter()
    wrong = 0
    for number in range(options.first, options.first + options.count):
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = case(options.seed, number)
        try:
            ended, fault = judge(found)
        except Exception as error:
            ended, fault = "ERROR", f"{type(error).__name__}: {error}"
        ends[ended] += 1
        wrong += bool(fault)
        if fault or options.verbose:
            print(f"{number}: {ended} {fault}  [{found.description}] {time.perf_counter() - began:.1f} s", flush=True)
    print(f"seed {options.seed}, cases {options.first} to {number}: {dict(ends)}, {wrong} wrong")
    raise SystemExit(wrong > 0)


if __name__ == "__main__":
    main()
