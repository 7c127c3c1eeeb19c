"""The command line for networks: what it writes and prints, Ctrl-C and going on, several methods at once."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest
from matplotlib.animation import FFMpegWriter
from PIL import Image as Pillow

import barymesh as bm
from barymesh.cli.config import Gaussians
from barymesh.cli.exit_codes import OUT_OF_TIME
from barymesh.errors import DriftWarning, NumericalError
from barymesh.scenario import Crash, Loss, Uniform
from tests.cli.calling import call
from tests.terminal import interrupted_on_a_terminal

# a guard against hanging, not a measurement
PATIENCE = 600
CONFIG = """\
gaussians = {count = 6, mean = [-2, 2], std = [0.2, 0.5], seed = 1}
reg = 0.3
support = "20:-4:4"
network = "cycle"
"""
OUTPUTS = [
    "barycenter.png", "history.csv", "history.png", "recording.npz", "result.npz", "run.npz", "summary.json",
    "weights.csv",
]  # fmt: skip
CHANGING = {"seconds", "recording_seconds"}


def by_the_api(**options):
    measures = Gaussians(count=6, mean=[-2, 2], std=[0.2, 0.5], seed=1).draw()
    return bm.barycenter(
        measures, **{"support": np.linspace(-4, 4, 20), "reg": 0.3, "network": "cycle", "method": "dcwb", **options}
    )


def config_in(folder, text=""):
    path = folder / "network.toml"
    path.write_text(CONFIG + text)
    return path


def same_numbers(one, other):
    np.testing.assert_array_equal(one.support.points, other.support.points)
    for name in ("weights", "node_weights", "duals"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert list(one.history.columns) == list(other.history.columns)
    for column in one.history.columns:
        np.testing.assert_array_equal(one.history[column], other.history[column])
    assert {**one.summary(), **dict.fromkeys(CHANGING)} == {**other.summary(), **dict.fromkeys(CHANGING)}


def table(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(autouse=True)
def pictures_are_quick(monkeypatch):
    """Drawing takes far longer than these runs. The fixtures of the whole module, which come first, draw in earnest."""
    monkeypatch.setattr("barymesh.io.output._write_figure", lambda path, figure: path.write_bytes(b"a picture"))
    monkeypatch.setattr("barymesh.viz.plots.plot_result", lambda result, inputs: None)
    monkeypatch.setattr("barymesh.viz.plots.plot_history", lambda history: None)
    monkeypatch.setattr("barymesh.viz.comparison.plot_runs", lambda runs: None)


# one method


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder after a run of the drifting method with everything asked for, and what was printed."""
    folder = tmp_path_factory.mktemp("finished")
    text = 'method = "a2dwb"\nduration = 4\nreference = true\nanimation = "gif"\n'
    return folder, call("simulate", config_in(folder, text), "--quiet")


@pytest.fixture(scope="module")
def expected():
    with pytest.warns(DriftWarning):
        return by_the_api(method="a2dwb", duration=4, reference=True, snapshots=True)


def test_simulate_writes_what_the_api_computes(finished, expected):
    folder, done = finished
    assert done.exit_code == OUT_OF_TIME
    assert sorted(path.name for path in (folder / "out").iterdir()) == sorted([*OUTPUTS, "animation.gif"])
    result = bm.load(folder / "out" / "result.npz")
    same_numbers(result, expected)
    np.testing.assert_array_equal(result.snapshots, expected.snapshots)
    np.testing.assert_array_equal(result.network.edges, expected.network.edges)
    assert json.loads((folder / "out" / "summary.json").read_text()) == result.summary()


def test_the_history_is_a_table_and_a_picture(finished, expected):
    folder, _ = finished
    rows = table(folder / "out" / "history.csv")
    assert list(rows[0]) == list(expected.history.columns)
    for column in expected.history.columns:
        np.testing.assert_array_equal([float(row[column]) for row in rows], expected.history[column])
    for name in ("history.png", "barycenter.png"):
        with Pillow.open(folder / "out" / name) as picture:
            picture.load()
            assert min(picture.size) > 100
    with Pillow.open(folder / "out" / "animation.gif") as film:
        assert film.n_frames == len(expected.history)


def test_the_table_printed_tells_what_happened(finished, expected):
    printed = finished[1].stdout
    assert "before reaching the tolerance" in printed
    shown = dict(re.split(r"\s{2,}", line.strip(), maxsplit=1) for line in printed.splitlines()[1:])
    assert shown["network"] == "cycle: 6 nodes, 6 edges"
    assert shown["length of the run"] == "4 s"
    assert shown["activations"] == f"{expected.activations:,}"
    assert shown["messages"] == f"{expected.messages:,}"
    assert shown["bytes"] == f"{expected.bytes / 1000:.1f} kB"
    assert float(shown["feasibility residual"].split()[0]) == pytest.approx(expected.feasibility, rel=0.1)
    assert float(shown["certified gap"].split()[0]) == pytest.approx(expected.gap, rel=0.1)
    assert float(shown["total variation"]) == pytest.approx(expected.history["tv"][-1], rel=0.01)
    assert re.fullmatch(r"\d+\.\d\d s", shown["time taken"])
    assert re.fullmatch(r"\d+\.\d\d s", shown["of which recording"])
    assert shown["animation"].endswith("animation.gif")


def test_drift_is_told_in_one_plain_line(finished):
    """Not as Python does, with a line of source."""
    (line,) = finished[1].stderr.splitlines()
    assert line.startswith("Warning: a2dwb does not keep the sum of the duals")


def test_json_holds_the_warning_and_nothing_else_is_printed(tmp_path):
    config = config_in(tmp_path, 'method = "a2dwb"\nduration = 1\n')
    command = [sys.executable, "-m", "barymesh", "simulate", str(config), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == OUT_OF_TIME
    assert done.stderr == ""
    printed = json.loads(done.stdout, parse_constant=pytest.fail)
    (warning,) = printed.pop("warnings")
    assert warning.startswith("a2dwb does not keep")
    files = printed.pop("files")
    assert sorted(os.path.basename(path) for path in files.values()) == OUTPUTS
    assert all(os.path.exists(path) for path in files.values())
    assert printed == json.loads((tmp_path / "out" / "summary.json").read_text())


def test_a_method_that_does_not_drift_gives_no_warning_and_progress_is_shown(tmp_path):
    config = config_in(tmp_path, 'method = "dcwb"\nduration = 2\n')
    done = call("simulate", config)
    assert done.exit_code == OUT_OF_TIME
    assert "Warning" not in done.stderr
    assert " seconds" in done.stderr
    assert json.loads(call("simulate", config, "--json").stdout)["warnings"] == []


def test_every_option_reaches_the_run(tmp_path):
    (tmp_path / "ring.edges").write_text("".join(f"{k} {(k + 1) % 6}\n" for k in range(6)))
    text = CONFIG.replace('"cycle"', '"ring.edges"').replace("reg = 0.3", "reg = 0.05\nrelative_reg = true")
    text += (
        'method = "a2dwb_naive"\nduration = 3\nrecord_every = 0.5\nseed = 4\nstep = 0.01\nbatch = 3\n'
        'delays = "uniform:low=0.1,high=0.3"\nschedule = "poisson:rate=4"\nweights = [1, 2, 3, 1, 2, 3]\n'
        'faults = ["loss:probability=0.2", {kind = "crash", node = 3, start = 0.5, stop = 1.5, memory = false}]\n'
    )
    (tmp_path / "network.toml").write_text(text)
    assert call("simulate", tmp_path / "network.toml", "-q").exit_code == OUT_OF_TIME
    with pytest.warns(DriftWarning):
        expected = by_the_api(
            reg=0.05, relative_reg=True, network=tmp_path / "ring.edges", method="a2dwb_naive", duration=3,
            record_every=0.5, seed=4, step=0.01, batch=3, delays=Uniform(0.1, 0.3), schedule="poisson:rate=4",
            weights=[1, 2, 3, 1, 2, 3], faults=[Loss(0.2), Crash(3, 0.5, 1.5, memory=False)],
        )  # fmt: skip
    result = bm.load(tmp_path / "out" / "result.npz")
    same_numbers(result, expected)
    assert result.snapshots is None


@pytest.mark.parametrize(("duration", "code"), [(60, 0), (1, OUT_OF_TIME)])
def test_the_exit_code_tells_whether_the_tolerance_was_reached(tmp_path, duration, code):
    done = call("simulate", config_in(tmp_path, f"duration = {duration}\n"), "--json")
    assert done.exit_code == code
    printed = json.loads(done.stdout)
    assert printed["success"] is (code == 0)
    assert printed["status"] == ("CONVERGED" if code == 0 else "OUT_OF_TIME")


def test_workers_are_run_by_a_flag_and_refuse_what_has_no_meaning(tmp_path):
    config = config_in(tmp_path, "duration = 30\nsnapshots = true\n")
    done = call("simulate", config, "--engine", "processes", "--workers", 2)
    assert done.exit_code == 3
    assert "line 6: snapshots is for engine" in done.stderr
    done = call("simulate", config_in(tmp_path, "duration = 30\n"), "--engine", "processes", "--resume")
    assert done.exit_code == 3
    assert "resume is for engine" in done.stderr
    assert not (tmp_path / "out").exists()


def test_measures_may_come_from_files(tmp_path, rng):
    clouds = [rng.normal(size=12) + k for k in range(3)]
    for k, cloud in enumerate(clouds):
        np.savetxt(tmp_path / f"{k}.csv", cloud)
    (tmp_path / "network.toml").write_text(
        'data = ["0.csv", "1.csv", "2.csv"]\nreg = 0.3\nsupport = "20:-4:6"\nnetwork = "path"\nmethod = "dcwb"\n'
        'duration = 2\nbatch = "exact"\n'
    )
    assert call("simulate", tmp_path / "network.toml", "-q").exit_code == OUT_OF_TIME
    expected = bm.barycenter(
        clouds, np.linspace(-4, 6, 20), reg=0.3, network="path", method="dcwb", duration=2, batch="exact"
    )
    result = bm.load(tmp_path / "out" / "result.npz")
    np.testing.assert_allclose(result.duals, expected.duals, atol=1e-12)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("regg = 1\n", "'regg'"),
        ('method = "bregman"\n', "line 5: Unknown method 'bregman'"),
        ('faults = ["sleep:node=9,start=0"]\n', "nodes 0 to 5"),
        ('faults = ["loss:probability=2"]\n', "between 0 and 1"),
        ("weights = [1, 2]\n", "network.toml, line 5: There are 6 measures"),
        ("max_iter = 10\n", "line 5: max_iter is for the solver without a network"),
        ('output = "network.toml"\n', "network.toml"),
    ],
)
def test_bad_input_ends_with_3_and_writes_nothing(tmp_path, text, said):
    config = config_in(tmp_path, text)
    for command in (("simulate",), ("compare", "--methods", "dcwb,a2dwb")):
        done = call(*command, config)
        assert done.exit_code == 3
        assert said in done.stderr
        assert [path.name for path in tmp_path.iterdir()] == ["network.toml"]


def test_a_film_without_ffmpeg_is_refused_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr(FFMpegWriter, "isAvailable", classmethod(lambda kind: False))
    monkeypatch.setattr("barymesh.api.barycenter", lambda *given, **options: pytest.fail("it was computed"))
    done = call("simulate", config_in(tmp_path, 'animation = "mp4"\n'))
    assert done.exit_code == 3
    assert "ffmpeg" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("arguments", [("simulate",), ("compare",), ("simulate", "a.toml", "--methods", "dcwb")])
def test_wrong_usage_ends_with_2(arguments):
    assert call(*arguments).exit_code == 2


# Ctrl-C


def interrupted_after(monkeypatch, looks):
    """Ctrl-C is found pressed when the run looks for it this many times."""

    @contextmanager
    def asked():
        seen = iter(range(looks))
        yield lambda: next(seen, None) is None

    monkeypatch.setattr("barymesh.engines.simulation.interruptible", asked)


@pytest.mark.parametrize("method", ["dcwb", "a2dwb"])
def test_an_interrupted_run_goes_on_as_if_nothing_had_happened(tmp_path, monkeypatch, method):
    config = config_in(tmp_path, f'method = "{method}"\nduration = 6\nreference = true\nsnapshots = true\n')
    with monkeypatch.context() as patch:
        interrupted_after(patch, 4)
        done = call("simulate", config, "-q")
    assert done.exit_code == 130
    assert f"barymesh simulate {config} --resume" in done.stderr
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == OUTPUTS
    stopped = bm.load(tmp_path / "out" / "result.npz")
    assert stopped.status is bm.Status.INTERRUPTED
    assert 0 < len(stopped.history) < 7
    done = call("simulate", config, "-q", "--resume")
    assert done.exit_code == OUT_OF_TIME
    resumed = bm.load(tmp_path / "out" / "result.npz")
    assert call("simulate", config, "-q").exit_code == OUT_OF_TIME
    whole = bm.load(tmp_path / "out" / "result.npz")
    assert len(whole.history) == 7
    same_numbers(resumed, whole)
    np.testing.assert_array_equal(resumed.snapshots, whole.snapshots)


def test_ctrl_c_with_json_still_prints_json(tmp_path, monkeypatch):
    interrupted_after(monkeypatch, 2)
    done = call("simulate", config_in(tmp_path, 'method = "dcwb"\n'), "--json")
    assert done.exit_code == 130
    assert json.loads(done.stdout)["status"] == "INTERRUPTED"


def test_resume_can_make_a_finished_run_longer(tmp_path):
    short = config_in(tmp_path, 'method = "dcwb"\nduration = 2\n')
    assert call("simulate", short, "-q").exit_code == OUT_OF_TIME
    longer = config_in(tmp_path, 'method = "dcwb"\nduration = 5\n')
    assert call("simulate", longer, "-q", "--resume").exit_code == OUT_OF_TIME
    same_numbers(bm.load(tmp_path / "out" / "result.npz"), by_the_api(duration=5))


def test_resume_needs_the_same_run(tmp_path):
    config = config_in(tmp_path, 'method = "dcwb"\nduration = 1\n')
    done = call("simulate", config, "--resume")
    assert done.exit_code == 3
    assert "run.npz" in done.stderr
    assert not (tmp_path / "out").exists()
    assert call("simulate", config, "-q").exit_code == OUT_OF_TIME
    other = config_in(tmp_path, 'method = "dcwb"\nduration = 1\nseed = 5\n')
    done = call("simulate", other, "--resume")
    assert done.exit_code == 3
    assert "another run" in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="needs a pseudo-terminal")
def test_a_real_ctrl_c_keeps_the_run(tmp_path):
    """A process on a terminal, a signal: once progress shows virtual time, Ctrl-C, and then --resume."""
    endless = config_in(tmp_path, 'method = "dcwb"\nduration = 1e9\n')
    code, shown = interrupted_on_a_terminal(
        [sys.executable, "-m", "barymesh", "simulate", str(endless)], rb"[1-9]\d* of 1e\+09 seconds"
    )
    assert code == 130, shown
    assert "Traceback" not in shown
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == OUTPUTS
    stopped = bm.load(tmp_path / "out" / "result.npz")
    assert stopped.status is bm.Status.INTERRUPTED
    until = stopped.history["time"][-1] + 3
    longer = config_in(tmp_path, f'method = "dcwb"\nduration = {until}\n')
    assert call("simulate", longer, "--resume").exit_code == OUT_OF_TIME
    same_numbers(bm.load(tmp_path / "out" / "result.npz"), by_the_api(duration=until))


# several methods

COMPARISON = ["comparison.csv", "comparison.png", "summary.json"]


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compared")
    config = config_in(folder, "duration = 4\n")
    return folder, call("compare", config, "--methods", "dcwb, a2dwb,dcwb", "--quiet")


def test_compare_writes_every_method_and_all_together(compared, expected):
    folder, done = compared
    assert done.exit_code == 0
    assert sorted(path.name for path in (folder / "out").iterdir()) == [
        "a2dwb",
        *COMPARISON[:2],
        "dcwb",
        "summary.json",
    ]
    results = {method: bm.load(folder / "out" / method / "result.npz") for method in ("dcwb", "a2dwb")}
    same_numbers(results["dcwb"], by_the_api(duration=4, reference=True))
    same_numbers(results["a2dwb"], expected)
    rows = table(folder / "out" / "comparison.csv")
    assert list(rows[0]) == ["method", *expected.history.columns]
    assert [row["method"] for row in rows] == ["dcwb"] * 5 + ["a2dwb"] * 5
    for method, result in results.items():
        for column in expected.history.columns:
            written = [float(row[column]) for row in rows if row["method"] == method]
            np.testing.assert_array_equal(written, result.history[column])
    summary = json.loads((folder / "out" / "summary.json").read_text())
    assert summary["methods"] == {method: result.summary() for method, result in results.items()}
    assert summary["failures"] == {}
    with Pillow.open(folder / "out" / "comparison.png") as picture:
        picture.load()
        assert min(picture.size) > 500


def test_compare_prints_a_column_for_each_method(compared, expected):
    _, done = compared
    lines = [re.split(r"\s{2,}", line.strip()) for line in done.stdout.splitlines()]
    assert ["dcwb", "a2dwb"] in lines
    shown = {line[0]: line[1:] for line in lines if len(line) == 3}
    assert shown["length of the run"] == ["4 s", "4 s"]
    assert float(shown["total variation"][1]) == pytest.approx(expected.history["tv"][-1], rel=0.01)
    assert float(shown["dual objective - optimum"][1]) == pytest.approx(expected.history["dual_error"][-1], rel=0.01)
    (line,) = done.stderr.splitlines()
    assert line.startswith("Warning: a2dwb does not keep")


def test_the_methods_may_be_in_the_file_and_the_reference_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr("barymesh.exact.reference.exact_reference", lambda problem: pytest.fail("it was computed"))
    config = config_in(tmp_path, 'duration = 1\nmethods = ["dcwb", "a2dwb_naive"]\nreference = false\n')
    done = call("compare", config, "--json")
    assert done.exit_code == 0
    assert done.stderr == ""
    printed = json.loads(done.stdout, parse_constant=pytest.fail)
    assert list(printed["methods"]) == ["dcwb", "a2dwb_naive"]
    assert "tv" not in printed["methods"]["dcwb"]
    assert len(printed["warnings"]) == 1
    assert sorted(os.path.basename(path) for path in printed["files"].values()) == COMPARISON


@pytest.mark.parametrize(("options", "said"), [((), "--methods"), (("--methods", "dcwb,best"), "'best'")])
def test_methods_must_be_named_and_known(tmp_path, options, said):
    done = call("compare", config_in(tmp_path), *options)
    assert done.exit_code == 3
    assert said in done.stderr
    assert not (tmp_path / "out").exists()


def breaking(monkeypatch, errors):
    """Make some methods fail with these errors."""
    from barymesh.engines.simulate import simulate

    def broken(problem, network, options, **rest):
        if options.method in errors:
            raise errors[options.method]
        return simulate(problem, network, options, **rest)

    monkeypatch.setattr("barymesh.engines.simulate.simulate", broken)


def test_a_method_that_fails_does_not_lose_the_others(tmp_path, monkeypatch):
    breaking(monkeypatch, {"a2dwb": NumericalError("the duals are no longer finite")})
    config = config_in(tmp_path, 'duration = 1\nmethods = ["a2dwb", "dcwb"]\n')
    done = call("compare", config, "-q")
    assert done.exit_code == 4
    assert "Error: a2dwb: the duals are no longer finite" in done.stderr
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"dcwb", *COMPARISON}
    same_numbers(bm.load(tmp_path / "out" / "dcwb" / "result.npz"), by_the_api(duration=1, reference=True))
    printed = json.loads(call("compare", config, "--json").stdout)
    assert printed["failures"] == {"a2dwb": {"error": "NumericalError", "message": "the duals are no longer finite"}}


def test_if_all_methods_fail_nothing_is_written(tmp_path, monkeypatch):
    breaking(monkeypatch, dict.fromkeys(("dcwb", "a2dwb"), NumericalError("the duals are no longer finite")))
    done = call("compare", config_in(tmp_path), "--methods", "dcwb,a2dwb", "-q")
    assert done.exit_code == 3
    assert "no longer finite" in done.stderr
    assert not (tmp_path / "out").exists()


def test_ctrl_c_keeps_the_methods_that_are_finished(tmp_path, monkeypatch):
    breaking(monkeypatch, {"a2dwb": KeyboardInterrupt()})
    done = call("compare", config_in(tmp_path, "duration = 1\n"), "--methods", "dcwb,a2dwb,a2dwb_naive", "-q")
    assert done.exit_code == 130
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"dcwb", *COMPARISON}
    assert {row["method"] for row in table(tmp_path / "out" / "comparison.csv")} == {"dcwb"}


def test_ctrl_c_within_a_method_keeps_what_it_has_and_starts_no_other(tmp_path, monkeypatch):
    interrupted_after(monkeypatch, 3)
    done = call("compare", config_in(tmp_path), "--methods", "dcwb,a2dwb", "--json")
    assert done.exit_code == 130
    printed = json.loads(done.stdout)
    assert {method: summary["status"] for method, summary in printed["methods"].items()} == {"dcwb": "INTERRUPTED"}


def test_ctrl_c_before_there_is_anything(tmp_path, monkeypatch):
    breaking(monkeypatch, {"dcwb": KeyboardInterrupt()})
    done = call("compare", config_in(tmp_path), "--methods", "dcwb,a2dwb", "-q")
    assert done.exit_code == 130
    assert "Interrupted before there was a result" in done.stderr
    assert not (tmp_path / "out").exists()
