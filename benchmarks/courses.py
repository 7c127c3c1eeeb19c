"""The course of a solver: its objective against its time, with more and more iterations."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.images import Floats
from benchmarks.parts import Row
from benchmarks.timing import seconds_of

OURS = "barymesh"
# seconds of one run are the least of so many, while they are short
REPEATS, SHORT = 3, 0.5
# an improvement on the run before by less than this share of the distance to the best known is none
IMPROVEMENT = 0.02
# so many runs in a row without an improvement are the end
STALLS = 2
MOST = 200_000
# Okabe and Ito's colours
COLOURS = ("#D55E00", "#0072B2", "#56B4E9", "#009E73", "#000000", "#CC79A7", "#E69F00")

# from a number of iterations to a call that carries them out, everything compiled
Prepare = Callable[[int], Callable[[], Floats]]


@dataclass(frozen=True)
class Patience:
    """Iterations at first, by what they ``grow``, and the ``seconds`` that all runs of a solver may take. Distances to
    the best known below ``least`` count as none."""

    first: int
    growth: float
    seconds: float
    least: float


def course(prepare: Prepare, objective: Callable[[Floats], float], best: float, patience: Patience) -> Floats:
    """More iterations each time, until they no longer improve the objective: seconds, objectives, and whether that was
    the end, ``(runs, 3)``."""
    rows: list[tuple[float, float, float]] = []
    count, spent, stalls = patience.first, 0.0, 0
    while count <= MOST and spent < patience.seconds:
        call = prepare(count)
        began = time.perf_counter()
        found = call()
        seconds = time.perf_counter() - began
        spent += seconds
        for _ in range(REPEATS - 1 if seconds < SHORT else 0):
            seconds = min(seconds, seconds_of(call))
        reached = objective(found)
        if not math.isfinite(reached):
            break
        # not on the lowest: a few iterations can be lucky, and many more are then worse on the way to the best
        before = rows[-1][1] if rows else math.inf
        improved = before - reached >= IMPROVEMENT * max(abs(reached - best), patience.least)
        stalls = 0 if improved else stalls + 1
        rows.append((seconds, reached, float(stalls == STALLS)))
        if stalls == STALLS:
            break
        count = math.ceil(patience.growth * count)
    return np.array(rows).reshape(-1, 3)


def compared(title: str, found: dict[str, Floats], least: float, target: float) -> list[Row]:
    """A row for each solver: the least objective that it reached, and how long ours takes until its own is as low."""
    rows = []
    mine = found[OURS]
    for name, one in found.items():
        lowest = float(one[:, 1].min())
        seconds = float(one[np.flatnonzero(one[:, 1] <= max(lowest, least))[0], 0])
        as_good = np.flatnonzero(mine[:, 1] <= max(lowest, least))
        ours = float(mine[as_good[0], 0]) if as_good.size else math.inf
        row: dict[str, Any] = {
            "problem": title,
            "solver": name,
            "above the best known": lowest,
            "seconds": seconds,
            "ended": "no longer improved" if one[-1, 2] else "had its time",
        }
        rows.append(row if name == OURS else row | {"ours": ours, "ratio": seconds / ours, "target": target})
    return rows


def draw(axes: Any, title: str, names: tuple[str, ...], found: dict[str, Floats], least: float) -> None:
    """Objective against time, in the colours of all ``names``."""
    for name, colour in zip(names, COLOURS, strict=False):
        if name in found:
            seconds, above = found[name][:, 0], np.maximum(found[name][:, 1], least)
            axes.loglog(seconds, above, marker="o", ms=4, color=colour, lw=3 if name == OURS else 1.5, label=name)
    axes.set(title=title, xlabel="seconds", ylabel="objective above the best known")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
