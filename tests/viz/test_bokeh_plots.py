"""Figures for pages: their sources, their scales, and the same bytes every time."""

from __future__ import annotations

import json

import numpy as np
from bokeh.models import ColumnDataSource, Range1d

from barymesh.viz.bokeh_plots import Curve, Frame, curves_figure, embedded, image_figure, measures_figure


def curve(name, last):
    x = np.append(np.arange(0.0, last), last)
    return Curve(name, x, np.exp(-x), "#0072B2")


def test_curves_on_different_times_share_a_source_without_holes():
    plot = curves_figure([curve("a", 5.0), curve("b", 2.5)], Frame("t", "x", (1e-3, 1.0), log=True), Range1d(0, 5))
    source = plot.select_one({"name": "curves", "type": ColumnDataSource})
    np.testing.assert_allclose(source.data["x"], [0, 1, 2, 2.5, 3, 4, 5])
    assert np.isfinite(source.data["y0"]).all()
    assert np.isfinite(source.data["y1"]).sum() == 4
    assert len(plot.select({"name": "a"})) == 1


def test_no_curves_and_empty_ones_are_drawn_too():
    nothing = Curve("a", np.empty(0), np.empty(0), "#0072B2", mark="x")
    for curves in ([], [nothing], [nothing, curve("b", 2.0)]):
        embedded({"place": curves_figure(curves, Frame("t", "x", (0.0, 1.0), level=0.5), Range1d(0, 5))})


def test_a_measure_on_the_line_and_its_truth():
    z = np.linspace(-1, 1, 5)
    plot = measures_figure(z, z**2, [Curve("a", z, z, "#0072B2")], Frame("t", "x", (0.0, 1.0)), Range1d(-1, 1))
    assert [renderer.glyph.__class__.__name__ for renderer in plot.renderers] == ["VArea", "Line", "Line"]


def test_an_image_is_the_right_way_up():
    image = np.arange(6.0).reshape(2, 3)
    plot = image_figure(image, "title")
    (renderer,) = plot.renderers
    drawn, box = renderer.data_source.data["image"][0], renderer.glyph
    # the axis runs down, and the first row lies where it begins: above
    np.testing.assert_array_equal(drawn, image)
    assert (plot.y_range.start, plot.y_range.end, box.y, box.dh) == (2, 0, 0, 2)


def test_the_same_figures_are_the_same_bytes():
    first, second = (
        json.dumps(embedded({"place": curves_figure([curve("a", 5.0)], Frame("t", "x", (0.0, 1.0)), Range1d(0, 5))}))
        for _ in range(2)
    )
    assert first == second
