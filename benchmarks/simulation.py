"""The simulator against the oracle kernel alone, in one run: the cost of the network beside the arithmetic.

Every case runs in a process of its own, so that its peak memory can be read:

python -m benchmarks.simulation '{"network": "cycle", "nodes": 500}'
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import barymesh as bm
from barymesh.cost import Cost
from barymesh.engines.simulate import build_simulation
from barymesh.engines.simulation import Simulation
from barymesh.gradients.sampled import SampledOracle
from barymesh.measures import Atoms
from barymesh.network import as_network
from barymesh.options import RunOptions
from barymesh.oracle.atoms import AtomOracle
from barymesh.problem import Problem
from barymesh.scenario.delays import Categorical
from barymesh.support.points import Support
from benchmarks.contestants import peak_mb
from benchmarks.parts import Part, Row, Table
from benchmarks.problems import gaussians
from benchmarks.timing import best_times

Say = Callable[[str], None]

SAMPLES, WINDOW = 10, 0.2
DELAYS = Categorical().values
TOPOLOGIES = {"erdos_renyi": 2.0, "cycle": 2.0, "star": 2.0, "complete": None}
MEMORY_TARGET = 4000.0
# nodes for which the oracle alone is timed: their numbers stay in the cache
ORACLE_NODES = 500
# numbers of gradients made in a piece of a run; the best piece counts
PIECE, PIECES, QUICK_PIECES = 5_000_000, 10, 3


@dataclass(frozen=True)
class SimulationCase:
    """A2DWB with SAMPLES samples on ``points`` of a line, or a square grid if there is a ``side``; the paper's delays
    times ``slowness``."""

    network: str
    nodes: int
    points: int = 100
    side: int = 0
    slowness: float = 1.0
    pieces: int = PIECES

    @property
    def size(self) -> int:
        return self.side**2 or self.points


def run(quick: bool, say: Say) -> Part:
    """All simulator benchmarks."""
    tables = [topologies(quick, say), growth_in_nodes(quick, say)]
    if not quick:
        tables += [growth_in_edges(say), growth_in_points(say), growth_in_staleness(say)]
    return Part(
        title="Simulator",
        text="A2DWB in virtual time, the paper's schedule and delays, M=10 samples a gradient; each case in a process "
        "of its own. The floor is the arithmetic alone: *over the oracle alone* is the time of an activation in the "
        "best piece of the run over the best time of a gradient for all nodes at once, by the general oracle kernel or "
        "the one that draws its samples, whichever is faster, taken between the pieces. *peak MB* is the most memory "
        "the process held, everything included.",
        tables=tables,
        figures={
            "simulator-growth": lambda axes: draw(axes, tables[1].rows, "nodes", "over the oracle alone"),
        },
    )


def topologies(quick: bool, say: Say) -> Table:
    rows, pieces = [], QUICK_PIECES if quick else PIECES
    for side in (0,) if quick else (0, 28):
        for name, target in TOPOLOGIES.items():
            if not quick or name in ("erdos_renyi", "complete"):
                # the targets were set for the line
                rows.append(
                    {
                        **apart(SimulationCase(name, 500, side=side, pieces=pieces), say),
                        "target": None if side else target,
                    }
                )
    return Table("Topologies", "500 nodes, on a line of 100 points and on 28 x 28.", rows)


def growth_in_nodes(quick: bool, say: Say) -> Table:
    sizes = (1000, 10_000) if quick else (100, 1000, 10_000, 100_000)
    pieces = QUICK_PIECES if quick else PIECES
    rows = [apart(SimulationCase("random_regular:degree=4", size, pieces=pieces), say) for size in sizes]
    base = next(row for row in rows if row["nodes"] == 1000)["microseconds an activation"]
    for row in rows:
        row["over m=1000"] = row["microseconds an activation"] / base
        if row["nodes"] == 100_000:
            row.update({"target": 1.5, "target peak MB": MEMORY_TARGET})
    return Table("Growth with the nodes", "Random regular graphs of degree 4. The floor is the same for all.", rows)


def growth_in_edges(say: Say) -> Table:
    degrees = [4, 16, 64, 256]
    names = ["cycle", *(f"random_regular:degree={degree}" for degree in degrees), "complete"]
    rows = [apart(SimulationCase(name, 1000), say) for name in names]
    for row, degree in zip(rows, [2, *degrees, 999], strict=True):
        row["neighbours"] = degree
        row["nanoseconds a message"] = 1e3 * row["microseconds an activation"] / degree
    text = "1000 nodes. Every activation reads the messages of all neighbours, and sends one to each."
    return Table("Growth with the edges", text, rows)


def growth_in_points(say: Say) -> Table:
    rows = [apart(SimulationCase("erdos_renyi", 100, points=points), say) for points in (100, 300, 1000, 3000, 10_000)]
    return Table("Growth with the support", "100 nodes, Erdos-Renyi, points on a line.", rows)


def growth_in_staleness(say: Say) -> Table:
    rows = [apart(SimulationCase("erdos_renyi", 500, slowness=slowness), say) for slowness in (1.0, 10.0, 100.0)]
    text = "500 nodes, Erdos-Renyi, the paper's delays and multiples of them: the messages in flight must be kept."
    return Table("Growth with the delays", text, rows)


def apart(case: SimulationCase, say: Say) -> Row:
    """``measured`` in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.simulation", json.dumps(asdict(case))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{case} failed: {done.stderr.strip().splitlines()[-1:]}")
    row: Row = json.loads(done.stdout.splitlines()[-1])
    say(f"{row['network']}, m={row['nodes']}, n={row['points']}: {row['over the oracle alone']:.2f} over the oracle")
    return row


def measured(case: SimulationCase) -> Row:
    """The best piece of a run, against the best time of the oracle, taken between them."""
    problem = square_gaussians(case.nodes, case.side) if case.side else gaussians(case.nodes, points=case.points)
    simulation = simulation_of(problem, case.network, case.slowness)
    oracles = oracles_alone(problem)
    # until messages of all delays arrive, and the pool of messages has its size
    simulation.run(3 * max(DELAYS) * case.slowness)
    windows = max(1, PIECE // (case.nodes * case.size))
    best, alone = np.inf, np.inf
    for _ in range(case.pieces):
        seconds, activations = simulation.seconds, simulation.activations
        simulation.run(simulation.now + windows * WINDOW)
        best = min(best, (simulation.seconds - seconds) / (simulation.activations - activations))
        alone = min(alone, *best_times(oracles, turns=5).values())
    row = {"network": case.network, "nodes": case.nodes, "points": case.size}
    if case.slowness != 1:
        row["delays times"] = case.slowness
    return {
        **row,
        "microseconds an activation": 1e6 * best,
        "activations a second": 1 / best,
        "over the oracle alone": best * oracle_nodes(problem) / alone,
        "peak MB": peak_mb(),
    }


def square_gaussians(nodes: int, side: int) -> Problem:
    """Normal distributions on a grid of the unit square."""
    rng = np.random.default_rng(0)
    means, stds = rng.uniform(0.1, 0.9, (nodes, 2)), rng.uniform(0.02, 0.1, nodes)
    # a coarse quadrature: only the records at time 0 use it, the simulation draws samples
    square = [bm.Gaussian(mean, [std, std], order=4) for mean, std in zip(means, stds, strict=True)]
    return Problem.create(square, Support.of_grid(bm.Grid((side, side), (0.0, 0.0), (1.0, 1.0))), reg=0.004)


def simulation_of(problem: Problem, topology: str, slowness: float = 1.0) -> Simulation[Any]:
    """A2DWB at time 0, which records nothing on the way."""
    network = as_network(topology, len(problem.measures))
    delays = Categorical(tuple(slowness * value for value in DELAYS))
    # the step does not change the time, and its default takes an eigenvalue
    options = RunOptions(method="a2dwb", batch=SAMPLES, record_every=1e9, step=0.001, delays=delays)
    return build_simulation(problem, network, options)


def oracle_nodes(problem: Problem) -> int:
    return min(ORACLE_NODES, len(problem.measures))


def oracles_alone(problem: Problem) -> dict[str, Callable[[], object]]:
    """Gradients from SAMPLES samples for some nodes at once: by the general kernel, samples given, and by the one that
    draws them."""
    rng, count = np.random.default_rng(0), oracle_nodes(problem)
    nodes, points = np.arange(count), problem.support.points
    shape = (SAMPLES, problem.support.dimension)
    draws = [rng.uniform(points.min(), points.max(), shape) for _ in nodes]
    atoms = [Atoms(draw, np.arange(SAMPLES), np.full(SAMPLES, 1 / SAMPLES)) for draw in draws]
    general = AtomOracle(atoms, problem.support, Cost(), problem.reg)
    drawing = SampledOracle(problem)
    lam = 0.3 * problem.reg * rng.normal(size=(count, problem.support.size))
    out, sizes = np.empty_like(lam), np.full(count, SAMPLES)
    return {
        "general": lambda: general.value_and_gradient(lam, out=out),
        "drawing": lambda: drawing.gradient(lam, nodes, nodes, sizes),
    }


def draw(axes: Any, rows: Sequence[Row], across: str, column: str) -> None:
    """A column against another, with its target."""
    axes.semilogx([row[across] for row in rows], [row[column] for row in rows], "o-", color="#0072B2")
    axes.axhline(1, color="0.6", linestyle=":")
    axes.set_xlabel(across)
    axes.set_ylabel(column)
    axes.set_ylim(bottom=0)


if __name__ == "__main__":
    print(json.dumps(measured(SimulationCase(**json.loads(sys.argv[1])))))
