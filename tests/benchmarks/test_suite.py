"""The suite around the benchmarks: what it writes, keeps, names and refuses. The parts here are made up."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from barymesh.errors import FileError, OptionError
from benchmarks import suite
from benchmarks.command import app
from benchmarks.parts import Part, Table
from tests.terminal import interrupted_on_a_terminal


def quiet(line):
    pass


def giving(ratio):
    """A benchmark with one row and one figure."""

    def run(quick, say):
        row = {"case": "a | b", "over the floor": np.float64(ratio), "steps": np.int64(1234), "never": float("inf")}
        say(f"ratio {ratio}")
        table = Table("Ratios", "The floor is 1.", [row])
        return Part("A part", "What it is.", [table], {f"figure-{ratio}": lambda axes: axes.plot([1, 2], [1, ratio])})

    return run


def failing(error):
    def run(quick, say):
        raise error

    return run


def measured(folder):
    return json.loads((folder / "latest.json").read_text())["parts"]


def test_writes_numbers_a_page_and_figures(tmp_path):
    said = []
    outcome = suite.run_suite({"kernels": giving(1.5)}, False, tmp_path, said.append)
    assert not outcome.failed
    assert not outcome.interrupted
    assert any("ratio 1.5" in line for line in said)
    part = measured(tmp_path)["kernels"]
    # what is not finite is null: JSON has no infinity
    row = {"case": "a | b", "over the floor": 1.5, "steps": 1234, "never": None}
    assert part["tables"] == [{"title": "Ratios", "text": "The floor is 1.", "rows": [row]}]
    assert part["machine"]["Python"] == sys.version.split()[0]
    assert part["machine"]["numpy"] == np.__version__
    assert part["machine"]["cores"] >= 1
    text = (tmp_path / "latest.md").read_text()
    for words in ("## A part", "What it is.", "The floor is 1.", "| a \\| b | 1.5 | 1,234 |", part["date"]):
        assert words in text
    assert "![figure 1.5](figure-1.5.png)" in text
    with Image.open(tmp_path / "figure-1.5.png") as picture:
        assert min(picture.size) > 400


def test_the_parts_not_asked_for_stay_as_they_were(tmp_path):
    suite.run_suite({"exact": giving(2.0), "kernels": giving(1.5)}, False, tmp_path, quiet)
    before = measured(tmp_path)
    before["exact"]["date"] = "2020-01-01 00:00:00"
    (tmp_path / "latest.json").write_text(json.dumps({"parts": before}))
    suite.run_suite({"kernels": giving(1.25)}, True, tmp_path, quiet)
    after = measured(tmp_path)
    assert after["exact"] == before["exact"]
    assert after["kernels"]["tables"][0]["rows"][0]["over the floor"] == 1.25
    assert after["kernels"]["quick"]
    # in the order of the suite, each with its own date
    assert list(after) == ["kernels", "exact"]
    text = (tmp_path / "latest.md").read_text()
    assert "2020-01-01 00:00:00" in text
    assert after["kernels"]["date"] in text


def test_a_part_that_fails_is_named_and_the_next_goes_on(tmp_path):
    chosen = {
        "kernels": failing(ValueError("no such floor")),
        "exact": failing(ModuleNotFoundError("No module named 'ot'")),
        "growth": giving(3.0),
    }
    outcome = suite.run_suite(chosen, False, tmp_path, quiet)
    # a missing package is no failure of the program
    assert outcome.failed == ["kernels"]
    parts = measured(tmp_path)
    assert parts["growth"]["tables"]
    assert "no such floor" in parts["kernels"]["failed"]
    text = (tmp_path / "latest.md").read_text()
    assert "no such floor" in text
    assert "No module named 'ot'" in text


INTERRUPTED = """
import sys, time
from pathlib import Path
from benchmarks import suite
from benchmarks.parts import Part
from barymesh.interrupt import interruptible

def sleeping(quick, say):
    say("at work")
    time.sleep(600)

def ending_early(quick, say):
    # as solvers and simulations do, which then give what they have
    with interruptible() as interrupted:
        say("at work")
        while not interrupted():
            time.sleep(0.01)
    return Part("Cut short", "no measurement")

parts = {"kernels": lambda quick, say: Part("Done", "finished"), "exact": globals()[sys.argv[2]], "growth": sleeping}
outcome = suite.run_suite(parts, False, Path(sys.argv[1]), lambda line: print(line, file=sys.stderr, flush=True))
sys.exit(130 if outcome.interrupted else 0)
"""


@pytest.mark.parametrize("part", ["sleeping", "ending_early"])
def test_ctrl_c_keeps_the_finished_parts(tmp_path, part):
    command_line = [sys.executable, "-c", INTERRUPTED, str(tmp_path), part]
    code, shown = interrupted_on_a_terminal(command_line, rb"at work")
    assert code == 130
    assert "exact is not finished" in shown
    assert list(measured(tmp_path)) == ["kernels"]
    assert "finished" in (tmp_path / "latest.md").read_text()
    # no half-written file is left
    assert sorted(path.name for path in tmp_path.iterdir()) == ["latest.json", "latest.md"]


def test_refuses_unknown_parts_and_foreign_files_before_the_work(tmp_path):
    with pytest.raises(OptionError, match=r"'kernel'.*kernels, exact"):
        suite.check_names(["exact", "kernel"])
    (tmp_path / "latest.json").write_text('{"threads": 2}')
    ran = []
    with pytest.raises(FileError, match=r"latest\.json is not a result"):
        suite.run_suite({"kernels": lambda quick, say: ran.append(1)}, False, tmp_path, quiet)
    assert not ran
    assert (tmp_path / "latest.json").read_text() == '{"threads": 2}'


def test_the_command(tmp_path, monkeypatch):
    monkeypatch.setattr(suite, "benchmarks", lambda: {"kernels": giving(1.5), "exact": failing(ValueError("broken"))})
    runner = CliRunner()
    done = runner.invoke(app, ["--only", "kernels", "--output", str(tmp_path / "out"), "--json"])
    assert done.exit_code == 0
    assert list(json.loads(done.stdout)["parts"]) == ["kernels"]
    assert (tmp_path / "out" / "latest.md").exists()
    assert runner.invoke(app, ["--output", str(tmp_path / "out")]).exit_code == 4
    done = runner.invoke(app, ["--only", "nothing", "--output", str(tmp_path / "new")])
    assert done.exit_code == 3
    assert "nothing" in done.stderr
    assert not (tmp_path / "new").exists()
