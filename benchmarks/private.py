"""Private barycenters: noise at the nodes against noise at the end.

Twenty nodes have records of a normal distribution each, on a line from -5 to 5 (the Gaussians of the paper on A2DWB).
The truth is the barycenter of the distributions themselves, known in closed form: the normal distribution with the mean
of the means and the mean of the deviations. The errors are Wasserstein distances from it, so it does not matter whether
a method returns points or a histogram: W1, the mean distance by which mass must be moved, and W2, the root of the mean
square, in which a little mass that is far away counts much. Delta is {delta:g}; figures are medians of {seeds} seeds.
Every method counts with the best of its settings, chosen by that error, which costs no privacy here, so all figures
are slightly optimistic.

The methods do not trust the same people. With *ours* every node adds noise to its own histogram, and nobody is trusted.
*Output perturbation* (Gu et al. 2025, benchmarks/rivals/output_perturbation.py says which parts of the paper were
available) trusts a curator who has all records, and adds noise once, to the points of the barycenter. Its noise is that
of the paper's bound, or *sharp*: the least that is proven to be enough on a line. *At every node*: each perturbs the
sorted points of its own records, sharply, and their mean is the barycenter; nobody is trusted then, as with ours.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.stats import norm

import barymesh as bm
from barymesh.privacy import private_measure
from barymesh.privacy.release import shares
from benchmarks.parts import Part, Row, Table
from benchmarks.rivals.curve import Floats
from benchmarks.rivals.output_perturbation import output_perturbation
from benchmarks.tables import in_line

Say = Callable[[str], None]

NODES, SEEDS, DELTA, BOUNDS = 20, 5, 1e-6, (-5.0, 5.0)
RECORDS = (100, 1_000, 10_000)
EPSILONS = (8.0, 1.0, 0.1)
# the settings that are tried, documented here and in the table
REGS = (0.03, 0.1, 0.3, 1.0, 3.0)
POINTS = (1, 2, 5, 10, 20, 50, 100, 200, 500)
# whether the noise is the sharp one, and whether every node adds its own
RIVALS = {
    "output perturbation": (False, False),
    "output perturbation, sharp": (True, False),
    "at every node, sharp": (True, True),
}
RANKS = (np.arange(2000) + 0.5) / 2000


def gaussians() -> tuple[Floats, Floats]:
    """Means and deviations ``(NODES,)``."""
    rng = np.random.default_rng(1)
    drawn = np.array([(rng.uniform(-4.0, 4.0), rng.uniform(0.1, 0.6)) for _ in range(NODES)])
    return drawn[:, 0], drawn[:, 1]


def errors(quantiles: Floats) -> tuple[float, float]:
    """The distances W1 and W2 of the measure with these quantiles, at RANKS, from the truth."""
    means, deviations = gaussians()
    truth = norm.ppf(RANKS, means.mean(), deviations.mean())
    off = np.abs(quantiles - truth)
    return float(off.mean()), float(np.sqrt(np.mean(off**2)))


def records_of(count: int, seed: int) -> list[Floats]:
    """So many of every node."""
    return [
        np.random.default_rng([seed, node]).normal(mean, deviation, count)
        for node, (mean, deviation) in enumerate(zip(*gaussians(), strict=True))
    ]


def ours(records: list[Floats], reg: float, epsilon: float | None, seed: int) -> tuple[float, float]:
    """The errors of the debiased barycenter of the nodes' private histograms; without noise if there is no epsilon."""
    support, histograms = bm.Support.regular(100, *BOUNDS), []
    for node, one in enumerate(records):
        if epsilon is None:
            histograms.append(bm.Histogram(shares(one[:, None], support)))
            continue
        # a key that is no secret: an experiment must repeat, and these records are synthetic
        key = f"seed {seed}, node {node}".encode()
        histograms.append(
            private_measure(bm.Empirical(one), support, reg=reg, epsilon=epsilon, delta=DELTA, key=key)[0]
        )
    weights = bm.barycenter(histograms, support, reg=reg, debias=True, tol=1e-4, progress=False).weights
    cumulated = np.cumsum(weights)
    # the mass of a point is spread evenly to half way to its neighbours
    edges = np.concatenate([[BOUNDS[0]], (support.points[1:, 0] + support.points[:-1, 0]) / 2, [BOUNDS[1]]])
    return errors(np.interp(RANKS, np.concatenate([[0.0], cumulated / cumulated[-1]]), edges))


def perturbed(
    records: list[Floats], points: int, epsilon: float, seed: int, *, sharp: bool, apart: bool
) -> tuple[float, float]:
    """The errors of output perturbation, by a curator or, ``apart``, at every node."""
    groups = [[one] for one in records] if apart else [records]
    found = [
        output_perturbation(
            group, points, bounds=BOUNDS, epsilon=epsilon, delta=DELTA, seed=NODES * seed + place, sharp=sharp
        )
        for place, group in enumerate(groups)
    ]
    return errors(np.mean(found, axis=0)[np.minimum((RANKS * points).astype(int), points - 1)])


def run(quick: bool, say: Say) -> Part:
    """All methods, with all their settings."""
    seeds = range(1 if quick else SEEDS)
    rows: dict[str, list[Row]] = {"W1": [], "W2": []}
    for count in RECORDS[:1] if quick else RECORDS:
        data = [records_of(count, seed) for seed in seeds]
        for epsilon in (None, *(EPSILONS[:1] if quick else EPSILONS)):
            found = all_errors(data, epsilon)
            for place, (distance, table) in enumerate(rows.items()):
                row: Row = {"records of a node": count, "epsilon": "no noise" if epsilon is None else f"{epsilon:g}"}
                table.append(row | {name: best(tried, place) for name, tried in found.items()})
                say(f"{distance}: {in_line(table[-1])}")
    return Part(
        title="Private barycenters",
        text=(__doc__ or "").partition("\n\n")[2].strip().format(delta=DELTA, seeds=len(seeds)),
        tables=[
            Table(
                f"{distance} from the truth",
                f"In brackets the best setting, of reg {', '.join(f'{reg:g}' for reg in REGS)} for ours, and of "
                f"{', '.join(map(str, POINTS))} points for output perturbation.",
                table,
            )
            for distance, table in rows.items()
        ],
        figures={},
    )


def all_errors(data: list[list[Floats]], epsilon: float | None) -> dict[str, dict[str, Floats]]:
    """By method and setting, W1 and W2 of all seeds ``(seeds, 2)``."""
    found = {
        "ours": {f"reg {reg:g}": np.array([ours(one, reg, epsilon, s) for s, one in enumerate(data)]) for reg in REGS}
    }
    if epsilon is None:
        return found
    for name, (sharp, apart) in RIVALS.items():
        found[name] = {
            f"points: {m}": np.array(
                [perturbed(one, m, epsilon, s, sharp=sharp, apart=apart) for s, one in enumerate(data)]
            )
            for m in POINTS
            if m <= len(data[0][0])
        }
    return found


def best(tried: dict[str, Floats], place: int) -> str:
    """The least median error, W1 or W2, with the setting that it belongs to."""
    medians = {setting: float(np.median(found[:, place])) for setting, found in tried.items()}
    setting = min(medians, key=lambda one: medians[one])
    return f"{medians[setting]:.2g} ({setting})"
