"""The command line: how it ends, on bad input, at its limits and by Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import contextmanager

import numpy as np
import pytest

import barymesh as bm
from tests.cli.calling import ABC, OUTPUTS, abc_by_the_api, call, call_apart, outputs_agree
from tests.terminal import interrupted_on_a_terminal


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("nonsense",),
        ("barycenter",),
        ("barycenter", "a.csv"),
        ("barycenter", "--reg", "0.1"),
        ("barycenter", "a.csv", "--reg", "small"),
        ("barycenter", "a.csv", "--reg", "0.1", "--max-iter", "1.5"),
        ("barycenter", "a.csv", "--reg", "0.1", "--nonsense"),
        ("run",),
        ("run", "one.toml", "two.toml"),
    ],
)
def test_wrong_usage_ends_with_2(inside, arguments):
    assert call(*arguments).exit_code == 2
    assert not (inside / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("missing.csv", "--reg", 1), "missing.csv"),
        (("bad.csv", "--reg", 1), "bad.csv, line 3"),
        (("empty", "--reg", 1), "empty"),
        (("a.csv", "plane.csv", "--reg", 1), "dimension"),
        (("a.csv", "--reg", 0), "reg is 0"),
        (("a.csv", "--reg", "nan"), "reg is nan"),
        (("a.csv", "--reg", -1), "reg is -1"),
        (("a.csv", "--reg", 1, "--tol", -1), "tol"),
        (("a.csv", "--reg", 1, "--max-iter", 0), "max_iter"),
        (("a.csv", "--reg", 1, "--support", "many"), "'many'"),
        (("a.csv", "--reg", 1, "--support", "9:1:0"), "upper end"),
        (("a.csv", "--reg", 1, "--support", "missing.npy"), "missing.npy"),
        (("a.csv", "--reg", 1, "--support", "9:0:1,9:0:1"), "dimension"),
        (("a.csv", "--reg", 1, "--support", "100000:0:1,100000:0:1,100000:0:1"), "memory"),
        (("a.csv", "b.csv", "--reg", 1, "--weights", "1,two"), "'1,two'"),
        (("a.csv", "b.csv", "--reg", 1, "--weights", "1,2,3"), "2 measures"),
        (("a.csv", "b.csv", "--reg", 1, "--weights", "1,-2"), "weight of measure 1"),
        (("a.csv", "--reg", 1, "--cost", "nonsense"), "'nonsense'"),
        (("a.csv", "--reg", 1, "--as", "picture"), "'picture'"),
        (("a.csv", "--reg", 1, "--precision", "float16"), "'float16'"),
        (("a.csv", "--reg", 1, "--resume"), "result.npz"),
    ],
)
def test_bad_input_ends_with_3_and_says_why(inside, arguments, said):
    (inside / "empty").mkdir()
    (inside / "bad.csv").write_text("x\n1\noops\n")
    (inside / "plane.csv").write_text("1,2\n3,4\n")
    done = call("barycenter", *arguments)
    assert done.exit_code == 3
    assert said in done.stderr
    assert done.stdout == ""
    assert not (inside / "out").exists()


def test_a_negative_seed_works_or_is_refused_in_words(inside):
    """In four dimensions the support is drawn from the data, so the seed is used."""
    (inside / "deep.csv").write_text("1,2,3,4\n5,6,7,8\n")
    assert call("barycenter", "deep.csv", "--reg", 1, "--seed", -1, "-q").exit_code in (0, 3)


def test_a_reg_far_too_small_ends_in_words(inside):
    """Whether it is computed or refused, errors and warnings of NumPy do not come out."""
    done = call_apart("barycenter", "a.csv", "b.csv", "--reg", 1e-300, "--support", "25:-3:5", "--max-iter", 50, "-q")
    assert "Traceback" not in done.stderr
    assert [line.partition(",")[0] for line in done.stderr.splitlines()] == ["Warning: The spacing of the support"]
    assert done.returncode in (0, 3, 4)


def test_warnings_are_sentences_beside_the_result(inside):
    """Data from -3 to 5, and a support from 20 to 30."""
    far = ("barycenter", "a.csv", "b.csv", "--reg", 0.1, "--support", "101:20:30")
    done = call(*far, "-q")
    assert done.exit_code == 0
    assert "Warning: About 100% of the measures' mass lies outside the support" in done.stderr
    done = call(*far, "--json")
    (sentence,) = json.loads(done.stdout)["warnings"]
    assert sentence.startswith("About 100%")
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("text", "said"), [("regg = 1", "'regg'"), ("reg =\n", "line 1"), ('data = "none.csv"\nreg = 1', "none.csv")]
)
def test_a_bad_configuration_ends_with_3(inside, text, said):
    (inside / "run.toml").write_text(text)
    done = call("run", "run.toml")
    assert done.exit_code == 3
    assert said in done.stderr
    assert call("run", "missing.toml").exit_code == 3


def test_stopping_at_max_iter_ends_with_4_and_writes_the_result(inside):
    done = call(*ABC, "--max-iter", 1)
    assert done.exit_code == 4
    assert "largest number of iterations" in done.stdout
    outputs_agree(inside / "out", abc_by_the_api(max_iter=1))
    assert bm.load("out/result.npz").status is bm.Status.MAX_ITERATIONS
    assert call_apart(*ABC, "--max-iter", 1).returncode == 4


def test_resume_goes_on_from_where_it_stopped(inside):
    whole = abc_by_the_api(tol=1e-9)
    stop = whole.iterations // 2
    assert call(*ABC, "--tol", 1e-9, "--max-iter", stop, "-q").exit_code == 4
    stopped = bm.load("out/result.npz")
    assert call(*ABC, "--tol", 1e-9, "--resume", "-q").exit_code == 0
    outputs_agree(inside / "out", abc_by_the_api(tol=1e-9, start=stopped))
    resumed = bm.load("out/result.npz")
    assert resumed.iterations < whole.iterations
    assert np.abs(resumed.weights - whole.weights).sum() < 1e-7


def test_resume_needs_the_result_of_the_same_problem(inside):
    assert call(*ABC, "-q").exit_code == 0
    before = contents(inside / "out")
    done = call("barycenter", "a.csv", "b.csv", "--reg", 0.2, "--support", "25:-3:5", "--resume")
    assert done.exit_code == 3
    assert "(3, 25)" in done.stderr
    assert "(2, 25)" in done.stderr
    assert contents(inside / "out") == before
    (inside / "out" / "result.npz").write_bytes(b"")
    assert call(*ABC, "--resume").exit_code == 3


def test_an_output_that_is_a_file_ends_with_3(inside):
    before = (inside / "a.csv").read_bytes()
    done = call(*ABC, "-o", "a.csv")
    assert done.exit_code == 3
    assert "a.csv" in done.stderr
    assert call(*ABC, "-o", "a.csv/deeper").exit_code == 3
    assert (inside / "a.csv").read_bytes() == before


def test_an_output_that_cannot_be_written_is_said_before_the_work(inside, monkeypatch):
    """Nobody wants to hear it after hours of computing."""
    monkeypatch.setattr("barymesh.api.barycenter", lambda *given, **options: pytest.fail("it was computed"))
    assert call(*ABC, "-o", "a.csv").exit_code == 3
    assert call(*ABC, "-o", "a.csv/deeper").exit_code == 3


@pytest.mark.parametrize(
    "change", [("--reg", -1), ("--weights", "1"), ("--cost", "nonsense"), ("--support", "many"), ("missing.csv",)]
)
def test_a_failed_run_leaves_the_old_output_as_it_was(inside, change):
    assert call(*ABC, "-q").exit_code == 0
    before = contents(inside / "out")
    assert call(*ABC, *change).exit_code == 3
    assert contents(inside / "out") == before


def test_a_run_that_breaks_while_computing_leaves_the_old_output_as_it_was(inside, monkeypatch):
    assert call(*ABC, "-q").exit_code == 0
    before = contents(inside / "out")

    def broken(*given, **options):
        raise bm.errors.NumericalError("a number is not finite")

    monkeypatch.setattr("barymesh.exact.run.completed", broken)
    done = call(*ABC)
    assert done.exit_code == 3
    assert "not finite" in done.stderr
    assert contents(inside / "out") == before


def test_ctrl_c_before_there_is_a_result_ends_with_130(inside, monkeypatch):
    def interrupted(*given, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("barymesh.io.files.read_measures", interrupted)
    done = call(*ABC)
    assert done.exit_code == 130
    assert "Interrupted" in done.stderr
    assert not (inside / "out").exists()


def test_ctrl_c_with_json_still_prints_json(inside, monkeypatch):
    @contextmanager
    def asked_at_once():
        yield lambda: True

    monkeypatch.setattr("barymesh.exact.solver.interruptible", asked_at_once)
    done = call(*ABC, "--json")
    assert done.exit_code == 130
    assert json.loads(done.stdout)["status"] == "INTERRUPTED"


@pytest.mark.skipif(os.name == "nt", reason="needs a pseudo-terminal")
def test_sigterm_keeps_the_result_too(inside):
    """As batch systems end a job whose time is over."""
    command = [sys.executable, "-m", "barymesh", *map(str, ABC), "--tol", "0", "--max-iter", "1000000000"]
    for shell in ([], ["sh", "-c", 'trap "" INT; exec "$@"', "sh"]):
        # also where Ctrl-C is ignored, as in the background of a script
        code, shown = interrupted_on_a_terminal([*shell, *command], rb"iteration \d{3}", signal.SIGTERM)
        assert code == 130, shown
        assert bm.load("out/result.npz").status is bm.Status.INTERRUPTED
        (inside / "out" / "result.npz").unlink()


@pytest.mark.skipif(os.name == "nt", reason="needs a pseudo-terminal")
def test_ctrl_c_keeps_the_result_and_resume_finishes_it(inside):
    """A real process on a terminal, a real signal: once progress shows iterations, Ctrl-C, and then --resume."""
    command = [sys.executable, "-m", "barymesh", *map(str, ABC), "--tol", "0", "--max-iter", "1000000000"]
    code, shown = interrupted_on_a_terminal(command, rb"iteration \d{3}")
    assert code == 130, shown
    assert "Traceback" not in shown
    assert sorted(path.name for path in (inside / "out").iterdir()) == OUTPUTS
    stopped = bm.load("out/result.npz")
    assert stopped.status is bm.Status.INTERRUPTED
    assert stopped.iterations == len(stopped.history) >= 100
    assert stopped.weights.sum() == pytest.approx(1.0)
    assert json.loads((inside / "out" / "summary.json").read_text())["status"] == "INTERRUPTED"
    finished = call_apart(*ABC, "--tol", "1e-8", "--resume", "--json")
    assert finished.returncode == 0, finished.stderr
    assert json.loads(finished.stdout)["status"] == "CONVERGED"
    expected = abc_by_the_api(tol=1e-8)
    resumed = bm.load("out/result.npz")
    assert resumed.iterations < expected.iterations
    assert np.abs(resumed.weights - expected.weights).sum() < 1e-6
