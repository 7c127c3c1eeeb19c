"""What differential privacy costs in accuracy: barycenters of private histograms beside the true one.

Twenty nodes hold records of a Gaussian each, on a line of 100 points (the Gaussians of the paper) and on a square of 16
by 16. Every node releases one private histogram; how far is the barycenter of these from that of the Gaussians? The
tables and the figure of docs/explanation/privacy.md are made here, and are the same each time.

    python examples/privacy_cost.py [folder]
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

import barymesh as bm
from barymesh.privacy import private_measure
from barymesh.privacy.release import shares

NODES, SEEDS, DELTA = 20, 5, 1e-6
RECORDS = (100, 1_000, 10_000, 100_000)
EPSILONS = (0.1, 0.5, 1.0, 2.0, 8.0)
# dark to light, in an order that colour-blind people see too
COLOURS = ("#440154", "#3b528b", "#21918c", "#5ec962", "#d0b000")
MARKERS = "osD^v"

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """A place for the barycenter, and the Gaussians of the nodes: their means and deviations are uniform in these."""

    title: str
    support: bm.Support
    reg: float
    means: tuple[float, float]
    deviations: tuple[float, float]

    def gaussians(self) -> list[bm.Gaussian]:
        rng = np.random.default_rng(1)
        d = self.support.dimension
        return [bm.Gaussian(rng.uniform(*self.means, d), rng.uniform(*self.deviations)) for _ in range(NODES)]


CASES = (
    Case("100 points on a line", bm.Support.regular(100, -5, 5), 0.1, (-4.0, 4.0), (0.1, 0.6)),
    Case("16 x 16 points on a square", bm.Support.regular([16, 16]), 0.01, (0.25, 0.75), (0.05, 0.15)),
)


def errors(case: Case, truth: Floats, records: int, epsilon: float | None) -> Floats:
    """Total variation to the truth, one for each seed; without noise if there is no epsilon."""
    found = []
    for seed in range(SEEDS):
        histograms: list[bm.Histogram] = []
        for node, gaussian in enumerate(case.gaussians()):
            rows = gaussian.sample(records, np.random.default_rng([seed, node]))
            if epsilon is None:
                histograms.append(bm.Histogram(shares(rows, case.support)))
                continue
            # a key that is no secret: an experiment must repeat, and these records are synthetic
            key = f"seed {seed}, node {node}".encode()
            private, _ = private_measure(rows, case.support, reg=case.reg, epsilon=epsilon, delta=DELTA, key=key)
            histograms.append(private)
        found.append(np.abs(barycenter(case, histograms) - truth).sum() / 2)
    return np.array(found)


def barycenter(case: Case, measures: list[bm.Histogram] | list[bm.Gaussian]) -> Floats:
    result = bm.barycenter(measures, case.support, reg=case.reg, tol=1e-5, progress=False)
    if not result.success:
        raise SystemExit(f"{case.title}: {result.message}")
    return result.weights


def table(case: Case, medians: Floats) -> str:
    """In Markdown: a row for each number of records, a column for no noise and for each epsilon."""
    names = ["no noise", *(f"epsilon {epsilon:g}" for epsilon in reversed(EPSILONS))]
    lines = [f"| {case.title}: records of a node | " + " | ".join(names) + " |", "|---|" + "---|" * len(names)]
    for records, row in zip(RECORDS, medians, strict=True):
        cells = (f"{error:.2g}" if error < 0.1 else f"{error:.2f}" for error in row)
        lines.append(f"| {records:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def draw(medians: list[Floats]) -> Figure:
    figure = Figure(figsize=(9.6, 4.0), layout="constrained")
    both = figure.subplots(1, 2, sharey=True)
    for axes, case, rows in zip(both, CASES, medians, strict=True):
        columns = zip(reversed(EPSILONS), reversed(COLOURS), reversed(MARKERS), rows.T[1:], strict=True)
        for epsilon, colour, marker, column in list(columns)[::-1]:
            axes.loglog(RECORDS, column, color=colour, marker=marker, label=f"epsilon {epsilon:g}")
        axes.loglog(RECORDS, rows[:, 0], color="black", linestyle="--", label="no noise")
        axes.set_title(case.title, fontsize=10)
        axes.set_xlabel("records of each node")
        axes.grid(alpha=0.3)
    both[0].set_ylabel("total variation to the true barycenter")
    both[1].legend(fontsize=8, loc="lower left")
    return figure


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "demo")
    medians = []
    for case in CASES:
        truth = barycenter(case, case.gaussians())
        rows = [
            [float(np.median(errors(case, truth, records, epsilon))) for epsilon in (None, *reversed(EPSILONS))]
            for records in RECORDS
        ]
        medians.append(np.array(rows))
        print(table(case, medians[-1]) + "\n", flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    draw(medians).savefig(folder / "privacy.png", dpi=110)
    print(f"The figure is in {folder / 'privacy.png'}.")


if __name__ == "__main__":
    main()
