"""The command line: what it writes, what it prints where, and how it ends."""

from __future__ import annotations

import csv
import gzip
import json
import os
import struct
import subprocess
import sys
import warnings
from contextlib import contextmanager

import numpy as np
import pytest
import typer.main
from PIL import Image as Pillow

import barymesh as bm
from barymesh.cli.app import app
from barymesh.cli.config import RUN, CommandOptions
from barymesh.errors import AccuracyWarning
from barymesh.options import EXACT, Options
from tests.cli.calling import call
from tests.terminal import interrupted_on_a_terminal

OUTPUTS = ["barycenter.png", "recording.npz", "result.npz", "summary.json", "weights.csv"]
COMMANDS = sorted(typer.main.get_command(app).commands)
# a guard against hanging, not a measurement
PATIENCE = 600


@pytest.fixture
def inside(tmp_path, monkeypatch):
    """A folder with a.csv, b.csv and c.csv on the line, made the current one."""
    rng = np.random.default_rng(3)
    for k, name in enumerate("abc"):
        np.savetxt(tmp_path / f"{name}.csv", rng.normal(size=12) + k, header="x", comments="")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call_apart(*arguments):
    """Run the command line in a process of its own, as a user does."""
    command = [sys.executable, "-m", "barymesh", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)


ABC = ("barycenter", "a.csv", "b.csv", "c.csv", "--reg", 0.2, "--support", "25:-3:5")


def abc_by_the_api(**options):
    measures = bm.read_measures(["a.csv", "b.csv", "c.csv"])
    return bm.barycenter(measures, np.linspace(-3, 5, 25), **{"reg": 0.2, **options})


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


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


# how it ends


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


# Ctrl-C


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
