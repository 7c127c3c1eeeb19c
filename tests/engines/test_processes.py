"""Real processes: the same barycenter, whatever is killed on the way."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import tempfile

import numpy as np
import pytest
from typer.testing import CliRunner

import barymesh as bm
from barymesh.cli.app import app
from barymesh.errors import MeasureError, OptionError
from tests.engines.loaders import MEASURES, POINTS, called, check_certificate, fail, known, staying


def run(measures=MEASURES, **options):
    options = {"network": "cycle", "engine": "processes", "duration": 120, "workers": 2, "record_every": 0.2, **options}
    return bm.barycenter(measures, POINTS, reg=0.3, **{"progress": False, **options})


def test_processes_end_where_the_exact_solver_does():
    result = run(weights=[1, 2, 3, 1, 1, 1], reference=True)
    exact = bm.barycenter(MEASURES, POINTS, reg=0.3, weights=[1, 2, 3, 1, 1, 1], tol=1e-10)
    assert result.status is bm.Status.CONVERGED
    np.testing.assert_allclose(result.weights, exact.weights, atol=1e-6)
    assert result.gap < 1e-4
    assert result.history["tv"][-1] < 1e-6
    assert (result.node_errors <= 1e-5).all()
    assert result.messages > 0
    assert result.bytes > result.messages * POINTS.size * 8


def test_two_workers_share_one_core_and_need_no_short_folder(tmp_path, monkeypatch):
    """The paths of sockets are limited, and the folder for temporary files may have any."""
    deep = tmp_path / ("deep" * 25)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        result = run()
    finally:
        os.sched_setaffinity(0, cores)
    assert result.success
    assert not any(deep.iterdir())


def test_processes_with_masks():
    result = run(method="rounds", masks=True)
    exact = bm.barycenter(MEASURES, POINTS, reg=0.3, tol=1e-10)
    assert result.status is bm.Status.CONVERGED
    np.testing.assert_allclose(result.weights, exact.weights, atol=1e-6)


def test_killed_workers_go_on_where_they_were():
    """Three times one of them is killed at once, in the middle of its work."""
    killed, records = [], []

    def kill(record):
        records.append(record)
        if len(killed) < 3 and len(records) > 2 * len(killed):
            victim = sorted(multiprocessing.active_children(), key=lambda child: child.pid)[len(killed) % 2]
            os.kill(victim.pid, signal.SIGKILL)
            killed.append(victim.pid)
        return False

    result = run(callback=kill, interval=0.02)
    exact = bm.barycenter(MEASURES, POINTS, reg=0.3, tol=1e-10)
    assert len(killed) == 3
    assert result.status is bm.Status.CONVERGED
    np.testing.assert_allclose(result.weights, exact.weights, atol=1e-6)
    assert not multiprocessing.active_children()
    # what was sent between the last report and the end of a life counts too
    messages, most = result.history["messages"], 2 * result.history["activations"]
    # every activation sends two, until the nodes certify what they have found, in rounds
    asynchronous = messages == most
    assert asynchronous[: len(records) // 2].all()
    assert (np.diff(asynchronous.astype(int)) <= 0).all()
    assert (messages <= most).all()
    assert (np.diff(result.history["activations"]) >= 0).all()


def test_measures_stay_where_they_are(tmp_path):
    result = run(staying(tmp_path))
    nodes, loading = called(tmp_path)
    assert nodes == {0, 2}
    assert len(loading) == 2
    assert os.getpid() not in loading
    exact = bm.barycenter(known(tmp_path), POINTS, reg=0.3, tol=1e-10)
    assert result.status is bm.Status.CONVERGED
    np.testing.assert_allclose(result.weights, exact.weights, atol=1e-6)
    check_certificate(result, known(tmp_path))
    assert result.gap < 1e-4


def test_a_loader_that_fails_is_named():
    with pytest.raises(MeasureError, match=r"Measure 4: Lazy\(fail, 4\) cannot be loaded: KeyError.*no patients"):
        run([*MEASURES[:4], bm.Lazy(fail, 4), MEASURES[5]])
    assert not multiprocessing.active_children()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"engine": "simulation", "workers": 2}, "processes"), ({"reference": True}, "loaded only by workers"),
        ({"measures": [bm.Lazy("a.csv", at="10.0.0.5")] * 3}, "this machine"),
    ],
)  # fmt: skip
def test_measures_that_stay_have_conditions(options, said, tmp_path):
    with pytest.raises((MeasureError, OptionError), match=said):
        run(**{"measures": staying(tmp_path), **options})


@pytest.mark.parametrize("given", [((3,)), (("a.csv", 1)), ((None,))])
def test_what_stays_is_a_path_or_a_function(given):
    with pytest.raises(MeasureError, match="Lazy"):
        bm.Lazy(*given)


def test_without_all_shares_there_is_no_certificate(monkeypatch):
    """A worker is stopped, not dead, when it is asked: the result says that it is not certified."""
    monkeypatch.setattr("barymesh.engines.supervisor.ANSWER_LIMIT", 0.5)

    def stop(gathering):
        for child in multiprocessing.active_children():
            os.kill(child.pid, signal.SIGSTOP)
        return True

    with pytest.warns(bm.errors.AccuracyWarning, match="no certificate"):
        result = run(callback=stop)
    assert result.gap == np.inf
    assert result.tv_bound == 1
    assert np.isfinite(result.weights).all()
    assert not multiprocessing.active_children()


def test_progress_is_shown(capsys):
    run(callback=lambda gathering: True, progress=True)
    assert "sinkhorn" in capsys.readouterr().err


def test_a_callback_may_stop_it():
    seen = []
    result = run(callback=lambda record: seen.append(record) or len(seen) > 3, tol=0)
    assert result.status is bm.Status.STOPPED
    assert not multiprocessing.active_children()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"engine": "threads"}, "threads"), ({"delays": "constant:seconds=1"}, "simulation"),
        ({"workers": 0}, "workers"), ({"method": "dcwb"}, "synchronous"), ({"interval": -1}, "interval"),
        ({"duration": 0}, "duration"), ({"network": None}, "network"),
    ],
)  # fmt: skip
def test_bad_options_are_named_before_anything_starts(options, said):
    with pytest.raises(OptionError, match=said):
        run(**options)
    assert not multiprocessing.active_children()


NETWORK = """
gaussians = {count = 4, mean = [-2, 2], std = [0.3, 0.6]}
reg = 0.3
support = "20:-3:3"
network = "cycle"
"""


def test_the_command_runs_processes(tmp_path):
    path = tmp_path / "network.toml"
    path.write_text(NETWORK)
    done = CliRunner().invoke(app, ["simulate", str(path), "--engine", "processes", "--workers", "2", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["status"] == "CONVERGED"
    assert not (tmp_path / "out" / "run.npz").exists()


@pytest.mark.parametrize(
    ("line", "options", "said"),
    [
        ('delays = "constant:seconds=1"', ["--engine", "processes"], "delays"),
        ('animation = "gif"', ["--engine", "processes"], "animation"),
        ("", ["--engine", "processes", "--resume"], "resume"), ("", ["--workers", "2"], "workers"),
        ("", ["--engine", "processes", "--address", "10.0.0.1:6379"], "address"),
    ],
)  # fmt: skip
def test_the_command_refuses_what_is_not_for_the_engine(line, options, said, tmp_path):
    path = tmp_path / "network.toml"
    path.write_text(NETWORK + line)
    done = CliRunner().invoke(app, ["simulate", str(path), *options, "--quiet"])
    assert done.exit_code == 3
    assert said in done.stderr
