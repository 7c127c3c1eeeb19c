"""The command line: what it writes, and what it prints where."""

from __future__ import annotations

import gzip
import json
import os
import struct
import warnings

import numpy as np
import pytest
import typer.main
from PIL import Image as Pillow

import barymesh as bm
from barymesh.cli.app import app
from barymesh.cli.config import RUN, CommandOptions
from barymesh.errors import AccuracyWarning
from barymesh.options import EXACT, Options
from tests.cli.calling import ABC, OUTPUTS, abc_by_the_api, call, call_apart, outputs_agree, table

COMMANDS = sorted(typer.main.get_command(app).commands)

# what may be given


def test_every_option_that_means_something_without_a_network_is_a_flag():
    """The flags are made from the models: an option that is added there appears here by itself."""
    command = typer.main.get_command(app).commands["barycenter"]
    flags = {one.name: one for one in command.params}
    wanted = {name for name, one in Options.fields().items() if one.metadata["text"] and EXACT in _places(one)}
    shared = wanted - {"method", "reg", "resume"}
    wanted |= {name for name, one in CommandOptions.fields().items() if RUN in _places(one, RUN)}
    assert set(flags) == wanted - {"method"} | {"watched", "as_json", "quiet"}
    for name in shared:
        assert flags[name].default == Options.fields()[name].default, name
    assert flags["reg"].required
    assert "regularisation" in flags["reg"].help


def _places(one, otherwise=EXACT):
    return one.metadata["places"] or (otherwise,)


def test_warnings_are_plain_lines(inside, monkeypatch):
    def computed(*given, **options):
        warnings.warn("the points are far apart", AccuracyWarning, stacklevel=1)
        return by_the_api

    by_the_api = abc_by_the_api()
    monkeypatch.setattr("barymesh.api.barycenter", computed)
    done = call(*ABC, "-q")
    assert done.stderr == "Warning: the points are far apart\n"
    assert json.loads(call(*ABC, "--json").stdout)["warnings"] == ["the points are far apart"]


# what is computed


def test_barycenter_of_csv_files(inside):
    done = call(*ABC)
    assert done.exit_code == 0
    outputs_agree(inside / "out", abc_by_the_api())
    assert "Converged" in done.stdout
    for name in OUTPUTS[:2]:
        assert name in done.stdout


def test_the_weights_written_can_be_read_again_as_a_measure(inside):
    call(*ABC, "-q")
    (measure,) = bm.read_measures(inside / "out" / "weights.csv", weight_column="weight")
    result = bm.load(inside / "out" / "result.npz")
    np.testing.assert_array_equal(measure.points, result.support.points)
    np.testing.assert_allclose(measure.weights, result.weights, rtol=1e-12)


def test_barycenter_of_a_folder_of_pictures(tmp_path, rng):
    (tmp_path / "scans").mkdir()
    for name in ("one", "two", "three"):
        Pillow.fromarray(rng.integers(0, 256, (6, 8), dtype=np.uint8)).save(tmp_path / "scans" / f"{name}.png")
    done = call("barycenter", tmp_path / "scans", "--reg", 0.05, "--invert", "-o", tmp_path / "mean", "-q")
    assert done.exit_code == 0
    expected = bm.barycenter(bm.read_measures(tmp_path / "scans", invert=True), reg=0.05)
    outputs_agree(tmp_path / "mean", expected)
    assert bm.load(tmp_path / "mean" / "result.npz").image.shape == (6, 8)


@pytest.mark.parametrize("name", ["digits-idx3-ubyte", "digits-idx3-ubyte.gz"])
def test_barycenter_of_an_idx_file(tmp_path, rng, name):
    digits = rng.integers(1, 256, (4, 5, 5), dtype=np.uint8)
    raw = struct.pack(">BBBB3I", 0, 0, 8, 3, *digits.shape) + digits.tobytes()
    (tmp_path / name).write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    done = call("barycenter", tmp_path / name, "--reg", 0.05, "-o", tmp_path / "out", "-q")
    assert done.exit_code == 0
    outputs_agree(tmp_path / "out", bm.barycenter(digits, reg=0.05))


def test_a_stack_in_an_npy_file_and_what_it_is(tmp_path, rng):
    stack = rng.random((3, 10))
    np.save(tmp_path / "stack.npy", stack)
    common = ("barycenter", tmp_path / "stack.npy", "--reg", 0.1, "--support", "10:0:1", "-q")
    assert call(*common, "-o", tmp_path / "out").exit_code == 0
    outputs_agree(tmp_path / "out", bm.barycenter(stack, np.linspace(0, 1, 10), reg=0.1))
    assert call(*common, "-o", tmp_path / "said", "--as", "histogram").exit_code == 0
    outputs_agree(tmp_path / "said", bm.barycenter(stack, np.linspace(0, 1, 10), reg=0.1))


def test_options_reach_the_computation(inside):
    options = ("--relative", "--cost", "euclidean", "--tol", 1e-4, "--precision", "float32", "--weights", "3,1,0.5")
    assert call(*ABC, *options, "-q").exit_code == 0
    expected = abc_by_the_api(
        relative_reg=True, cost="euclidean", tol=1e-4, precision="float32", weights=[3.0, 1.0, 0.5]
    )
    outputs_agree(inside / "out", expected)


@pytest.fixture
def people(inside):
    """Two tables of people, with their names."""
    for name, rows in (("north", "Smith,180,70,1\nJones,170,65,3\n"), ("south", "Rossi,160,60,1\nBianchi,175,80,1\n")):
        (inside / f"{name}.csv").write_text(f"patient,height,weight,visits\n{rows}")
    return inside


@pytest.mark.parametrize("how", ["options", "configuration"])
def test_columns_and_their_names(people, how):
    """Height and weight are coordinates, visits are mass, names are not looked at."""
    if how == "options":
        chosen = ("--columns", "height,weight", "--weight-column", "visits")
        done = call("barycenter", "north.csv", "south.csv", "--reg", 5, "--support", "6:155:185,6:55:85", *chosen)
    else:
        (people / "run.toml").write_text(
            'data = ["north.csv", "south.csv"]\nreg = 5\nsupport = "6:155:185,6:55:85"\n'
            'columns = ["height", 3]\nweight_column = "visits"\n'
        )
        done = call("run", "run.toml")
    assert done.exit_code == 0
    header, rows = table(people / "out" / "weights.csv")
    assert header == ["height", "weight", "mass"]
    north = bm.Empirical([[180, 70], [170, 65]], [1, 3])
    south = bm.Empirical([[160, 60], [175, 80]])
    expected = bm.barycenter([north, south], bm.Support.regular((6, 6), (155, 55), (185, 85)), reg=5)
    np.testing.assert_array_equal(rows[:, 2], expected.weights)


def test_a_column_of_text_is_refused_by_its_name_and_line_only(people):
    done = call("barycenter", "north.csv", "south.csv", "--reg", 5)
    assert done.exit_code == 3
    assert "north.csv, line 2, patient" in done.output
    assert "Smith" not in done.output


def test_tables_with_columns_in_another_order_are_not_mixed_up(people):
    (people / "south.csv").write_text("weight,height\n60,160\n80,175\n")
    done = call("barycenter", "north.csv", "south.csv", "--reg", 5, "--columns", "height,weight")
    assert done.exit_code == 0
    (people / "north.csv").write_text("height,weight\n180,70\n")
    done = call("barycenter", "north.csv", "south.csv", "--reg", 5)
    assert done.exit_code == 3
    assert "another order" in done.output
    assert "--columns" in done.output


def test_weights_change_the_barycenter(inside):
    assert call(*ABC, "--weights", "8,1,1", "-q").exit_code == 0
    outputs_agree(inside / "out", abc_by_the_api(weights=[8, 1, 1]))
    (z, weighted), equal = table(inside / "out" / "weights.csv")[1].T, abc_by_the_api().weights
    assert z @ weighted < z @ equal


def test_supports_on_the_command_line(inside, rng):
    points = np.sort(rng.normal(size=15))
    np.savetxt("points.csv", points)
    np.save("points.npy", points[:, None])
    files = ("barycenter", "a.csv", "b.csv", "--reg", 0.2, "-q", "--support")
    for support in ("points.csv", "points.npy"):
        assert call(*files, support).exit_code == 0
        np.testing.assert_array_equal(bm.load("out/result.npz").support.points[:, 0], points)
    assert call(*files, "auto").exit_code == 0
    assert "range of all 2 measures" in bm.load("out/result.npz").support.reason


def test_the_gap_of_points_that_move_is_for_these_points(inside):
    files = ("barycenter", "a.csv", "b.csv", "c.csv", "--reg", 0.2, "--tol", 1e-3)
    assert "best possible on these points)" in call(*files, "--support", "free:n=4").stdout
    assert "best possible)" in call(*files).stdout


def test_the_bounds_of_a_grid_may_have_a_decimal_point(inside):
    assert call("barycenter", "a.csv", "--reg", 0.2, "--support", "12:-2.5:3.5", "-q").exit_code == 0
    np.testing.assert_allclose(bm.load("out/result.npz").support.points[:, 0], np.linspace(-2.5, 3.5, 12))


def test_run_does_what_barycenter_does(inside):
    (inside / "run.toml").write_text(
        'data = ["a.csv", "b.csv", "c.csv"]\nreg = 0.05\nrelative_reg = true\nsupport = "25:-3:5"\n'
        'weights = [1, 2, 3]\ncost = "euclidean"\ntol = 1e-5\nmax_iter = 900\noutput = "by-config"\n'
    )
    by_config = call("run", "run.toml", "--json")
    by_options = call(
        *("barycenter", "a.csv", "b.csv", "c.csv", "--reg", 0.05, "--relative", "--support", "25:-3:5"),
        *("--weights", "1,2,3", "--cost", "euclidean", "--tol", 1e-5, "--max-iter", 900, "-o", "by-options", "--json"),
    )
    assert by_config.exit_code == by_options.exit_code == 0
    outputs_agree(inside / "by-config", bm.load("by-options/result.npz"))
    one, two = json.loads(by_config.stdout), json.loads(by_options.stdout)
    for summary in (one, two):
        del summary["seconds"], summary["files"]
    assert one == two


# what is printed where


@pytest.mark.parametrize("support", ["25:-3:5", "auto"])
def test_json_prints_one_object_and_nothing_else(inside, support):
    done = call("barycenter", "a.csv", "b.csv", "--reg", 0.2, "--support", support, "--json")
    assert done.exit_code == 0
    printed = json.loads(done.stdout, parse_constant=pytest.fail)
    files = printed.pop("files")
    assert sorted(os.path.basename(path) for path in files.values()) == OUTPUTS
    assert all(os.path.exists(path) for path in files.values())
    assert printed.pop("warnings") == []
    assert printed == json.loads((inside / "out" / "summary.json").read_text())


def test_json_in_a_process_of_its_own(inside):
    done = call_apart(*ABC, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"] == "CONVERGED"
    assert done.stderr == ""


def test_json_says_errors_on_both_outputs(inside):
    done = call("barycenter", "missing.csv", "--reg", 0.2, "--json")
    assert done.exit_code == 3
    printed = json.loads(done.stdout)
    assert printed["error"] == "FileError"
    assert "missing.csv" in printed["message"]
    assert "missing.csv" in done.stderr


def test_progress_goes_to_the_standard_error_and_quiet_stops_it(inside):
    shown = call(*ABC)
    assert "iteration" in shown.stderr
    quiet = call(*ABC, "--quiet")
    assert quiet.stderr == ""
    assert "Converged" in quiet.stdout


def test_errors_go_to_the_standard_error_without_a_traceback(inside):
    done = call_apart("barycenter", "missing.csv", "--reg", 0.1)
    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr.startswith("Error: ")
    assert "missing.csv" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command_has_an_example_and_the_exit_codes(command):
    done = call(command, "--help")
    assert done.exit_code == 0
    assert "Example" in done.stdout
    for part in ("Exit codes", "0 converged", "2 wrong", "3 bad", "4 stopped", "5 out of time", "130 interrupted"):
        assert part in " ".join(done.stdout.split())


def test_help_lists_the_commands():
    done = call("--help")
    assert done.exit_code == 0
    for command in COMMANDS:
        assert command in done.stdout
    assert {"barycenter", "run"} <= set(COMMANDS)


def test_version():
    assert call("--version").stdout == f"barymesh {bm.__version__}\n"
    done = call_apart("--version")
    assert (done.returncode, done.stdout) == (0, f"barymesh {bm.__version__}\n")
