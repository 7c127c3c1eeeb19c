"""Animations: true to the snapshots, for every support, in every kind of file."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys

import numpy as np
import pytest
from matplotlib.animation import FFMpegWriter
from matplotlib.collections import LineCollection, PathCollection
from PIL import Image as Pillow

import barymesh as bm
from barymesh.errors import FileError, OptionError
from barymesh.network import Network, as_network
from barymesh.subsample import evenly

RECORDS = 4


def run_on(support, network="cycle", nodes=6, pictured=None, records=RECORDS):
    """A result with made-up snapshots: nodes agree more and more, on uniform weights at last."""
    support = support if isinstance(support, bm.Support) else bm.Support(support)
    rng = np.random.default_rng(8)
    who = as_network(network, nodes)
    start = rng.dirichlet(np.ones(support.size), size=pictured or nodes)
    shares = np.linspace(1, 0, records)[:, None, None]
    snapshots = shares * start + (1 - shares) / support.size
    n = support.size
    return bm.Result(
        weights=np.full(n, 1 / n),
        support=support,
        node_weights=np.full((nodes, n), 1 / n),
        duals=np.zeros((nodes, n)),
        value=0.5,
        gap=0.1,
        consensus=0.0,
        feasibility=0.0,
        reg=0.1,
        method="a2dwb",
        status=bm.Status.OUT_OF_TIME,
        iterations=10,
        seconds=0.5,
        history=bm.History({"time": 2.5 * np.arange(records), "consensus": np.ones(records)}),
        network=who,
        snapshots=snapshots.astype(np.float32),
    )


SUPPORTS = {
    "line": bm.Support.regular(20, -2, 2),
    "scattered on the line": np.random.default_rng(1).normal(size=15),
    "one point": [[2.0]],
    "plane": bm.Support.regular((5, 8), [0, -1], [1, 1]),
    "cloud in the plane": np.random.default_rng(2).normal(size=(30, 2)),
    "volume": bm.Support.regular((3, 4, 5), 0, 1),
    "cloud in space": np.random.default_rng(3).normal(size=(30, 3)),
}


class Drawn:
    """An animation's figure at one of its moments."""

    def __init__(self, animation, frame):
        self.figure = animation._fig
        self.figure.canvas.draw()
        animation._func(frame)
        self.figure.canvas.draw()
        self.title = self.figure.get_suptitle()
        network, *self.others = [axes for axes in self.figure.axes if axes.get_label() != "<colorbar>"]
        self.network = network
        self.edges = next(part for part in network.collections if isinstance(part, LineCollection))
        *self.background, self.dots = [part for part in network.collections if isinstance(part, PathCollection)]


def distances(snapshots):
    """Total variation to the mean, ``(records, nodes)``."""
    return np.array([[np.abs(p - moment.mean(axis=0)).sum() / 2 for p in moment] for moment in snapshots.astype(float)])


@pytest.fixture(scope="module")
def line():
    return run_on(SUPPORTS["line"])


@pytest.mark.parametrize("name", SUPPORTS)
def test_every_support_is_animated(name):
    result = run_on(SUPPORTS[name])
    animation = result.animate()
    for frame in range(RECORDS):
        drawn = Drawn(animation, frame)
        assert drawn.title == f"a2dwb, virtual time {2.5 * frame:g} s"
        np.testing.assert_allclose(drawn.dots.get_array(), distances(result.snapshots)[frame], rtol=1e-5, atol=1e-9)
        np.testing.assert_array_equal(drawn.dots.get_offsets(), result.network.positions)
        assert len(drawn.edges.get_segments()) == len(result.network.edges)
    picture = np.asarray(drawn.figure.canvas.buffer_rgba())[..., :3]
    assert picture.min() < 100 < picture.max()


def test_curves_are_the_densities_of_the_nodes_and_their_mean(line):
    spacing = 4 / 19
    animation = line.animate()
    for frame in (1, 3):
        (axes,) = Drawn(animation, frame).others
        (bold,), (thin,) = axes.lines, axes.collections
        np.testing.assert_allclose(bold.get_ydata(), line.snapshots[frame].mean(axis=0) / spacing, rtol=1e-5)
        drawn = np.array([segment[:, 1] for segment in thin.get_segments()])
        np.testing.assert_allclose(drawn, line.snapshots[frame] / spacing, rtol=1e-5)
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("position", "density")
        assert axes.get_ylim()[1] > bold.get_ydata().max()


def test_scattered_points_on_the_line_are_joined_in_order():
    (axes,) = Drawn(run_on(SUPPORTS["scattered on the line"]).animate(), 1).others
    assert (np.diff(axes.lines[0].get_xdata()) > 0).all()
    assert all((np.diff(segment[:, 0]) > 0).all() for segment in axes.collections[0].get_segments())


@pytest.mark.parametrize(("nodes", "shown"), [(3, 3), (9, 9), (20, 9)])
def test_pictures_of_some_nodes_and_the_mean(nodes, shown):
    result = run_on(SUPPORTS["plane"], nodes=nodes)
    axes = [place for place in Drawn(result.animate(), 1).others if place.images]
    assert len(axes) == shown + 1
    for place in axes[:-1]:
        node = int(place.get_title().removeprefix("node "))
        np.testing.assert_allclose(place.images[0].get_array(), result.snapshots[1, node].reshape(5, 8), rtol=1e-5)
    mean = result.snapshots[1].mean(axis=0).reshape(5, 8)
    np.testing.assert_allclose(axes[-1].images[0].get_array(), mean, rtol=1e-5)
    assert axes[-1].images[0].get_clim() == pytest.approx((0, mean.max()))


def test_a_volume_is_summed_over_its_last_axis():
    result = run_on(SUPPORTS["volume"], nodes=3)
    axes = [place for place in Drawn(result.animate(), 2).others if place.images]
    mean = result.snapshots[2].mean(axis=0).reshape(3, 4, 5).sum(axis=2)
    np.testing.assert_allclose(axes[-1].images[0].get_array(), mean, rtol=1e-5)


def test_a_cloud_shows_the_mean_heavy_points_on_top():
    result = run_on(SUPPORTS["cloud in the plane"])
    (axes,) = Drawn(result.animate(), 1).others
    (dots,) = axes.collections
    mean = result.snapshots[1].mean(axis=0)
    order = np.argsort(mean)
    np.testing.assert_allclose(dots.get_array(), mean[order], rtol=1e-5)
    np.testing.assert_allclose(dots.get_offsets(), result.support.points[order])
    assert (np.diff(dots.get_sizes()) >= 0).all()


def test_on_a_large_network_only_some_nodes_are_coloured_and_not_all_edges_drawn():
    """The run keeps 64 nodes' estimates, evenly picked."""
    nodes = 400
    result = run_on(SUPPORTS["line"], nodes=nodes, pictured=64, network="erdos_renyi:p=0.1")
    positions = np.random.default_rng(0).normal(size=(nodes, 2))
    placed = Network(nodes, result.network.edges, positions=positions)
    drawn = Drawn(dataclasses.replace(result, network=placed).animate(), 0)
    assert len(placed.edges) > 3000 >= len(drawn.edges.get_segments()) > 1000
    (others,) = drawn.background
    np.testing.assert_array_equal(others.get_offsets(), positions)
    expected = np.unique(np.linspace(0, nodes - 1, 64).astype(int))
    np.testing.assert_array_equal(drawn.dots.get_offsets(), positions[expected])


@pytest.mark.parametrize("size", [1, 2, 7, 63, 64, 65, 100, 1000])
def test_the_nodes_pictured_are_those_a_run_keeps(size):
    kept = np.unique(np.linspace(0, size - 1, 64).astype(int))
    np.testing.assert_array_equal(evenly(size, kept.size), kept)


def test_nodes_that_always_agree_are_animated():
    result = run_on(SUPPORTS["line"])
    same = np.full_like(result.snapshots, 1 / 20)
    alone = run_on(SUPPORTS["line"], network="complete", nodes=1)
    for agreeing in (dataclasses.replace(result, snapshots=same), alone):
        np.testing.assert_allclose(Drawn(agreeing.animate(), 2).dots.get_array(), 0, atol=1e-6)


def test_a_gif_has_a_picture_for_every_record(tmp_path, line):
    line.animate(tmp_path / "run.gif", fps=5)
    with Pillow.open(tmp_path / "run.gif") as film:
        assert film.format == "GIF"
        assert film.n_frames == RECORDS
        assert film.info["duration"] == 200
        assert min(film.size) > 300
    assert [path.name for path in tmp_path.iterdir()] == ["run.gif"]


@pytest.mark.parametrize(("frames", "expected"), [(1, [7.5]), (2, [0, 7.5]), (3, [0, 5, 7.5]), (100, [0, 2.5, 5, 7.5])])
def test_frames_are_picked_evenly_and_the_last_moment_is_among_them(line, frames, expected):
    animation = line.animate(frames=frames)
    titles = [Drawn(animation, frame).title for frame in range(len(expected))]
    assert titles == [f"a2dwb, virtual time {time:g} s" for time in expected]
    assert len(list(animation.new_frame_seq())) == len(expected)


def test_long_runs_are_thinned_out():
    result = run_on(SUPPORTS["line"], records=500)
    animation = result.animate()
    assert len(list(animation.new_frame_seq())) == 200
    assert Drawn(animation, 199).title.endswith(f"{2.5 * 499:.4g} s")


def test_a_page_needs_nothing_from_outside(tmp_path, line):
    line.animate(str(tmp_path / "run.html"))
    page = (tmp_path / "run.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert "http" not in re.sub(r"base64,[^\"]*", "", page)
    assert "<link" not in page
    assert len(re.findall(r"frames\[\d+\] = \"data:image/png;base64", page)) == RECORDS
    for symbol in set(re.findall(r'class="fa (fa-[a-z-]+)', page)):
        assert f".{symbol}::before" in page


def test_a_film_needs_ffmpeg(tmp_path, line, monkeypatch):
    monkeypatch.setattr(FFMpegWriter, "isAvailable", classmethod(lambda kind: False))
    with pytest.raises(OptionError, match=r"ffmpeg.*\.gif or \.html"):
        line.animate(tmp_path / "run.mp4")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not FFMpegWriter.isAvailable(), reason="ffmpeg is not on the PATH")
def test_a_film_is_written(tmp_path, line):
    line.animate(tmp_path / "run.mp4")
    assert (tmp_path / "run.mp4").read_bytes()[4:8] == b"ftyp"


@pytest.mark.parametrize("name", ["run", "run.avi", "run.png"])
def test_other_kinds_of_file_are_refused(tmp_path, line, name):
    with pytest.raises(OptionError, match=rf"\.gif, \.mp4 or \.html; '{name}'"):
        line.animate(tmp_path / name)


@pytest.mark.parametrize("options", [{"frames": 0}, {"frames": 1.5}, {"fps": 0}, {"fps": "fast"}])
def test_bad_numbers_are_named(line, options):
    (name,) = options
    with pytest.raises(OptionError, match=name):
        line.animate(**options)


@pytest.mark.parametrize("change", [{"snapshots": None}, {"network": None}, {"snapshots": np.empty((0, 6, 20))}])
def test_without_snapshots_it_says_how_to_get_them(line, change):
    with pytest.raises(OptionError, match=r"snapshots=True"):
        dataclasses.replace(line, **change).animate()


def test_a_folder_that_cannot_be_written_is_said(tmp_path, line):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match=r"Cannot write .*run\.gif"):
        line.animate(tmp_path / "file" / "run.gif", frames=1)


def test_animations_leave_pyplot_alone():
    code = """
import sys
import barymesh.viz.animation
import barymesh.viz.comparison
assert "matplotlib.pyplot" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
