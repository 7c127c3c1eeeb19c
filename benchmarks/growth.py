"""How the time to accuracy grows with the number of nodes, on networks that are well connected.

The problem of the paper, exact oracle, sinkhorn with its defaults, on random regular graphs: virtual seconds and
messages until the mean total variation to the true barycenter is down to 0.01. The floor is the way up to the root of
the tree and down again, once, at the mean time of a hop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barymesh.engines.simulate import simulate
from barymesh.errors import NumericalError
from barymesh.exact.reference import exact_reference
from barymesh.network.random_generators import random_regular
from barymesh.network.topology import Network
from barymesh.options import RunOptions
from barymesh.record import Record
from benchmarks.network import HOP, height
from benchmarks.parts import Part, Row, Table
from benchmarks.problems import gaussians

Floats = NDArray[np.float64]

LEVEL = 0.01
# number of seeds by number of nodes; a seed draws problem, network and delays
SEEDS = {50: 10, 100: 10, 200: 10, 500: 10, 1000: 10, 2000: 5, 5000: 5, 10_000: 3, 20_000: 3}
QUICK = {50: 3, 100: 3, 200: 3, 500: 2}
DEGREE = 4
# nodes of the quadrature: enough for the times to LEVEL to be the same as with the usual eighty, at a third of the cost
ORDER = 32
# a record costs as much as an activation of every node: two windows of the schedule apart, it adds half
RECORD_EVERY, PATIENCE = 0.4, 300.0


def run(quick: bool, say: Callable[[str], None]) -> Part:
    """Growth with the network, and the laws fitted to it."""
    cases = []
    for size, seeds in (QUICK if quick else SEEDS).items():
        for seed in range(seeds):
            cases.append(case(size, DEGREE, seed))
            say(f"m={size}, seed {seed}: {cases[-1]['seconds']:.1f} virtual s, height {cases[-1]['height']}")
    laws = fits(cases)
    sizes = dict.fromkeys(one["nodes"] for one in cases)
    rows = [summary([one for one in cases if one["nodes"] == size], laws[0]) for size in sizes]
    return Part(
        title="Growth with the network",
        text=__doc__.partition("\n\n")[2].strip() if __doc__ else "",
        tables=[
            Table(
                "Time to total variation 0.01",
                f"Random regular graphs of degree {DEGREE}, medians over the seeds, recorded every {RECORD_EVERY} s. "
                "*height*: hops from the root of the tree, the node with the lowest number, to the farthest node. "
                f"*floor*: up that far and down again at {HOP} s a hop, the mean delay and half the time between two "
                "activations. *off the law*: seconds above the fitted a + b log2(m).",
                rows,
            ),
            Table(
                "The laws",
                "Least squares over all runs, in seconds. A power law with a small exponent looks much like a "
                "logarithm over these sizes. The third law is why it should be one: if time follows the height of the "
                f"tree, its b is near {2 * HOP} s, a hop up and one down, and the height of random regular graphs is "
                "known to grow like log(m).",
                [{name: value for name, value in law.items() if name != "at"} for law in laws],
            ),
        ],
        figures={"growth": lambda axes: draw(axes, rows, cases, laws[0])},
    )


def case(size: int, degree: int, seed: int) -> Row:
    """One run until LEVEL."""
    problem, network = gaussians(size, seed, ORDER), random_regular(size, degree=degree, seed=seed)
    options = RunOptions(
        method="sinkhorn", batch="exact", duration=PATIENCE, record_every=RECORD_EVERY, tol=0.0,
        reference=exact_reference(problem), callback=close_enough,
    )  # fmt: skip
    history = simulate(problem, network, options).history
    if history["tv"][-1] > LEVEL:
        raise NumericalError(
            f"{size} nodes of degree {degree} (seed {seed}) did not come within {LEVEL} in {PATIENCE} s."
        )
    return {
        "nodes": size,
        "seconds": float(history["time"][-1]),
        "messages": float(history["messages"][-1]) / size,
        "kB": float(history["bytes"][-1]) / size / 1e3,
        "height": height(network),
        "diameter": diameter(network),
    }


def close_enough(record: Record) -> bool:
    """Whether the record is within LEVEL."""
    return record.figures["tv"] <= LEVEL


def diameter(network: Network) -> int:
    """The largest number of hops in a regular network: all searches at once, a bit for each pair."""
    neighbours = network.neighbours.reshape(network.size, -1)
    reached = np.packbits(np.eye(network.size, dtype=bool), axis=1)
    everything = np.packbits(np.ones(network.size, dtype=bool))
    hops = 0
    while (reached != everything).any():
        hops += 1
        before = reached.copy()
        for column in neighbours.T:
            reached |= before[column]
    return hops


def fits(cases: list[Row]) -> list[Row]:
    """Three laws fitted to all runs, each with its values ``at`` sizes or heights, and the share of the variance that
    it explains: over the runs, and over the medians of the sizes."""
    from scipy.optimize import curve_fit

    shapes: dict[str, tuple[str, Callable[[Any, float, float], Any], tuple[float, float]]] = {
        "a + b log2(m)": ("nodes", lambda m, a, b: a + b * np.log2(m), (1.0, 1.0)),
        "a m^b": ("nodes", lambda m, a, b: a * m**b, (5.0, 0.1)),
        "a + b height": ("height", lambda height, a, b: a + b * height, (1.0, 1.0)),
    }
    groups = [[one for one in cases if one["nodes"] == size] for size in dict.fromkeys(one["nodes"] for one in cases)]
    laws = []
    for name, (column, shape, start) in shapes.items():
        where, seconds = (np.array([one[key] for one in cases], dtype=float) for key in (column, "seconds"))
        (a, b), covariance = curve_fit(shape, where, seconds, p0=start)
        middle, middle_seconds = (
            np.array([np.median([one[key] for one in group]) for group in groups]) for key in (column, "seconds")
        )
        laws.append(
            {
                "law": name, "a": float(a), "b": float(b), "b +-": float(np.sqrt(covariance[1, 1])),
                "R^2, runs": explained(seconds, shape(where, a, b)),
                "R^2, medians": explained(middle_seconds, shape(middle, a, b)),
                "rms off (s)": float(np.sqrt(((seconds - shape(where, a, b)) ** 2).mean())),
                "at": lambda x, shape=shape, a=a, b=b: float(shape(x, a, b)),
            }
        )  # fmt: skip
    return laws


def explained(values: Floats, predicted: Floats) -> float:
    """R^2: the share of the variance of the values that is not left in the differences."""
    return float(1 - ((values - predicted) ** 2).sum() / ((values - values.mean()) ** 2).sum())


def summary(cases: list[Row], law: Row) -> Row:
    """One size: medians over its seeds."""
    middle = {name: float(np.median([one[name] for one in cases])) for name in cases[0]}
    seconds = [one["seconds"] for one in cases]
    floor = 2 * HOP * middle["height"]
    return {
        "nodes": int(middle["nodes"]), "seeds": len(cases), "s to 0.01": middle["seconds"],
        "least": min(seconds), "most": max(seconds), "off the law": middle["seconds"] - law["at"](middle["nodes"]),
        "messages a node": middle["messages"], "kB a node": middle["kB"], "height": middle["height"],
        "diameter": middle["diameter"], "floor": floor, "over the floor": middle["seconds"] / floor,
    }  # fmt: skip


def draw(axes: Any, rows: list[Row], cases: list[Row], law: Row) -> None:
    """Seconds against m on a logarithmic axis: every run, the medians and the law; and the diameter beside them."""
    sizes = [row["nodes"] for row in rows]
    axes.semilogx([one["nodes"] for one in cases], [one["seconds"] for one in cases], ".", color="0.7", label="runs")
    axes.semilogx(sizes, [row["s to 0.01"] for row in rows], "o", color="#0072B2", label="median")
    axes.semilogx(
        sizes, [law["at"](size) for size in sizes], color="#0072B2",
        label=f"{law['a']:.1f} + {law['b']:.2f} log2(m),  R² of the medians {law['R^2, medians']:.2f}",
    )  # fmt: skip
    axes.semilogx(sizes, [row["floor"] for row in rows], "s--", color="#009E73", label="floor: once up and down")
    axes.semilogx(sizes, [row["diameter"] for row in rows], "^:", color="#D55E00", label="diameter (hops)")
    axes.set_xlabel("nodes")
    axes.set_ylabel("virtual seconds to TV 0.01")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
