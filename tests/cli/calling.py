"""The command line, called in this process or in one of its own, and what it writes."""

from __future__ import annotations

import csv
import json
import subprocess
import sys

import numpy as np
from PIL import Image as Pillow
from typer.testing import CliRunner

import barymesh as bm
from barymesh.cli.app import app

OUTPUTS = ["barycenter.png", "recording.npz", "result.npz", "summary.json", "weights.csv"]
# a guard against hanging, not a measurement
PATIENCE = 600
ABC = ("barycenter", "a.csv", "b.csv", "c.csv", "--reg", 0.2, "--support", "25:-3:5")


def call(*arguments):
    """Run a command; it must end with an exit code and without a traceback."""
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if not isinstance(done.exception, SystemExit | None):
        raise done.exception
    assert "Traceback" not in done.output
    return done


def call_apart(*arguments):
    """Run the command line in a process of its own, as a user does."""
    command = [sys.executable, "-m", "barymesh", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)


def abc_by_the_api(**options):
    measures = bm.read_measures(["a.csv", "b.csv", "c.csv"])
    return bm.barycenter(measures, np.linspace(-3, 5, 25), **{"reg": 0.2, **options})


def table(path):
    with path.open(newline="") as file:
        header, *rows = csv.reader(file)
    return header, np.array(rows, dtype=float)


def outputs_agree(folder, expected):
    """All four files are there, and say what the API says."""
    assert sorted(path.name for path in folder.iterdir()) == OUTPUTS
    result = bm.load(folder / "result.npz")
    np.testing.assert_array_equal(result.support.points, expected.support.points)
    np.testing.assert_array_equal(result.weights, expected.weights)
    np.testing.assert_array_equal(result.duals, expected.duals)
    header, rows = table(folder / "weights.csv")
    d = expected.support.dimension
    assert len(header) == d + 1
    assert header[-1] == "weight"
    np.testing.assert_array_equal(rows[:, :d], result.support.points)
    np.testing.assert_array_equal(rows[:, d], result.weights)
    assert json.loads((folder / "summary.json").read_text()) == result.summary()
    changing = {"seconds"}
    for name in set(result.summary()) - changing:
        assert result.summary()[name] == expected.summary()[name]
    with Pillow.open(folder / "barycenter.png") as picture:
        picture.load()
        assert picture.format == "PNG"
        assert min(picture.size) > 100
