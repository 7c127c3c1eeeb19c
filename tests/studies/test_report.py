"""The report: one page that needs nothing else, says what the data say, and is the same bytes every time."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from bokeh.models import ColumnDataSource, Range1d

from barymesh.history import History
from barymesh.viz.bokeh_plots import Curve, Frame, curves_figure, embedded, image_figure, measures_figure
from barymesh_a2dwb.claims import verdicts
from barymesh_a2dwb.report import write_report
from barymesh_a2dwb.report_text import Ending, of, span, time_until_close
from barymesh_a2dwb.study import LABELS, Run

from .synthetic import ENDS, make_study, without

VOID = {"meta", "img", "br", "line", "link", "input"}


class Page(HTMLParser):
    """What a page consists of; it must be well formed."""

    def __init__(self, source):
        super().__init__()
        self.open, self.elements, self.words, self.scripts = [], [], [], []
        self.feed(source)
        self.close()
        assert not self.open
        self.text = " ".join(" ".join(self.words).split())
        self.ids = [values["id"] for _, values in self.elements if "id" in values]

    def handle_starttag(self, tag, attrs):
        assert len(attrs) == len(dict(attrs)), (tag, attrs)
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)
        elif self.open and self.open[-1] != "style":
            self.words.append(data)

    def all(self, name):
        """The values of an attribute."""
        return [values[name] for _, values in self.elements if name in values]


def report(study, path):
    return write_report(study, verdicts(study), path / "report.html").read_text()


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return report(make_study(), tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def page(source):
    return Page(source)


@pytest.fixture(scope="module")
def quick_page(tmp_path_factory):
    """Of a study in which A2DWB stays above the optimum."""
    ends = ENDS | {"a2dwb": (0.5, 1.0, 0.3, 0.3)}
    study = make_study(("gaussian",), topologies=("cycle", "star"), sweeps=False, quick=True, ends=ends)
    return Page(report(study, tmp_path_factory.mktemp("quick")))


def test_it_loads_nothing(page, source):
    for attribute in ("src", "href", "action", "srcset", "poster", "data"):
        for value in page.all(attribute):
            assert not re.match(r"(https?:)?//", value), value
            if attribute != "href":
                assert value.startswith("data:image/png;base64,")
    assert not [values for tag, values in page.elements if tag == "link"]
    assert "@import" not in source
    policy = next(values["content"] for tag, values in page.elements if "http-equiv" in values)
    assert "default-src 'none'" in policy


def test_every_link_leads_somewhere(page):
    for link in page.all("href"):
        if link.startswith("#"):
            assert link[1:] in page.ids
    for attribute in ("aria-controls", "aria-labelledby", "data-plots", "data-open"):
        assert set(page.all(attribute)) <= set(page.ids), attribute
    assert len(page.ids) == len(set(page.ids))


def test_links_are_to_the_files_that_are_written(page):
    links = set(page.all("href"))
    assert {"data/study.json", "data/sweeps.csv", "data/gaussian/complete-a2dwb.csv"} <= links
    assert "data/mnist-3/erdos_renyi-sinkhorn.npz" in links
    figures = {link for link in links if link.startswith("figures/") and link != "figures/"}
    names = (
        "figure-1-gaussian", "figure-2", "figure-2-mnist-2", "figure-2-mnist-3", "barycenters-gaussian",
        "barycenters-mnist-2", "barycenters-mnist-3", "sensitivity-step", "sensitivity-reg",
    )  # fmt: skip
    assert figures == {f"figures/{name}.{end}" for name in names for end in ("pdf", "png")}


def test_everything_is_named(page):
    for label in LABELS.values():
        assert label in page.text
    for verdict in verdicts(make_study()):
        assert verdict.claim in page.text
        assert " ".join(verdict.text.split()) in page.text
    assert "made up <for gaussian>" in page.text


def test_it_can_be_read_without_seeing_and_without_a_mouse(page):
    tags = [tag for tag, _ in page.elements]
    assert tags.count("h1") == tags.count("main") == tags.count("nav") == 1
    assert all(values.get("alt") for tag, values in page.elements if tag == "img")
    assert tags.count("table") == tags.count("caption") > 5
    for _, values in page.elements:
        if "scroll" in values.get("class", "").split():
            assert values["tabindex"] == "0"
            assert values["aria-label"]
    assert all(values.get("type") == "button" for tag, values in page.elements if tag == "button")
    assert all(label for label in page.all("aria-label"))


def test_figures_are_all_there(page):
    documents = [json.loads(script) for script in page.scripts if script.startswith('{"document"')]
    assert len(documents) == len(page.all("data-plots"))
    assert {element for one in documents for element in one["roots"].values()} <= set(page.ids)
    # a row moves together, and has its four panels
    assert sum(len(one["document"]["roots"]) == 4 for one in documents) == (4 + 1 + 1) + 2 + 2


def test_the_same_study_gives_the_same_bytes(tmp_path):
    study = make_study(("gaussian",), topologies=("cycle",), sweeps=False)
    assert report(study, tmp_path) == report(study, tmp_path)


def test_it_says_where_the_conclusion_fails(page):
    assert "Where the paper's conclusion fails, and why" in page.text
    assert "A2DWB's dual objective ends below the certified optimum on all 6 pairs" in page.text
    assert "A2DWB is ahead of DCWB on the dual objective: holds in 6 of 6" in page.text


def test_it_claims_nothing_the_data_do_not_show(quick_page):
    assert "conclusion fails" not in quick_page.text
    assert "What the paper's metrics cannot show" in quick_page.text
    assert "dual objective ends above the certified optimum on all 2 pairs" in quick_page.text
    assert "dual objective of A2DWB ends below the certified optimum on none of the 2 pairs" in quick_page.text


def test_a_quick_study_is_called_one(page, quick_page):
    assert "This is a quick study, not the paper's size: 50 nodes and 20 s" in quick_page.text
    assert "barymesh paper gaussian --quick --seed 3 -o out/" in quick_page.text
    assert "quick study" not in page.text
    # but nor is it the paper's size
    assert "Not the paper's size: 50 nodes and 20 s" in page.text


def test_ours_is_not_praised_for_what_it_did_not_do(tmp_path):
    ends = ENDS | {"sinkhorn": (2.0, 1.0, 1.0, 0.7)}
    study = make_study(("mnist-2", "mnist-3"), sweeps=False, ends=ends)
    text = Page(report(study, tmp_path)).text
    assert "Sinkhorn (barymesh) comes within 0.01 of the true barycenter on none of the 2 pairs" in text


def test_divergence_is_told(page):
    assert "diverged" in page.text
    assert "never (diverged)" in page.text
    # of the sweep over the step
    assert "Runs that diverged: 2." in page.text
    assert "A2DWB's dual objective ends below the optimum at these values: Erd" in page.text


@pytest.mark.parametrize("names", [("mnist-3",), ()])
def test_missing_experiments(names, tmp_path):
    page = Page(report(make_study(names, topologies=("star",), sweeps=False), tmp_path))
    assert ("Gaussian distributions" in page.text) is ("gaussian" in names)
    assert "sensitivity" not in page.ids
    if names:
        assert "barymesh paper mnist --seed 3 -o out/" in page.text


def test_missing_methods(tmp_path):
    study = make_study(("gaussian",), topologies=("star",), sweeps=False)
    for method in ("a2dwb", "sinkhorn"):
        assert Page(report(without(study, method), tmp_path)).text
    only = study
    for method in list(ENDS)[:-1]:
        only = without(only, method)
    assert "could not be judged" in Page(report(only, tmp_path)).text


# ---- words


def test_how_many_and_how_far():
    assert [of(count, 4) for count in (0, 3, 4)] == ["none of the 4", "3 of the 4", "all 4"]
    assert span([0.25, 0.5, np.nan]) == "between 0.25 and 0.5"
    assert span([0.25, 0.25]) == "0.25"
    assert "diverged" in span([np.nan])


def test_close_means_for_good():
    def until(tv, status="finished"):
        history = History({"time": np.arange(len(tv), dtype=float), "tv": np.array(tv)})
        return time_until_close(Run("", "", "", None, history, {}, 0.0, status))

    assert until([0.5, 0.01, 0.001]) == 1
    assert until([0.5, 0.001, 0.2, 0.01, 0.001]) == 3
    assert until([0.005, 0.005]) == 0
    assert np.isnan(until([0.5, 0.001, 0.2]))
    assert np.isnan(until([0.5, 0.001], "diverged"))


def test_drift_and_slowness_are_not_taken_for_one_another():
    experiment = make_study(("gaussian",), sweeps=False).experiments["gaussian"]

    def resting(tv):
        times = np.linspace(0, experiment.setting.duration, len(tv))
        history = History({"time": times, "tv": np.array(tv)})
        return Ending(experiment, Run("gaussian", "star", "a2dwb", 1.0, history, {}, 0.0)).resting

    assert resting([0.8, 0.4, 0.3, 0.3, 0.3])
    assert not resting([0.8, 0.7, 0.6, 0.5, 0.4])
    assert not resting([0.8, 0.8, 0.8, 0.8, 0.795])


# ---- figures for pages


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
