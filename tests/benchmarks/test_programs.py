"""Programs in processes of their own: they are what the README shows, and what goes wrong in them is reported."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from benchmarks import busy, programs, start
from benchmarks.programs import ProgramError, running

README = Path(__file__).parents[2] / "README.md"


def quiet(line):
    pass


def test_the_network_is_that_of_the_readme():
    def call(text):
        (found,) = [one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.Call) and _is_barycenter(one)]
        shown = {one.arg: ast.unparse(one.value) for one in found.keywords}
        return [ast.unparse(one) for one in found.args], {k: v for k, v in shown.items() if k != "progress"}

    blocks = README.read_text().split("```python\n")[1:]
    (block,) = [text for block in blocks if "network=" in (text := block.partition("```")[0])]
    assert call(programs.NETWORK) == call(block)


def _is_barycenter(call):
    return ast.unparse(call.func) == "bm.barycenter"


def test_a_program_that_fails_says_why(tmp_path):
    with running(["-c", "raise ValueError('no images')"], tmp_path) as program:
        with pytest.raises(ProgramError, match=r"code 1: ValueError: no images"):
            program.read()
        assert program.process.returncode == 1


def test_a_program_ends_with_the_block(tmp_path):
    with running(["-c", "while True: print(2 * int(input()), flush=True)"], tmp_path) as program:
        assert [program.ask(str(number)) for number in (3, 4)] == ["6", "8"]
        assert program.process.poll() is None
    assert program.process.poll() is not None


def test_starts(monkeypatch):
    monkeypatch.setattr(start, "PROGRAMS", {"nothing": ("pass", 0.5)})
    monkeypatch.setattr(start, "node_seconds", lambda folder: 1.0)
    (table,) = start.run(True, quiet).tables
    nothing, node = table.rows
    assert nothing["target"] == 0.5
    assert 0 < nothing["best"] <= nothing["seconds"]
    assert node["seconds"] == 1.0


def test_a_busy_core_is_beside_every_other_turn(monkeypatch):
    monkeypatch.setattr(busy, "TASKS", {"a sum": "sum(range(100))"})
    monkeypatch.setattr(busy, "IMPORTS", "")
    (table,) = busy.run(True, quiet).tables
    (row,) = table.rows
    assert row["target"] == 2.2
    assert row["ratio"] == pytest.approx(row["ms beside"] / row["ms alone"])
