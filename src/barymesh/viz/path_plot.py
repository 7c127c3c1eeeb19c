"""Figures and animations of barycenters along a path of weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from barymesh.checks import whole_number
from barymesh.extras import needs
from barymesh.subsample import evenly
from barymesh.viz.cloud import CloudPicture
from barymesh.viz.figure import Figure
from barymesh.viz.plane import PlanePicture, axis_name
from barymesh.viz.plots import INK
from barymesh.viz.theme import curve_scale

with needs("plots"):
    from matplotlib import colormaps
    from matplotlib.animation import FuncAnimation
    from matplotlib.backends.backend_agg import FigureCanvasAgg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from barymesh.result import Result
    from barymesh.support.points import Support

Floats = NDArray[np.floating[Any]]
# draws weights ``(n,)``, again and again
Draw = Callable[[Floats], object]
MOST_PICTURES = 7
PATH_COLOURS = "viridis"


def plot_path(results: Sequence[Result], weights: Floats) -> Figure:
    """Curves of all barycenters in 1-D, coloured from the first to the last, else a row of pictures."""
    support = results[0].support
    if support.dimension == 1:
        figure = Figure(figsize=(5.6, 3.8), layout="constrained")
        axes = figure.subplots()
        order = np.argsort(support.points[:, 0])
        scale, label = curve_scale(support)
        for share, result in zip(np.linspace(0, 1, len(results)), results, strict=True):
            ends = {0.0: "first", 1.0: "last"}.get(float(share))
            colour = colormaps[PATH_COLOURS](0.92 * share)
            axes.plot(support.points[order, 0], scale * result.weights[order], color=colour, label=ends)
        axes.set(xlabel=axis_name(support, 0), ylabel=label)
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False)
        axes.set_title(f"{len(results)} barycenters of {weights.shape[1]} measures", fontsize=10)
        return figure
    shown = evenly(len(results), MOST_PICTURES)
    figure = Figure(figsize=(1.9 * len(shown), 2.3), layout="constrained")
    panels = np.atleast_1d(np.asarray(figure.subplots(1, len(shown)), dtype=object))
    for step, axes in zip(shown, panels, strict=True):
        _drawing(axes, support, np.array([results[step].weights]))(results[step].weights)
        axes.set(xticks=[], yticks=[], xlabel="", ylabel="")
        axes.set_title(_shares(weights[step]), fontsize=8)
    return figure


def animate_path(results: Sequence[Result], weights: Floats, *, fps: int) -> FuncAnimation:
    """The weights of the measures on the left, as bars; their barycenter on the right."""
    support, masses = results[0].support, np.array([result.weights for result in results])
    figure = Figure(figsize=(8.6, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, width_ratios=(1, 2.2))
    names = [label or f"measure {k}" for k, label in enumerate(results[0].labels)]
    bars = left.barh(np.arange(len(names)), weights[0], color=INK)
    left.set(xlim=(0, 1), xlabel="weight")
    left.set_yticks(np.arange(len(names)) if len(names) <= 30 else [], names if len(names) <= 30 else [])
    left.invert_yaxis()
    draw = _drawing(right, support, masses)
    title = figure.suptitle("", fontsize=11)

    def show(frame: int) -> list[Any]:
        for bar, share in zip(bars, weights[frame], strict=True):
            bar.set_width(float(share))
        draw(masses[frame])
        title.set_text(f"barycenter {frame + 1} of {len(results)}")
        return []

    show(0)
    # laid out once, so that nothing moves between frames
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    return FuncAnimation(figure, show, frames=len(results), interval=1000 / whole_number("fps", fps, 1), blit=False)


def _drawing(axes: Axes, support: Support, masses: Floats) -> Draw:
    """Draw one of the ``masses (frames, n)``, and return what draws another in its place."""
    grid, points = support.grid, support.points
    if support.dimension == 1:
        order = np.argsort(points[:, 0])
        scale, label = curve_scale(support)
        (curve,) = axes.plot(points[order, 0], scale * masses[0][order], color=INK)
        axes.set(xlabel=axis_name(support, 0), ylabel=label, ylim=(0, 1.05 * scale * masses.max()))
        return lambda own: curve.set_ydata(scale * own[order])
    if grid is not None:
        return PlanePicture(axes, support, masses[0]).show
    return CloudPicture(axes, support, masses[0]).show


def _shares(weights: Floats) -> str:
    return " : ".join(f"{share:.2g}" for share in weights) if weights.size <= 4 else ""
