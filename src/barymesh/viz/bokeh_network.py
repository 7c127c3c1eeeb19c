"""A network as an interactive figure: nodes coloured by their distance from agreement, edges by the age of their last
message. Shapes and dashes repeat the information of the colours, for readers who cannot distinguish them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barymesh.extras import needs
from barymesh.viz.bokeh_plots import INK, OUTLINE, Figure, Floats, Frame, empty_figure

with needs("dashboard"):
    from bokeh.models import ColumnDataSource, HoverTool, LogColorMapper, Range1d, Scatter, Segment, Text
    from bokeh.palettes import Cividis256

# the ranges of the colours: total variation of a node, seconds of an edge
NEAR, FAR = 1e-6, 1.0
FRESH, STALE = 0.1, 10.0
# an edge without a message for this many seconds is dashed
SILENT = 5.0
AGREEMENT: Sequence[str] = Cividis256
UNKNOWN = "#8c959d"
# names are shown for at most this many nodes
MOST_NAMES = 40


def _between(first: str, last: str, count: int = 64) -> list[str]:
    """Colours between two others."""
    ends = [np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) for colour in (first, last)]
    ramp = [ends[0] + (ends[1] - ends[0]) * share for share in np.linspace(0, 1, count)]
    return ["#" + "".join(f"{round(part):02x}" for part in colour) for colour in ramp]


# from the blue to the vermilion of Okabe and Ito
AGES: Sequence[str] = [*_between("#56B4E9", "#C9B37A", 32), *_between("#C9B37A", "#D55E00", 32)]


def network_figure(nodes: Mapping[str, Any], edges: Mapping[str, Any], title: str, height: int = 400) -> Figure:
    """A network from its ``node_columns`` and ``edge_columns``; the sources named "nodes" and "edges" hold them."""
    x, y = np.asarray(nodes["x"], dtype=float), np.asarray(nodes["y"], dtype=float)
    across, up = (Range1d(*_span(values)) for values in (x, y))
    plot = empty_figure(Frame(title, "", (0, 1), height=height), across)
    plot.y_range = up
    plot.axis.visible = False
    plot.grid.visible = False
    ages = LogColorMapper(palette=list(AGES), low=FRESH, high=STALE, nan_color=UNKNOWN)
    lines = Segment(
        x0="x0", y0="y0", x1="x1", y1="y1", line_width="width", line_dash="dash", line_alpha=0.8,
        line_color={"field": "age", "transform": ages},
    )  # fmt: skip
    links = plot.add_glyph(ColumnDataSource(dict(edges), name="edges"), lines)
    agreement = LogColorMapper(palette=list(AGREEMENT), low=NEAR, high=FAR, nan_color=UNKNOWN)
    source = ColumnDataSource(dict(nodes), name="nodes")
    marks = Scatter(
        x="x", y="y", size="size", marker="marker", fill_color={"field": "error", "transform": agreement},
        line_color=INK, line_width="width",
    )  # fmt: skip
    dots = plot.add_glyph(source, marks, tags=[INK, OUTLINE])
    labels = Text(
        x="x", y="y", text="label", y_offset="drop", text_align="center", text_baseline="top", text_font_size="11px"
    )
    plot.add_glyph(source, labels, tags=[INK])
    plot.add_tools(
        HoverTool(renderers=[dots], tooltips=_box("<b>@name</b>: @state<br>@note")),
        HoverTool(renderers=[links], tooltips=_box("@note"), line_policy="interp"),
    )
    return plot


def node_columns(
    names: Sequence[str], positions: Floats, errors: Floats, states: Sequence[str], markers: Mapping[str, str],
    emphasised: Sequence[str], notes: Sequence[str],
) -> dict[str, Any]:  # fmt: skip
    """The columns of the nodes. ``markers``: the shape of each state; ``emphasised`` states are larger, and written
    beside the nodes; ``notes``: the texts at the pointer."""
    size = float(np.clip(150 / np.sqrt(max(len(names), 1)), 5, 20))
    strong = np.array([state in emphasised for state in states], dtype=bool)
    named = len(names) <= MOST_NAMES
    labels = [
        " ".join(([name] if named else []) + ([str(state)] if state in emphasised else []))
        for name, state in zip(names, states, strict=True)
    ]
    return {
        "x": positions[:, 0], "y": positions[:, 1], "name": list(names), "state": [str(state) for state in states],
        "error": np.clip(errors, NEAR / 10, None), "marker": [markers[state] for state in states],
        "size": np.where(strong, max(1.2 * size, 13), size), "width": np.where(strong, 3.5, 1.0 if size > 8 else 0.5),
        "label": labels, "drop": np.full(len(names), size / 2 + 4), "note": list(notes),
    }  # fmt: skip


def edge_columns(positions: Floats, edges: NDArray[np.intp], staleness: Floats, notes: Sequence[str]) -> dict[str, Any]:
    """The columns of the edges; an infinite staleness means that no message has arrived. ``notes``: the texts at the
    pointer."""
    ends = positions[edges] if len(edges) else np.empty((0, 2, 2))
    width = float(np.clip(2.2 - len(edges) / 400, 0.5, 2.2))
    silent = staleness >= SILENT
    return {
        "x0": ends[:, 0, 0], "y0": ends[:, 0, 1], "x1": ends[:, 1, 0], "y1": ends[:, 1, 1],
        "age": np.clip(staleness, FRESH / 10, 10 * STALE), "width": np.where(silent, width + 0.8, width),
        "dash": ["dashed" if one else "solid" for one in silent], "note": list(notes),
    }  # fmt: skip


def _span(values: Floats) -> tuple[float, float]:
    """The limits of an axis that shows all values, with room for nodes and their names."""
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
    room = 0.12 * (high - low) or 1.0
    return low - room, high + room


def _box(content: str) -> str:
    return f'<div style="color:#111">{content}</div>'
