"""The figures of a scene, and how they change with it. A page has as many as the scene has things to show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from barymesh.dashboard.scene import Barycenter, Columns, Floats, NodeTable, Scene
from barymesh.extras import needs
from barymesh.record import NodeState
from barymesh.subsample import evenly
from barymesh.viz.bokeh_network import edge_columns, network_figure, node_columns
from barymesh.viz.bokeh_plots import (
    Curve,
    Dash,
    Figure,
    Frame,
    cloud_columns,
    cloud_figure,
    curve_columns,
    curves_figure,
    estimate_columns,
    estimates_figure,
    image_figure,
)
from barymesh.viz.theme import NOTHING, PALETTE, Panel, curve_scale, log_values, shown_number

with needs("dashboard"):
    from bokeh.models import ColumnDataSource, DataRange1d, LinearColorMapper
    from bokeh.palettes import Magma256

MARKERS: dict[str, str] = {
    NodeState.STARTING: "hex",
    NodeState.WORKING: "circle",
    NodeState.WAITING: "circle_cross",
    NodeState.CONVERGED: "square",
    NodeState.ASLEEP: "triangle",
    NodeState.STUCK: "inverted_triangle",
    NodeState.CUT_OFF: "circle_x",
    NodeState.DEAD: "x",
    NodeState.ENDED: "circle_dot",
    NodeState.LEFT: "dash",
    NodeState.ELSEWHERE: "diamond",
    NodeState.UNKNOWN: "star",
}
# states written beside a node, and not only shown by its shape
EMPHASISED = (NodeState.DEAD, NodeState.STUCK, NodeState.CUT_OFF)
DASHES: tuple[Dash, ...] = ("solid", "dashed", "dotdash", "dotted")
MEAN = "#D55E00"
RATE = "rate"
PANELS = (
    Panel("dual_objective", "dual objective"),
    Panel("dual_error", "dual objective: distance from the optimum", 1e-14),
    Panel("consensus", "consensus (mean L1)", 1e-14),
    Panel("consensus_distance", "consensus distance", 1e-14),
    Panel("feasibility", "feasibility residual", 1e-14),
    Panel("tv", "total variation to the true barycenter", 1e-10),
    Panel("distance", "largest total variation from the mean", 1e-10),
    Panel("error", "largest error estimated by a node (L1)", 1e-10),
    Panel(RATE, "messages a second"),
)
# points of a curve, pixels of a side of a picture, nodes in a mosaic: what can be seen, and sent every second
MOST_POINTS, MOST_PIXELS, MOST_TILES = 400, 256, 16
# parts of a run over which rates are averaged: in more there would be nothing but noise
MOST_RATES = 60


def shape_of(scene: Scene) -> tuple[Any, ...]:
    """What figures the scene needs: scenes of the same shape can follow one another on a page."""
    seen = scene.barycenter
    support = None if seen is None else (seen.support.points.shape, seen.support.grid and seen.support.grid.shape)
    nodes = None if scene.nodes is None else scene.nodes.positions.tobytes()
    return nodes, support, tuple(scene.runs), scene.clock, scene.unit, tuple(p.column for p in panels_of(scene))


class Figures:
    """``roots``: the figures by name. ``show`` brings them up to another scene of the same shape."""

    def __init__(self, scene: Scene) -> None:
        self.roots: dict[str, Figure] = {}
        self.panels: list[str] = []
        # whether the estimates are curves, so that these need a legend
        self.curves = scene.barycenter is not None and scene.barycenter.support.dimension == 1
        self._updates: list[Callable[[Scene], None]] = []
        if scene.nodes is not None:
            self._network(scene.nodes)
        if scene.barycenter is not None:
            self._barycenter(scene.barycenter)
        self._curves(scene)

    def show(self, scene: Scene) -> None:
        """Draw it."""
        for update in self._updates:
            update(scene)

    def _add(self, name: str, plot: Figure) -> Figure:
        plot.name = name
        self.roots[name] = plot
        return plot

    # ---- the network

    def _network(self, nodes: NodeTable) -> None:
        plot = self._add("network", network_figure(_nodes(nodes), _edges(nodes), "", height=430))
        dots, lines = _source(plot, "nodes"), _source(plot, "edges")

        def update(scene: Scene) -> None:
            if scene.nodes is not None:
                dots.data, lines.data = _nodes(scene.nodes), _edges(scene.nodes)

        self._updates.append(update)

    # ---- the barycenter

    def _barycenter(self, seen: Barycenter) -> None:
        grid = seen.support.grid
        if seen.support.dimension == 1:
            self._line(seen)
        elif grid is not None and len(grid.shape) in (2, 3):
            self._images(seen)
        else:
            plot = self._add("barycenter", cloud_figure(seen.support.points, seen.mean, "mean of the nodes", 430))
            dots = _source(plot, "cloud")
            self._follow(lambda new: setattr(dots, "data", cloud_columns(new.support.points, new.mean)))

    def _line(self, seen: Barycenter) -> None:
        order = np.argsort(seen.support.points[:, 0])
        order = order[evenly(order.size, MOST_POINTS)]
        z = seen.support.points[order, 0]
        scale, label = curve_scale(seen.support)
        frame = Frame("", f"position (upwards: {label})", None, height=430)

        def mean(new: Barycenter) -> Curve:
            return Curve("mean of the nodes", z, scale * new.mean[order], MEAN, width=3)

        own = scale * seen.estimates[:, order]
        plot = self._add("barycenter", estimates_figure(z, own, mean(seen), frame, DataRange1d(range_padding=0.02)))
        plot.y_range.start = 0
        many, one = _source(plot, "estimates"), _source(plot, "curves")

        def update(new: Barycenter) -> None:
            many.data = estimate_columns(z, scale * new.estimates[:, order])
            one.data = curve_columns([mean(new)], frame)

        self._follow(update)

    def _images(self, seen: Barycenter) -> None:
        for name, title, picture in (
            ("barycenter", "mean of the nodes", _mean_picture),
            ("estimates", f"{min(MOST_TILES, len(seen.estimates))} nodes' own estimates", _mosaic),
        ):
            plot = self._add(name, image_figure(picture(seen), title, height=330, palette=Magma256))
            source = _source(plot, "image")
            inks = plot.select_one({"type": LinearColorMapper})

            def update(new: Barycenter, source: Any = source, inks: Any = inks, picture: Any = picture) -> None:
                image = picture(new)
                source.data = {"image": [image.astype(np.float32)]}
                inks.high = float(image.max()) or 1.0

            self._follow(update)

    def _follow(self, update: Callable[[Barycenter], None]) -> None:
        self._updates.append(lambda scene: update(scene.barycenter) if scene.barycenter is not None else None)

    # ---- the curves

    def _curves(self, scene: Scene) -> None:
        x_range = DataRange1d(range_padding=0.02)
        for panel in panels_of(scene):
            frame = Frame(panel.title, clock_label(scene), None, log=panel.floor is not None, unit=scene.unit)
            plot = self._add(f"panel_{panel.column}", curves_figure(_panel(panel, scene), frame, x_range))
            if panel.column == RATE:
                plot.y_range.start = 0
            self.panels.append(plot.name)
            source = _source(plot, "curves")

            def update(new: Scene, panel: Panel = panel, frame: Frame = frame, source: Any = source) -> None:
                source.data = curve_columns(_panel(panel, new), frame)

            self._updates.append(update)


def clock_label(scene: Scene) -> str:
    """What the time of the runs is called."""
    return {"": scene.clock, "s": "time (s)", "virtual s": "virtual time (s)"}[scene.unit]


def panels_of(scene: Scene) -> list[Panel]:
    """Those on which there is something to see."""
    return [panel for panel in PANELS if any(np.isfinite(curve.y).any() for curve in _panel(panel, scene))]


def style(number: int) -> tuple[str, Dash]:
    """Colour and dash of the curves of the run of this number."""
    return PALETTE[number % len(PALETTE)], DASHES[number % len(DASHES)]


def _panel(panel: Panel, scene: Scene) -> list[Curve]:
    curves = []
    for number, (name, run) in enumerate(scene.runs.items()):
        x, y = _values(panel, scene, run)
        if panel.floor is not None:
            y = log_values(np.abs(y), panel.floor)
        curves.append(Curve(name, x, y, *style(number)))
    return curves


def _values(panel: Panel, scene: Scene, run: Columns) -> tuple[Floats, Floats]:
    """A column over the run's time; for rates, their averages over parts of it."""
    time = run.get(scene.clock, np.empty(0))
    if panel.column != RATE:
        return time, run.get(panel.column, np.full(time.size, np.nan))
    if "messages" not in run or time.size < 2:
        return time, np.full(time.size, np.nan)
    ends = evenly(time.size, MOST_RATES + 1)
    # a node that was started again counts what it sent from 0
    sent, took = np.maximum(np.diff(run["messages"][ends]), 0), np.diff(time[ends])
    return time[ends[1:]], np.divide(sent, took, out=np.full(sent.size, np.nan), where=took > 0)


def _nodes(nodes: NodeTable) -> dict[str, Any]:
    notes = nodes.notes or [""] * len(nodes.names)
    texts = [
        "; ".join(filter(None, [f"{distance_text(error)} from the mean", note]))
        for error, note in zip(nodes.errors, notes, strict=True)
    ]
    return node_columns(nodes.names, nodes.positions, nodes.errors, nodes.states, MARKERS, EMPHASISED, texts)


def _edges(nodes: NodeTable) -> dict[str, Any]:
    ends = [f"{nodes.names[i]} – {nodes.names[j]}: " for i, j in nodes.edges]  # noqa: RUF001
    texts = [end + age_text(age) for end, age in zip(ends, nodes.staleness, strict=True)]
    return edge_columns(nodes.positions, nodes.edges, nodes.staleness, texts)


def distance_text(error: float) -> str:
    """A distance for people."""
    return shown_number(error, 2) if np.isfinite(error) else NOTHING


def age_text(age: float) -> str:
    """How old the last message over an edge is, as text."""
    if np.isnan(age):
        return "age of the last message unknown"
    return "no message yet" if np.isinf(age) else f"last message sent {age:.2g} s ago"


def _mean_picture(seen: Barycenter) -> Floats:
    return _picture(seen, seen.mean)


def _mosaic(seen: Barycenter) -> Floats:
    """Estimates of some nodes side by side, each as dark as its own maximum."""
    chosen = evenly(len(seen.estimates), MOST_TILES)
    tiles = [_picture(seen, seen.estimates[k], MOST_PIXELS // 2) for k in chosen]
    side = int(np.ceil(np.sqrt(len(tiles))))
    height, width = tiles[0].shape
    whole = np.zeros((-(-len(tiles) // side) * (height + 1) - 1, side * (width + 1) - 1))
    for place, tile in enumerate(tiles):
        top, left = place // side * (height + 1), place % side * (width + 1)
        whole[top : top + height, left : left + width] = tile / (tile.max() or 1.0)
    return whole


def _picture(seen: Barycenter, weights: Floats, most: int = MOST_PIXELS) -> Floats:
    """Weights on a grid as a picture; a volume is summed along its first axis."""
    assert seen.support.grid is not None
    image = weights.reshape(seen.support.grid.shape)
    if image.ndim == 3:
        image = image.sum(axis=0)
    return image[:: -(-image.shape[0] // most), :: -(-image.shape[1] // most)]


def _source(plot: Figure, name: str) -> Any:
    return plot.select_one({"type": ColumnDataSource, "name": name})
