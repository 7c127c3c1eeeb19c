"""The page in a real browser: it loads without a complaint, follows a run, shows a death, and fits all who look."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import numpy as np
import pytest

import barymesh as bm
from barymesh.dashboard import LiveFile
from tests.dashboard.serving import QUIET, serving
from tests.peers.cluster import Cluster

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
READY = "document.documentElement.dataset.ready == 'yes'"
PHONE, WIDE = (390, 844), (1600, 1000)
# milliseconds: a guard against hanging
PATIENCE = 60_000
# whether anything of the figures is painted: another colour than the first pixel's
PAINTED = """() => {
  function* canvases(root) {
    for (const one of root.querySelectorAll("*")) {
      if (one.tagName == "CANVAS" && one.width > 1 && one.height > 1) yield one;
      if (one.shadowRoot) yield* canvases(one.shadowRoot);
    }
  }
  return [...canvases(document)].filter(one => {
    const copy = Object.assign(document.createElement("canvas"), {width: one.width, height: one.height});
    const context = copy.getContext("2d", {willReadFrequently: true});
    context.drawImage(one, 0, 0);
    const data = context.getImageData(0, 0, one.width, one.height).data;
    for (let k = 4; k < data.length; k += 4) if (data[k + 3] != data[3]) return true;
    return false;
  }).length;
}"""


# the labels of a figure, as boxes in pixels: names of nodes, or texts beside curves
BOXES = """([figure, source]) => {
  const plot = Bokeh.documents[0].get_model_by_name(figure);
  const view = Bokeh.index.find_one(plot);
  const renderer = plot.renderers.find(one => one.data_source.name == source);
  const data = renderer.data_source.data;
  const brush = document.createElement("canvas").getContext("2d");
  brush.font = "11px helvetica, arial, sans-serif";
  return Array.from(data.text, (text, k) => {
    const wide = brush.measureText(text).width, shift = data.shift ? data.shift[k] : 0;
    const x = view.frame.x_scale.compute(data.x[k]), y = view.frame.y_scale.compute(data.y[k]) + shift;
    return {text, x0: data.shift ? x : x - wide / 2, x1: data.shift ? x + wide : x + wide / 2, y0: y - 5, y1: y + 5};
  });
}"""
# columns of a source of a figure
COLUMNS = """([figure, source]) => {
  const plot = Bokeh.documents[0].get_model_by_name(figure);
  const {data} = plot.renderers.find(one => one.data_source.name == source).data_source;
  return Object.fromEntries(Object.entries(data).map(([name, column]) => [name, Array.from(column)]));
}"""


def apart(boxes):
    """Whether no two labels overlap."""
    return not any(
        a["x0"] < b["x1"] and b["x0"] < a["x1"] and a["y0"] < b["y1"] and b["y0"] < a["y1"]
        for k, a in enumerate(boxes)
        for b in boxes[:k]
    )


def found_browser():
    return os.environ.get("BARYMESH_BROWSER") or next(filter(None, map(shutil.which, BROWSERS)), None)


@pytest.fixture(scope="module")
def browser():
    path = found_browser()
    if path is None:
        assert os.environ.get("CI") != "true", f"a browser is needed: one of {', '.join(BROWSERS)}, or BARYMESH_BROWSER"
        pytest.skip("there is no Chromium here")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()


@contextmanager
def visiting(browser, address, size=WIDE, scheme="light"):
    """The page at the address, once its figures are there. Any complaint of the browser is a failure."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, has_touch=size == PHONE
    )
    page = context.new_page()
    complaints = []
    page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("requestfailed", lambda request: complaints.append(f"{request.url}: {request.failure}"))
    page.on(
        "response", lambda answer: complaints.append(f"{answer.url}: {answer.status}") if answer.status > 399 else 0
    )
    page.goto(address)
    page.wait_for_function(READY, timeout=PATIENCE)
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert (min(ground) > 200) == (scheme == "light")
    try:
        yield page
        assert complaints == []
    finally:
        context.close()


def picture(page, tmp_path, name):
    """A screenshot, for those who want to look: in the temporary folder, or the one in BARYMESH_SCREENSHOTS."""
    path = os.path.join(os.environ.get("BARYMESH_SCREENSHOTS", tmp_path), f"{name}.png")
    page.screenshot(path=path, full_page=True)


def fits(page):
    """Whether nothing needs to be scrolled sideways."""
    return page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def words(page, name):
    return page.inner_text(f"#{name}")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The address of a page of a finished run."""
    folder = tmp_path_factory.mktemp("finished")
    measures = [bm.Gaussian(mean, 0.4) for mean in np.linspace(-2, 2, 12)]
    # a fraction of a second
    with LiveFile(folder, "sinkhorn", every=0) as live:
        result = bm.barycenter(
            measures, np.linspace(-4, 4, 60), reg=0.1, network="erdos_renyi:p=0.4", record_every=0.5,
            faults=["crash:node=3,start=2,stop=6"], callback=live, progress=False,
        )  # fmt: skip
        result.save(folder / "result.npz")
    with serving(folder) as address:
        yield address


@pytest.mark.parametrize(("size", "scheme"), [(PHONE, "light"), (WIDE, "dark")])
def test_a_finished_run(browser, finished, tmp_path, size, scheme):
    with visiting(browser, finished, size, scheme) as page:
        page.wait_for_function(f"({PAINTED})() >= 4", timeout=PATIENCE)
        assert "Over. Converged" in words(page, "status")
        assert fits(page)
        columns = page.evaluate(
            "getComputedStyle(document.querySelector('main')).gridTemplateColumns.split(' ').length"
        )
        assert columns == (1 if size == PHONE else 2)
        picture(page, tmp_path, f"finished-{size[0]}-{scheme}")


def test_with_the_keyboard_alone(browser, finished):
    with visiting(browser, finished) as page:
        where = (
            "[document.activeElement.id, document.activeElement.className, document.activeElement.tagName].join('/')"
        )
        reached, unseen = [], []
        for _ in range(100):
            page.keyboard.press("Tab")
            reached.append(page.evaluate(where))
            if reached[-1].endswith("BODY"):
                break
            if page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "none":
                unseen.append(reached[-1])
        assert unseen == []
        everything = " ".join(reached)
        assert "skip" in reached[0]
        for one in ("first", "play", "live", "slider", "speed", "switch", "bk-Figure", "SUMMARY"):
            assert one in everything
        # back, scene by scene
        before = page.get_attribute("#slider", "aria-valuetext")
        page.focus("#slider")
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("ArrowLeft")
        page.wait_for_function("document.getElementById('status').textContent.startsWith('Recorded.')")
        assert page.get_attribute("#slider", "aria-valuetext") != before
        assert page.get_attribute("#live", "aria-pressed") == "false"
        page.focus("#live")
        page.keyboard.press("Enter")
        page.wait_for_function("document.getElementById('status').textContent.startsWith('Over.')")
        page.focus("summary")
        page.keyboard.press("Enter")
        assert page.locator("#rows tr").count() == 12
        page.focus(".switch")
        page.keyboard.press("Enter")
        assert page.get_attribute("html", "data-theme") == "dark"


def seek(page, share):
    page.evaluate(
        """share => {
          const slider = document.getElementById("slider");
          slider.value = Math.round(share * slider.max);
          slider.dispatchEvent(new Event("input"));
        }""",
        share,
    )
    page.wait_for_function("document.getElementById('status').textContent.startsWith('Recorded.')", timeout=PATIENCE)


def test_a_run_is_replayed(browser, finished, tmp_path):
    with visiting(browser, finished) as page:
        last = float(page.get_attribute("html", "data-now"))
        flags = page.text_content("#flags")
        assert "3 dead" in flags
        assert "3 back" in flags
        final = page.evaluate(COLUMNS, ["network", "nodes"])
        # when the node was dead
        seek(page, 4 / last)
        page.wait_for_function("document.getElementById('status').textContent.includes('Dead: 3')", timeout=PATIENCE)
        assert 2 <= float(page.get_attribute("html", "data-now")) < 6
        assert "without 3" in page.text_content("#answers")
        then = page.evaluate(COLUMNS, ["network", "nodes"])
        assert then["marker"][3] == "x"
        assert min(then["error"]) > max(final["error"])
        picture(page, tmp_path, "replay")
        # from the start to the end, fast, and then the newest is followed again
        page.select_option("#speed", "4")
        page.click("#first")
        page.wait_for_function("document.documentElement.dataset.playing == 'yes'", timeout=PATIENCE)
        assert page.text_content("#play") == "Pause"
        page.wait_for_function("document.getElementById('status').textContent.startsWith('Over.')", timeout=PATIENCE)
        assert page.get_attribute("#live", "aria-pressed") == "true"
        assert float(page.get_attribute("html", "data-now")) == last
        # slow motion: more than two minutes for all of it, so it is near the start for long
        page.select_option("#speed", "0.0625")
        page.click("#play")
        page.wait_for_function("document.getElementById('status').textContent.startsWith('Recorded.')")
        page.click("#play")
        assert page.get_attribute("html", "data-playing") == "no"
        assert float(page.get_attribute("html", "data-now")) < last / 2


def test_labels_do_not_collide(browser, finished, tmp_path):
    for size in (PHONE, WIDE):
        with visiting(browser, finished, size) as page:
            page.wait_for_function(f"({BOXES})(['network', 'labels']).length > 0", timeout=PATIENCE)
            names = page.evaluate(BOXES, ["network", "labels"])
            assert apart(names)
            if size == WIDE:
                assert len(names) == 12
            seek(page, 0.3)
            tips = page.evaluate(BOXES, ["barycenter", "tips"])
            assert {one["text"] for one in tips} == {"mean of the nodes", "each node"}
            assert apart(tips)


def test_colours_tree_root_and_gaps(browser, finished):
    with visiting(browser, finished) as page:
        assert page.locator(".decades li").count() == 9
        assert len(page.evaluate(COLUMNS, ["network", "tree"])["x0"]) == 11
        assert len(page.evaluate(COLUMNS, ["network", "roots"])["x"]) == 1
        assert page.evaluate(COLUMNS, ["network", "locks"])["x"] == []
        nodes = page.evaluate(COLUMNS, ["network", "nodes"])
        assert sum(label.endswith(" root") for label in nodes["label"]) == 1
        assert all("certified gap" in note for note in nodes["note"])
        page.click("summary")
        rows = page.locator("#rows tr")
        parents = [row.locator("td").nth(3).inner_text() for row in rows.all()]
        assert parents.count("root") == 1
        assert all("10⁻" in row.locator("td").nth(2).inner_text() for row in rows.all())


def test_many_nodes_have_no_names_on_top_of_one_another(browser, tmp_path):
    measures = [bm.Gaussian(mean, 0.4) for mean in np.linspace(-2, 2, 120)]
    with LiveFile(tmp_path, "rounds", every=0) as live:
        bm.barycenter(
            measures, np.linspace(-4, 4, 30), reg=0.2, network="complete", method="rounds", duration=3, callback=live,
            progress=False,
        )  # fmt: skip
    with serving(tmp_path) as address, visiting(browser, address, PHONE) as page:
        page.wait_for_function(f"({BOXES})(['network', 'labels']).length > 0", timeout=PATIENCE)
        names = page.evaluate(BOXES, ["network", "labels"])
        assert apart(names)
        # those without a place are shown at the pointer; the root has one
        assert len(names) < 120
        nodes = page.evaluate(COLUMNS, ["network", "nodes"])
        assert len(nodes["name"]) == 120
        (root,) = (label for label in nodes["label"] if label.endswith(" root"))
        assert root in [one["text"] for one in names]


def test_methods_compared_are_named_at_the_ends_of_their_curves(browser, tmp_path):
    measures = [bm.Gaussian(mean, 0.4) for mean in np.linspace(-2, 2, 6)]
    for method in ("sinkhorn", "dcwb", "gossip_sinkhorn"):
        with LiveFile(tmp_path / method, method, every=0) as live:
            result = bm.barycenter(
                measures, np.linspace(-4, 4, 30), reg=0.2, network="cycle", method=method, duration=20, callback=live,
                progress=False,
            )  # fmt: skip
            result.save(tmp_path / method / "result.npz")
    with serving(tmp_path) as address, visiting(browser, address) as page:
        for panel in ("panel_consensus", "panel_rate"):
            tips = page.evaluate(BOXES, [panel, "tips"])
            assert {one["text"] for one in tips} == {"sinkhorn", "dcwb", "gossip_sinkhorn"}
            assert apart(tips)
        picture(page, tmp_path, "compared")


def test_those_who_do_not_see_are_told(browser, finished):
    with visiting(browser, finished) as page:
        assert page.get_attribute("html", "lang") == "en"
        assert page.get_attribute("#news", "aria-live") == "polite"
        assert "Converged" in page.text_content("#news")
        for figure in page.locator('[role="img"]').all():
            named = figure.get_attribute("aria-labelledby").split()
            assert all(page.locator(f"#{name}").count() for name in named)
        assert "12 nodes" in words(page, "network-words")
        assert "centre at" in words(page, "barycenter-words")
        unnamed = [one for one in page.locator("button, summary, a").all() if not one.text_content().strip()]
        assert unnamed == []


SIMULATION = """
gaussians = {count = 20, mean = [-4, 4], std = [0.1, 0.6], seed = 0}
reg = 0.1
support = "80:-5:5"
network = "erdos_renyi:p=0.2"
duration = 100000
record_every = 0.5
delays = "uniform:low=0.1,high=0.5"
faults = ["crash:node=3,start=20,stop=90000"]
tol = 0
"""


def test_it_follows_a_run_and_says_when_it_has_ended(browser, tmp_path):
    (tmp_path / "network.toml").write_text(SIMULATION)
    run = [sys.executable, "-m", "barymesh", "simulate", str(tmp_path / "network.toml"), "--quiet"]
    (tmp_path / "out").mkdir()
    with serving(tmp_path / "out") as address:
        process = subprocess.Popen(run, env=QUIET, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            with visiting(browser, address) as page:
                page.wait_for_function(
                    "document.getElementById('status').textContent.includes('At work')", timeout=PATIENCE
                )
                page.wait_for_function(f"{READY} && ({PAINTED})() >= 5", timeout=PATIENCE)
                page.wait_for_function(
                    "document.getElementById('status').textContent.includes('Dead: 3')", timeout=PATIENCE
                )
                assert "without 3" in page.text_content("#answers")
                before = page.text_content("#counts")
                page.wait_for_function(f"document.getElementById('counts').textContent != {before!r}", timeout=PATIENCE)
                picture(page, tmp_path, "simulation")
                # still while it is paused, and on again
                page.click("#play")
                page.wait_for_function("document.getElementById('status').textContent.startsWith('Recorded.')")
                paused = words(page, "status")
                time.sleep(2)
                assert words(page, "status") == paused
                # back to the beginning, while it goes on
                page.focus("#slider")
                page.keyboard.press("Home")
                page.wait_for_function("document.documentElement.dataset.now == '0'", timeout=PATIENCE)
                assert "Dead" not in words(page, "status")
                page.click("#live")
                page.wait_for_function(
                    "document.getElementById('status').textContent.startsWith('Dead: 3. At work')", timeout=PATIENCE
                )
                process.send_signal(signal.SIGINT)
                page.wait_for_function(
                    "document.getElementById('status').textContent.includes('Over.')", timeout=PATIENCE
                )
                assert "Interrupted" in words(page, "status")
        finally:
            process.kill()
            process.wait()


def test_images(browser, tmp_path, rng):
    y, x = np.mgrid[:24, :24] / 23
    centres = rng.uniform(0.3, 0.7, (9, 2))
    images = np.array([np.exp(-((y - a) ** 2 + (x - b) ** 2) / 0.01) for a, b in centres])
    result = bm.barycenter(images, reg=0.003, network="grid", duration=5, progress=False)
    result.save(tmp_path / "result.npz")
    with serving(tmp_path) as address, visiting(browser, address, PHONE, "dark") as page:
        page.wait_for_function(f"({PAINTED})() >= 5", timeout=PATIENCE)
        assert fits(page)
        picture(page, tmp_path, "images")


def test_a_killed_node_is_shown_dead_within_five_seconds(browser, tmp_path):
    with Cluster(tmp_path, 3) as cluster, serving(tmp_path / "network.toml") as address:
        cluster.start()
        with visiting(browser, address, scheme="dark") as page:
            cluster.wait_for_work()
            converged = "document.getElementById('status').textContent.includes('3 converged')"
            page.wait_for_function(f"{converged} && {READY}", timeout=PATIENCE)
            cluster.send(signal.SIGKILL, 2)
            dead = "document.getElementById('status').textContent.includes('Dead: n2')"
            page.wait_for_function(dead, timeout=5000)
            page.click("summary")
            first = page.locator("#rows tr").first
            assert first.inner_text().split()[:3] == ["n2", "✕", "dead"]
            assert first.get_attribute("class") == "dead"
            picture(page, tmp_path, "peers")


def test_with_a_token_and_that_the_page_says_that_the_dashboard_has_ended(browser, tmp_path):
    context = browser.new_context()
    page = context.new_page()
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text("only-for-friends")
    with serving(tmp_path, "--token-file", token) as address:
        page.goto(address.partition("?")[0])
        assert "A token is needed" in page.text_content("body")
        page.goto(address)
        page.wait_for_function(READY, timeout=PATIENCE)
        assert "token" not in page.url
    page.wait_for_function("!document.getElementById('lost').hidden", timeout=PATIENCE)
    assert "has ended" in words(page, "lost")
    context.close()
