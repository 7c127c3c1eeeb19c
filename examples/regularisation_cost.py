"""What regularisation costs: barycenters without it, by linear programming, beside entropic and debiased ones.

Two problems that are small enough for a linear programme (POT's, solved by SciPy's HiGHS): four measures on a line, and
three handwritten digits. The table and the figure of docs/explanation/regularisation.md are made here, and are the
same each time.

    python examples/regularisation_cost.py [folder]
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import ot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

import barymesh as bm
from barymesh.datasets.mnist import mnist

REGS = (0.03, 0.01, 0.003, 0.001, 0.0003)
SHOWN = (0.01, 0.003, 0.001)
COLOURS = {"entropic": "#D55E00", "debiased": "#0072B2"}

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """Measures ``(m, n)`` on the points of a support."""

    title: str
    support: bm.Support
    measures: Floats

    @cached_property
    def costs(self) -> Floats:
        return np.asarray(ot.dist(self.support.points, self.support.points))

    @cached_property
    def exact(self) -> Floats:
        """The barycenter on these points without regularisation ``(n,)``."""
        found = np.maximum(ot.lp.barycenter(self.measures.T, self.costs, solver="highs"), 0.0)
        return np.asarray(found / found.sum())

    def cost(self, p: Floats) -> float:
        """The mean of the exact transport costs from p to the measures."""
        return float(np.mean([ot.emd2(p, one, self.costs) for one in self.measures]))

    def excess(self, p: Floats) -> float:
        """The cost of p above that of the exact barycenter, as a share of it."""
        return self.cost(p) / self.cost(self.exact) - 1.0

    def found(self, reg: float, debias: bool) -> Floats:
        result = bm.barycenter(
            self.measures, self.support, reg=reg, debias=debias, tol=1e-6, max_iter=50_000, progress=False
        )
        return result.weights


def on_a_line() -> Case:
    """Four measures with two peaks each, of different places, heights and widths."""
    rng, points = np.random.default_rng(1), np.linspace(0, 1, 60)

    def peak(low: float, high: float) -> Floats:
        centre, width, height = rng.uniform(low, high), rng.uniform(0.03, 0.06), rng.uniform(0.5, 1.0)
        return np.asarray(height / width * np.exp(-0.5 * ((points - centre) / width) ** 2))

    measures = np.array([peak(0.1, 0.4) + peak(0.6, 0.9) for _ in range(4)])
    return Case("on a line", bm.Support.regular(60), measures / measures.sum(axis=1, keepdims=True))


def digits() -> Case:
    """Three handwritten digits, at half their resolution."""
    pictures = mnist(3, 3).images.reshape(3, 14, 2, 14, 2).sum(axis=(2, 4))
    return Case("digits", bm.Support.regular([14, 14]), pictures.reshape(3, -1))


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "demo")
    line, images = on_a_line(), digits()
    answers: dict[tuple[str, str, float], Floats] = {}
    print("| problem | barycenter | " + " | ".join(f"reg {reg:g}" for reg in REGS) + " |")
    print("|---|---|" + "---|" * len(REGS))
    for case in (line, images):
        for name in COLOURS:
            row = [case.found(reg, name == "debiased") for reg in REGS]
            answers |= {(case.title, name, reg): p for reg, p in zip(REGS, row, strict=True)}
            print(f"| {case.title} | {name} | " + " | ".join(share(case.excess(p)) for p in row) + " |", flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    draw(line, images, answers).savefig(folder / "regularisation.png", dpi=110)
    print(f"The figure is in {folder / 'regularisation.png'}.")


def share(excess: float) -> str:
    return f"{100 * excess:.2g}%" if excess < 0.995 else f"{100 * excess:.0f}%"


def draw(line: Case, images: Case, answers: dict[tuple[str, str, float], Floats]) -> Figure:
    figure = Figure(figsize=(9.6, 7.2), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=[1, 1.3])
    left, middle, right = above.subplots(1, 3)
    grid = line.support.points[:, 0]
    for axes, name in ((left, "entropic"), (middle, "debiased")):
        axes.fill_between(grid, line.exact, step="mid", color="0.8", linewidth=0)
        for reg, style in zip((SHOWN[0], SHOWN[-1]), (":", "-"), strict=True):
            axes.plot(grid, answers["on a line", name, reg], style, color=COLOURS[name], label=f"reg {reg:g}")
        # the legend is above all curves
        highest = max(line.exact.max(), *(answers["on a line", name, reg].max() for reg in (SHOWN[0], SHOWN[-1])))
        axes.set(title=f"{name}; grey: without reg", xlabel="place", ylim=(0, 1.2 * highest))
        axes.legend(fontsize=8, frameon=False, loc="upper center", ncols=2)
    left.set_ylabel("share of the mass")
    draw_excess(right, line, images, answers)
    panels = below.subplot_mosaic("EABC;EDFG")
    pictures = {"E": ("without reg", images.exact)} | {
        place: (f"{name}, reg {reg:g}", answers["digits", name, reg])
        for row, name in zip(("ABC", "DFG"), COLOURS, strict=True)
        for place, reg in zip(row, SHOWN, strict=True)
    }
    for place, (title, picture) in pictures.items():
        panels[place].imshow(picture.reshape(14, 14), cmap="magma", vmin=0, vmax=images.exact.max())
        cost = "" if place == "E" else f": cost +{share(images.excess(picture))}"
        panels[place].set_title(title + cost, fontsize=10)
        panels[place].set_axis_off()
    return figure


def draw_excess(axes: Axes, line: Case, images: Case, answers: dict[tuple[str, str, float], Floats]) -> None:
    for case, style in ((line, "o-"), (images, "s--")):
        for name, colour in COLOURS.items():
            above = [100 * case.excess(answers[case.title, name, reg]) for reg in REGS]
            axes.loglog(REGS, above, style, color=colour, markersize=4, label=f"{name}, {case.title}")
    axes.set(xlabel="reg", ylabel="transport cost above the least (%)")
    axes.legend(fontsize=8, frameon=False)
    axes.grid(alpha=0.3)


if __name__ == "__main__":
    main()
