"""Figures: the right kind for every support, true to the numbers, and readable."""

from __future__ import annotations

import base64
import io
import re
import subprocess
import sys
from itertools import combinations

import numpy as np
import pytest
from PIL import Image as Pillow

import barymesh as bm
from barymesh.io.output import write_outputs, write_picture

ORDINALS = ("first", "second", "third")


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
def test_a_cloud_shows_every_point_by_two_coordinates_at_a_time(name):
    result = result_on(SUPPORTS[name])
    *panels, bar = result.plot().axes
    assert bar.get_ylabel() == "weight"
    views = [(0, 1), (0, 2), (1, 2)] if result.support.dimension > 2 else [(0, 1)]
    for axes, kept in zip(panels, views, strict=True):
        (dots,) = axes.collections
        drawn = np.column_stack([dots.get_offsets(), dots.get_array()])
        expected = np.column_stack([result.support.points[:, kept], result.weights])
        np.testing.assert_allclose(drawn[np.argsort(drawn[:, 2])], expected)
        assert axes.get_xlabel() == f"{ORDINALS[kept[0]]} coordinate"
        assert axes.get_ylabel() == f"{ORDINALS[kept[1]]} coordinate"
        # one colour is one weight in all panels, and none at the end of the scale is none
        assert dots.get_clim() == (0, result.weights.max())


def test_coordinates_that_are_not_drawn_are_counted():
    assert "the first 3 of 4 coordinates" in result_on(SUPPORTS["cloud in four dimensions"]).plot().get_suptitle()
    assert "coordinates" not in result_on(SUPPORTS["cloud in space"]).plot().get_suptitle()


def test_heavier_points_are_larger_and_drawn_over_lighter_ones():
    """Where coordinates that are not drawn make points coincide, the mass must not hide under empty points."""
    weights = np.random.default_rng(2).random(30)
    (dots,) = result_on(SUPPORTS["cloud in space"], weights).plot().axes[0].collections
    assert (np.diff(dots.get_sizes()) > 0).all()
    assert (np.diff(dots.get_array()) > 0).all()


@pytest.mark.parametrize("name", ["cloud in the plane", "cloud in space"])
def test_equal_weights_are_told_and_have_no_scale(name):
    figure = result_on(SUPPORTS[name], np.ones(30)).plot()
    picture_of(figure)
    assert "30 points of equal weight" in (figure.get_suptitle() or figure.axes[0].get_title())
    assert len(figure.axes) == (1 if name == "cloud in the plane" else 3)
    for axes in figure.axes:
        (dots,) = axes.collections
        assert len(np.unique(dots.get_facecolor(), axis=0)) == 1


def test_many_points_are_smaller_than_few():
    few, many = (result_on(cloud(n, 2)).plot().axes[0].collections[0].get_sizes().max() for n in (20, 900))
    assert many < few / 4


@pytest.mark.parametrize("name", ["volume", "grid in four dimensions"])
def test_a_volume_is_summed_over_the_coordinates_not_shown(name):
    """On one scale, with names, so that places and weights can be read off."""
    result = result_on(SUPPORTS[name])
    figure = result.plot()
    *panels, bar = figure.axes
    planes = []
    for axes, kept in zip(panels, [(0, 1), (0, 2), (1, 2)], strict=True):
        planes.append(axes.images[0].get_array())
        others = tuple(set(range(result.support.dimension)) - set(kept))
        np.testing.assert_allclose(planes[-1], result.image.sum(axis=others))
        assert len(axes.get_xticks()) > 1
        assert (axes.get_ylabel(), axes.get_xlabel()) == tuple(f"{ORDINALS[axis]} coordinate" for axis in kept)
    assert bar.get_ylabel().startswith("weight, summed over the coordinate")
    largest = max(plane.max() for plane in planes)
    assert bar.get_ylim() == pytest.approx((0, largest))
    assert all(axes.images[0].get_clim() == (0, largest) for axes in panels)


# the measures beside their barycenter


def mean_of(count, shape=(5, 7)):
    """The barycenter of this many images, and they."""
    images = np.random.default_rng(count).random((count, *shape))
    return bm.barycenter(images, reg=1.0, tol=1e-2), images / images.sum(axis=(1, 2), keepdims=True)


def shown_inputs(figure):
    """The small pictures, by title."""
    return {axes.get_title(): axes.images[0].get_array() for axes in figure.axes[1:] if axes.images}


@pytest.mark.parametrize(("count", "chosen"), [(1, [0]), (3, [0, 1, 2]), (8, range(8)), (15, range(0, 15, 2))])
def test_images_are_shown_beside_their_barycenter(count, chosen):
    result, images = mean_of(count)
    figure = result.plot()
    np.testing.assert_array_equal(figure.axes[0].images[0].get_array(), result.image)
    shown = shown_inputs(figure)
    assert list(shown) == [f"measure {k}" for k in chosen]
    for k in chosen:
        np.testing.assert_allclose(shown[f"measure {k}"], images[k])
    heading = figure.subfigs[0].get_suptitle()
    assert heading == ("8 of the 15 measures" if count == 15 else "the measures")
    picture_of(figure)
    large, small = (axes.get_position() for axes in figure.axes[:2])
    assert large.width > 2 * small.width * (figure.subfigs[0].bbox.width / figure.subfigs[1].bbox.width)


def test_the_measures_are_left_out_when_asked_or_unknown(tmp_path):
    result, images = mean_of(3)
    loaded = bm.load(result.save(tmp_path / "mean.npz"))
    for alone in (result.plot(inputs=False), loaded.plot()):
        assert len(alone.axes) == 1
        np.testing.assert_array_equal(alone.axes[0].images[0].get_array(), result.image)
    given = loaded.with_measures([None, bm.Image(images[1]), None])
    assert list(shown_inputs(given.plot())) == ["measure 1"]


def test_histograms_on_a_grid_are_shown_by_their_labels():
    support = bm.Support.regular((3, 4), [0, 0], [10, 20])
    masses = np.random.default_rng(1).random((2, 12))
    elsewhere = bm.Histogram(masses[1, :6], bm.Support.regular((2, 3), [0, 0], [10, 20]).points)
    measures = [bm.Histogram(masses[0]), elsewhere, bm.Gaussian([5, 10], 1.0)]
    measures[0].label, measures[1].label = "$north", "a label that is far too long"
    figure = bm.barycenter(measures, support, reg=10.0, tol=1e-2).plot()
    picture_of(figure)
    north, long = shown_inputs(figure).items()
    np.testing.assert_allclose(north[1], masses[0].reshape(3, 4) / masses[0].sum())
    np.testing.assert_allclose(long[1], masses[1, :6].reshape(2, 3) / masses[1, :6].sum())
    assert north[0] == "$north"
    assert long[0].startswith("a label")
    assert len(long[0]) < 20
    assert figure.subfigs[0].get_suptitle() == "2 of the 3 measures"
    # they have coordinates of their own, which the axes show
    assert (figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()) == ("second coordinate", "first coordinate")
    assert figure.axes[0].get_xlim()[1] > 20


def test_samples_are_not_shown_beside_their_barycenter(rng):
    result = bm.barycenter([rng.normal(size=(9, 2)), rng.normal(size=(9, 2))], bm.Support.regular((4, 4), -3, 3), reg=3)
    (axes,) = result.plot().axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("second coordinate", "first coordinate")


@pytest.mark.parametrize("inputs", [True, False])
def test_places_in_images_are_rows_and_columns(inputs):
    """Counted as in ``result.image``."""
    result, _ = mean_of(2, (5, 7))
    axes = result.plot(inputs=inputs).axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("column", "row")
    assert axes.images[0].get_extent() == [-0.5, 6.5, 4.5, -0.5]
    assert all(float(tick).is_integer() for tick in (*axes.get_xticks(), *axes.get_yticks()))


def test_images_with_coordinates_of_their_own_keep_them():
    images = [bm.Image(np.eye(4), bm.Grid((4, 4), (0, 0), (30, 60))) for _ in range(2)]
    axes = bm.barycenter(images, reg=100.0).plot().axes[0]
    assert axes.images[0].get_extent() == [-10, 70, 35, -5]
    named = bm.Support.regular((4, 4)).named(["depth (mm)", "width (mm)"])
    axes = bm.barycenter(np.ones((2, 4, 4)), named, reg=1.0).plot().axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("depth (mm)", "width (mm)")


@pytest.mark.parametrize(("write", "inputs"), [("the command line", True), ("a node", False)])
def test_written_pictures_show_the_measures_except_that_of_a_node(tmp_path, write, inputs):
    """Nodes of different organisations share theirs, so it must show nothing of their data."""
    result, _ = mean_of(2)
    if write == "a node":
        write_picture(tmp_path, result)
    else:
        write_outputs(result, tmp_path)
    expected = io.BytesIO()
    result.plot(inputs=inputs).savefig(expected, format="png", dpi=150)
    with Pillow.open(tmp_path / "barycenter.png") as written, Pillow.open(expected) as drawn:
        np.testing.assert_array_equal(np.asarray(written), np.asarray(drawn))


LAID_OUT = {
    **{name: result_on(support) for name, support in SUPPORTS.items()},
    **{f"{shape} volume": result_on(bm.Support.of_grid(bm.Grid.of_image(shape)))
       for shape in [(12, 12, 12), (12, 12, 5), (40, 10, 8), (8, 10, 40)]},
    **{f"{count} of {shape}": mean_of(count, shape)[0] for count in (2, 9) for shape in [(9, 9), (4, 16), (16, 4)]},
    "equal weights": result_on(cloud(30, 3), np.ones(30)),
}  # fmt: skip


@pytest.mark.parametrize("name", LAID_OUT)
def test_no_text_is_cut_off_or_written_over_another(name):
    figure = LAID_OUT[name].plot()
    picture_of(figure)
    titles = [text for part in (figure, *figure.subfigs) for text in part.texts]
    names = [text for axes in figure.axes for text in (axes.title, axes.xaxis.label, axes.yaxis.label)]
    boxes = [(text.get_text(), text.get_window_extent()) for text in titles + names if text.get_text()]
    for text, box in boxes:
        assert box.min.min() > -1, text
        assert (box.max < figure.bbox.size + 1).all(), text
    for (text, box), (other, its) in combinations(boxes, 2):
        across, up = np.minimum(box.max, its.max) - np.maximum(box.min, its.min)
        assert min(across, up) < 1, (text, other)


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


def test_html_shows_the_picture_first_then_the_main_numbers():
    html = result_on(SUPPORTS["plane"])._repr_html_()
    assert html.index("<img") < html.index("<table>")
    rows = re.findall(r"<th[^>]*>([^<]+)</th>", html)
    assert rows == ["message", "measures", "support", "reg", "value", "gap", "tv bound", "seconds"]


def test_html_of_a_run_on_a_network_ends_with_its_history():
    result = bm.barycenter(
        [bm.Gaussian(k, 1.0) for k in range(3)], np.linspace(-3, 5, 9), reg=0.5, network="path", duration=2.0
    )
    parts = re.findall(r"<(?:img alt='[^']*'|table)", result._repr_html_())
    assert parts == ["<img alt='the barycenter'", "<table", "<img alt='its history'"]
    assert {"network", "messages", "bytes"} <= set(re.findall(r"<th[^>]*>([^<]+)</th>", result._repr_html_()))


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
