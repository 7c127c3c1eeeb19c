"""A network as an interactive figure: nodes coloured by their distance from agreement, edges by the age of their last
message, the spanning tree and its root drawn beneath. Shapes and dashes repeat the information of the colours, for
readers who cannot distinguish them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barymesh.extras import needs
from barymesh.viz.bokeh_plots import INK, OUTLINE, Figure, Floats, Frame, empty_figure

with needs("dashboard"):
    from bokeh.models import ColumnDataSource, CustomJS, HoverTool, LogColorMapper, Range1d, Scatter, Segment, Text
    from bokeh.palettes import cividis

# the decades of the colours of nodes, in total variation: fixed, so that a colour means the same to the end
NEAR, FAR = -8, 0
AGREEMENT: Sequence[str] = cividis(FAR - NEAR)
# the range of the colours of edges, in seconds
FRESH, STALE = 0.1, 10.0
# an edge without a message for this many seconds is dashed
SILENT = 5.0
UNKNOWN = "#8c959d"
# pixels: nodes at least so large have room for a lock; the ring of a root is so far away from it
LOCK_ROOM, RING = 14.0, 4.5
# a white padlock with a dark edge, to be seen on any colour, around the origin and 2 r pixels high
LOCK = """
const {ctx, r} = cb_data, half = 0.72 * r, top = -0.15 * r, body = new Path2D(), bow = new Path2D();
body.rect(-half, top, 2 * half, 0.95 * r - top);
bow.arc(0, top, 0.62 * half, Math.PI, 0);
for (const [colour, width] of [["#1b1f24", 3.2], ["#ffffff", 1.4]]) {
  ctx.strokeStyle = ctx.fillStyle = colour;
  ctx.lineWidth = width;
  ctx.stroke(bow);
  if (width > 2) ctx.stroke(body); else ctx.fill(body);
}
"""


def _between(first: str, last: str, count: int = 64) -> list[str]:
    """Colours between two others."""
    ends = [np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) for colour in (first, last)]
    ramp = [ends[0] + (ends[1] - ends[0]) * share for share in np.linspace(0, 1, count)]
    return ["#" + "".join(f"{round(part):02x}" for part in colour) for colour in ramp]


# from the blue to the vermilion of Okabe and Ito
AGES: Sequence[str] = [*_between("#56B4E9", "#C9B37A", 32), *_between("#C9B37A", "#D55E00", 32)]


def network_figure(sources: Mapping[str, Mapping[str, Any]], title: str, height: int = 400) -> Figure:
    """A network from the columns of its ``sources``, which keep their names: "nodes", "roots" and "locks" of
    ``node_sources``, "edges" of ``edge_columns`` and "tree" of ``tree_columns``. A further source, "labels", with "x",
    "y" and "text", is empty: the page finds room for them."""
    held = {name: ColumnDataSource(dict(columns), name=name) for name, columns in sources.items()}
    x, y = (np.asarray(sources["nodes"][name], dtype=float) for name in ("x", "y"))
    across, up = (Range1d(*_span(values)) for values in (x, y))
    plot = empty_figure(Frame(title, "", (0, 1), height=height), across)
    plot.y_range = up
    plot.axis.visible = False
    plot.grid.visible = False
    branches = Segment(x0="x0", y0="y0", x1="x1", y1="y1", line_width=8, line_alpha=0.2, line_cap="round")
    plot.add_glyph(held["tree"], branches, tags=[INK, OUTLINE])
    ages = LogColorMapper(palette=list(AGES), low=FRESH, high=STALE, nan_color=UNKNOWN)
    lines = Segment(
        x0="x0", y0="y0", x1="x1", y1="y1", line_width="width", line_dash="dash", line_alpha=0.8,
        line_color={"field": "age", "transform": ages},
    )  # fmt: skip
    links = plot.add_glyph(held["edges"], lines)
    rings = Scatter(x="x", y="y", size="size", fill_alpha=0, line_width=2.5)
    plot.add_glyph(held["roots"], rings, tags=[INK, OUTLINE])
    agreement = LogColorMapper(palette=list(AGREEMENT), low=10.0**NEAR, high=10.0**FAR, nan_color=UNKNOWN)
    marks = Scatter(
        x="x", y="y", size="size", marker="marker", fill_color={"field": "error", "transform": agreement},
        line_color=INK, line_width="width",
    )  # fmt: skip
    dots = plot.add_glyph(held["nodes"], marks, tags=[INK, OUTLINE])
    locks = Scatter(x="x", y="y", size="size", marker={"value": "@lock"}, defs={"@lock": CustomJS(code=LOCK)})
    plot.add_glyph(held["locks"], locks)
    labels = Text(x="x", y="y", text="text", text_align="center", text_baseline="middle", text_font_size="11px")
    plot.add_glyph(ColumnDataSource({"x": [], "y": [], "text": []}, name="labels"), labels, tags=[INK])
    plot.add_tools(
        HoverTool(renderers=[dots], tooltips=_box("<b>@name</b>: @state<br>@note")),
        HoverTool(renderers=[links], tooltips=_box("@note"), line_policy="interp"),
    )
    return plot


def node_sources(
    names: Sequence[str], positions: Floats, errors: Floats, states: Sequence[str], markers: Mapping[str, str],
    emphasised: Sequence[str], notes: Sequence[str], roots: NDArray[np.intp], masked: NDArray[np.bool_],
) -> dict[str, dict[str, Any]]:  # fmt: skip
    """The columns of the nodes, of the rings around ``roots``, and of the locks of nodes that are ``masked (m,)``,
    where there is room. ``markers``: the shape of each state; ``emphasised`` states are larger, and written beside
    the nodes; ``notes``: the texts at the pointer. The labels of "rank" 0 are to be placed first."""
    size = float(np.clip(150 / np.sqrt(max(len(names), 1)), 5, 20))
    strong = np.array([state in emphasised for state in states], dtype=bool)
    is_root = np.isin(np.arange(len(names)), roots)
    labels = [
        " ".join([name, *(["root"] if root else []), *([str(state)] if state in emphasised else [])])
        for name, state, root in zip(names, states, is_root, strict=True)
    ]
    sizes = np.where(strong, max(1.2 * size, 13), size)
    x, y = positions.T
    nodes = {
        "x": x, "y": y, "name": list(names), "state": [str(state) for state in states],
        "error": np.clip(errors, 10.0 ** (NEAR - 1), None), "marker": [markers[state] for state in states],
        "size": sizes, "width": np.where(strong, 3.5, 1.0 if size > 8 else 0.5),
        "label": labels, "rank": np.where(strong | is_root, 0, 1), "note": list(notes),
    }  # fmt: skip
    # pixels around a node that no label may cover
    nodes["reach"] = sizes / 2 + np.where(is_root, RING, 1.0)
    locked = np.flatnonzero(masked & ~strong) if size >= LOCK_ROOM else np.empty(0, dtype=np.intp)
    rings = {"x": x[roots], "y": y[roots], "size": sizes[roots] + 2 * RING}
    return {"nodes": nodes, "roots": rings, "locks": {"x": x[locked], "y": y[locked], "size": 0.6 * sizes[locked]}}


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


def tree_columns(positions: Floats, parents: NDArray[np.intp]) -> dict[str, Any]:
    """The columns of the tree: a line from each node to its parent, ``parents (m,)``; none for a root, whose parent is
    itself, and none where it is -1."""
    children = np.flatnonzero((parents >= 0) & (parents != np.arange(parents.size)))
    start, end = positions[children], positions[parents[children]]
    return {"x0": start[:, 0], "y0": start[:, 1], "x1": end[:, 0], "y1": end[:, 1]}


def _span(values: Floats) -> tuple[float, float]:
    """The limits of an axis that shows all values, with room for nodes and their names."""
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
    room = 0.12 * (high - low) or 1.0
    return low - room, high + room


def _box(content: str) -> str:
    return f'<div style="color:#111">{content}</div>'
