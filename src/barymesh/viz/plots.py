"""Figures of results. They are made without pyplot, so that they do not change its state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from barymesh.viz.comparison import is_of_network, plot_runs
from barymesh.viz.figure import Figure
from barymesh.viz.plane import COLOURS, PlanePicture, axis_name
from barymesh.viz.theme import curve_scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from barymesh.history import History
    from barymesh.result import Result

INK = "#1f4e79"


def plot_result(result: Result) -> Figure:
    """One figure of the barycenter, by the kind of its support."""
    grid, d = result.support.grid, result.support.dimension
    if d == 3 and grid is not None:
        return _projections(result)
    figure = Figure(figsize=(5.2, 4.2), layout="constrained")
    axes = figure.subplots()
    if d == 1:
        draw_curve(axes, result)
    elif d == 2 and grid is not None:
        PlanePicture(axes, result.support, result.weights)
    else:
        draw_cloud(axes, result)
    axes.set_title(_title(result), fontsize=10)
    return figure


def draw_curve(axes: Axes, result: Result) -> None:
    """Weights over the line, as a density if the points are evenly spaced."""
    order = np.argsort(result.support.points[:, 0])
    z = result.support.points[order, 0]
    scale, label = curve_scale(result.support)
    weights = scale * result.weights[order]
    axes.set_ylabel(label)
    axes.plot(z, weights, color=INK)
    axes.fill_between(z, weights, alpha=0.2, color=INK)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(axis_name(result.support, 0, "position"))


def draw_cloud(axes: Axes, result: Result) -> None:
    """Weighted points: size and colour show weight. Only the first two coordinates are drawn."""
    order = np.argsort(result.weights)
    points, weights = result.support.points[order], result.weights[order]
    size = 4 + 120 * weights / weights.max()
    dots = axes.scatter(
        points[:, 0], points[:, 1], s=size, c=weights, cmap=f"{COLOURS}_r", edgecolors="0.4", linewidths=0.3
    )
    axes.figure.colorbar(dots, ax=axes, label="weight")
    axes.set_xlabel(axis_name(result.support, 0, "first coordinate"))
    axes.set_ylabel(axis_name(result.support, 1, "second coordinate"))
    if points.shape[1] > 2:
        axes.text(0.02, 0.02, f"2 of {points.shape[1]} coordinates", transform=axes.transAxes, fontsize=8)
    axes.set_aspect("equal", adjustable="datalim")


def _projections(result: Result) -> Figure:
    figure = Figure(figsize=(10.5, 3.8), layout="constrained")
    for axis, axes in enumerate(figure.subplots(1, 3)):
        first, second = (other for other in range(3) if other != axis)
        PlanePicture(axes, result.support, result.weights, (first, second))
        axes.set_title(f"summed over {axis_name(result.support, axis, f'axis {axis}')}", fontsize=9)
    figure.suptitle(_title(result), fontsize=10)
    return figure


def plot_history(history: History) -> Figure:
    """Every column against the first; positive ones on a logarithmic scale. For a run on a network, the columns that
    show its progress."""
    if is_of_network(history):
        return plot_runs({"": history})
    names = list(history.columns)
    figure = Figure(figsize=(4.2 * max(len(names) - 1, 1), 3.2), layout="constrained")
    panels = np.atleast_1d(np.asarray(figure.subplots(1, max(len(names) - 1, 1)), dtype=object))
    for name, axes in zip(names[1:], panels, strict=False):
        axes.plot(history[names[0]], history[name], color=INK, marker="o" if len(history) == 1 else None)
        if len(history) and (history[name] > 0).all():
            axes.set_yscale("log")
        axes.set_xlabel(names[0])
        axes.set_title(name.replace("_", " "), fontsize=10)
    return figure


def _title(result: Result) -> str:
    gap = f"certified gap {result.gap:.1e}" if result.gap == result.gap else "not certified"
    return f"Barycenter of {result.summary()['measures']} measures, reg {result.reg:.3g}\n{gap}"
