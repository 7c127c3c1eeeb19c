"""What runs write while they go on, and what the dashboard makes of it: real runs, real files."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys

import numpy as np
import pytest

import barymesh as bm
from barymesh.dashboard.folder import FolderSource
from barymesh.dashboard.live import GROWING, LIVE, RECORDING, LiveFile
from barymesh.dashboard.scene import NodeState, thinned
from barymesh.io.output import RESULT, write_comparison, write_outputs

GRID = np.linspace(-3, 3, 20)
MEASURES = [bm.Gaussian(mean, 0.4) for mean in np.linspace(-1, 1, 6)]


def watched(folder, measures=MEASURES, support=GRID, stop=40, **options):
    """The result of a run, and what could be seen of it while it went on."""
    source, seen = FolderSource(folder), []
    with LiveFile(folder, options.get("method", "sinkhorn"), every=0) as live:

        def look(state):
            live(state)
            seen.append(source.recording())
            return len(seen) >= stop

        # the solver without a network tells the file itself what it is about
        live_or_look = look if "network" in options else live
        result = bm.barycenter(measures, support, reg=0.2, callback=live_or_look, progress=False, **options)
        seen.append(source.recording())
        result.save(folder / "result.npz")
    return result, seen


def test_a_simulation_can_be_watched(tmp_path):
    options = {"network": "cycle", "reference": True, "record_every": 0.5, "tol": 0.0}
    faults = ["crash:node=2,start=4,stop=12", "sleep:node=4,start=4,stop=12"]
    _, seen = watched(tmp_path, faults=faults, **options)
    first, during, history = seen[0].newest, seen[20].newest, seen[20].runs["sinkhorn"]
    assert first.running
    assert during.status == "At work: 10 virtual seconds."
    assert set(history) >= {
        "dual_objective",
        "consensus",
        "feasibility",
        "dual_error",
        "tv",
        "messages",
    }
    assert len(history["time"]) == 21
    # one can go back while it is running
    assert [scene.now for scene in seen[20].scenes] == [0.5 * k for k in range(21)]
    nodes = during.nodes
    assert [nodes.states[k] for k in (0, 2, 4)] == [NodeState.WORKING, NodeState.DEAD, NodeState.ASLEEP]
    assert nodes.dead == ["2"]
    edges = nodes.graph.edges
    of_the_dead = (edges == 2).any(axis=1)
    assert nodes.staleness[of_the_dead].min() > 5 > nodes.staleness[~(edges == 4).any(axis=1) & ~of_the_dead].max()
    np.testing.assert_allclose(during.barycenter.estimates.sum(axis=1), 1, rtol=1e-5)
    # those at work have come closer to one another
    assert nodes.errors[0] < first.nodes.errors[0]


def test_when_it_is_over_the_result_is_shown(tmp_path):
    result, _ = watched(tmp_path, network="cycle", tol=1e-3, stop=400)
    assert not (tmp_path / LIVE).exists()
    scene = FolderSource(tmp_path).recording().newest
    assert not scene.running
    assert result.message in scene.status
    assert set(scene.nodes.states) == {NodeState.CONVERGED}
    np.testing.assert_array_equal(scene.barycenter.mean, result.weights)


def test_a_run_leaves_a_recording_with_its_tree_and_what_each_node_has_certified(tmp_path):
    """A cheap run of a fraction of a second, watched by nobody."""
    with LiveFile(tmp_path, "sinkhorn") as live:
        result = bm.barycenter(
            MEASURES, GRID, reg=0.2, network="cycle", record_every=0.25, callback=live, progress=False
        )
        result.save(tmp_path / "result.npz")
    recording = FolderSource(tmp_path).recording()
    times = [scene.now for scene in recording.scenes]
    assert times == sorted(set(times))
    assert times[0] == 0
    assert times[-1] == result.history["time"][-1]
    # of some runs on a machine that is busy not all moments are recorded
    assert len(times) >= 3
    assert all(scene.running for scene in recording.scenes[:-1])
    first, last = recording.scenes[0].nodes, recording.newest.nodes
    assert first.errors.max() > 100 * last.errors.max()
    # a spanning tree: one root, and everybody reaches it
    (root,) = last.roots
    above = np.arange(last.parents.size)
    for _ in above:
        above = last.parents[above]
    assert (above == root).all()
    linked = {frozenset(edge) for edge in last.graph.edges.tolist()}
    assert all(frozenset(pair) in linked for pair in enumerate(last.parents.tolist()) if pair[0] != pair[1])
    np.testing.assert_allclose(last.gaps, result.node_gaps, rtol=1e-6)
    assert np.isnan(first.gaps).all()
    assert recording.newest.rounds
    assert recording.newest.epoch == 1


def test_what_was_seen_can_be_gone_back_to_before_it_is_in_a_file(tmp_path):
    source, seen = FolderSource(tmp_path), []
    with LiveFile(tmp_path, "sinkhorn", every=0) as live:

        def look(state):
            live(state)
            # as if it were not due yet
            (tmp_path / GROWING).unlink(missing_ok=True)
            seen.append(source.recording())

        bm.barycenter(MEASURES, GRID, reg=0.2, network="cycle", duration=5, callback=look, progress=False)
    times = [scene.now for scene in seen[-1].scenes]
    assert times == [recording.newest.now for recording in seen]
    # another run in the same folder has nothing of it
    with LiveFile(tmp_path, "sinkhorn", every=0) as live:
        bm.barycenter(MEASURES, GRID, reg=0.2, network="cycle", duration=0.5, callback=live, progress=False)
        assert len(source.recording().scenes) == 2


def test_masks_are_told(tmp_path):
    pytest.importorskip("cryptography")
    with LiveFile(tmp_path, "rounds", every=0) as live:
        bm.barycenter(
            MEASURES, GRID, reg=0.2, network="cycle", method="rounds", masks=True, callback=live, progress=False
        )
    assert FolderSource(tmp_path).recording().newest.nodes.masked.all()


def test_a_node_that_is_lost_stays_in_the_picture(tmp_path):
    """The result is that of the others, who are numbered anew in it."""
    with LiveFile(tmp_path, "sinkhorn", every=0) as live:
        result = bm.barycenter(
            MEASURES, GRID, reg=0.2, network="complete", faults=["crash:node=2,start=4,stop=500"], duration=60,
            callback=live, progress=False,
        )  # fmt: skip
        result.save(tmp_path / "result.npz")
    assert len(result.node_weights) == 5
    nodes = FolderSource(tmp_path).recording().newest.nodes
    assert nodes.dead == ["2"]
    assert len(nodes.states) == 6


def test_a_recording_of_another_run_is_not_taken_for_that_of_a_result(tmp_path):
    watched(tmp_path, network="cycle", stop=10)
    other = bm.barycenter([bm.Gaussian(mean, 0.2) for mean in (1, 2, 2, 2, 2, 2)], GRID, reg=0.2, network="cycle")
    assert len(FolderSource(tmp_path).recording().scenes) == 10
    # a newer result, saved without a recording
    other.save(tmp_path / "result.npz")
    assert len(FolderSource(tmp_path).recording().scenes) == 1
    # a newer run, which left a recording and no result
    with LiveFile(tmp_path, "sinkhorn", every=0) as live:
        bm.barycenter(MEASURES, GRID, reg=0.2, network="cycle", duration=3, callback=live, progress=False)
    ended = FolderSource(tmp_path).recording()
    assert len(ended.scenes) > 1
    assert "left no result" in ended.newest.status
    # a run that fails leaves it as it was, and does not show it as its own
    kept = (tmp_path / RECORDING).read_bytes()
    with contextlib.suppress(ZeroDivisionError), LiveFile(tmp_path, "sinkhorn", every=0) as live:
        assert len(FolderSource(tmp_path).recording().scenes) == 1

        def look(state):
            live(state)
            assert 1 / (1 - (state.step > 20))

        bm.barycenter(MEASURES, GRID, reg=0.2, network="cycle", callback=look, progress=False)
    assert (tmp_path / RECORDING).read_bytes() == kept
    assert not (tmp_path / GROWING).exists()


def test_a_run_without_a_network_can_be_watched(tmp_path):
    result, seen = watched(tmp_path)
    last = seen[-1].newest
    assert last.nodes is None
    assert seen[-1].clock == "iterations"
    assert seen[-1].runs["sinkhorn"]["iterations"][-1] == result.iterations
    np.testing.assert_allclose(last.barycenter.mean, result.weights, atol=1e-6)
    np.testing.assert_allclose(last.barycenter.estimates, result.node_weights, atol=1e-5)
    recording = FolderSource(tmp_path).recording()
    assert [scene.now for scene in recording.scenes] == [scene.now for scene in seen[-1].scenes]
    assert len(recording.scenes) > 3
    assert recording.newest.status == f"Over. {result.message}"


def test_rounds_and_workers_can_be_watched(tmp_path):
    _, rounds = watched(tmp_path / "rounds", network="cycle", method="dcwb", stop=5)
    assert (rounds[0].newest.nodes.staleness == 0).all()
    assert (rounds[0].newest.nodes.parents == -1).all()
    options = {"engine": "processes", "workers": 2, "duration": 60, "record_every": 0.3}
    result, real = watched(tmp_path / "real", network="cycle", stop=400, **options)
    assert real[0].unit == "s"
    last = real[-1].newest.nodes
    assert np.isnan(last.staleness).all()
    assert last.roots.size == 1
    np.testing.assert_allclose(last.gaps, result.node_gaps, rtol=1e-6)
    assert set(last.states) == {NodeState.CONVERGED}


def test_images_points_and_volumes(tmp_path, rng):
    for name, measures, support in (
        ("images", rng.random((3, 5, 6)), None),
        ("points", rng.random((3, 8)) + 0.1, rng.normal(size=(8, 2))),
        ("volumes", rng.random((3, 3, 4, 5)), None),
    ):
        result, seen = watched(tmp_path / name, measures, support, network="path", stop=3)
        shown = seen[0].newest.barycenter
        np.testing.assert_allclose(shown.support.points, result.support.points)
        assert shown.estimates.shape == (3, result.support.size)


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
            seen.append(FolderSource(tmp_path).recording().newest.nodes.staleness)

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
    scene = FolderSource(tmp_path).recording().newest
    assert not scene.running
    assert "killed" in scene.status


def test_a_folder_in_which_nothing_happened_yet(tmp_path):
    assert "No run has begun" in FolderSource(tmp_path / "nothing").recording().newest.status


def test_methods_compared_are_shown_together(tmp_path):
    results = {}
    waiting = LiveFile(tmp_path / "sinkhorn", "sinkhorn").__enter__()
    waiting.announce("waiting")
    results["dcwb"], _ = watched(tmp_path / "dcwb", network="cycle", method="dcwb", stop=3)
    source = FolderSource(tmp_path)
    seen = source.recording()
    assert seen.newest.running
    assert set(seen.runs) == {"dcwb", "sinkhorn"}
    assert seen.runs["sinkhorn"] == {}
    assert seen.newest.nodes is not None
    assert "sinkhorn waits" in seen.newest.status
    waiting.close()
    results["sinkhorn"], _ = watched(tmp_path / "sinkhorn", network="cycle", stop=3)
    write_outputs(results["sinkhorn"], tmp_path / "sinkhorn")
    write_comparison(results, {}, tmp_path)
    over = source.recording()
    assert not over.newest.running
    assert len(over.runs["sinkhorn"]["time"]) == 3


def test_of_runs_that_have_nothing_to_do_with_each_other_the_newest_is_shown(tmp_path):
    """As the commands of the README leave them in one folder: an exact run, and one on a network."""
    measures = [bm.Gaussian(mean, 0.5) for mean in (-1, 0, 1)]
    options = {"support": np.linspace(-3, 3, 20), "reg": 0.2, "progress": False}
    write_outputs(bm.barycenter(measures, **options), tmp_path / "mean")
    source = FolderSource(tmp_path)
    alone = source.recording()
    assert alone.title == FolderSource(tmp_path / "mean").recording().title
    assert "Also" not in alone.newest.status
    write_outputs(bm.barycenter(measures, network="cycle", duration=5.0, **options), tmp_path / "network")
    os.utime(tmp_path / "mean" / RESULT, (1, 1))
    both = source.recording()
    assert both.title == FolderSource(tmp_path / "network").recording().title
    assert both.newest.status.endswith("(Also in this folder: mean.)")
    assert list(both.runs) == list(FolderSource(tmp_path / "network").recording().runs)


def test_thinning_keeps_the_ends():
    column = np.arange(10_000.0)
    few = thinned({"a": column}, 100)["a"]
    assert few.size == 100
    assert (few[0], few[-1]) == (0, 9999)


@pytest.mark.skipif(os.name == "nt", reason="reads of a file that is being replaced")
def test_a_damaged_file_is_told_and_passes(tmp_path):
    from barymesh.dashboard.poller import Poller

    for name in ("result.npz", LIVE, RECORDING):
        (tmp_path / name).write_bytes(b"not what it should be")
        with Poller(FolderSource(tmp_path)) as watch:
            assert "damaged" in watch.newest()[0].newest.status
        (tmp_path / name).unlink()
    # a recording that cannot be read does not hide the result
    result = bm.barycenter(MEASURES, GRID, reg=0.2, network="cycle", progress=False)
    result.save(tmp_path / "result.npz")
    (tmp_path / RECORDING).write_bytes(b"cut short")
    with Poller(FolderSource(tmp_path)) as watch:
        assert watch.newest()[0].newest.status == f"Over. {result.message}"
