"""The report: one page that needs nothing else, says what the data say, and is the same bytes every time."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from barymesh.history import History
from barymesh_a2dwb.claims import in_short, time_until_close, verdicts
from barymesh_a2dwb.panels import STYLES
from barymesh_a2dwb.report import write_report
from barymesh_a2dwb.study import LABELS, TOPOLOGIES, Run
from barymesh_a2dwb.tables import sweep_table, tables

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
    """Of a study without sweeps."""
    study = make_study(("gaussian",), topologies=("cycle", "star"), sweeps=False, quick=True)
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
    for attribute in ("aria-controls", "aria-labelledby", "data-plots"):
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


def rows_of(table):
    """The cells of a table by the name of its row."""
    return {row.name: tuple(row.cells) for row in table.rows}


def test_it_opens_with_a_chart_and_three_sentences(page):
    opening = page.text[page.text.index("Lower is better.") : page.text.index("Ahead means")]
    assert "Each method with its best step, as a multiple of reg/λmax(W): A2DWB 4, A2DWBN 4, DCWB 4" in opening
    for sentence in in_short(make_study()):
        assert sentence in opening


def test_the_claims_are_shown_with_the_best_steps_and_then_with_one_step():
    study = make_study()
    shown = tables(study, verdicts(study))
    claim = "A2DWB is ahead of DCWB on the consensus distance"
    for name, answer in (("claims", False), ("fixed", True)):
        cells = [cell for row in shown[name].rows for cell in row.cells if cell is not None and cell.claim == claim]
        # DCWB with its best step is as good as ours
        assert [cell.topology for cell in cells if cell.experiment == "gaussian"] == list(TOPOLOGIES)
        assert {cell.holds for cell in cells if cell.topology == "complete"} == {answer}, name


def test_curves_that_coincide_can_be_told_apart(page):
    """Names beside the curves at the end of each row of panels."""
    rows = [json.loads(script)["document"] for script in page.scripts if script.startswith('{"document"')]
    labels = [set(re.findall(r'"text":"([^"]+)"', json.dumps(row, separators=(",", ":")))) for row in rows]
    assert {"A2DWB", "A2DWBN", "DCWB", "Sinkhorn"} <= labels[0]
    assert {"step 16: 0.40", "step 0.25: 0.05"} <= labels[1]
    first, second = STYLES["a2dwb"], STYLES["a2dwb_naive"]
    assert (first.dash, second.dash) == ("-", "--")
    assert first.width > 2 * second.width


def test_every_verdict_is_in_one_table():
    study = make_study()
    found = verdicts(study)
    shown = tables(study, found)
    kinds = ("fixed", "unseen", "own")
    cells = [cell for kind in kinds for row in shown[kind].rows for cell in row.cells if cell is not None]
    assert sorted(cells, key=found.index) == found
    assert all(cell.by_paper for row in shown["fixed"].rows for cell in row.cells if cell is not None)


def test_a_quick_study_is_called_one(page, quick_page):
    assert "This is a quick study, not the paper's size: 50 nodes and 20 s" in quick_page.text
    assert "barymesh paper gaussian --quick --seed 3 -o out/" in quick_page.text
    assert "quick study" not in page.text
    # but it is not the paper's size either
    assert "Not the paper's size: 50 nodes and 20 s" in page.text


def test_the_time_to_come_close_is_told_only_of_those_that_do():
    study = make_study(("gaussian",), topologies=("star",), sweeps=False)
    (row,) = tables(study, verdicts(study))["times"].rows
    assert row.cells[:3] == ["no: 0.3", "no: 0.4", "no: 0.6"]
    assert all(cell.endswith(" s") for cell in row.cells[3:])


def test_divergence_is_reported(page):
    assert "never (diverged)" in page.text
    study = make_study()
    step = [sweep for sweep in study.sweeps if sweep.parameter == "step"]
    shown = rows_of(sweep_table(study, step))
    # values tried, lowest total variation, at which value, where, below the optimum, diverged
    assert shown["A2DWB"] == (3, "0.1", "0.25", LABELS["erdos_renyi"], 1, 0)
    assert shown["DCWB"] == (3, "0.1", "0.25", LABELS["erdos_renyi"], 0, 1)


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


def test_close_means_that_it_stays_close():
    def until(tv, status="finished"):
        history = History({"time": np.arange(len(tv), dtype=float), "tv": np.array(tv)})
        return time_until_close(Run("", "", "", None, history, {}, 0.0, status))

    assert until([0.5, 0.01, 0.001]) == 1
    assert until([0.5, 0.001, 0.2, 0.01, 0.001]) == 3
    assert until([0.005, 0.005]) == 0
    assert np.isnan(until([0.5, 0.001, 0.2]))
    assert np.isnan(until([0.5, 0.001], "diverged"))
