"""The simulator against a straightforward event loop: the same run, the same numbers, activation by activation.

The rival is ``event_loop_reference.py``: a heap of events, one activation at a time, NumPy for the M x n
numbers of a node. Its random numbers are the simulator's, drawn before it begins, so that they cost it nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
Bits = NDArray[np.uint64]

# what the streams of random numbers are for, as in core/random.h
NORMALS, DELAYS = 1, 2
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
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
    acting = list(activations(problem, seconds))
    turns = Turns(acting, simulation_of(problem, topology))
    loop_duals = loop(problem, network, turns, most_messages(acting))
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


def most_messages(acting: Sequence[tuple[float, int]]) -> int:
    """The largest number of activations of a node."""
    return int(np.bincount([node for _, node in acting]).max())


def loop(problem: Problem, network: Network, clock: Iterable[tuple[float, int]], most: int) -> Floats:
    """The event loop with the simulator's random numbers; no node sends more than ``most`` messages. The measures are
    Gaussians on a line."""
    normal = [measure for measure in problem.measures if isinstance(measure, Gaussian)]
    means = np.array([one.mean[0] for one in normal])[:, None, None]
    stds = np.sqrt([one.cov[0, 0] for one in normal])[:, None, None]
    # of activation number - 1 of each node
    drawn = means + stds * normals(
        streams(problem.seed, NORMALS, np.arange(network.size)[:, None], np.arange(most + 1)), SAMPLES
    )
    receivers = np.repeat(np.arange(network.size), np.diff(network.offsets))
    incoming = streams(problem.seed, DELAYS, network.neighbours, receivers)
    # out of a node go the reverses of the edges that come into it
    late = spaced_delays(incoming[network.reverse], most, Categorical().table(network).law)
    offsets = network.offsets
    neighbours = [network.neighbours_of(node).tolist() for node in range(network.size)]
    return a2dwb(
        neighbours,
        problem.support.points[:, 0],
        reg=problem.reg,
        step=STEP,
        activations=clock,
        delays=lambda node, number: late[number, offsets[node] : offsets[node + 1]].tolist(),
        samples=lambda node, number: drawn[node, number + 1],
    )


# ---- the random numbers of the simulator, in NumPy


def mix(x: Bits) -> Bits:
    """The finaliser of SplitMix64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def streams(seed: int, purpose: int, a: NDArray[Any], b: NDArray[Any]) -> Bits:
    """The random streams of the pairs (a, b)."""
    x = mix(np.array([(seed + int(GOLDEN) * (purpose + 1)) % 2**64], dtype=np.uint64))
    for index in (a, b):
        x = mix(x ^ (index.astype(np.uint64) * GOLDEN + np.uint64(1)))
    return x


def normals(stream: Bits, count: int) -> Floats:
    """``(..., count)``, an even number: standard normal numbers of every stream ``(...)`` (Box and Muller)."""
    bits = mix(stream[..., None] + GOLDEN * np.arange(1, count + 1, dtype=np.uint64))
    level = ((bits >> np.uint64(11)).astype(float) + 0.5) * 2.0**-53
    radius, angle = np.sqrt(-2 * np.log(level[..., ::2])), 2 * np.pi * level[..., 1::2]
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1).reshape(bits.shape)


def spaced_delays(stream: Bits, count: int, law: Floats) -> Floats:
    """``(count, edges)``: the delays of the first messages on the edges with these streams, evenly spaced."""
    _, choices, shortest, step = law[:4]
    number = (mix(np.arange(count, dtype=np.uint64)) >> np.uint64(32)).astype(np.uint32)
    x = (stream >> np.uint64(32)).astype(np.uint32) ^ number[:, None]
    # Wellons' lowbias32
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D)
    x = (x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B)
    x ^= x >> np.uint32(16)
    return np.asarray(shortest + step * ((x.astype(np.uint64) * np.uint64(choices)) >> np.uint64(32)))
