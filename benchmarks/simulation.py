"""The simulator against the oracle kernel alone, in one run: what the network costs beside the arithmetic.

python -m benchmarks.simulation
"""

from __future__ import annotations

import resource
import time
from typing import Any

import numpy as np

import barymesh as bm
from barymesh.cost import Cost
from barymesh.engines.recorder import Recorder
from barymesh.engines.simulation import Simulation
from barymesh.measures import Atoms
from barymesh.network import as_network
from barymesh.oracle.atoms import AtomOracle
from barymesh.problem import Problem
from barymesh.simulate import Options, build_simulation
from barymesh.support import Support
from benchmarks.timing import best_times

TOPOLOGIES = {"erdos_renyi": 2.0, "cycle": 2.0, "star": 2.0, "complete": 4.0}
POINTS, SAMPLES, REG = 100, 10, 0.1
DURATION, PIECES = 200.0, 10


def gaussians(size: int) -> Problem:
    """The paper's measures."""
    rng = np.random.default_rng(0)
    means, stds = rng.uniform(-4, 4, size), rng.uniform(0.1, 0.6, size)
    measures = [bm.Gaussian(mean, std) for mean, std in zip(means, stds, strict=True)]
    return Problem.create(measures, np.linspace(-5, 5, POINTS), reg=REG)


def oracle_alone(nodes: int = 500) -> float:
    """Seconds for one gradient from SAMPLES samples on POINTS points, by the general oracle kernel."""
    rng = np.random.default_rng(0)
    atoms = [
        Atoms(rng.normal(size=(SAMPLES, 1)), np.arange(SAMPLES), np.full(SAMPLES, 1 / SAMPLES)) for _ in range(nodes)
    ]
    oracle = AtomOracle(atoms, Support(np.linspace(-5, 5, POINTS)), Cost(), REG)
    lam, out = 0.3 * rng.normal(size=(nodes, POINTS)), np.empty((nodes, POINTS))
    return best_times({"oracle": lambda: oracle.value_and_gradient(lam, out=out)})["oracle"] / nodes


def simulation_of(problem: Problem, topology: str) -> Simulation:
    network = as_network(topology, len(problem.measures))
    # the step does not change the time, and its default takes an eigenvalue
    options = Options(method="a2dwb", batch=SAMPLES, record_every=1e9, step=0.001).checked()
    return build_simulation(problem, network, options, Recorder(problem, network, None, False))


def topology_case(problem: Problem, topology: str, target: float) -> dict[str, Any]:
    """The whole run, and the best of its PIECES against the best time of the oracle, taken between the pieces."""
    simulation_of(problem, topology).run(2.0)
    simulation = simulation_of(problem, topology)
    best, alone = np.inf, np.inf
    for piece in range(1, PIECES + 1):
        seconds, activations = simulation.seconds, simulation.activations
        simulation.run(DURATION * piece / PIECES)
        best = min(best, (simulation.seconds - seconds) / (simulation.activations - activations))
        alone = min(alone, oracle_alone())
    return {
        "case": f"{topology}, m={len(problem.measures)}, n={POINTS}, M={SAMPLES}, {DURATION:g} virtual s",
        "activations": simulation.activations,
        "seconds": simulation.seconds,
        "microseconds an activation": 1e6 * best,
        "over the oracle alone": best / alone,
        "target": target,
    }


def growth_case(size: int, windows: int) -> dict[str, Any]:
    """Time for each activation on a random regular graph of degree 4, and the most memory the process has held."""
    simulation = simulation_of(gaussians(size), "random_regular:degree=4")
    simulation.run(0.2 * 15)
    best = np.inf
    for window in range(16, 16 + windows):
        began, activations = time.perf_counter(), simulation.activations
        simulation.run(0.2 * window)
        best = min(best, (time.perf_counter() - began) / (simulation.activations - activations))
    return {
        "case": f"random_regular, degree 4, m={size}",
        "microseconds an activation": 1e6 * best,
        "peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def run() -> dict[str, list[dict[str, Any]]]:
    """All simulator benchmarks."""
    problem = gaussians(500)
    topologies = [topology_case(problem, name, target) for name, target in TOPOLOGIES.items()]
    small, large = growth_case(1_000, 400), growth_case(100_000, 6)
    ratio = large["microseconds an activation"] / small["microseconds an activation"]
    growth = [small, {**large, "over m=1000": ratio, "target": 1.5}]
    return {"topologies": topologies, "growth": growth}


if __name__ == "__main__":
    for rows in run().values():
        for row in rows:
            print({key: round(v, 3) if isinstance(v, float) else v for key, v in row.items()}, flush=True)
