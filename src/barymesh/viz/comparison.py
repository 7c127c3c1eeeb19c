"""Histories of runs on a network, one or several, over virtual time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from barymesh.extras import needs
from barymesh.viz.figure import Figure
from barymesh.viz.theme import PALETTE, Panel, log_values

with needs("plots"):
    from matplotlib.ticker import LogFormatter

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

    from barymesh.history import History

# they help where lines meet
STYLES = ("-", "--", "-.", ":")
# smaller residuals are rounding errors
ROUNDING = 1e-16
# decades shown on either side of zero on a signed axis
SIGNED_DECADES = 4


# the dual error has a sign: its axis is logarithmic on both sides of zero where it needs to be
PANELS = (
    Panel("dual_error", "dual objective minus the optimum"),
    Panel("dual_objective", "dual objective"),
    Panel("consensus", "consensus (mean L1 distance)", ROUNDING),
    Panel("feasibility", "feasibility residual", ROUNDING),
    Panel("tv", "total variation to the true barycenter", ROUNDING),
)


def is_of_network(history: History) -> bool:
    """Whether the history is of a run in virtual time."""
    return {"time", "consensus", "feasibility"} <= set(history.columns)


def plot_runs(runs: Mapping[str, History]) -> Figure:
    """One panel a metric, one line a run. ``runs``: histories by name; the name of a single one is not shown."""
    panels = [panel for panel in PANELS if any(_known(history, panel.column) for history in runs.values())]
    if panels and panels[0].column == "dual_error":
        panels = [panel for panel in panels if panel.column != "dual_objective"]
    square = len(panels) == 4
    figure = Figure(figsize=(9.6, 6.8) if square else (4.2 * max(len(panels), 1), 3.6), layout="constrained")
    grid = figure.subplots(*((2, 2) if square else (1, max(len(panels), 1))), squeeze=False, sharex=True)
    for panel, axes in zip(panels, grid.flat, strict=False):
        _draw(axes, panel, runs)
    if len(runs) > 1 and panels:
        lines, names = grid.flat[0].get_legend_handles_labels()
        figure.legend(lines, names, loc="outside upper center", ncols=min(len(names), 4), frameon=False)
    return figure


def label_plainly(axis: Axis) -> None:
    """0.06 instead of 6 x 10^-2 on a logarithmic axis."""
    axis.set_major_formatter(_PlainFormatter(minor_thresholds=(1.5, 0.5)))
    axis.set_minor_formatter(_PlainFormatter(minor_thresholds=(1.5, 0.5)))


class _PlainFormatter(LogFormatter):
    def __call__(self, x: float, pos: int | None = None) -> str:
        # the base class knows which ticks have room for a label
        return f"{x:g}" if super().__call__(x, pos) else ""


def _known(history: History, column: str) -> bool:
    return column in history.columns and bool(np.isfinite(history[column]).any())


def _draw(axes: Axes, panel: Panel, runs: Mapping[str, History]) -> None:
    for number, (name, history) in enumerate(runs.items()):
        if panel.column not in history.columns:
            continue
        axes.plot(
            history["time"],
            history[panel.column] if panel.floor is None else log_values(history[panel.column], panel.floor),
            color=PALETTE[number % len(PALETTE)],
            linestyle=STYLES[number % len(STYLES)],
            marker="o" if len(history) == 1 else None,
            label=name,
        )
    if panel.column == "dual_error":
        _scale_signed(axes, np.concatenate([h["dual_error"] for h in runs.values() if "dual_error" in h.columns]))
    elif panel.floor is not None:
        axes.set_yscale("log")
        label_plainly(axes.yaxis)
    axes.set_title(panel.title, fontsize=10)
    axes.set_xlabel("virtual time (s)")
    axes.grid(alpha=0.25)
    axes.margins(x=0.02)
    axes.tick_params(labelbottom=True)


def _scale_signed(axes: Axes, values: NDArray[np.float64]) -> None:
    """A logarithmic axis; if there are values below zero, on both sides of it, and marked as infeasible there."""
    sizes = np.abs(values[np.isfinite(values) & (values != 0)])
    if sizes.size == 0:
        return
    if not (values < 0).any():
        axes.set_yscale("log", nonpositive="mask")
        label_plainly(axes.yaxis)
        return
    smallest = max(float(sizes.min()), float(sizes.max()) * 10.0**-SIGNED_DECADES)
    axes.set_yscale("symlog", linthresh=10.0 ** np.floor(np.log10(smallest)))
    low, high = axes.get_ylim()
    axes.axhline(0, color="0.3", linewidth=0.8)
    axes.axhspan(low, 0, color="0.5", alpha=0.15, linewidth=0)
    axes.set_ylim(low, high)
    axes.text(
        0.02, 0.03, "below the optimum: infeasible", transform=axes.transAxes, fontsize=9, style="italic"
    )  # fmt: skip
