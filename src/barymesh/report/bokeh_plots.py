"""Interactive figures for pages in a browser: curves over time, measures on the line, images.

The figures are transparent and leave the colours of text and grid to the page: ``PAINT`` is the script that sets them,
for a light page or a dark one. Loads Bokeh, which the extra ``barymesh[report]`` brings.
"""

# ruff: noqa: RUF001 (dashes are meant)
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Literal, TypeAlias

import numpy as np
from bokeh.document import Document
from bokeh.models import (
    BoxAnnotation,
    BoxZoomTool,
    ColumnDataSource,
    CustomJSHover,
    CustomJSTickFormatter,
    FixedTicker,
    HoverTool,
    Line,
    LinearColorMapper,
    PanTool,
    Range1d,
    ResetTool,
    Scatter,
    Span,
    VArea,
    WheelZoomTool,
)
from bokeh.plotting import figure
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Figure: TypeAlias = figure
Dash = Literal["solid", "dashed", "dotdash", "dotted"]
Mark = Literal["circle", "x"]
Limits = tuple[float, float]

# tags by which the page finds what to paint
BELOW, LEVEL = "below", "level"
# ticks on a logarithmic axis in plain words: 0.01, 10⁻⁵, 2·10⁻⁵
POWERS = """
if (tick >= 1e-3 && tick < 1e5) return tick.toLocaleString("en", {maximumSignificantDigits: 3});
const exponent = Math.floor(Math.log10(tick) + 1e-9), digit = Math.round(tick / 10 ** exponent);
const power = "10" + String(exponent).replace(/./g, c => c == "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c]);
return digit == 1 ? power : digit + "·" + power;
"""
# numbers at the pointer
NUMBER = 'return isFinite(value) ? String(Number(value.toPrecision(4))) : "–"'
# paint(document, {text, line, grid, below, own}): the colours of all models in a Bokeh document. own: a function from
# the colour of a curve to the one it has on this page
PAINT = """
function paint(document, colours) {
  for (const model of document.all_models ?? document._all_models.values()) {
    const kind = model.type ?? "";
    if (kind.endsWith("Axis")) model.setv({
      axis_label_text_color: colours.text, major_label_text_color: colours.text, axis_line_color: colours.line,
      major_tick_line_color: colours.line, minor_tick_line_color: null});
    else if (kind == "Grid") model.setv({grid_line_color: colours.grid});
    else if (kind == "Title") model.setv({text_color: colours.text});
    else if (kind == "BoxAnnotation" && model.tags.includes("below")) model.setv({fill_color: colours.below});
    else if (kind == "Span" && model.tags.includes("level")) model.setv({line_color: colours.text});
    else if (kind == "GlyphRenderer" && model.tags.length) {
      const colour = colours.own(model.tags[0]);
      model.glyph.setv(model.glyph.type == "Line" ? {line_color: colour} : {line_color: colour, fill_color: colour});
    }
  }
}
"""


@dataclass(frozen=True)
class Curve:
    """A line in a figure, found by its name. ``mark``: a sign at its last point."""

    name: str
    x: Floats
    y: Floats
    colour: str
    dash: Dash = "solid"
    width: float = 2.0
    mark: Mark | None = None


@dataclass(frozen=True)
class Frame:
    """What is around the curves. ``level``: a value that is marked, with all below it. ``dots``: one at each point."""

    title: str
    x_label: str
    limits: Limits
    log: bool = False
    ticks: Sequence[float] = ()
    level: float | None = None
    dots: bool = False
    log_x: bool = False
    unit: str = ""
    height: int = 220


def curves_figure(curves: Sequence[Curve], frame: Frame, x_range: Range1d) -> Figure:
    """Curves over time or another quantity. Figures with the same ``x_range`` move together; the source named "curves"
    holds the points, for pages that add to them."""
    plot = _empty(frame, x_range)
    if frame.level is not None:
        plot.add_layout(BoxAnnotation(top=frame.level, fill_alpha=0.6, level="underlay", tags=[BELOW]))
        plot.add_layout(Span(location=frame.level, dimension="width", line_width=1, tags=[LEVEL]))
    _draw(plot, curves, frame)
    return plot


def measures_figure(z: Floats, truth: Floats | None, curves: Sequence[Curve], frame: Frame, x_range: Range1d) -> Figure:
    """Measures on the line, over the sorted points ``z``; the true one, if known, as an area."""
    plot = _empty(frame, x_range)
    if truth is not None:
        area = ColumnDataSource({"z": _small(z), "truth": _small(truth)})
        plot.add_glyph(area, VArea(x="z", y1=0, y2="truth", fill_color="#888888", fill_alpha=0.35))
    _draw(plot, curves, frame)
    return plot


def _draw(plot: Figure, curves: Sequence[Curve], frame: Frame) -> None:
    """The curves, with all their values at the pointer's place in one box."""
    x = np.unique(np.concatenate([curve.x for curve in curves] or [np.empty(0)]))
    columns = {f"y{place}": _small(_at(curve, x)) for place, curve in enumerate(curves)}
    low, high = frame.limits
    middle = np.sqrt(low * high) if frame.log else (low + high) / 2
    anchor = _small(np.full(x.size, middle))
    source = ColumnDataSource({"x": _small(x), "anchor": anchor, **columns}, name="curves")
    for column, curve in zip(columns, curves, strict=True):
        line = Line(x="x", y=column, line_color=curve.colour, line_dash=curve.dash, line_width=curve.width)
        plot.add_glyph(source, line, name=curve.name, tags=[curve.colour])
        look = {"line_color": curve.colour, "fill_color": curve.colour}
        if frame.dots:
            plot.add_glyph(source, Scatter(x="x", y=column, size=5, **look), name=curve.name, tags=[curve.colour])
        known = np.flatnonzero(np.isfinite(curve.y))[-1:]
        if curve.mark is not None and known.size:
            end = ColumnDataSource({"x": _small(curve.x[known]), "y": _small(curve.y[known])})
            sign = Scatter(x="x", y="y", marker=curve.mark, size=8, line_width=2, **look)
            plot.add_glyph(end, sign, name=curve.name, tags=[curve.colour])
    # a line that is not seen, but there wherever the pointer is
    followed = plot.add_glyph(source, Line(x="x", y="anchor", line_alpha=0))
    plot.add_tools(_hover(curves, frame.unit, followed))


def _at(curve: Curve, x: Floats) -> Floats:
    """The curve at these places; NaN outside its own."""
    if not curve.x.size:
        return np.full(x.size, np.nan)
    return np.interp(x, curve.x, curve.y, left=np.nan, right=np.nan)


def _hover(curves: Sequence[Curve], unit: str, followed: Any) -> HoverTool:
    number = CustomJSHover(code=NUMBER)
    rows = "".join(
        f'<tr><td style="color:{curve.colour}">■</td><td>{escape(curve.name)}</td>'
        f'<td style="text-align:right;padding-left:8px">@y{place}{{custom}}</td></tr>'
        for place, curve in enumerate(curves)
    )
    return HoverTool(
        renderers=[followed],
        mode="vline",
        point_policy="follow_mouse",
        tooltips=f'<div style="color:#111"><b>@x{{custom}} {escape(unit)}</b><table>{rows}</table></div>',
        formatters={"@x": number, **{f"@y{place}": number for place in range(len(curves))}},
    )


def image_figure(image: Floats, title: str, darkest: float | None = None, height: int = 220) -> Figure:
    """A measure on a 2-D grid as a picture; the first axis runs down."""
    rows, columns = image.shape
    plot = figure(
        title=title, height=height, width=round(height * columns / rows), match_aspect=True,
        x_range=Range1d(0, columns), y_range=Range1d(rows, 0), toolbar_location=None, tools="",
        background_fill_color=None, border_fill_color=None, outline_line_color=None,
    )  # fmt: skip
    top = float(image.max()) if darkest is None else darkest
    ink = [f"#{grey:02x}{grey:02x}{grey:02x}" for grey in range(255, -1, -1)]
    # the vertical axis runs down, and an image's first row lies where it begins
    plot.image(
        image=[image.astype(np.float32)], x=0, y=0, dw=columns, dh=rows,
        color_mapper=LinearColorMapper(palette=ink, low=0, high=top or 1.0),
    )  # fmt: skip
    plot.axis.visible = False
    plot.grid.visible = False
    return plot


def _empty(frame: Frame, x_range: Range1d) -> Figure:
    plot = figure(
        title=frame.title, height=frame.height, min_width=200, sizing_mode="stretch_width",
        x_range=x_range, y_range=Range1d(*frame.limits),
        x_axis_type="log" if frame.log_x else "linear", y_axis_type="log" if frame.log else "linear",
        x_axis_label=frame.x_label, tools=_tools(), toolbar_location="above",
        background_fill_color=None, border_fill_color=None, outline_line_color=None,
    )  # fmt: skip
    plot.toolbar.logo = None
    plot.toolbar.autohide = True
    plot.title.text_font_size = "13px"
    plot.title.text_font_style = "bold"
    plot.axis.axis_label_text_font_style = "normal"
    plot.axis.axis_label_text_font_size = "12px"
    plot.axis.major_label_text_font_size = "11px"
    plot.axis.minor_tick_line_color = None
    plot.min_border_right = 12
    plot.xaxis.ticker.desired_num_ticks = 5
    plot.yaxis.ticker.desired_num_ticks = 4
    if frame.log:
        plot.yaxis.ticker.mantissas = [1, 2, 5]
        plot.yaxis.formatter = CustomJSTickFormatter(code=POWERS)
    if frame.ticks:
        plot.xaxis.ticker = FixedTicker(ticks=list(frame.ticks))
    if frame.log_x:
        plot.xaxis.formatter = CustomJSTickFormatter(code=POWERS)
    return plot


def _tools() -> list[Any]:
    # pages scroll: the wheel alone must not zoom
    wheel = WheelZoomTool(modifiers={"ctrl": True}, description="Zoom: Ctrl and wheel")
    return [PanTool(), BoxZoomTool(), wheel, ResetTool()]


def _small(values: Floats) -> NDArray[np.float32]:
    """Half the bytes, and more digits than can be seen. Numbers too small for float32 become 0."""
    with np.errstate(over="ignore", under="ignore"):
        return values.astype(np.float32)


# ---- onto a page


def embedded(figures: Mapping[str, Figure]) -> dict[str, Any]:
    """Figures, each by the id of the element it goes into, as what ``Bokeh.embed.embed_items`` takes: a "document" and
    its "roots". Models are numbered anew, so that the same figures are the same bytes."""
    document = Document()
    with document.models.freeze():
        for plot in figures.values():
            document.add_root(plot)
    numbers: dict[str, str] = {}
    content = _renumbered(document.to_json(deferred=False), numbers)
    content["title"] = ""
    roots = {numbers[str(plot.id)]: element for element, plot in figures.items()}
    return {"document": content, "roots": roots}


def _renumbered(part: Any, numbers: dict[str, str]) -> Any:
    """The same JSON with ids in the order of appearance."""
    if isinstance(part, list | tuple):
        return [_renumbered(item, numbers) for item in part]
    if not isinstance(part, dict):
        return part
    # what refers to a model has its "id" too
    return {
        key: numbers.setdefault(value, f"p{len(numbers) + 1}") if key == "id" else _renumbered(value, numbers)
        for key, value in part.items()
    }
