"""Figures: the right kind for every support, true to the numbers, and readable."""

from __future__ import annotations

import base64
import io
import re
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image as Pillow

import barymesh as bm


def result_on(support, weights=None, measures=2):
    """A result with these weights, made without computing."""
    support = support if isinstance(support, bm.Support) else bm.Support(support)
    n = support.size
    weights = np.arange(1.0, n + 1) if weights is None else np.asarray(weights, dtype=float)
    weights = weights / weights.sum()
    return bm.Result(
        weights=weights,
        support=support,
        node_weights=np.tile(weights, (measures, 1)),
        duals=np.zeros((measures, n)),
        value=0.5,
        gap=1.25e-6,
        consensus=1e-7,
        feasibility=0.0,
        reg=0.0125,
        method="sinkhorn",
        status=bm.Status.CONVERGED,
        iterations=3,
        seconds=0.5,
        history=bm.History({"iteration": [1, 2, 3], "consensus": [1, 0.1, 0.01], "dual_objective": [0.5, -0.5, -1]}),
    )


def cloud(n, d):
    return np.random.default_rng(4).normal(size=(n, d))


def picture_of(figure):
    """The figure drawn, as an array; drawing must not warn."""
    out = io.BytesIO()
    figure.savefig(out, format="png")
    return np.asarray(Pillow.open(out).convert("L"))


SUPPORTS = {
    "line": bm.Support.regular(20, -2, 2),
    "scattered on the line": bm.Support(cloud(20, 1)),
    "plane": bm.Support.regular((6, 9), 0, 1),
    "cloud in the plane": bm.Support(cloud(30, 2)),
    "volume": bm.Support.regular((3, 4, 5), 0, 1),
    "cloud in space": bm.Support(cloud(30, 3)),
    "cloud in four dimensions": bm.Support(cloud(30, 4)),
    "grid in four dimensions": bm.Support.regular((2, 3, 2, 3), 0, 1),
    "one row of pixels": bm.Support.regular((1, 6), [0, 0], [0, 1]),
    "one column of pixels": bm.Support.regular((6, 1), [0, 0], [1, 0]),
    "one pixel": bm.Support.regular((1, 1), 0, 0),
    "one point on the line": bm.Support([[2.0]]),
    "one point in the plane": bm.Support([[2.0, 3.0]]),
}


@pytest.mark.parametrize("name", SUPPORTS)
def test_every_support_is_drawn_with_a_title(name):
    figure = result_on(SUPPORTS[name], measures=3).plot()
    picture = picture_of(figure)
    assert picture.min() < 128 < picture.max()
    title = figure.get_suptitle() or figure.axes[0].get_title()
    assert "3 measures" in title
    assert "reg 0.0125" in title
    assert "gap 1.2e-06" in title or "gap 1.3e-06" in title


@pytest.mark.parametrize("name", ["line", "scattered on the line", "plane", "cloud in the plane", "volume"])
def test_coordinates_are_called_by_their_names(name):
    support = SUPPORTS[name]
    names = ["height", "age", "pulse"][: support.dimension]
    figure = result_on(support.named(names)).plot()
    texts = [text for axes in figure.axes for text in (axes.get_xlabel(), axes.get_ylabel(), axes.get_title())]
    for word in names:
        assert any(word in text for text in texts)


def test_computed_results_are_drawn(rng):
    result = bm.barycenter([rng.normal(size=8), rng.normal(size=8)], np.linspace(-3, 3, 25), reg=0.3)
    picture_of(result.plot())
    assert picture_of(result.history.plot()).min() < 128


def test_a_grid_on_the_line_is_a_density():
    """The area under the curve is 1."""
    (axes,) = result_on(SUPPORTS["line"]).plot().axes
    (line,) = axes.lines
    x, y = line.get_data()
    np.testing.assert_allclose(x, np.linspace(-2, 2, 20))
    assert y.sum() * (x[1] - x[0]) == pytest.approx(1.0)
    assert axes.get_ylabel() == "density"
    assert axes.get_ylim()[0] == 0


def test_scattered_points_on_the_line_are_drawn_in_order_as_weights():
    result = result_on(SUPPORTS["scattered on the line"])
    (axes,) = result.plot().axes
    assert axes.get_ylabel() == "weight"
    x, y = axes.lines[0].get_data()
    assert (np.diff(x) > 0).all()
    np.testing.assert_allclose(y, result.weights[np.argsort(result.support.points[:, 0])])


def test_a_picture_shows_the_image_with_its_first_row_on_top():
    result = result_on(SUPPORTS["plane"])
    (axes,) = result.plot().axes
    (image,) = axes.images
    np.testing.assert_array_equal(image.get_array(), result.image)
    bottom, top = axes.get_ylim()
    assert bottom > top
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("second coordinate", "first coordinate")


def test_columns_of_a_table_are_drawn_as_in_a_chart():
    """The first to the right, the second up, each with its name and its own unit."""
    support = bm.Support.regular((3, 5), [10, -1], [12, 1]).named(["age", "bmi"])
    result = result_on(support)
    (axes,) = result.plot().axes
    (image,) = axes.images
    np.testing.assert_array_equal(image.get_array(), result.image.T)
    left, right, bottom, top = image.get_extent()
    np.testing.assert_allclose([left, right, bottom, top], [9.5, 12.5, -1.25, 1.25])
    assert axes.get_ylim() == (bottom, top)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("age", "bmi")


def test_the_middle_of_every_pixel_is_where_its_point_is():
    support = bm.Support.regular((3, 5), [10, -1], [12, 1])
    (axes,) = result_on(support).plot().axes
    left, right, bottom, top = axes.images[0].get_extent()
    columns = left + (right - left) * (np.arange(5) + 0.5) / 5
    rows = top + (bottom - top) * (np.arange(3) + 0.5) / 3
    np.testing.assert_allclose(columns, [-1, -0.5, 0, 0.5, 1])
    np.testing.assert_allclose(rows, [10, 11, 12])


def test_axes_of_very_different_length_still_give_a_readable_picture():
    """Seconds against metres, say: not a line one pixel thick."""
    figure = result_on(bm.Support.regular((20, 20), [0, 0], [1, 500])).plot()
    picture_of(figure)
    place = figure.axes[0].get_position()
    assert place.height > 0.2
    assert place.width > 0.2


@pytest.mark.parametrize("name", ["cloud in the plane", "cloud in space", "cloud in four dimensions"])
def test_a_cloud_shows_every_point_by_its_first_two_coordinates(name):
    result = result_on(SUPPORTS[name])
    axes = result.plot().axes[0]
    (dots,) = axes.collections
    drawn = np.column_stack([dots.get_offsets(), dots.get_array()])
    expected = np.column_stack([result.support.points[:, :2], result.weights])
    np.testing.assert_allclose(drawn[np.argsort(drawn[:, 2])], expected)


def test_heavier_points_are_larger_and_drawn_over_lighter_ones():
    """Where coordinates that are not drawn make points coincide, the mass must not hide under empty points."""
    weights = np.random.default_rng(2).random(36)
    (dots,) = result_on(SUPPORTS["grid in four dimensions"], weights).plot().axes[0].collections
    assert (np.diff(dots.get_sizes()) >= 0).all()
    assert (np.diff(dots.get_array()) >= 0).all()


def test_a_volume_is_summed_along_each_axis():
    result = result_on(SUPPORTS["volume"])
    figure = result.plot()
    assert len(figure.axes) == 3
    for axis, axes in enumerate(figure.axes):
        np.testing.assert_allclose(axes.images[0].get_array(), result.image.sum(axis=axis))
        assert str(axis) in axes.get_title()
        # a scale and names, so that a place can be read off
        assert len(axes.get_xticks()) > 1
        assert axes.get_xlabel() == ("third" if axis < 2 else "second") + " coordinate"


def test_history_has_a_panel_for_every_column_but_the_first():
    history = bm.History({"iteration": [1, 2, 3], "consensus": [1, 0.1, 0.01], "dual_objective": [0.5, -0.5, -1]})
    figure = history.plot()
    picture_of(figure)
    assert [axes.get_title() for axes in figure.axes] == ["consensus", "dual objective"]
    assert [axes.get_yscale() for axes in figure.axes] == ["log", "linear"]
    for axes, name in zip(figure.axes, ["consensus", "dual_objective"], strict=True):
        np.testing.assert_array_equal(axes.lines[0].get_xdata(), history["iteration"])
        np.testing.assert_array_equal(axes.lines[0].get_ydata(), history[name])
        assert axes.get_xlabel() == "iteration"


def test_a_history_of_one_row_is_not_an_empty_panel():
    """A line through one point is invisible; a marker is not."""
    figure = bm.History({"iteration": [1.0], "consensus": [0.1]}).plot()
    (line,) = figure.axes[0].lines
    assert line.get_marker() not in ("None", "", None)


@pytest.mark.parametrize("columns", [{}, {"iteration": []}, {"iteration": [1.0]}, {"iteration": [], "consensus": []}])
def test_a_history_of_nothing_is_drawn_without_an_error(columns):
    picture_of(bm.History(columns).plot())


def test_html_holds_the_picture_and_the_numbers():
    result = result_on(SUPPORTS["plane"], measures=7)
    html = result._repr_html_()
    (data,) = re.findall(r"src='data:image/png;base64,([^']+)'", html)
    with Pillow.open(io.BytesIO(base64.b64decode(data, validate=True))) as picture:
        picture.load()
        assert picture.format == "PNG"
    for part in ("<table>", "7", "0.0125", "1.25e-06", "Converged", "alt="):
        assert part in html
    assert "http" not in html


def test_html_escapes_text(monkeypatch):
    result = result_on(SUPPORTS["line"])
    monkeypatch.setattr(bm.Support, "__repr__", lambda self: "<script>1 & 2</script>")
    html = result._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;1 &amp; 2&lt;/script&gt;" in html


def test_plotting_leaves_pyplot_alone():
    """Figures must not touch the plotting state of a session, nor open windows."""
    code = """
import sys
import numpy as np
import barymesh as bm
result = bm.barycenter([np.arange(3.0) - 1, np.arange(3.0)], np.linspace(-2, 3, 9), reg=1.0)
result.plot()
result.history.plot()
result._repr_html_()
result_2d = bm.barycenter(np.ones((2, 3, 3)), reg=1.0)
result_2d.plot()
assert "matplotlib.figure" in sys.modules
assert "matplotlib.pyplot" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr


def test_matplotlib_is_not_loaded_until_something_is_drawn():
    code = "import sys, barymesh; assert 'matplotlib' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
