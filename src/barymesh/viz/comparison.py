"""Runs on a network, one or several, drawn over virtual time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import LogFormatter
from numpy.typing import NDArray

from barymesh.viz.figure import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

    from barymesh.history import History

# Okabe and Ito's colours, which people of any colour vision can tell apart; line styles help where lines meet
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLES = ("-", "--", "-.", ":")
# residuals below this are rounding and nothing else
ROUNDING = 1e-16
# decades shown on either side of zero on a signed axis
SIGNED_DECADES = 4


@dataclass(frozen=True)
class Panel:
    """One column of a history as a picture. ``signed``: values below zero mean something, and are marked."""

    column: str
    title: str
    signed: bool = False


PANELS = (
    Panel("dual_error", "dual objective minus the optimum", signed=True),
    Panel("dual_objective", "dual objective", signed=True),
    Panel("consensus", "mean L1 distance of the nodes from the barycenter"),
    Panel("feasibility", "feasibility residual"),
    Panel("tv", "total variation to the true barycenter"),
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
            history[panel.column] if panel.signed else _above_rounding(history[panel.column]),
            color=PALETTE[number % len(PALETTE)],
            linestyle=STYLES[number % len(STYLES)],
            marker="o" if len(history) == 1 else None,
            label=name,
        )
    if panel.column == "dual_error":
        _scale_signed(axes, np.concatenate([h["dual_error"] for h in runs.values() if "dual_error" in h.columns]))
    elif not panel.signed:
        axes.set_yscale("log")
        label_plainly(axes.yaxis)
    axes.set_title(panel.title, fontsize=10)
    axes.set_xlabel("virtual time (s)")
    axes.grid(alpha=0.25)
    axes.margins(x=0.02)
    axes.tick_params(labelbottom=True)


def _above_rounding(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values for a logarithmic axis. A run that never leaves rounding is a line at the bottom; else zeros, as at time
    0, are left out, because they would stretch the axis to nothing."""
    shown = np.maximum(values, ROUNDING)
    if (values > ROUNDING).any():
        shown[values <= 0] = np.nan
    return shown


def _scale_signed(axes: Axes, values: NDArray[np.float64]) -> None:
    """A logarithmic axis; on both sides of zero if there are values below it, which are marked as infeasible."""
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
