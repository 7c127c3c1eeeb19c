"""The figures of a recording: those of one scene, and curves over time. A page has as many as there is to show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from barymesh.dashboard.marks import DONE, EPOCH, HARM, ROUNDS, Mark, marks_of
from barymesh.dashboard.scene import MOST_TILES, Barycenter, Columns, Floats, NodeTable, Recording, Scene
from barymesh.extras import needs
from barymesh.record import NodeState
from barymesh.subsample import evenly
from barymesh.viz.bokeh_network import edge_columns, network_figure, node_sources, tree_columns
from barymesh.viz.bokeh_plots import (
    LEVEL,
    ONE_OF_MANY,
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
    from bokeh.models import ColumnDataSource, DataRange1d, LinearColorMapper, Span, Text, VSpan
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
    Panel("dual_error", "dual objective: gap to the optimum", 1e-14),
    Panel("consensus", "consensus (mean L1)", 1e-14),
    Panel("consensus_distance", "consensus distance", 1e-14),
    Panel("feasibility", "feasibility residual", 1e-14),
    Panel("tv", "total variation to the true barycenter", 1e-10),
    Panel("distance", "largest total variation from the mean", 1e-10),
    Panel("error", "largest error estimated by a node (L1)", 1e-10),
    Panel(RATE, "messages a second"),
)
# points of a curve, pixels of a side of a picture: what can be seen, and sent every second
MOST_POINTS, MOST_PIXELS = 400, 256
# pixels on the right of curves for their labels: of a letter, and of a number, and at most
LETTER, NUMBER_ROOM, MOST_ROOM = 6.2, 72, 120
# what marks look like
MARK_LOOKS = {
    EPOCH: ("#777777", "dashed"), ROUNDS: ("#0072B2", "solid"), HARM: ("#D55E00", "dotted"), DONE: ("#009E73", "solid"),
}  # fmt: skip
# parts of a run over which rates are averaged: in more there would be nothing but noise
MOST_RATES = 60


def shape_of(recording: Recording) -> tuple[Any, ...]:
    """What figures the recording needs: those of the same shape can follow one another on a page."""
    scene = recording.newest
    seen, nodes = scene.barycenter, scene.nodes
    support = None if seen is None else (seen.support.points.shape, seen.support.grid and seen.support.grid.shape)
    places = None if nodes is None else nodes.graph.positions.tobytes()
    panels = tuple(panel.column for panel in panels_of(recording))
    return places, support, tuple(recording.runs), recording.clock, recording.unit, panels


class Figures:
    """``roots``: the figures by name. ``show`` draws another scene, and ``renew`` what has come to the recording."""

    def __init__(self, recording: Recording) -> None:
        self.roots: dict[str, Figure] = {}
        self.panels: list[str] = []
        self._updates: list[Callable[[Scene], None]] = []
        self._renewals: list[Callable[[Recording], None]] = []
        self._cursors: list[Span] = []
        scene = recording.newest
        if scene.nodes is not None:
            self._network(scene.nodes)
        if scene.barycenter is not None:
            self._barycenter(scene.barycenter)
        self._curves(recording)

    def show(self, scene: Scene, *, live: bool) -> None:
        """Draw the scene, and where it is in time unless it is the newest."""
        for update in self._updates:
            update(scene)
        for cursor in self._cursors:
            cursor.update(location=scene.now, visible=not live and bool(np.isfinite(scene.now)))

    def renew(self, recording: Recording) -> None:
        """Draw what is over time."""
        for update in self._renewals:
            update(recording)

    def _add(self, name: str, plot: Figure) -> Figure:
        plot.name = name
        self.roots[name] = plot
        return plot

    # ---- the network

    def _network(self, nodes: NodeTable) -> None:
        plot = self._add("network", network_figure(_network_sources(nodes), "", height=430))

        def update(scene: Scene) -> None:
            if scene.nodes is not None:
                for name, columns in _network_sources(scene.nodes).items():
                    _source(plot, name).data = columns

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
        scale, label = curve_scale(seen.support)
        frame = Frame("", f"position (upwards: {label})", None, height=430)

        def drawn(new: Barycenter) -> tuple[Floats, Curve, Floats, dict[str, Any]]:
            """The points, which may move, the mean and the estimates there, and the labels of both."""
            order = np.argsort(new.support.points[:, 0])
            order = order[evenly(order.size, MOST_POINTS)]
            z, mean, own = new.support.points[order, 0], scale * new.mean[order], scale * new.estimates[:, order]
            curves = np.vstack([mean, own])
            ends = [_beside(z, curves, 0.5 * mean.max()), _beside(z, curves, 0.85 * own.max())]
            tips = _tips(ends, ["mean of the nodes", "each node"], [MEAN, ONE_OF_MANY])
            return z, Curve("mean of the nodes", z, mean, MEAN, width=3), own, tips

        z, mean, own, tips = drawn(seen)
        plot = self._add("barycenter", estimates_figure(z, own, mean, frame, DataRange1d(range_padding=0.02)))
        plot.y_range.start = 0
        many, one, labels = _source(plot, "estimates"), _source(plot, "curves"), _add_tips(plot, tips)

        def update(new: Barycenter) -> None:
            z, mean, own, tips = drawn(new)
            many.data, one.data, labels.data = estimate_columns(z, own), curve_columns([mean], frame), tips

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

    def _curves(self, recording: Recording) -> None:
        x_range = DataRange1d(range_padding=0.02)
        marks = ColumnDataSource(_mark_columns(marks_of(recording.scenes)), name="marks")
        self._renewals.append(lambda new: setattr(marks, "data", _mark_columns(marks_of(new.scenes))))
        for panel in panels_of(recording):
            frame = Frame(panel.title, clock_label(recording), None, log=panel.floor is not None, unit=recording.unit)
            curves = _panel(panel, recording)
            plot = self._add(f"panel_{panel.column}", curves_figure(curves, frame, x_range))
            if panel.column == RATE:
                plot.y_range.start = 0
            self.panels.append(plot.name)
            self._over_time(plot, marks)
            source, tips = _source(plot, "curves"), _add_tips(plot, _curve_tips(curves))
            longest = max((len(curve.name) for curve in curves), default=0)
            plot.min_border_right = NUMBER_ROOM if len(curves) == 1 else min(MOST_ROOM, round(14 + LETTER * longest))

            def renew(
                new: Recording, panel: Panel = panel, frame: Frame = frame, source: Any = source, tips: Any = tips
            ) -> None:
                curves = _panel(panel, new)
                source.data = curve_columns(curves, frame)
                tips.data = _curve_tips(curves)

            self._renewals.append(renew)

    def _over_time(self, plot: Figure, marks: ColumnDataSource) -> None:
        """What happened, as lines whose labels the page finds room for, and the time of the scene that is shown."""
        lines = VSpan(x="x", line_color="ink", line_dash="dash", line_width=1.3, line_alpha=0.75)
        plot.add_glyph(marks, lines, level="underlay")
        names = ColumnDataSource({name: [] for name in ("x", "y", "text", "ink", "shift")}, name="mark_labels")
        text = Text(
            x="x", y="y", text="text", text_color="ink", x_offset="shift", y_offset=-1, text_baseline="bottom",
            text_font_size="10px",
        )  # fmt: skip
        # above the frame, where no curve is
        plot.add_glyph(names, text, level="overlay")
        plot.title.standoff = 22
        cursor = Span(location=0, dimension="height", line_width=1.5, visible=False, tags=[LEVEL])
        plot.add_layout(cursor)
        self._cursors.append(cursor)


def clock_label(recording: Recording) -> str:
    """What the time of the runs is called."""
    return {"": recording.clock, "s": "time (s)", "virtual s": "virtual time (s)"}[recording.unit]


def panels_of(recording: Recording) -> list[Panel]:
    """Those on which there is something to see."""
    return [panel for panel in PANELS if any(np.isfinite(curve.y).any() for curve in _panel(panel, recording))]


def style(number: int) -> tuple[str, Dash]:
    """Colour and dash of the curves of the run of this number."""
    return PALETTE[number % len(PALETTE)], DASHES[number % len(DASHES)]


def _panel(panel: Panel, recording: Recording) -> list[Curve]:
    curves = []
    for number, (name, run) in enumerate(recording.runs.items()):
        x, y = _values(panel, recording.clock, run)
        if panel.floor is not None:
            y = log_values(np.abs(y), panel.floor)
        curves.append(Curve(name, x, y, *style(number)))
    return curves


def _values(panel: Panel, clock: str, run: Columns) -> tuple[Floats, Floats]:
    """A column over the run's time; for rates, their averages over parts of it."""
    time = run.get(clock, np.empty(0))
    if panel.column != RATE:
        return time, run.get(panel.column, np.full(time.size, np.nan))
    if "messages" not in run or time.size < 2:
        return time, np.full(time.size, np.nan)
    ends = evenly(time.size, MOST_RATES + 1)
    # a node that was started again counts what it sent from 0
    sent, took = np.maximum(np.diff(run["messages"][ends]), 0), np.diff(time[ends])
    return time[ends[1:]], np.divide(sent, took, out=np.full(sent.size, np.nan), where=took > 0)


# ---- labels


def _add_tips(plot: Figure, tips: dict[str, Any]) -> ColumnDataSource:
    """Labels beside curves. The page moves them apart ("shift"), and gives them the colour that they have on it."""
    source = ColumnDataSource(tips, name="tips")
    text = Text(
        x="x", y="y", text="text", text_color="ink", x_offset=7, y_offset="shift", text_baseline="middle",
        text_font_size="11px",
    )  # fmt: skip
    # beside the frame, too
    plot.add_glyph(source, text, level="overlay")
    return source


def _tips(ends: Sequence[tuple[float, float]], texts: Sequence[str], colours: Sequence[str]) -> dict[str, Any]:
    return {
        "x": [x for x, _ in ends], "y": [y for _, y in ends], "text": list(texts), "colour": list(colours),
        "ink": list(colours), "shift": [0.0] * len(ends),
    }  # fmt: skip


def _curve_tips(curves: Sequence[Curve]) -> dict[str, Any]:
    """At the ends of curves their names; at that of a single curve its last value."""
    known = [curve for curve in curves if np.isfinite(curve.y).any()]
    last = [np.flatnonzero(np.isfinite(curve.y))[-1] for curve in known]
    ends = [(float(curve.x[k]), float(curve.y[k])) for curve, k in zip(known, last, strict=True)]
    alone = len(curves) == 1
    texts = [shown_number(y, 3) if alone else curve.name for curve, (_, y) in zip(known, ends, strict=True)]
    return _tips(ends, texts, [curve.colour for curve in known])


def _beside(x: Floats, curves: Floats, height: float) -> tuple[float, float]:
    """The place at this height to the right of all ``curves (k, n)``, with room for a text."""
    last = np.flatnonzero((curves >= height - 0.04 * curves.max()).any(axis=0))[-1]
    return float(x[min(last + 1, x.size - 1)]), height


def _mark_columns(marks: Sequence[Mark]) -> dict[str, Any]:
    looks = [MARK_LOOKS[mark.kind] for mark in marks]
    return {
        "x": [mark.now for mark in marks], "text": [mark.text for mark in marks],
        "ink": [colour for colour, _ in looks], "dash": [dash for _, dash in looks],
    }  # fmt: skip


# ---- columns


def _network_sources(nodes: NodeTable) -> dict[str, dict[str, Any]]:
    names, positions, edges = nodes.graph.names, nodes.graph.positions, nodes.graph.edges
    notes = nodes.notes or [""] * len(names)
    texts = [
        "; ".join(filter(None, [f"{distance_text(nodes.errors[k])} from the mean", *facts_about(nodes, k), note]))
        for k, note in enumerate(notes)
    ]
    ends = [f"{names[i]} – {names[j]}: " for i, j in edges]  # noqa: RUF001
    ages = [end + age_text(age) for end, age in zip(ends, nodes.staleness, strict=True)]
    # those who are away are in no tree, although others may not know it yet
    away = (nodes.states == NodeState.DEAD) | (nodes.states == NodeState.LEFT)
    return {
        **node_sources(
            names, positions, nodes.errors, list(nodes.states), MARKERS, EMPHASISED, texts, nodes.roots, nodes.masked
        ),
        "edges": edge_columns(positions, edges, nodes.staleness, ages),
        "tree": tree_columns(positions, np.where(away, -1, nodes.parents)),
    }


def facts_about(nodes: NodeTable, place: int) -> list[str]:
    """What there is to say about a node beyond its state and its distance from the mean."""
    parent = nodes.parents[place]
    gap = f"certified gap {shown_number(nodes.gaps[place], 2)}" if np.isfinite(nodes.gaps[place]) else ""
    role = "root of the tree" if parent == place else f"parent {nodes.graph.names[parent]}" if parent >= 0 else ""
    return [part for part in (gap, role, "masked" if nodes.masked[place] else "") if part]


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
