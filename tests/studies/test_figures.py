"""The figures for print: complete, legible, and the same bytes every time."""

from __future__ import annotations

import re

import numpy as np
import pytest
from matplotlib import style
from matplotlib.text import Text
from PIL import Image

from barymesh_a2dwb.figures import DPI, PRINT, WIDTH, drawings, write_figures
from barymesh_a2dwb.panels import dual_limits, log_limits, log_ticks, short_tv
from barymesh_a2dwb.study import LABELS

from .synthetic import OPTIMUM, START, make_study, without

NAMES = {
    "figure-1-gaussian", "figure-2", "figure-2-mnist-2", "figure-2-mnist-3", "barycenters-gaussian",
    "barycenters-mnist-2", "barycenters-mnist-3", "sensitivity-step", "sensitivity-reg",
}  # fmt: skip


def drawn_of(study):
    with style.context(["default", PRINT]):
        return {name: draw() for name, draw in drawings(study).items()}


@pytest.fixture(scope="module")
def drawn():
    """Every figure of the made-up study, by name, laid out."""
    with style.context(["default", PRINT]):
        found = drawn_of(make_study())
        for figure in found.values():
            figure.draw_without_rendering()
        return found


def texts(figure):
    return [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]


def words(figure):
    return " ".join(" ".join(text.get_text().split()) for text in texts(figure))


def test_there_is_a_figure_for_everything(drawn):
    assert set(drawn) == NAMES


def test_the_files_are_for_print_and_the_same_every_time(tmp_path):
    study = make_study(("mnist-2",), topologies=("cycle",), sweeps=False)
    first = write_figures(study, tmp_path / "first" / "figures")
    second = write_figures(study, tmp_path / "second" / "figures", workers=2)
    assert set(first) == {f"{name}-mnist-2.{end}" for name in ("figure-2", "barycenters") for end in ("pdf", "png")}
    for name, path in first.items():
        assert path == tmp_path / "first" / "figures" / name
        assert path.read_bytes() == second[name].read_bytes()
    with Image.open(first["figure-2-mnist-2.png"]) as image:
        assert image.width == round(WIDTH * DPI)
        assert image.info["dpi"] == pytest.approx((DPI, DPI), abs=0.1)
    document = first["figure-2-mnist-2.pdf"].read_bytes()
    assert document.startswith(b"%PDF")
    # neither when it was written nor by which version
    assert not re.search(rb"CreationDate|ModDate|Matplotlib", document)


def test_every_topology_and_method_is_named(drawn):
    for name in ("figure-1-gaussian", "barycenters-gaussian"):
        found = words(drawn[name])
        for label in LABELS.values():
            assert label in found
    assert "digit 2 Complete" in words(drawn["figure-2"])
    assert "digit 3 Erd" in words(drawn["figure-2"])


def test_the_panels_are_the_papers_and_two_more(drawn):
    titles = [axes.get_title() for axes in drawn["figure-1-gaussian"].axes[:4]]
    assert titles == ["dual objective", "consensus distance", "feasibility residual", "TV to true barycenter"]


def test_the_settings_are_on_the_figure(drawn):
    for name in NAMES - {"sensitivity-reg"}:
        found = words(drawn[name]).replace("\u00a0", " ")
        for setting in ("m = 50", "reg = 0.1", "M = 10", "seed 3", "made up"):
            assert setting in found, name
    assert "reg =" not in words(drawn["sensitivity-reg"])


def test_what_ends_early_is_marked(drawn):
    found = words(drawn["figure-1-gaussian"])
    assert "stopped by themselves" in found
    assert "diverged" in found
    assert "diverged" in words(drawn["sensitivity-step"])
    assert "diverged" not in words(drawn["figure-2"])


def test_letters_are_large_enough_and_inside(drawn):
    for name, figure in drawn.items():
        assert min(text.get_fontsize() for text in texts(figure)) >= 7, name
        page = figure.bbox
        things = [*figure.legends, *figure.texts]
        for axes in figure.axes:
            # ticks have labels beyond the ends of an axis too, which are not drawn
            things += [text for text in (axes.title, axes.yaxis.label, *axes.texts) if text.get_text()]
        assert len(things) > 5
        for thing in things:
            box = thing.get_window_extent()
            assert box.x0 >= page.x0 - 1, name
            assert box.x1 <= page.x1 + 1, name
            assert box.y0 >= page.y0 - 1, name
            assert box.y1 <= page.y1 + 1, name


def test_the_optimum_is_inside_the_dual_panel_and_marked(drawn):
    axes = drawn["figure-1-gaussian"].axes[0]
    low, high = axes.get_ylim()
    assert low < OPTIMUM < OPTIMUM + START < high
    assert any(np.allclose(line.get_ydata(), OPTIMUM) for line in axes.lines)


def test_a_study_of_one_experiment_or_none():
    assert set(drawings(make_study(("gaussian",), sweeps=False))) == {"figure-1-gaussian", "barycenters-gaussian"}
    # one digit is not the paper's selection
    assert set(drawings(make_study(("mnist-3",), sweeps=False))) == {"figure-2-mnist-3", "barycenters-mnist-3"}
    assert not drawings(make_study((), sweeps=False))


def test_a_missing_method_is_left_out():
    for figure in drawn_of(without(make_study(("gaussian",), sweeps=False), "dcwb")).values():
        assert "DCWB" not in words(figure)


def test_the_dual_axis_leaves_out_what_is_absurd():
    starts, values = np.array([3.0]), np.array([3.0, 2.0, -1e6, 1e9, np.nan])
    low, high = dual_limits(starts, values, OPTIMUM)
    assert OPTIMUM - 8 < low < OPTIMUM
    assert 3 < high < 5
    assert all(np.isfinite(dual_limits(np.empty(0), np.empty(0), OPTIMUM)))


def test_rivals_can_be_told_apart_beside_ours():
    values = {"a2dwb": np.array([3.0, 0.4]), "dcwb": np.array([1e-17]), "sinkhorn": np.array([3.0, 1e-9])}
    assert log_limits(values.items(), 1e-12) == pytest.approx((1e-3, 3.0))
    assert log_limits([("sinkhorn", np.array([3.0, 2e-9]))], 1e-12) == pytest.approx((1e-9, 3.0))
    assert log_limits([("dcwb", np.array([0.0, np.nan]))], 1e-12) == pytest.approx((1e-12, 1e-11))
    # one value only
    assert log_limits([("dcwb", np.array([0.1, 0.1]))], 1e-12) == pytest.approx((0.1, 0.2))


def test_ticks_are_few_but_enough():
    assert log_ticks(1e-3, 3.0) == [1e-3, 1e-2, 1e-1, 1.0]
    assert log_ticks(0.1, 0.9) == [0.1, 0.2, 0.5]
    assert len(log_ticks(1e-12, 1e4)) <= 6


def test_a_total_variation_is_short():
    assert [short_tv(value) for value in (0.25, 0.0001, np.nan)] == ["0.250", "<0.001", "–"]  # noqa: RUF001
