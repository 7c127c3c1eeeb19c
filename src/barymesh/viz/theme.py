"""What the figures on paper and on screen share: colours, panels, the words and numbers on them."""

# ruff: noqa: RUF001 (minus, times and dashes are meant)
from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from barymesh.history import History
from barymesh_a2dwb.study import LABELS, OURS, RIVALS, Experiment, Floats, Run, Setting, Study, Sweep

# the order of methods in legends, tables and pictures; others follow
METHODS = (*RIVALS, OURS, "sinkhorn_sampled")
# what the paper shows in its figure 2, from top to bottom: digit and topology
PAPER_ROWS = (("2", "complete"), ("3", "erdos_renyi"), ("5", "cycle"), ("7", "star"))
PARAMETERS = {
    "step": "step, as a multiple of reg/λmax(W)",
    "reg": "entropic regularisation reg",
    "M": "number of samples M in an activation",
}
NOTHING = "–"
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Style:
    """How a method is drawn, always."""

    colour: str
    dash: Literal["-", "--", "-.", ":"]
    width: float = 1.3


# Okabe and Ito's colours, those with enough contrast on white and on black; the last is the ink of the page
INK = "#000000"
STYLES = {
    "a2dwb": Style("#D55E00", "-"),
    "a2dwb_naive": Style("#CC79A7", "--"),
    "dcwb": Style("#0072B2", "-."),
    "sinkhorn": Style("#009E73", "-", 1.8),
    "sinkhorn_sampled": Style(INK, ":"),
}
OTHER = Style("#777777", "--")


@dataclass(frozen=True)
class Panel:
    """A column of the figures. ``floor``: on a logarithmic axis, the least that is not taken for zero."""

    column: str
    title: str
    floor: float | None = None


PANELS = (
    Panel("dual_objective", "dual objective"),
    Panel("consensus", "consensus distance", 1e-12),
    Panel("feasibility", "feasibility residual", 1e-12),
    Panel("tv", "TV to true barycenter", 1e-6),
)
SWEPT_PANELS = (Panel("dual_objective", "dual objective − optimum"), *PANELS[1:])
# how far beyond the way from the start to the optimum the dual objective is drawn, as a share of it
ROOM_BELOW, ROOM_ABOVE = 1.0, 0.15


def style_of(method: str) -> Style:
    """How the method is drawn."""
    return STYLES.get(method, OTHER)


def label_of(name: str) -> str:
    """How a method or topology is called."""
    return LABELS.get(name, name.replace("_", " "))


# ---- what there is, and in which order


def in_order(methods: Iterable[str]) -> list[str]:
    """The methods as they are listed everywhere."""
    return sorted(methods, key=lambda name: (METHODS.index(name) if name in METHODS else len(METHODS), name))


def topologies_in_order(topologies: Iterable[str]) -> list[str]:
    """The paper's order, from the best connected down; others follow."""
    known = list(LABELS)
    return sorted(topologies, key=lambda name: (known.index(name) if name in known else len(known), name))


def methods_of(experiment: Experiment) -> list[str]:
    """The methods that ran."""
    return in_order({method for _, method in experiment.runs})


def topologies_of(experiment: Experiment) -> list[str]:
    """The topologies it ran on."""
    return topologies_in_order({topology for topology, _ in experiment.runs})


def pictured_times(experiment: Experiment) -> list[float]:
    """The virtual times at which the runs' mean estimates are known."""
    return sorted({time for run in experiment.runs.values() for time in run.means})


def mean_of(experiment: Experiment, topology: str, method: str, time: float) -> Floats | None:
    """The nodes' average estimate, if it is known and the run has not diverged."""
    run = experiment.runs.get((topology, method))
    mean = None if run is None else run.means.get(time)
    return mean if mean is not None and bool(np.isfinite(mean).all()) else None


def is_images(experiment: Experiment) -> bool:
    """Whether its measures are pictures."""
    return experiment.support.dimension == 2 and experiment.support.grid is not None


def image_of(experiment: Experiment, weights: Floats) -> Floats:
    """Weights as a picture."""
    assert experiment.support.grid is not None
    return weights.reshape(experiment.support.grid.shape)


def digit_of(experiment: Experiment) -> str:
    """The digit whose images these are, if the name ends with one."""
    return experiment.name[-1] if experiment.name[-1:].isdigit() else ""


def paper_rows(study: Study) -> list[tuple[Experiment, str]]:
    """The pairs in the paper's figure 2, as far as they were run; none if there is but one digit."""
    digits = {digit_of(e): e for e in study.experiments.values() if is_images(e) and digit_of(e)}
    rows = [(digits[d], t) for d, t in PAPER_ROWS if d in digits and t in topologies_of(digits[d])]
    return rows if len({experiment.name for experiment, _ in rows}) > 1 else []


# ---- rows of panels


@dataclass(frozen=True)
class Line:
    """A method in a row of panels: ``x`` and, by column, ``y``; and how it ended, as in ``Run``."""

    method: str
    x: Floats
    y: dict[str, Floats]
    status: str = "finished"


@dataclass(frozen=True)
class Row:
    """What the panels of one row show; ``optimum`` is that of the dual objective."""

    label: str
    lines: list[Line]
    optimum: float


def history_rows(experiment: Experiment) -> list[Row]:
    """An experiment over time: one row a topology."""
    return [history_row(experiment, topology, label_of(topology)) for topology in topologies_of(experiment)]


def history_row(experiment: Experiment, topology: str, label: str) -> Row:
    """The runs on one topology over time."""
    runs = {method: experiment.runs.get((topology, method)) for method in methods_of(experiment)}
    lines = [
        Line(method, run.history["time"], {p.column: values_of(run.history, p.column) for p in PANELS}, run.status)
        for method, run in runs.items()
        if run is not None
    ]
    return Row(label, lines, experiment.optimum)


def sweep_rows(sweeps: Iterable[Sweep]) -> list[Row]:
    """Sweeps of one parameter: one row a topology."""
    known = {(sweep.topology, sweep.method): sweep for sweep in sweeps}
    rows = []
    for topology in topologies_in_order({topology for topology, _ in known}):
        here = [known[topology, method] for method in in_order({m for t, m in known if t == topology})]
        rows.append(Row(label_of(topology), [Line(one.method, one.values, _swept(one)) for one in here], 0.0))
    return rows


def _swept(sweep: Sweep) -> dict[str, Floats]:
    return {
        "dual_objective": sweep.dual,
        "consensus": sweep.consensus,
        "feasibility": sweep.feasibility,
        "tv": sweep.tv,
    }


def methods_in(rows: Iterable[Row]) -> list[str]:
    """The methods that occur in some row."""
    return in_order({line.method for row in rows for line in row.lines})


def limits(panel: Panel, row: Row, rows: Sequence[Row]) -> tuple[float, float]:
    """The part of its axis that a panel shows in one of the rows. All rows are drawn to the same scale; the dual
    objective as far as they have the same optimum."""
    alike = [one for one in rows if panel.floor is not None or one.optimum == row.optimum]
    lines = [line for one in alike for line in one.lines]
    if panel.floor is not None:
        return log_limits([(line.method, line.y[panel.column]) for line in lines], panel.floor)
    columns = [line.y[panel.column] for line in lines] or [np.empty(0)]
    return dual_limits(np.concatenate([y[:1] for y in columns]), np.concatenate(columns), row.optimum)


# ---- files, in the folder of the figures and without an ending


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


def values_of(history: History, column: str) -> Floats:
    """A column of a history; not-a-numbers if it has none."""
    return history[column] if column in history.columns else np.full(len(history), np.nan)


def last_of(run: Run, column: str) -> float:
    """The value a run ends with; NaN if it diverged."""
    values = values_of(run.history, column)
    return float(values[-1]) if values.size and run.status != "diverged" else float("nan")


def at_time(run: Run, column: str, time: float) -> float:
    """The value at a virtual time: that of the last record until then."""
    place = int(np.searchsorted(run.history["time"], time * (1 + 1e-9), side="right")) - 1
    return float(values_of(run.history, column)[place]) if place >= 0 else float("nan")


def dual_limits(starts: Floats, values: Floats, optimum: float) -> tuple[float, float]:
    """The part of the axis that shows where the dual objective starts, the optimum, and what is around them; but not
    all of what is absurdly far off."""
    starts, values = starts[np.isfinite(starts)], values[np.isfinite(values)]
    start = max(float(starts.max(initial=optimum)), optimum)
    way = start - optimum or max(1e-3 * abs(optimum), 1e-9)
    low = max(float(values.min(initial=optimum)), optimum - ROOM_BELOW * way)
    high = min(float(values.max(initial=start)), start + ROOM_ABOVE * way)
    margin = 0.07 * (high - low) or way
    return min(low, optimum - 0.05 * way) - margin, high + margin


def log_limits(values: Iterable[tuple[str, Floats]], floor: float) -> tuple[float, float]:
    """The part of a logarithmic axis to show, for values with their methods: all of it, down to two decades below the
    lowest of the rivals, so that these can be told apart where ours goes far below them."""
    # where it is nothing but rounding, it is of no interest which rounding
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
    """The power of ten that is not larger."""
    return float(10.0 ** np.floor(np.log10(value) + 1e-9))


def log_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Decades from ``low`` to ``high``, not too many; between them too if there would be too few."""
    first, last = int(np.ceil(np.log10(low) - 1e-9)), int(np.floor(np.log10(high) + 1e-9))
    if last - first >= 2:
        return [float(f"1e{k}") for k in range(first, last + 1, -(-(last - first + 1) // most))]
    candidates = [float(f"{digit}e{k}") for k in range(first - 1, last + 1) for digit in (1, 2, 5)]
    return [tick for tick in candidates if low * 0.999 <= tick <= high]


def log_values(values: Floats, lowest: float) -> Floats:
    """Values as they are drawn on a logarithmic axis that ends at ``lowest``: the zero at the start is left out, and
    what is smaller lifted to it."""
    shown = np.where(np.isfinite(values), np.maximum(values, lowest), np.nan)
    if values.size and values[0] == 0:
        shown[0] = np.nan
    return np.asarray(shown)


def shown_number(value: float, digits: int = 3) -> str:
    """A number for readers: 0.0123, −1.2 × 10⁻⁹."""
    if not np.isfinite(value):
        return NOTHING
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e5:
        text = f"{value:.{digits}g}"
        return (f"{value:,.0f}" if "e" in text else text).replace("-", "−")
    mantissa, exponent = f"{value:.{max(digits - 2, 0)}e}".split("e")
    power = f"10{str(int(exponent)).translate(SUPERSCRIPTS)}"
    return power if digits == 1 and mantissa == "1" else f"{mantissa} × {power}".replace("-", "−", 1)


def short_tv(value: float) -> str:
    """A total variation in five letters."""
    if not np.isfinite(value):
        return NOTHING
    return f"{value:.3f}" if value >= 0.0005 else "<0.001"


def room_around(low: float, high: float) -> float:
    """A factor by which a logarithmic axis is longer than what is on it, at either end."""
    return float(max(high / low, 2.0) ** 0.06)


def source_of(experiments: Iterable[Experiment]) -> str:
    """Where the data of several digits come from."""
    return "; ".join(dict.fromkeys(experiment.setting.data.split(": ", 1)[-1] for experiment in experiments))


def setting_text(setting: Setting, without: str = "") -> str:
    """The small print of a figure, perhaps ``without`` the parameter that it varies."""
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
