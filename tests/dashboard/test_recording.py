"""Recordings: small however long the run, and the same on disk."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barymesh.dashboard import recording
from barymesh.dashboard.recording import MOST_BYTES, MOST_SCENES, KeptScenes, read_recording, write_recording
from barymesh.dashboard.scene import MOST_EDGES, MOST_NODES, Recording, Scene
from barymesh.errors import FileError
from barymesh.record import NodeState
from tests.dashboard.scenes import graph, pictured, scene


@given(st.integers(1, 3000))
def test_a_tape_keeps_the_first_the_newest_and_those_between_evenly(count):
    kept = KeptScenes()
    for now in range(count):
        kept.add(Scene("", True, now=now))
    times = [one.now for one in kept.scenes]
    assert len(times) <= MOST_SCENES + 1
    assert (times[0], times[-1]) == (0, count - 1)
    assert len(times) >= min(count, MOST_SCENES / 2)
    # all but the last are multiples of the stride
    assert times[:-1] == [k * kept.stride for k in range(len(times) - 1)]
    assert 0 <= times[-1] - (len(times) - 2) * kept.stride <= 2 * kept.stride or count == 1


def test_moments_that_are_not_due_may_pass_without_a_scene():
    kept = KeptScenes()
    for now in range(4 * MOST_SCENES):
        if kept.due:
            kept.add(Scene("", True, now=now))
        else:
            kept.skip()
    assert kept.stride == 4
    assert [one.now for one in kept.scenes] == list(range(0, 4 * MOST_SCENES, 4))


def test_large_scenes_are_fewer():
    kept = KeptScenes()
    for now in range(100):
        kept.add(pictured(now, points=50_000))
    assert 4 * 150_000 * len(kept.scenes) <= MOST_BYTES + 2 * 4 * 150_000


def test_a_recording_of_the_largest_network_that_is_drawn_has_few_megabytes(tmp_path, rng):
    edges = rng.integers(0, MOST_NODES, (MOST_EDGES, 2))
    where, kept = graph(MOST_NODES, edges), KeptScenes()
    states = [NodeState.WORKING] * MOST_NODES
    for now in range(400):
        kept.add(scene(*states, where=where, now=float(now)))
    write_recording(tmp_path / "r.npz", Recording("large", kept.scenes))
    assert (tmp_path / "r.npz").stat().st_size < 8e6


def test_a_recording_comes_back_from_its_file(tmp_path):
    where = graph(3, [(0, 1), (1, 2)])
    states = [NodeState.WORKING, NodeState.DEAD, NodeState.CONVERGED]
    errors, gaps, parents = [0.5, np.nan, 0.25], [np.nan, np.nan, 1e-6], [1, 1, -1]
    known = {"errors": errors, "gaps": gaps, "parents": parents, "where": where}
    scenes = [
        Scene("Starting.", True),
        scene(*states, **known, now=1.0, epoch=2.0, rounds=True, counts={"nodes": "3"}),
        scene(*states[::-1], **known, now=2.5, running=False),
    ]
    runs = {"sinkhorn": {"time": np.array([0.0, 1.0, 2.5])}}
    write_recording(tmp_path / "r.npz", Recording("title", scenes, runs, "time", "virtual s"), pid=7)
    found, about = read_recording(tmp_path / "r.npz")
    assert about == {"pid": 7}
    assert (found.title, found.clock, found.unit) == ("title", "time", "virtual s")
    np.testing.assert_array_equal(found.runs["sinkhorn"]["time"], [0, 1, 2.5])
    first, second, third = found.scenes
    assert first.nodes is None
    assert (second.now, second.epoch, second.rounds, second.counts) == (1.0, 2.0, True, {"nodes": "3"})
    assert not third.running
    assert np.isnan(third.epoch)
    assert list(second.nodes.states) == states
    assert all(isinstance(state, NodeState) for state in third.nodes.states)
    np.testing.assert_allclose(second.nodes.errors, errors)
    np.testing.assert_allclose(second.nodes.gaps, gaps, rtol=1e-6)
    np.testing.assert_array_equal(second.nodes.parents, parents)
    assert second.nodes.graph is third.nodes.graph
    np.testing.assert_array_equal(third.nodes.graph.edges, where.edges)


def test_points_that_move_are_kept_for_each_scene(tmp_path):
    scenes = [pictured(0.0), pictured(1.0)]
    scenes[1].barycenter.support.points[:] += 0.5
    write_recording(tmp_path / "r.npz", Recording("moving", scenes))
    found = read_recording(tmp_path / "r.npz")[0].scenes
    np.testing.assert_allclose(found[1].barycenter.support.points - found[0].barycenter.support.points, 0.5)


def test_the_scene_of_a_time_is_the_newest_by_then():
    recording = Recording("", [Scene("", True, now=now) for now in (0.0, 1.0, 4.0)])
    assert [recording.at(time).now for time in (-1, 0, 0.5, 1, 3.9, 4, 9)] == [0, 0, 0, 1, 1, 4, 4]


def test_another_format_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(recording, "FORMAT", 99)
    write_recording(tmp_path / "r.npz", Recording("later", [Scene("", True)]))
    monkeypatch.undo()
    with pytest.raises(FileError, match="format 99"):
        read_recording(tmp_path / "r.npz")
