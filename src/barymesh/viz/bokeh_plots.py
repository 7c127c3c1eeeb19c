"""Interactive figures for pages in a browser: curves over time, measures on the line, images.

The figures are transparent, and the page sets the colours of text and grid: ``PAINT`` is the script that does it, for a
light page or a dark one. Needs Bokeh, of the extra ``barymesh[report]``.
"""

# ruff: noqa: RUF001 (dashes are meant)
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from barymesh.extras import needs
from barymesh.viz.theme import apart

with needs("dashboard"):
    from bokeh.document import Document
    from bokeh.models import (
        BoxAnnotation,
        BoxZoomTool,
        ColumnDataSource,
        CustomJSHover,
        CustomJSTicker,
        CustomJSTickFormatter,
        DataRange1d,
        FixedTicker,
        HoverTool,
        Label,
        Line,
        LinearColorMapper,
        MultiLine,
        PanTool,
        Range1d,
        ResetTool,
        Scatter,
        Span,
        VArea,
        WheelZoomTool,
    )
    from bokeh.plotting import figure

Floats = NDArray[np.float64]
Figure: TypeAlias = figure
Dash = Literal["solid", "dashed", "dotdash", "dotted"]
Marker = Literal["circle", "x"]
Limits = tuple[float, float]

# tags by which the script finds what to paint
BELOW, LEVEL, OUTLINE = "below", "level", "outline"
# stands for the colour of the page's text
INK = "#000000"
# labels beside curves: pixels from one line to the next, and the share of the height that the highest may have
LINE_HEIGHT, TOP_LABEL = 13, 0.93
# one of many curves that are not distinguished
ONE_OF_MANY = "#0072B2"
# labels of a logarithmic axis: 0.01, 10⁻⁵, 2·10⁻⁵
POWERS = """
if (tick >= 1e-3 && tick < 1e5) return tick.toLocaleString("en", {maximumSignificantDigits: 3});
const exponent = Math.floor(Math.log10(tick) + 1e-9), digit = Number((tick / 10 ** exponent).toPrecision(2));
const power = "10" + String(exponent).replace(/./g, c => c == "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c]);
return digit == 1 ? power : digit + "·" + power;
"""
# ticks of a logarithmic axis; those of Bokeh are evenly spaced, and crowded, below two decades
PLACES = """
const low = Math.min(cb_data.start, cb_data.end), high = Math.max(cb_data.start, cb_data.end);
const decades = Math.log10(high / low);
if (!(low > 0) || !(decades > 0)) return [];
const ticks = [], leap = Math.ceil(decades / 5);
const digits = decades > 2.5 ? [1] : decades > 1.2 ? [1, 2, 5] : decades > 0.5 ? [1, 1.5, 2, 3, 5, 7] : null;
if (digits === null) {
  const rough = (high - low) / 4, power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find(digit => digit * power >= rough);
  for (let k = Math.ceil(low / step); k * step <= high; k++) ticks.push(k * step);
  return ticks;
}
for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++)
  if (decades <= 2.5 || power % leap == 0)
    for (const digit of digits) ticks.push(Number(`${digit}e${power}`));
return ticks.filter(tick => tick >= low && tick <= high);
"""
# numbers at the pointer
NUMBER = 'return isFinite(value) ? String(Number(value.toPrecision(4))) : "–"'
# paint(document, {text, line, grid, below, own}) sets the colours of all models in a Bokeh document; own maps the
# colour of a curve to its colour on this page. colours() reads them from the style of the page
PAINT = """
function colours() {
  const style = getComputedStyle(document.documentElement);
  const value = name => style.getPropertyValue(name).trim();
  const own = colour => value("--c-" + colour.slice(1)) || colour;
  return {text: value("--text"), line: value("--quiet"), grid: value("--line"), below: value("--below"), own};
}
function paint(document, colours) {
  // a server, if there is one, need not know
  const set = (model, values) => model.setv(values, {sync: false});
  for (const model of document.all_models ?? document._all_models.values()) {
    const kind = model.type ?? "";
    if (kind.endsWith("Axis")) set(model, {
      axis_label_text_color: colours.text, major_label_text_color: colours.text, axis_line_color: colours.line,
      major_tick_line_color: colours.line, minor_tick_line_color: null});
    else if (kind == "Grid") set(model, {grid_line_color: colours.grid});
    else if (kind == "Title") set(model, {text_color: colours.text});
    else if (kind == "BoxAnnotation" && model.tags.includes("below")) set(model, {fill_color: colours.below});
    else if (kind == "Span" && model.tags.includes("level")) set(model, {line_color: colours.text});
    else if (kind == "Label" && model.tags.length) set(model, {text_color: colours.own(model.tags[0])});
    else if (kind == "GlyphRenderer" && model.tags.length) {
      const colour = colours.own(model.tags[0]), glyph = model.glyph;
      if (glyph.type == "Text") set(glyph, {text_color: colour});
      else if (model.tags.includes("outline") || glyph.type.endsWith("Line")) set(glyph, {line_color: colour});
      else set(glyph, {line_color: colour, fill_color: colour});
    }
  }
}
"""


@dataclass(frozen=True)
class Curve:
    """A line in a figure, with its name. ``mark``: a marker at its last point; ``label``: a text beside it, in a frame
    with limits."""

    name: str
    x: Floats
    y: Floats
    colour: str
    dash: Dash = "solid"
    width: float = 2.0
    mark: Marker | None = None
    label: str = ""


@dataclass(frozen=True)
class Frame:
    """The axes and labels around the curves. ``limits``: of the vertical axis; None to fit the curves at any time.
    ``level``: a value that is marked, with the area below it. ``dots``: whether each point has one. ``room``: the share
    of the axis that is added on the right for labels."""

    title: str
    x_label: str
    limits: Limits | None
    log: bool = False
    ticks: Sequence[float] = ()
    level: float | None = None
    dots: bool = False
    log_x: bool = False
    unit: str = ""
    height: int = 220
    room: float = 0.5


def curves_figure(curves: Sequence[Curve], frame: Frame, x_range: Range1d | DataRange1d) -> Figure:
    """Curves over time or another quantity. Figures with the same ``x_range`` move together; the source named "curves"
    holds the points, ``curve_columns``, for pages that add to them."""
    plot = empty_figure(frame, x_range)
    if frame.level is not None:
        plot.add_layout(BoxAnnotation(top=frame.level, fill_alpha=0.6, level="underlay", tags=[BELOW]))
        plot.add_layout(Span(location=frame.level, dimension="width", line_width=1, tags=[LEVEL]))
    _draw(plot, curves, frame)
    return plot


def measures_figure(
    z: Floats, truth: Floats | None, curves: Sequence[Curve], frame: Frame, x_range: Range1d | DataRange1d
) -> Figure:
    """Measures on the line, over the sorted points ``z``; the true one, if known, as an area."""
    plot = empty_figure(frame, x_range)
    if truth is not None:
        area = ColumnDataSource({"z": _small(z), "truth": _small(truth)})
        plot.add_glyph(area, VArea(x="z", y1=0, y2="truth", fill_color="#888888", fill_alpha=0.35))
    _draw(plot, curves, frame)
    return plot


def curve_columns(curves: Sequence[Curve], frame: Frame) -> dict[str, NDArray[np.float32]]:
    """All curves over the same "x", as "y0", "y1" and so on; the pointer snaps to "anchor"."""
    x = np.unique(np.concatenate([curve.x for curve in curves] or [np.empty(0)]))
    columns = {f"y{place}": _at(curve, x) for place, curve in enumerate(curves)}
    if frame.limits is None:
        known = [np.where(np.isfinite(y), y, -np.inf) for y in columns.values()]
        anchor = np.max([*known, np.full(x.size, -np.inf)], axis=0)
    else:
        low, high = frame.limits
        anchor = np.full(x.size, np.sqrt(low * high) if frame.log else (low + high) / 2)
    return {name: _small(column) for name, column in {"x": x, "anchor": anchor, **columns}.items()}


def estimates_figure(z: Floats, estimates: Floats, mean: Curve, frame: Frame, x_range: Range1d | DataRange1d) -> Figure:
    """Many measures ``(k, n)`` on the line as thin curves over ``z (n,)``, and their mean. The sources named
    "estimates", of ``estimate_columns``, and "curves" hold them."""
    plot = empty_figure(frame, x_range)
    source = ColumnDataSource(estimate_columns(z, estimates), name="estimates")
    many = MultiLine(xs="xs", ys="ys", line_color=ONE_OF_MANY, line_width=1.2, line_alpha=0.55)
    plot.add_glyph(source, many, name="estimates", tags=[ONE_OF_MANY])
    _draw(plot, [mean], frame)
    return plot


def estimate_columns(z: Floats, estimates: Floats) -> dict[str, list[NDArray[np.float32]]]:
    """The columns of many curves."""
    return {"xs": [_small(z)] * len(estimates), "ys": [_small(row) for row in estimates]}


def cloud_figure(points: Floats, weights: Floats, title: str, height: int = 300) -> Figure:
    """A measure on points of the plane ``(n, 2)``: the area of a dot is its weight. The source named "cloud" holds
    ``cloud_columns``."""
    ranges = DataRange1d(range_padding=0.08), DataRange1d(range_padding=0.08)
    plot = empty_figure(Frame(title, "first coordinate", (0, 1), height=height), ranges[0])
    plot.y_range = ranges[1]
    dots = Scatter(x="x", y="y", size="size", fill_color=ONE_OF_MANY, line_color=ONE_OF_MANY, fill_alpha=0.6)
    plot.add_glyph(ColumnDataSource(cloud_columns(points, weights), name="cloud"), dots, tags=[ONE_OF_MANY])
    return plot


def cloud_columns(points: Floats, weights: Floats) -> dict[str, NDArray[np.float32]]:
    """Dots for weighted points; invisibly small ones are left out."""
    area = weights / (weights.max() or 1.0)
    seen = area > 1e-3
    size = 2 + 22 * np.sqrt(area[seen])
    return {"x": _small(points[seen, 0]), "y": _small(points[seen, 1]), "size": _small(size)}


def _draw(plot: Figure, curves: Sequence[Curve], frame: Frame) -> None:
    """The curves, and a box with their values at the pointer."""
    source = ColumnDataSource(curve_columns(curves, frame), name="curves")
    for place, curve in enumerate(curves):
        column = f"y{place}"
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
    _label(plot, [curve for curve in curves if curve.label and np.isfinite(curve.y).any()], frame)
    if frame.limits is None:
        plot.y_range.renderers = list(plot.renderers)
    # an invisible line for the pointer to snap to
    followed = plot.add_glyph(source, Line(x="x", y="anchor", line_alpha=0))
    plot.add_tools(_hover(curves, frame.unit, followed))


def _label(plot: Figure, curves: Sequence[Curve], frame: Frame) -> None:
    """The labels to the right of the curves' ends, or of where they leave the frame, far enough apart to be read. The
    axis gets room for them."""
    if frame.limits is None or not curves:
        return
    low, high = np.log10(frame.limits) if frame.log else frame.limits
    places, shares = [], []
    for curve in curves:
        known = np.isfinite(curve.y)
        height = np.log10(curve.y, where=known, out=np.zeros_like(curve.y)) if frame.log else curve.y
        share = (height - low) / (high - low)
        inside = np.flatnonzero(known & (share >= 0) & (share <= 1))
        last = int((inside if inside.size else np.flatnonzero(known))[-1])
        places.append(float(curve.x[last]))
        shares.append(float(np.clip(share[last], 0.06, TOP_LABEL)))
    heights = apart(np.array(shares), LINE_HEIGHT / (frame.height - 75), TOP_LABEL)
    for curve, x, share in zip(curves, places, heights, strict=True):
        y = low + share * (high - low)
        text = Label(
            x=x, y=10.0**y if frame.log else y, x_offset=6, text=curve.label, text_baseline="middle",
            text_font_size="11px", text_color=curve.colour, name=curve.name, tags=[curve.colour],
        )  # fmt: skip
        plot.add_layout(text)
    start, end = plot.x_range.start, plot.x_range.end
    plot.xaxis.bounds = (start, end)
    room = frame.room
    plot.x_range = Range1d(start, end * (end / start) ** room if frame.log_x else end + room * (end - start))


def _at(curve: Curve, x: Floats) -> Floats:
    """The curve at these x, by interpolation; NaN beyond its ends."""
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


def image_figure(
    image: Floats, title: str, darkest: float | None = None, height: int = 220, palette: Sequence[str] | None = None
) -> Figure:
    """A measure on a 2-D grid as a picture, in ink or another ``palette``; the first axis runs down. The source named
    "image" holds it."""
    rows, columns = image.shape
    plot = figure(
        title=title, height=height, width=round(height * columns / rows), match_aspect=True,
        x_range=Range1d(0, columns), y_range=Range1d(rows, 0), toolbar_location=None, tools="",
        background_fill_color=None, border_fill_color=None, outline_line_color=None,
    )  # fmt: skip
    top = float(image.max()) if darkest is None else darkest
    ink = [f"#{grey:02x}{grey:02x}{grey:02x}" for grey in range(255, -1, -1)]
    # the vertical axis runs down, and the first row of an image is at its start
    source = ColumnDataSource({"image": [image.astype(np.float32)]}, name="image")
    plot.image(
        source=source, image="image", x=0, y=0, dw=columns, dh=rows,
        color_mapper=LinearColorMapper(palette=list(palette or ink), low=0, high=top or 1.0, name="inks"),
    )  # fmt: skip
    plot.axis.visible = False
    plot.grid.visible = False
    return plot


def empty_figure(frame: Frame, x_range: Range1d | DataRange1d) -> Figure:
    """A figure with axes and tools, without content."""
    y_range = DataRange1d(range_padding=0.08) if frame.limits is None else Range1d(*frame.limits)
    plot = figure(
        title=frame.title, height=frame.height, min_width=200, sizing_mode="stretch_width",
        x_range=x_range, y_range=y_range,
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
        plot.yaxis.ticker = CustomJSTicker(major_code=PLACES)
        plot.yaxis.formatter = CustomJSTickFormatter(code=POWERS)
    if frame.ticks:
        plot.xaxis.ticker = FixedTicker(ticks=list(frame.ticks))
    if frame.log_x:
        plot.xaxis.formatter = CustomJSTickFormatter(code=POWERS)
    return plot


def _tools() -> list[Any]:
    # the wheel alone scrolls the page
    wheel = WheelZoomTool(modifiers={"ctrl": True}, description="Zoom: Ctrl and wheel")
    return [PanTool(), BoxZoomTool(), wheel, ResetTool()]


def _small(values: Floats) -> NDArray[np.float32]:
    """As float32: half the bytes, and more digits than a figure shows. Numbers too small for it become 0."""
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
    """The same JSON with ids numbered in the order of appearance."""
    if isinstance(part, list | tuple):
        return [_renumbered(item, numbers) for item in part]
    if not isinstance(part, dict):
        return part
    # references to a model carry its "id" too
    return {
        key: numbers.setdefault(value, f"p{len(numbers) + 1}") if key == "id" else _renumbered(value, numbers)
        for key, value in part.items()
    }
