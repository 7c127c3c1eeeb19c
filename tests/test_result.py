"""Results: kept whole on disk, never half written, and described in words."""

from __future__ import annotations

import dataclasses
import errno
import gc
import json
import os
import stat
import sys
import tempfile

import numpy as np
import pyarrow.parquet
import pytest

import barymesh as bm
from barymesh.errors import DimensionError, FileError, MissingPackageError, OptionError
from barymesh.network import Network

ARRAYS = ("weights", "node_weights", "duals")
NUMBERS = (
    "value", "gap", "consensus", "feasibility", "reg", "iterations", "activations", "seconds", "recording_seconds",
    "messages", "bytes",
)  # fmt: skip


@pytest.fixture(scope="module")
def result():
    """Two clouds on a grid of the line."""
    rng = np.random.default_rng(7)
    return bm.barycenter([rng.normal(size=9), rng.normal(size=9) + 1], np.linspace(-3, 4, 30), reg=0.2)


@pytest.fixture
def leaks_show_here():
    """A file left open by the test is an error of this test, not of whichever runs when it is collected."""
    yield
    gc.collect()


@pytest.fixture
def rewriting_fails(monkeypatch):
    """Make saving fail half way, with the error given."""

    def arm(error):
        def broken(file, **arrays):
            file.write(b"half of the")
            raise error

        monkeypatch.setattr(np, "savez_compressed", broken)

    return arm


def supports():
    rng = np.random.default_rng(1)
    return {
        "line": bm.Support.regular(20, -2, 2),
        "plane": bm.Support.regular((4, 6), [0, -1], [1, 1]),
        "row": bm.Support.regular((1, 6), [0, -1], [0, 1]),
        "pixel": bm.Support.regular((1, 1), 0.5, 0.5),
        "far away": bm.Support.regular(20, 1e6, 1e6 + 2),
        "cloud": bm.Support(rng.normal(size=(15, 3)), reason="drawn <by> hand"),
    }


@pytest.mark.parametrize("name", supports())
def test_saving_and_loading_keeps_everything(tmp_path, rng, name):
    support = supports()[name]
    n = support.size
    saved = bm.Result(
        weights=rng.dirichlet(np.ones(n)),
        support=support,
        node_weights=rng.dirichlet(np.ones(n), size=3),
        duals=rng.normal(size=(3, n)),
        value=0.1 + 0.2,
        gap=1e-17,
        consensus=1 / 3,
        feasibility=0.0,
        reg=0.7,
        method="sinkhorn",
        status=bm.Status.INTERRUPTED,
        iterations=3,
        activations=7,
        seconds=0.25,
        recording_seconds=0.125,
        history=bm.History({"iteration": np.arange(3.0), "error": rng.random(3), "history_of": rng.random(3)}),
        messages=12,
        bytes=2**40,
    )
    loaded = bm.load(saved.save(tmp_path / "result.npz"))
    for field in ARRAYS:
        np.testing.assert_array_equal(getattr(loaded, field), getattr(saved, field))
        assert getattr(loaded, field).dtype == float
    for field in (*NUMBERS, "method", "status"):
        assert getattr(loaded, field) == getattr(saved, field)
        assert type(getattr(loaded, field)) is type(getattr(saved, field))
    np.testing.assert_array_equal(loaded.support.points, saved.support.points)
    assert loaded.support.grid == saved.support.grid
    assert loaded.support.reason == saved.support.reason
    assert list(loaded.history.columns) == list(saved.history.columns)
    for column in saved.history.columns:
        np.testing.assert_array_equal(loaded.history[column], saved.history[column])
    assert repr(loaded) == repr(saved)
    assert loaded.summary() == saved.summary()


def test_a_computed_result_survives_saving(tmp_path, result):
    loaded = bm.load(result.save(tmp_path / "result.npz"))
    assert loaded.summary() == result.summary()
    assert len(loaded.history) == len(result.history) == result.iterations
    np.testing.assert_array_equal(loaded.image, result.image)


def on_network(result, network, **changes):
    """The result as if its two measures had been on the network."""
    rng = np.random.default_rng(3)
    history = bm.History({"time": [0.0, 1.0, 2.5], "consensus": rng.random(3), "feasibility": rng.random(3)})
    snapshots = rng.random((3, 2, 30)).astype(np.float32)
    return dataclasses.replace(
        result, network=network, snapshots=snapshots, history=history, recording_seconds=0.125, **changes
    )


@pytest.mark.parametrize("weights", [None, [0.5]])
def test_saving_and_loading_keeps_the_network_and_the_snapshots(tmp_path, result, weights):
    saved = on_network(result, Network(2, [[1, 0]], weights, name="a pair", positions=[[0.0, 1.0], [2.0, 3.0]]))
    loaded = bm.load(saved.save(tmp_path / "result.npz"))
    assert repr(loaded.network) == repr(saved.network)
    np.testing.assert_array_equal(loaded.network.edges, [[0, 1]])
    np.testing.assert_array_equal(loaded.network.degrees, saved.network.degrees)
    np.testing.assert_array_equal(loaded.network.positions, [[0.0, 1.0], [2.0, 3.0]])
    np.testing.assert_array_equal(loaded.snapshots, saved.snapshots)
    assert loaded.snapshots.dtype == np.float32
    assert loaded.recording_seconds == 0.125
    assert loaded.summary() == saved.summary()


def test_places_of_nodes_are_kept_once_they_are_worked_out(tmp_path, result):
    network = Network(2, [[0, 1]])
    saved = on_network(result, network)
    with np.load(saved.save(tmp_path / "before.npz")) as stored:
        assert "network_positions" not in stored.files
    network.positions  # noqa: B018
    loaded = bm.load(saved.save(tmp_path / "after.npz"))
    with np.load(tmp_path / "after.npz") as stored:
        np.testing.assert_array_equal(stored["network_positions"], network.positions)
    np.testing.assert_array_equal(loaded.network.positions, network.positions)


def test_results_from_before_there_were_networks_are_read(tmp_path, result):
    path = result.save(tmp_path / "result.npz")
    with np.load(path) as stored:
        arrays = {name: stored[name] for name in stored.files}
    header = json.loads(str(arrays["header"]))
    del header["network"], header["recording_seconds"]
    np.savez(path, **{**arrays, "header": np.array(json.dumps(header))})
    loaded = bm.load(path)
    assert loaded.network is None
    assert loaded.snapshots is None
    assert loaded.recording_seconds == 0
    assert loaded.summary() == result.summary()


def test_the_summary_of_a_run_on_a_network_has_its_last_figures(result):
    network = Network(2, [[0, 1]], name="a pair")
    summary = on_network(result, network).summary()
    assert summary["network"] == "Network(a pair: 2 nodes, 1 edges)"
    assert summary["time"] == 2.5
    assert summary["recording_seconds"] == 0.125
    assert "tv" not in summary
    history = {"time": [0.0, 4.0], "tv": [0.5, 0.25], "dual_error": [1.0, -0.5], "messages": [0, 8], "bytes": [0, 64]}
    known = dataclasses.replace(result, network=network, history=bm.History(history)).summary()
    assert (known["time"], known["tv"], known["dual_error"]) == (4.0, 0.25, -0.5)
    assert known["gap"] == result.gap
    history["tv"] = [0.5, np.nan]
    unknown = dataclasses.replace(result, network=network, history=bm.History(history)).summary()
    assert "tv" not in unknown
    json.dumps(unknown, allow_nan=False)


def test_the_ending_is_added_and_the_path_returned(tmp_path, result):
    assert result.save(tmp_path / "mean") == tmp_path / "mean.npz"
    assert result.save(str(tmp_path / "mean.v2")) == tmp_path / "mean.v2.npz"
    assert result.save(tmp_path / "whole.npz") == tmp_path / "whole.npz"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mean.npz", "mean.v2.npz", "whole.npz"]
    bm.load(str(tmp_path / "mean.v2.npz"))


def test_folders_are_made_on_the_way(tmp_path, result):
    assert result.save(tmp_path / "a" / "b" / "result.npz").exists()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no umask")
def test_results_can_be_read_by_whom_the_umask_allows(tmp_path, result):
    before = os.umask(0o027)
    try:
        path = result.save(tmp_path / "result.npz")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def refused(path, *words):
    with pytest.raises(FileError) as caught:
        bm.load(path)
    for part in (str(path), *words):
        assert part in str(caught.value)


def test_loading_what_is_not_there(tmp_path):
    refused(tmp_path / "none.npz", "no file")
    refused(tmp_path)


@pytest.mark.parametrize("share", [0, 0.01, 0.3, 0.6, 0.95])
@pytest.mark.usefixtures("leaks_show_here")
def test_loading_a_truncated_file(tmp_path, result, share):
    path = result.save(tmp_path / "result.npz")
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    refused(path)


def test_loading_a_foreign_file(tmp_path):
    (tmp_path / "text.npz").write_text("weights\n1\n")
    refused(tmp_path / "text.npz")
    np.save(tmp_path / "array.npy", np.ones(3))
    refused(tmp_path / "array.npy")
    np.savez(tmp_path / "arrays.npz", weights=np.ones(3))
    refused(tmp_path / "arrays.npz")
    np.savez(tmp_path / "objects.npz", header=np.array([None, {}], dtype=object))
    refused(tmp_path / "objects.npz")


@pytest.mark.parametrize("header", [{}, {"format": 2}, {"format": "1"}, [1], "text"])
def test_loading_another_format(tmp_path, header):
    np.savez(tmp_path / "other.npz", header=np.array(json.dumps(header)))
    refused(tmp_path / "other.npz")


@pytest.mark.parametrize("lost", [*ARRAYS, "points"])
def test_loading_a_result_that_lost_an_array(tmp_path, result, lost):
    scattered = bm.Support(np.random.default_rng(1).normal(size=(30, 1)))
    path = dataclasses.replace(result, support=scattered).save(tmp_path / "result.npz")
    with np.load(path) as stored:
        kept = {name: stored[name] for name in stored.files if name != lost}
    np.savez(path, **kept)
    refused(path)


@pytest.mark.parametrize("change", [{"status": "DONE"}, {"status": None}, {"reason": None}, {"new": 1}])
def test_loading_a_result_with_another_header(tmp_path, result, change):
    """None takes a key away."""
    path = result.save(tmp_path / "result.npz")
    with np.load(path) as stored:
        arrays = {name: stored[name] for name in stored.files}
    header = {**json.loads(str(arrays["header"])), **change}
    arrays["header"] = np.array(json.dumps({key: value for key, value in header.items() if value is not None}))
    np.savez(path, **arrays)
    refused(path)


@pytest.mark.parametrize(
    ("error", "seen"),
    [
        (RuntimeError("no reason"), RuntimeError),
        (KeyboardInterrupt(), KeyboardInterrupt),
        (OSError(errno.ENOSPC, "No space left on device"), FileError),
    ],
)
def test_an_old_result_survives_a_failed_rewrite(tmp_path, result, rewriting_fails, error, seen):
    path = result.save(tmp_path / "result.npz")
    before = path.read_bytes()
    rewriting_fails(error)
    with pytest.raises(seen):
        result.save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_said_with_the_file(tmp_path, result, rewriting_fails):
    rewriting_fails(OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(FileError, match=r"result\.npz: No space left on device"):
        result.save(tmp_path / "result.npz")
    assert list(tmp_path.iterdir()) == []


def test_saving_over_an_old_result_replaces_it(tmp_path, result):
    path = result.save(tmp_path / "result.npz")
    dataclasses.replace(result, value=-1.0).save(path)
    assert bm.load(path).value == -1.0
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_made_or_written(tmp_path, result, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match=r"Cannot write .*result\.npz"):
        result.save(tmp_path / "file" / "result.npz")

    def forbidden(**options):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(tempfile, "mkstemp", forbidden)
    with pytest.raises(FileError, match="Permission denied"):
        result.save(tmp_path / "result.npz")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_folder_in_the_place_of_the_file(tmp_path, result):
    (tmp_path / "result.npz").mkdir()
    with pytest.raises(FileError, match=r"result\.npz"):
        result.save(tmp_path / "result.npz")
    assert [path.name for path in tmp_path.iterdir()] == ["result.npz"]


def test_the_summary_is_plain_and_fits_json(result):
    summary = result.summary()
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert summary["status"] == "CONVERGED"
    assert summary["success"] is True
    assert summary["measures"] == 2
    assert summary["iterations"] == result.iterations
    assert summary["value"] == result.value


def test_the_image_has_the_shape_of_the_grid(rng):
    images = rng.random((3, 4, 6))
    result = bm.barycenter(images, reg=0.05)
    assert result.image.shape == (4, 6)
    np.testing.assert_array_equal(result.image.ravel(), result.weights)


def test_there_is_no_image_without_a_grid(rng):
    cloud = bm.barycenter([rng.normal(size=(9, 2))], rng.normal(size=(12, 2)), reg=0.5)
    with pytest.raises(ValueError, match="not a regular grid"):
        cloud.image  # noqa: B018


@pytest.mark.parametrize("status", bm.Status)
def test_every_status_is_a_sentence_and_two_are_successes(result, status):
    ended = dataclasses.replace(result, status=status)
    assert ended.success is (status in (bm.Status.CONVERGED, bm.Status.STATIONARY))
    assert ended.message == str(status) == status.value
    assert ended.message[0].isupper()
    assert ended.message.endswith(".")
    assert ended.summary()["message"] == ended.message
    assert status.name in repr(ended)


def test_repr_fits_a_line(result):
    text = repr(result)
    assert text.startswith("Result(CONVERGED: barycenter of 2 measures on 30 points")
    assert f"{result.iterations} iterations" in text
    assert len(text) < 120


def test_results_cannot_be_changed(result):
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.value = 0.0


def test_history_is_a_table():
    history = bm.History({"iteration": [1, 2, 3], "error": [3, 2, 1]})
    assert len(history) == 3
    assert len(bm.History({})) == 0
    np.testing.assert_array_equal(history["error"], [3.0, 2.0, 1.0])
    assert repr(history) == "History(3 rows: iteration, error)"
    with pytest.raises(KeyError, match=r"'gap'.*iteration, error"):
        history["gap"]
    with pytest.raises(ValueError, match=r"lengths \[2, 3\]"):
        bm.History({"iteration": [1, 2, 3], "error": [3, 2]})


def test_history_goes_to_tables_and_back(tmp_path, rng):
    history = bm.History({"iteration": np.arange(5.0), "error": rng.random(5)})
    lines = history.to_csv(tmp_path / "history.csv").read_text().splitlines()
    assert lines[0] == "iteration,error"
    np.testing.assert_array_equal([float(line.split(",")[1]) for line in lines[1:]], history["error"])
    table = pyarrow.parquet.read_table(history.to_parquet(tmp_path / "new" / "history.parquet"))
    assert table.column_names == ["iteration", "error"]
    np.testing.assert_array_equal(table["error"].to_numpy(), history["error"])


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingPackageError, match=r"barymesh\[parquet\]"):
        bm.History({"iteration": [1.0]}).to_parquet(tmp_path / "history.parquet")


def test_moments_and_draws_are_those_of_the_weighted_points():
    rng = np.random.default_rng(0)
    found = bm.barycenter([rng.normal(size=(20, 2)), rng.normal(2, 0.5, (30, 2))], reg=0.3)
    expected = np.average(found.support.points, axis=0, weights=found.weights)
    np.testing.assert_allclose(found.mean(), expected)
    np.testing.assert_allclose(found.cov(), np.cov(found.support.points.T, aweights=found.weights, ddof=0))
    drawn = found.sample(20_000, seed=3)
    np.testing.assert_array_equal(drawn, found.sample(20_000, seed=3))
    assert not np.array_equal(drawn, found.sample(20_000, seed=4))
    np.testing.assert_allclose(drawn.mean(axis=0), found.mean(), atol=5 * np.sqrt(found.cov().max() / 20_000))
    with pytest.raises(DimensionError, match=r"numpy\.quantile"):
        found.quantile(0.5)
    with pytest.raises(OptionError, match="size is -1"):
        found.sample(-1)


@pytest.mark.parametrize("points", [np.linspace(-3, 4, 30), np.random.default_rng(0).normal(size=30)])
def test_quantiles_invert_the_cumulative_weights(points):
    found = bm.barycenter([np.array([0.0, 1.0]), np.array([2.0, 2.5, 3.0])], points, reg=0.5)
    order = np.argsort(points)
    levels = np.linspace(0, 1, 41)
    expected = np.quantile(points[order], levels, weights=found.weights[order], method="inverted_cdf")
    np.testing.assert_array_equal(found.quantile(levels), expected)
    assert found.quantile(0.5).shape == ()
    assert found.quantile(1.0) == points.max()
    exactly = np.cumsum(found.weights[order])[:-1]
    np.testing.assert_array_equal(found.quantile(exactly), points[order][:-1])
    with pytest.raises(OptionError, match="levels from 0 to 1"):
        found.quantile([0.5, 1.5])
