"""What the figures for print and the report share: the look of each method, the panels, their rows and axes.

Rows are topologies, columns are the four measures of a run: the paper's two, and the two that it lacks.
"""

# ruff: noqa: RUF001 (minus, times and dashes are meant)
from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from barymesh.viz.theme import NOTHING, Panel
from barymesh_a2dwb.study import (
    LABELS,
    MEASURES,
    METHODS,
    RIVALS,
    TOPOLOGIES,
    Experiment,
    Floats,
    Run,
    Setting,
    Study,
    Sweep,
    methods_of,
    topologies_of,
)

# the rows of the paper's figure 2 from top to bottom: digit and topology
PAPER_ROWS = (("2", "complete"), ("3", "erdos_renyi"), ("5", "cycle"), ("7", "star"))
PARAMETERS = {
    "step": "step, as a multiple of reg/λmax(W)",
    "reg": "entropic regularisation reg",
    "M": "number of samples M in an activation",
}


@dataclass(frozen=True)
class Style:
    """How a method is drawn, in every figure."""

    colour: str
    dash: Literal["-", "--", "-.", ":"]
    width: float = 1.3


# the colours of Okabe and Ito that have enough contrast on white and on black, and the page's text colour; of two
# methods whose curves often coincide, the first is broad and solid, and the second thin and broken on top of it
INK = "#000000"
STYLES = {
    "a2dwb": Style("#D55E00", "-", 2.4),
    "a2dwb_naive": Style(INK, "--", 1.1),
    "dcwb": Style("#0072B2", "-."),
    "sinkhorn": Style("#009E73", "-", 2.4),
    "sinkhorn_sampled": Style("#CC79A7", ":", 1.6),
}
# the names beside the curves
SHORT = LABELS | {"sinkhorn": "Sinkhorn", "sinkhorn_sampled": "sampled"}

PANELS = (
    Panel("dual_objective", "dual objective"),
    Panel("consensus_distance", "consensus distance", 1e-12),
    Panel("feasibility", "feasibility residual", 1e-12),
    Panel("tv", "TV to true barycenter", 1e-6),
)
SWEPT_PANELS = (Panel("dual_objective", "dual objective − optimum"), *PANELS[1:])
# how far beyond the way from the start to the optimum the dual objective is drawn, as a share of it
ROOM_BELOW, ROOM_ABOVE = 1.0, 0.15


# ---- what an experiment shows


def pictured_times(experiment: Experiment) -> list[float]:
    """The virtual times at which the runs' mean estimates are known."""
    return sorted({time for run in experiment.runs.values() for time in run.means})


def mean_of(experiment: Experiment, topology: str, method: str, time: float) -> Floats | None:
    """The nodes' average estimate, if it is known and the run has not diverged."""
    run = experiment.runs.get((topology, method))
    mean = None if run is None else run.means.get(time)
    return mean if mean is not None and bool(np.isfinite(mean).all()) else None


def is_images(experiment: Experiment) -> bool:
    """Whether its measures are images."""
    return experiment.support.dimension == 2 and experiment.support.grid is not None


def image_of(experiment: Experiment, weights: Floats) -> Floats:
    """Weights as an image."""
    assert experiment.support.grid is not None
    return weights.reshape(experiment.support.grid.shape)


def digit_of(experiment: Experiment) -> str:
    """The digit of an experiment on images; empty for others."""
    return experiment.name[-1] if experiment.name[-1:].isdigit() else ""


def paper_rows(study: Study) -> list[tuple[Experiment, str]]:
    """The rows of the paper's figure 2 that were run; none if there is only one digit."""
    digits = {digit_of(e): e for e in study.experiments.values() if is_images(e) and digit_of(e)}
    rows = [(digits[d], t) for d, t in PAPER_ROWS if d in digits and t in topologies_of(digits[d])]
    return rows if len({experiment.name for experiment, _ in rows}) > 1 else []


# ---- rows of panels


@dataclass(frozen=True)
class Line:
    """A method in a row of panels: ``x``, ``y`` by column, and the status of the ``Run``."""

    method: str
    x: Floats
    y: dict[str, Floats]
    status: str = "finished"


@dataclass(frozen=True)
class PanelRow:
    """The curves in the panels of one row; ``optimum`` is that of the dual objective."""

    label: str
    lines: list[Line]
    optimum: float


def history_rows(experiment: Experiment) -> list[PanelRow]:
    """An experiment over time: one row a topology."""
    return [history_row(experiment, topology, LABELS[topology]) for topology in topologies_of(experiment)]


def history_row(experiment: Experiment, topology: str, label: str) -> PanelRow:
    """The runs on one topology over time."""
    runs = {method: experiment.runs.get((topology, method)) for method in methods_of(experiment)}
    lines = [
        Line(method, run.history["time"], {p.column: run.history[p.column] for p in PANELS}, run.status)
        for method, run in runs.items()
        if run is not None
    ]
    return PanelRow(label, lines, experiment.optimum)


def sweep_rows(sweeps: Iterable[Sweep]) -> list[PanelRow]:
    """Sweeps of one parameter: one row a topology."""
    known = {(sweep.topology, sweep.method): sweep for sweep in sweeps}
    rows = []
    for topology in TOPOLOGIES:
        here = [known[topology, method] for method in METHODS if (topology, method) in known]
        lines = [Line(one.method, one.values, _swept(one)) for one in here]
        rows += [PanelRow(LABELS[topology], lines, 0.0)] if lines else []
    return rows


def _swept(sweep: Sweep) -> dict[str, Floats]:
    return {panel.column: getattr(sweep, measure) for panel, measure in zip(SWEPT_PANELS, MEASURES, strict=True)}


def methods_in(rows: Iterable[PanelRow]) -> list[str]:
    """The methods that occur in the rows."""
    drawn = {line.method for row in rows for line in row.lines}
    return [method for method in METHODS if method in drawn]


def limits(panel: Panel, row: PanelRow, rows: Sequence[PanelRow]) -> tuple[float, float]:
    """The limits of a panel's vertical axis in one of the rows. All rows have the same scale; for the dual objective,
    all rows with the same optimum."""
    alike = [one for one in rows if panel.floor is not None or one.optimum == row.optimum]
    lines = [line for one in alike for line in one.lines]
    if panel.floor is not None:
        return log_limits([(line.method, line.y[panel.column]) for line in lines], panel.floor)
    columns = [line.y[panel.column] for line in lines] or [np.empty(0)]
    return dual_limits(np.concatenate([y[:1] for y in columns]), np.concatenate(columns), row.optimum)


# ---- names of figure files, without a suffix


def figure_name(experiment: Experiment) -> str:
    """The figure of an experiment's histories."""
    return f"figure-{2 if is_images(experiment) else 1}-{experiment.name}"


def pictures_name(experiment: Experiment) -> str:
    """The figure of what the nodes agree on."""
    return f"barycenters-{experiment.name}"


def sensitivity_name(parameter: str) -> str:
    """The figure of a sweep."""
    return f"sensitivity-{parameter}"


SELECTION = "figure-2"


# ---- numbers


def at_time(run: Run, column: str, time: float) -> float:
    """The value at a virtual time: that of the last record up to then."""
    place = int(np.searchsorted(run.history["time"], time * (1 + 1e-9), side="right")) - 1
    return float(run.history[column][place]) if place >= 0 else float("nan")


def dual_limits(starts: Floats, values: Floats, optimum: float) -> tuple[float, float]:
    """Limits that show the start of the dual objective, the optimum, and what is near them; values far off are cut."""
    starts, values = starts[np.isfinite(starts)], values[np.isfinite(values)]
    start = max(float(starts.max(initial=optimum)), optimum)
    way = start - optimum or max(1e-3 * abs(optimum), 1e-9)
    low = max(float(values.min(initial=optimum)), optimum - ROOM_BELOW * way)
    high = min(float(values.max(initial=start)), start + ROOM_ABOVE * way)
    margin = 0.07 * (high - low) or way
    return min(low, optimum - 0.05 * way) - margin, high + margin


def log_limits(values: Iterable[tuple[str, Floats]], floor: float) -> tuple[float, float]:
    """Limits of a logarithmic axis for the values of each method: all values, but at most two decades below the lowest
    value of the rivals, so that these can be told apart where ours goes far below them. ``floor``: smaller values are
    rounding errors."""
    sizes = [(method, some[np.isfinite(some) & (some > floor)]) for method, some in values]
    everything = np.concatenate([*(some for _, some in sizes), np.empty(0)])
    rivals = np.concatenate([*(some for method, some in sizes if method in RIVALS), np.empty(0)])
    if not everything.size:
        return floor, 10 * floor
    low, high = decade_below(float(everything.min())), float(everything.max())
    if rivals.size:
        low = max(low, decade_below(float(rivals.min())) / 100)
    low = max(low, floor)
    return low, max(high, 2 * low)


def decade_below(value: float) -> float:
    """The largest power of ten that is not above the value."""
    return float(10.0 ** np.floor(np.log10(value) + 1e-9))


def log_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """At most ``most`` decades from ``low`` to ``high``; also 2 and 5 times a decade if these would be fewer than 3."""
    first, last = int(np.ceil(np.log10(low) - 1e-9)), int(np.floor(np.log10(high) + 1e-9))
    if last - first >= 2:
        return [float(f"1e{k}") for k in range(first, last + 1, -(-(last - first + 1) // most))]
    candidates = [float(f"{digit}e{k}") for k in range(first - 1, last + 1) for digit in (1, 2, 5)]
    return [tick for tick in candidates if low * 0.999 <= tick <= high]


def short_tv(value: float) -> str:
    """A total variation in at most six characters."""
    if not np.isfinite(value):
        return NOTHING
    return f"{value:.3f}" if value >= 0.0005 else "<0.001"


def room_around(low: float, high: float) -> float:
    """The factor by which a logarithmic axis exceeds its values at either end."""
    return float(max(high / low, 2.0) ** 0.06)


def source_of(experiments: Iterable[Experiment]) -> str:
    """The source of the data of several digits."""
    return "; ".join(dict.fromkeys(experiment.setting.data.split(": ", 1)[-1] for experiment in experiments))


def setting_text(setting: Setting, without: str = "") -> str:
    """The settings below a figure, ``without`` the parameter that it varies."""
    parts = {
        "m": f"m = {setting.nodes} nodes",
        "reg": f"reg = {setting.reg:.4g}",
        "step": f"step = {setting.step_factor:g} × reg/λmax(W) for every method that has one",
        "M": f"M = {setting.samples} samples an activation",
        "seed": f"seed {setting.seed}",
        "data": f"data: {setting.data}",
    }
    text = "; ".join(text for name, text in parts.items() if name != without)
    return text.replace(" = ", "\u00a0=\u00a0").replace(" × ", "\u00a0×\u00a0")
