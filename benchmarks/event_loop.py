"""The simulator against a straightforward event loop: the same run, the same numbers, activation by activation.

The rival is ``event_loop_reference.py``: a heap of events, one activation at a time, NumPy for the M x n
numbers of a node. Its random numbers are the simulator's, drawn in compiled code, so that they cost it next to nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barymesh.core import faults as fault_kernels
from barymesh.core.compiling import compiled
from barymesh.core.counter_random import NORMALS, normals, random_stream
from barymesh.engines.simulation import Simulation
from barymesh.measures import Gaussian
from barymesh.network import as_network
from barymesh.network.topology import Network
from barymesh.problem import Problem
from barymesh.scenario.delays import Categorical
from barymesh.scenario.schedules import Windowed
from benchmarks.event_loop_reference import a2dwb, softmax_mean
from benchmarks.parts import Part, Row, Table
from benchmarks.problems import gaussians
from benchmarks.simulation import simulation_of
from benchmarks.timing import best_times

Floats = NDArray[np.float64]

NODES, SAMPLES, STEP, TARGET = 500, 10, 0.001, 100.0
TOPOLOGIES = ("erdos_renyi", "complete")
# virtual seconds of the loop; those before messages of all delays arrive are not timed
SECONDS, WARM_UP = 3.0, 1.2
# virtual seconds the simulator runs for each window of the loop
TURN = 2.0


def run(quick: bool, say: Callable[[str], None]) -> Part:
    """Activations a second of both, and the largest difference between their numbers."""
    problem, rows = gaussians(NODES), []
    for topology in TOPOLOGIES[:1] if quick else TOPOLOGIES:
        rows.append(case(problem, topology, SECONDS))
        say(f"{topology}: {rows[-1]['times faster']:.0f} times the event loop, target {TARGET:.0f}")
    return Part(
        title="The simulator against an event loop in NumPy",
        text=(__doc__ or "").partition("\n\n")[2].strip(),
        tables=[
            Table(
                "Activations a second",
                f"A2DWB, m={NODES}, n={problem.support.size}, M={SAMPLES}, the paper's schedule and delays. The two "
                f"take turns: a window of the loop, in which every node acts once, then {TURN:g} virtual seconds of "
                "the simulator; the best turn of each counts. *NumPy's gradient*: the time of the loop's softmax "
                "alone, best of many calls, below which no such loop can go. *largest difference*: between the duals "
                "of the two at the end, over the largest dual.",
                rows,
            )
        ],
    )


def case(problem: Problem, topology: str, seconds: float) -> Row:
    """Both on one network, in turns."""
    network = as_network(topology, NODES)
    simulation_of(problem, topology).run(TURN)
    turns = Turns(activations(problem, seconds), simulation_of(problem, topology))
    loop_duals = loop(problem, network, turns)
    same = simulation_of(problem, topology)
    same.run(seconds)
    points, samples = problem.support.points[:, 0], np.linspace(-1, 1, SAMPLES)
    gradient = best_times({"softmax": lambda: softmax_mean(points, samples, points, problem.reg)})["softmax"]
    return {
        "network": topology,
        "loop (1/s)": 1 / turns.loop,
        "simulator (1/s)": 1 / turns.simulator,
        "times faster": turns.loop / turns.simulator,
        "target": TARGET,
        "NumPy's gradient over the simulator": gradient / turns.simulator,
        "largest difference": float(np.abs(same.view().duals - loop_duals).max() / np.abs(loop_duals).max()),
    }


class Turns:
    """The activations of the loop; after each window the simulator runs too. ``loop`` and ``simulator``: the best
    seconds of an activation of each."""

    def __init__(self, of: Iterable[tuple[float, int]], simulation: Simulation[Any]) -> None:
        self.of, self.simulation = of, simulation
        self.loop, self.simulator = np.inf, np.inf

    def __iter__(self) -> Iterator[tuple[float, int]]:
        began, simulation = time.perf_counter(), self.simulation
        for count, (when, node) in enumerate(self.of, start=1):
            yield when, node
            if count % NODES == 0:
                if when > WARM_UP:
                    self.loop = min(self.loop, (time.perf_counter() - began) / NODES)
                before, acted = simulation.seconds, simulation.activations
                simulation.run(simulation.now + TURN)
                self.simulator = min(
                    self.simulator, (simulation.seconds - before) / (simulation.activations - acted)
                )  # fmt: skip
                began = time.perf_counter()


def activations(problem: Problem, seconds: float) -> Iterator[tuple[float, int]]:
    """The activations before a time, as (time, node)."""
    clock = Windowed().clock(len(problem.measures), problem.seed)
    while True:
        slab = clock.next_slab(seconds)
        for when, node in zip(slab.times.tolist(), slab.nodes.tolist(), strict=True):
            if when >= seconds:
                return
            yield when, node


def loop(problem: Problem, network: Network, clock: Iterable[tuple[float, int]]) -> Floats:
    """The event loop with the simulator's random numbers; the measures are Gaussians on a line."""
    normal = [measure for measure in problem.measures if isinstance(measure, Gaussian)]
    means, stds = [float(one.mean[0]) for one in normal], [float(np.sqrt(one.cov[0, 0])) for one in normal]
    seed, names = np.uint64(problem.seed), np.empty(network.neighbours.size, dtype=np.uint64)
    receivers = np.repeat(np.arange(network.size), np.diff(network.offsets))
    fault_kernels.edge_streams(seed, network.neighbours, receivers, names)
    # out of a node go the reverses of the edges that come into it
    outgoing = np.split(names[network.reverse], network.offsets[1:-1])
    law = Categorical().table(network).law

    def samples(node: int, number: int) -> Floats:
        out = np.empty(SAMPLES)
        draw_normals(seed, node, number + 1, out)
        return means[node] + stds[node] * out

    def delays(node: int, number: int) -> list[float]:
        out = np.empty(outgoing[node].size)
        draw_delays(outgoing[node], number, law, out)
        return out.tolist()

    neighbours = [network.neighbours_of(node).tolist() for node in range(network.size)]
    points = problem.support.points[:, 0]
    return a2dwb(
        neighbours, points, reg=problem.reg, step=STEP, activations=clock, delays=delays, samples=samples
    )  # fmt: skip


@compiled
def draw_normals(seed: int, node: int, number: int, out: Floats) -> None:
    """Standard normal numbers for a node's activation."""
    normals(random_stream(seed, NORMALS, node, number), out)


@compiled
def draw_delays(names: NDArray[np.uint64], number: int, law: Floats, out: Floats) -> None:
    """The delay of message ``number`` on each of the edges."""
    for k in range(out.size):
        out[k] = fault_kernels.delay(names[k], number, 0, law, 0)
