"""What runs write while they go on, and what the dashboard makes of it: real runs, real files."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import barymesh as bm
from barymesh.dashboard.folder import FolderSource
from barymesh.dashboard.live import LIVE, LiveFile
from barymesh.dashboard.scene import NodeState, thinned
from barymesh.io.output import write_comparison, write_outputs

GRID = np.linspace(-3, 3, 20)
MEASURES = [bm.Gaussian(mean, 0.4) for mean in np.linspace(-1, 1, 6)]


def watched(folder, measures=MEASURES, support=GRID, stop=40, **options):
    """The result of a run, and the scenes seen while it went on."""
    source, scenes = FolderSource(folder), []
    with LiveFile(folder, options.get("method", "sinkhorn"), every=0) as live:

        def look(state):
            live(state)
            scenes.append(source.scene())
            return len(scenes) >= stop

        # the solver without a network tells the file itself what it is about
        live_or_look = look if "network" in options else live
        result = bm.barycenter(measures, support, reg=0.2, callback=live_or_look, progress=False, **options)
        scenes.append(source.scene())
        result.save(folder / "result.npz")
    return result, scenes


def test_a_simulation_can_be_watched(tmp_path):
    options = {"network": "cycle", "reference": True, "record_every": 0.5, "tol": 0.0}
    faults = ["crash:node=2,start=4,stop=12", "sleep:node=4,start=4,stop=12"]
    _, scenes = watched(tmp_path, faults=faults, **options)
    first, during = scenes[0], scenes[20]
    assert first.running
    assert during.status == "At work: 10 virtual seconds."
    assert set(during.runs["sinkhorn"]) >= {
        "dual_objective",
        "consensus",
        "feasibility",
        "dual_error",
        "tv",
        "messages",
    }
    assert len(during.runs["sinkhorn"]["time"]) == 21
    nodes = during.nodes
    assert [nodes.states[k] for k in (0, 2, 4)] == [NodeState.WORKING, NodeState.DEAD, NodeState.ASLEEP]
    assert nodes.dead == ["2"]
    of_the_dead = (nodes.edges == 2).any(axis=1)
    assert (
        nodes.staleness[of_the_dead].min() > 5 > nodes.staleness[~(nodes.edges == 4).any(axis=1) & ~of_the_dead].max()
    )
    np.testing.assert_allclose(during.barycenter.estimates.sum(axis=1), 1, rtol=1e-5)
    # those at work have come closer to one another
    assert nodes.errors[0] < first.nodes.errors[0]


def test_when_it_is_over_the_result_is_shown(tmp_path):
    result, _ = watched(tmp_path, network="cycle", tol=1e-3, stop=400)
    assert not (tmp_path / LIVE).exists()
    scene = FolderSource(tmp_path).scene()
    assert not scene.running
    assert result.message in scene.status
    assert set(scene.nodes.states) == {NodeState.CONVERGED}
    np.testing.assert_array_equal(scene.barycenter.mean, result.weights)


def test_a_run_without_a_network_can_be_watched(tmp_path):
    result, scenes = watched(tmp_path)
    assert scenes[-1].nodes is None
    assert scenes[-1].clock == "iterations"
    assert scenes[-1].runs["sinkhorn"]["iterations"][-1] == result.iterations
    np.testing.assert_allclose(scenes[-1].barycenter.mean, result.weights, atol=1e-6)
    np.testing.assert_allclose(scenes[-1].barycenter.estimates, result.node_weights, atol=1e-5)


def test_rounds_and_workers_can_be_watched(tmp_path):
    _, rounds = watched(tmp_path / "rounds", network="cycle", method="dcwb", stop=5)
    assert (rounds[0].nodes.staleness == 0).all()
    options = {"engine": "processes", "workers": 1, "duration": 2, "record_every": 0.3, "tol": 0.0}
    _, real = watched(tmp_path / "real", network="cycle", **options)
    assert real[0].unit == "s"
    assert np.isnan(real[0].nodes.staleness).all()


def test_images_points_and_volumes(tmp_path, rng):
    for name, measures, support in (
        ("images", rng.random((3, 5, 6)), None),
        ("points", rng.random((3, 8)) + 0.1, rng.normal(size=(8, 2))),
        ("volumes", rng.random((3, 3, 4, 5)), None),
    ):
        result, scenes = watched(tmp_path / name, measures, support, network="path", stop=3)
        np.testing.assert_allclose(scenes[0].barycenter.support.points, result.support.points)
        assert scenes[0].barycenter.estimates.shape == (3, result.support.size)


def test_watching_changes_nothing(tmp_path):
    """On the complete network the ages of messages are looked up on the side."""

    def run(callback):
        return bm.barycenter(
            MEASURES, GRID, reg=0.2, network="complete", duration=10, tol=0.0, callback=callback, progress=False
        )

    with LiveFile(tmp_path, every=0) as live:
        seen = []

        def look(state):
            live(state)
            seen.append(FolderSource(tmp_path).scene().nodes.staleness)

        np.testing.assert_array_equal(run(look).duals, run(None).duals)
    # delays are 0.2 to 1 s, and a node acts about every 0.2 s
    assert all(0 < ages.max() < 3 for ages in seen[2:])


def test_the_file_is_written_now_and_then_only(tmp_path):
    with LiveFile(tmp_path, every=1000) as live:
        bm.barycenter(MEASURES, GRID, reg=0.2, network="cycle", duration=10, callback=live, progress=False)
        assert live.written == 2  # that it starts, and the first record


def test_a_folder_that_cannot_be_written_stops_nothing(tmp_path):
    (tmp_path / "file").write_text("")
    with LiveFile(tmp_path / "file" / "out", every=0) as live:
        result = bm.barycenter(MEASURES, GRID, reg=0.2, callback=live, progress=False)
    assert result.success
    assert live.written == 0


def test_a_folder_without_a_result_goes_with_the_file(tmp_path):
    with LiveFile(tmp_path / "new"):
        assert (tmp_path / "new" / LIVE).exists()
    assert not (tmp_path / "new").exists()


def test_a_run_that_was_killed_is_not_taken_for_one_that_goes_on(tmp_path):
    code = f"import os; from barymesh.dashboard import LiveFile; LiveFile({str(tmp_path)!r}).__enter__(); os._exit(9)"
    subprocess.run([sys.executable, "-c", code], check=False)
    scene = FolderSource(tmp_path).scene()
    assert not scene.running
    assert "killed" in scene.status


def test_a_folder_in_which_nothing_happened_yet(tmp_path):
    assert "No run has begun" in FolderSource(tmp_path / "nothing").scene().status


def test_methods_compared_are_shown_together(tmp_path):
    results = {}
    waiting = LiveFile(tmp_path / "sinkhorn", "sinkhorn").__enter__()
    waiting.announce("waiting")
    results["dcwb"], _ = watched(tmp_path / "dcwb", network="cycle", method="dcwb", stop=3)
    source = FolderSource(tmp_path)
    scene = source.scene()
    assert scene.running
    assert set(scene.runs) == {"dcwb", "sinkhorn"}
    assert scene.runs["sinkhorn"] == {}
    assert scene.nodes is not None
    assert "sinkhorn waits" in scene.status
    waiting.close()
    results["sinkhorn"], _ = watched(tmp_path / "sinkhorn", network="cycle", stop=3)
    write_outputs(results["sinkhorn"], tmp_path / "sinkhorn")
    write_comparison(results, {}, tmp_path)
    over = source.scene()
    assert not over.running
    assert len(over.runs["sinkhorn"]["time"]) == 3


def test_thinning_keeps_the_ends():
    column = np.arange(10_000.0)
    few = thinned({"a": column}, 100)["a"]
    assert few.size == 100
    assert (few[0], few[-1]) == (0, 9999)


@pytest.mark.skipif(os.name == "nt", reason="reads of a file that is being replaced")
def test_a_damaged_file_is_told_and_passes(tmp_path):
    from barymesh.dashboard.poller import ScenePoller

    (tmp_path / "result.npz").write_bytes(b"not a result")
    with ScenePoller(FolderSource(tmp_path)) as watch:
        assert "damaged" in watch.newest()[0].status
