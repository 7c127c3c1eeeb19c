"""Figures of results. They are made without pyplot, so that they do not change its state."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from barymesh.viz.cloud import CloudPicture
from barymesh.viz.comparison import is_of_network, plot_runs
from barymesh.viz.figure import Figure
from barymesh.viz.inputs import MOST_ROWS, Input, draw_inputs, known_inputs, numbered_pixels
from barymesh.viz.plane import PlanePicture, axis_name
from barymesh.viz.theme import curve_scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection

    from barymesh.history import History
    from barymesh.result import Result

Floats = NDArray[np.float64]
INK = "#1f4e79"
# weights that differ by less, relative to the largest, are equal
EQUAL = 1e-6


def plot_result(result: Result, *, inputs: bool = True) -> Figure:
    """One figure of the barycenter, by the kind of its support."""
    d, grid, notes = result.support.dimension, result.support.grid, []
    if d > 2:
        return _projections(result)
    if inputs and d == 2 and grid is not None and (known := known_inputs(result)):
        return _with_inputs(result, known)
    figure = Figure(figsize=(5.2, 4.2), layout="constrained")
    axes = figure.subplots()
    if d == 1:
        draw_curve(axes, result)
    elif grid is not None:
        draw_picture(axes, result)
    else:
        cloud = CloudPicture(axes, result.support, result.weights)
        notes = _scaled(figure, [cloud.dots], [axes], result.weights)
    axes.set_title(_title(result, *notes), fontsize=10)
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
    axes.set_xlabel(axis_name(result.support, 0))


def draw_picture(axes: Axes, result: Result) -> None:
    """Weights on a grid in the plane: over rows and columns if they are pixels, else over the coordinates."""
    pixels = numbered_pixels(result)
    PlanePicture(axes, pixels or result.support, result.weights)
    if pixels is not None:
        axes.set(xlabel="column", ylabel="row")
        axes.locator_params(integer=True)


def _with_inputs(result: Result, inputs: list[Input]) -> Figure:
    """A large picture of the barycenter, and small ones of the inputs on its left."""
    widths = (1.3 if len(inputs) <= MOST_ROWS else 2.3, 4.6)
    figure = Figure(figsize=(sum(widths), 4.2), layout="constrained")
    halves: Any = figure.subfigures(1, 2, width_ratios=widths)
    left, right = halves
    # the barycenter first: it stays the first of the figure's axes
    axes = right.subplots()
    draw_picture(axes, result)
    axes.set_title(_title(result), fontsize=10)
    draw_inputs(left, inputs, result.summary()["measures"])
    return figure


def _projections(result: Result) -> Figure:
    """The first three coordinates, two at a time. Weights on a grid are summed over the others."""
    support, weights, d = result.support, result.weights, result.support.dimension
    notes = [f"the first 3 of {d} coordinates"] if d > 3 else []
    figure = Figure(figsize=(11.5, 4.2), layout="constrained")
    # without an anchor, labels are taken to fit into the space beside panels of fixed shape, and are cut off
    panels: list[Axes] = list(figure.subplots(1, 3, subplot_kw={"anchor": "SW"}))
    views = list(zip(panels, combinations(range(3), 2), strict=True))
    if support.grid is None:
        dots = [CloudPicture(axes, support, weights, kept).dots for axes, kept in views]
        notes += _scaled(figure, dots, panels, weights)
    else:
        images = [PlanePicture(axes, support, weights, kept).image for axes, kept in views]
        largest = max(image.get_clim()[1] for image in images)
        for image in images:
            image.set_clim(0, largest)
        label = f"weight, summed over the coordinate{'s' * (d > 3)} not shown"
        figure.colorbar(images[0], ax=panels, label=label, panchor=False)
    figure.suptitle(_title(result, *notes), fontsize=10)
    return figure


def _scaled(figure: Figure, clouds: list[PathCollection], panels: list[Axes], weights: Floats) -> list[str]:
    """Draw the scale of the weights of points. Where all are equal, give the dots one colour, and return a note."""
    if np.ptp(weights) > EQUAL * weights.max():
        figure.colorbar(clouds[0], ax=panels, label="weight")
        return []
    for dots in clouds:
        dots.set(array=None, facecolor=INK)
    return [f"{weights.size} points of equal weight"]


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


def _title(result: Result, *notes: str) -> str:
    gap = f"certified gap {result.gap:.1e}" if result.gap == result.gap else "not certified"
    first = f"Barycenter of {result.summary()['measures']} measures, reg {result.reg:.3g}"
    return f"{first}\n{'; '.join([gap, *notes])}"
