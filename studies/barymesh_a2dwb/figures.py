"""The figures for print, as PDF and PNG: 7 inches wide, no letter smaller than 7 points.

Figures 1 and 2 are arranged as in the paper, one row a topology, with two more columns. The same study gives the same
files, bit for bit.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from barymesh.extras import needs
from barymesh.io.atomic import replacing
from barymesh.viz.theme import NOTHING, Panel, apart, curve_scale, log_values, shown_number
from barymesh_a2dwb.panels import (
    PANELS,
    PARAMETERS,
    SELECTION,
    SHORT,
    STYLES,
    SWEPT_PANELS,
    Line,
    PanelRow,
    at_time,
    digit_of,
    figure_name,
    history_row,
    history_rows,
    image_of,
    is_images,
    limits,
    log_ticks,
    mean_of,
    methods_in,
    paper_rows,
    pictured_times,
    pictures_name,
    room_around,
    sensitivity_name,
    setting_text,
    short_tv,
    source_of,
    sweep_rows,
)
from barymesh_a2dwb.study import LABELS, Experiment, Floats, Study, Sweep, methods_of, topologies_of

with needs("report"):
    from matplotlib import style
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch, Rectangle
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, DPI = 7.0, 300
SMALL, NORMAL = 7.0, 7.5
PRINT: dict[str, Any] = {
    "font.size": NORMAL, "axes.titlesize": NORMAL, "axes.labelsize": NORMAL, "legend.fontsize": NORMAL,
    "xtick.labelsize": SMALL, "ytick.labelsize": SMALL, "axes.linewidth": 0.6, "axes.axisbelow": True,
    "axes.spines.top": False, "axes.spines.right": False, "grid.alpha": 0.3, "grid.linewidth": 0.5,
    "xtick.major.width": 0.6, "ytick.major.width": 0.6, "xtick.major.size": 2.5, "ytick.major.size": 2.5,
    "pdf.fonttype": 42,
}  # fmt: skip
# no dates and versions in the files, so that they repeat
NAMELESS: dict[str, dict[str, Any]] = {
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}
# characters of the settings that fit in a line
LINE = 135
PAPER_INK = "Greys"
# the markers on the lines, and their meaning
MARKS = {
    "converged": ("o", "all nodes stopped by themselves"),
    "diverged": ("x", "diverged"),
    "below": ("v", "leaves the panel below"),
    "above": ("^", "leaves the panel above"),
}
# the height of the panels of densities over the largest value of the true one
ROOM_ABOVE_TRUTH = 1.6

Dots = dict[str, Any]
Drawing = Callable[[], Figure]


def write_figures(study: Study, folder: Path, workers: int = 1) -> dict[str, Path]:
    """Write all figures of the study as PDF and PNG. Returns the paths by file name. ``workers``: the number of
    parallel processes, which has no influence on the files."""
    figures = drawings(study)
    places = [folder / name for name in figures]
    if workers > 1 and len(figures) > 1:
        # not a fork: kernels of this process may be running on threads
        with ProcessPoolExecutor(min(workers, len(figures)), mp_context=get_context("spawn")) as pool:
            written = list(pool.map(_write, places, figures.values()))
    else:
        written = list(map(_write, places, figures.values()))
    return {path.name: path for paths in written for path in paths}


def _write(place: Path, draw: Drawing) -> list[Path]:
    """Write the files of one figure; ``place`` is the path without a suffix."""
    written = []
    with style.context(["default", PRINT]):
        figure = draw()
        # the layout is computed once for both files
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
        for suffix, metadata in NAMELESS.items():
            path = place.with_name(f"{place.name}.{suffix}")
            with replacing(path) as file:
                figure.savefig(file, format=suffix, dpi=DPI, metadata=metadata)
            written.append(path)
    return written


def drawings(study: Study) -> dict[str, Drawing]:
    """The function that draws each figure, by its name."""
    found: dict[str, Drawing] = {}
    if pairs := paper_rows(study):
        found[SELECTION] = partial(_selection, pairs)
    for experiment in study.experiments.values():
        if experiment.runs:
            found[figure_name(experiment)] = partial(_histories, experiment)
        if pictured_times(experiment):
            found[pictures_name(experiment)] = partial(_images if is_images(experiment) else _curves, experiment)
    for parameter in dict.fromkeys(sweep.parameter for sweep in study.sweeps):
        sweeps = [sweep for sweep in study.sweeps if sweep.parameter == parameter]
        usual = study.experiments.get("gaussian")
        found[sensitivity_name(parameter)] = partial(_sensitivity, parameter, sweeps, usual)
    return found


# ---- lines over time, or over a parameter


def _histories(experiment: Experiment) -> Figure:
    return _over_time(history_rows(experiment), f"{experiment.title}: {setting_text(experiment.setting)}.")


def _selection(pairs: Sequence[tuple[Experiment, str]]) -> Figure:
    """Figure 2 as the paper has it: another digit on every topology."""
    rows = [history_row(e, topology, f"digit {digit_of(e)}\n{LABELS[topology]}") for e, topology in pairs]
    setting = setting_text(pairs[0][0].setting, without="data")
    source = source_of(experiment for experiment, _ in pairs)
    return _over_time(rows, f"The digits and networks that the paper shows: {setting}; data: {source}.")


def _over_time(rows: list[PanelRow], note: str) -> Figure:
    figure, first, marks = _grid(rows, PANELS)
    first.set_xlim(left=0)
    first.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    return _explained(figure, rows, marks, "virtual time (s)", note)


def _sensitivity(parameter: str, sweeps: list[Sweep], experiment: Experiment | None) -> Figure:
    rows = sweep_rows(sweeps)
    figure, first, marks = _grid(rows, SWEPT_PANELS, {"marker": "o", "markersize": 2.2})
    _space_out(first, np.unique(np.concatenate([sweep.values for sweep in sweeps])))
    note = ""
    if experiment is not None:
        note = f"{experiment.title}, at the end: {setting_text(experiment.setting, without=parameter)}."
    return _explained(figure, rows, marks, PARAMETERS.get(parameter, parameter), note)


def _grid(rows: list[PanelRow], panels: Sequence[Panel], dots: Dots | None = None) -> tuple[Figure, Axes, set[str]]:
    """One row a topology, one column a panel. Returns the figure, its first axes, and the kinds of markers used."""
    figure = Figure(figsize=(WIDTH, 1.2 + 1.3 * len(rows)), layout="constrained")
    grid = figure.subplots(len(rows), len(panels), squeeze=False, sharex=True)
    marks: set[str] = set()
    for panel, column in zip(panels, grid.T, strict=True):
        for row, axes in zip(rows, column, strict=True):
            low, high = limits(panel, row, rows)
            if panel.floor is None:
                _scale_plainly(axes, low, high, row.optimum)
            else:
                lifted = any((line.y[panel.column] < low).any() for one in rows for line in one.lines)
                _scale_logarithmically(axes, low, high, lifted)
            for line in row.lines:
                marks |= _draw(axes, panel, line, low, dots)
            axes.grid(True)
        column[0].set_title(panel.title, pad=5)
    if not dots:
        for row, axes in zip(rows, grid[:, -1], strict=True):
            _name(axes, row, panels[-1])
    for row, axes in zip(rows, grid[:, 0], strict=True):
        axes.set_ylabel(row.label, fontweight="bold", labelpad=5)
    return figure, grid[0, 0], marks


def _scale_plainly(axes: Axes, low: float, high: float, optimum: float) -> None:
    """A linear axis with the optimum and the area below it marked."""
    axes.axhline(optimum, color="0.25", linewidth=0.7, zorder=1.5)
    axes.axhspan(low, optimum, color="0.5", alpha=0.18, linewidth=0, zorder=0.5)
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.set_ylim(low, high)


def _scale_logarithmically(axes: Axes, low: float, high: float, lifted: bool) -> None:
    """A logarithmic axis. ``lifted``: values at its lower end may be smaller than shown."""
    room = room_around(low, high)
    axes.set_yscale("log")
    axes.set_ylim(low / room, high * room)
    axes.yaxis.set_major_locator(FixedLocator(log_ticks(low, high)))
    axes.yaxis.set_minor_locator(NullLocator())

    def write(value: float, position: int | None = None) -> str:
        return ("≤" if lifted and value <= low * 1.01 else "") + shown_number(value, 1)

    axes.yaxis.set_major_formatter(FuncFormatter(write))


def _draw(axes: Axes, panel: Panel, line: Line, lowest: float, dots: Dots | None) -> set[str]:
    """One line, with markers where it ends early and where it leaves the panel. Returns the kinds of markers used."""
    look, y = STYLES[line.method], line.y[panel.column]
    if panel.floor is not None:
        y = log_values(y, lowest)
    axes.plot(line.x, y, color=look.colour, linestyle=look.dash, linewidth=look.width, **(dots or {}))
    low, high = axes.get_ylim()
    marks: list[tuple[str, float, float]] = []
    known = np.flatnonzero(np.isfinite(y))
    if dots:
        marks += [("diverged", x, high) for x in line.x[~np.isfinite(y)]]
    elif line.status in MARKS and known.size:
        marks.append((line.status, line.x[known[-1]], float(np.clip(y[known[-1]], low, high))))
    for side, edge, outside in (("below", low, y[known] < low), ("above", high, y[known] > high)):
        if outside.any():
            marks.append((side, line.x[known[outside][0]], edge))
    for kind, x, height in marks:
        axes.plot(x, height, MARKS[kind][0], color=look.colour, markersize=3.6, clip_on=False, zorder=4)
    return {kind for kind, _, _ in marks}


def _name(axes: Axes, row: PanelRow, panel: Panel) -> None:
    """The methods' names beside the ends of their curves on a logarithmic axis."""
    low, high = np.log10(axes.get_ylim())
    named = [line for line in row.lines if line.y[panel.column].size]
    ends = np.array([max(float(line.y[panel.column][-1]), 10.0**low) for line in named])
    for line, height in zip(named, apart(np.clip((np.log10(ends) - low) / (high - low), 0, 1), 0.13), strict=True):
        axes.text(
            1.02, height, SHORT[line.method], color=STYLES[line.method].colour, va="center", fontsize=SMALL,
            transform=axes.transAxes,
        )  # fmt: skip


def _space_out(axes: Axes, values: Floats) -> None:
    """The values of a parameter on a logarithmic axis, a tick for each."""
    axes.set_xscale("log")
    low, high = float(values.min()), float(values.max())
    axes.set_xlim(low / room_around(low, high), high * room_around(low, high))
    axes.xaxis.set_major_locator(FixedLocator(values[:: -(-values.size // 5)].tolist()))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, position=None: f"{value:g}"))


def _explained(figure: Figure, rows: list[PanelRow], marks: set[str], x_label: str, note: str) -> Figure:
    """Add the legend above the figure, and the axis label and the settings below it."""
    entries = _lines(methods_in(rows))
    entries.append((Line2D([], [], color="0.25", linewidth=0.7), "certified optimum"))
    entries.append((Patch(color="0.5", alpha=0.18, linewidth=0), "below it: infeasible duals only"))
    for kind, (marker, text) in MARKS.items():
        if kind in marks:
            entries.append((Line2D([], [], color="0.25", linestyle="", marker=marker, markersize=3.6), text))
    return _annotated(figure, entries, x_label, note)


def _lines(methods: Sequence[str]) -> list[tuple[Any, str]]:
    """Entries of a legend."""
    looks = [STYLES[method] for method in methods]
    lines = [Line2D([], [], color=look.colour, linestyle=look.dash, linewidth=look.width) for look in looks]
    return list(zip(lines, (LABELS[method] for method in methods), strict=True))


def _annotated(figure: Figure, entries: list[tuple[Any, str]], x_label: str, note: str) -> Figure:
    # a legend is filled column by column, and read row by row
    columns = 3
    rows = -(-len(entries) // columns)
    empty = (Line2D([], [], linestyle=""), "")
    entries = entries + [empty] * (rows * columns - len(entries))
    handles, names = zip(
        *(entries[row * columns + column] for column in range(columns) for row in range(rows)), strict=True
    )
    figure.legend(handles, names, loc="outside upper center", ncols=columns, frameon=False, handlelength=2.6)
    figure.supxlabel("\n".join([x_label, *textwrap.wrap(note, LINE)]), fontsize=SMALL)
    return figure


# ---- what the nodes agree on


def _curves(experiment: Experiment) -> Figure:
    """On the line: one row a topology, one column a time."""
    topologies, times = topologies_of(experiment), pictured_times(experiment)
    figure = Figure(figsize=(WIDTH, 1.1 + 1.2 * len(topologies)), layout="constrained")
    grid = figure.subplots(len(topologies), len(times), squeeze=False, sharex=True, sharey=True)
    scale, unit = curve_scale(experiment.support)
    order = np.argsort(experiment.support.points[:, 0])
    z, truth = experiment.support.points[order, 0], scale * experiment.reference[order]
    methods = methods_of(experiment)
    for topology, row in zip(topologies, grid, strict=True):
        for time, axes in zip(times, row, strict=True):
            axes.fill_between(z, truth, color="0.5", alpha=0.3, linewidth=0)
            for method in methods:
                mean, look = mean_of(experiment, topology, method, time), STYLES[method]
                if mean is not None:
                    curve = scale * mean[order]
                    axes.plot(z, curve, color=look.colour, linestyle=look.dash, linewidth=look.width)
            axes.grid(True)
        row[0].set_ylabel(LABELS[topology], fontweight="bold", labelpad=5)
    for time, axes in zip(times, grid[0], strict=True):
        axes.set_title(f"{time:g} s", pad=5)
    grid[0, 0].set_ylim(0, ROOM_ABOVE_TRUTH * float(truth.max()))
    grid[0, 0].margins(x=0)
    entries = [*_lines(methods), (Patch(color="0.5", alpha=0.3, linewidth=0), "true barycenter")]
    note = f"The average estimate of all nodes, as {unit}. {experiment.title}: {setting_text(experiment.setting)}."
    return _annotated(figure, entries, "position", note)


def _images(experiment: Experiment) -> Figure:
    """As pictures: one row a method, then the truth; one group of columns a topology. Positions are in inches, in one
    coordinate system for the whole figure."""
    topologies, times, methods = topologies_of(experiment), pictured_times(experiment), methods_of(experiment)
    left, right, top, gap, group_gap, under = 0.95, 0.08, 0.42, 0.05, 0.16, 0.19
    count = len(topologies) * len(times)
    side = min((WIDTH - left - right - (len(topologies) - 1) * group_gap - count * gap) / count, 1.0)
    note = (
        "The average estimate of all nodes; below each picture its total variation to the true barycenter. "
        f"{experiment.title}: {setting_text(experiment.setting)}."
    )
    lines = textwrap.wrap(note, LINE)
    bottom = top + len(methods) * (side + under) + side
    height = bottom + 0.16 + 0.125 * len(lines)
    figure = Figure(figsize=(WIDTH, height))
    axes = figure.add_axes((0, 0, 1, 1))
    darkest = float(experiment.reference.max())
    for group, topology in enumerate(topologies):
        start = left + group * (len(times) * (side + gap) + group_gap)
        middle = start + (len(times) * (side + gap) - gap) / 2
        axes.text(middle, 0.13, LABELS[topology], ha="center", va="center", fontweight="bold")
        for column, time in enumerate(times):
            x = start + column * (side + gap)
            axes.text(x + side / 2, top - 0.1, f"{time:g} s", ha="center", va="center", fontsize=SMALL)
            for row, method in enumerate(methods):
                y, mean = top + row * (side + under), mean_of(experiment, topology, method, time)
                if mean is None:
                    axes.text(x + side / 2, y + side / 2, NOTHING, ha="center", va="center")
                    continue
                _picture(axes, image_of(experiment, mean), darkest, x, y, side)
                far = short_tv(at_time(experiment.runs[topology, method], "tv", time))
                axes.text(x + side / 2, y + side + under / 2, far, ha="center", va="center", fontsize=SMALL)
            _picture(axes, image_of(experiment, experiment.reference), darkest, x, bottom - side, side)
    for row, label in enumerate([*(LABELS[method] for method in methods), "true barycenter"]):
        y = top + row * (side + under) + side / 2
        axes.text(left - 0.07, y, textwrap.fill(label, 15), ha="right", va="center")
    for number, line in enumerate(lines):
        axes.text(WIDTH / 2, bottom + 0.14 + 0.125 * number, line, ha="center", va="center", fontsize=SMALL)
    axes.set(xlim=(0, WIDTH), ylim=(height, 0))
    axes.set_axis_off()
    return figure


def _picture(axes: Axes, image: Floats, darkest: float, x: float, y: float, side: float) -> None:
    """An image in a square with its upper left corner at (x, y)."""
    place = (x, x + side, y + side, y)
    axes.imshow(image, cmap=PAPER_INK, vmin=0, vmax=darkest, interpolation="nearest", extent=place, aspect="auto")
    axes.add_patch(Rectangle((x, y), side, side, fill=False, linewidth=0.4, edgecolor="0.7"))
