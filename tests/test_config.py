"""Configuration files: what they may say, and how mistakes in them are named."""

from __future__ import annotations

import re

import numpy as np
import pytest
from typer.testing import CliRunner

import barymesh as bm
from barymesh.cli import app
from barymesh.config import RunConfig, read_config
from barymesh.errors import ConfigError

MINIMAL = 'data = ["a.csv", "b.csv"]\nreg = 0.1\n'
FULL = """\
# all keys there are
data = ["a.csv", "folder"]
reg = 0.01
relative_reg = true
kind = "samples"
invert = true
support = "20:-3:3"
weights = [1, 2.5]
cost = "euclidean"
samples = 50
max_iter = 7
tol = 0
seed = 3
precision = "float32"
output = "results"
resume = true
"""


def config_file(folder, text):
    path = folder / "run.toml"
    path.write_text(text, encoding="utf-8")
    return path


def mistake(folder, text, *said):
    """Reading fails with a ConfigError that names the file and says all of ``said``."""
    path = config_file(folder, text)
    with pytest.raises(ConfigError) as caught:
        read_config(path)
    message = str(caught.value)
    for part in (str(path), *said):
        assert part in message
    assert "pydantic" not in message
    return message


def test_data_and_reg_are_enough(tmp_path):
    config = read_config(config_file(tmp_path, MINIMAL))
    assert config == RunConfig(data=["a.csv", "b.csv"], reg=0.1)
    assert config.support is None
    assert config.output == "out"
    assert not config.resume


def test_every_key_can_be_set(tmp_path):
    config = read_config(config_file(tmp_path, FULL))
    assert config.model_dump() == {
        "data": ["a.csv", "folder"],
        "reg": 0.01,
        "relative_reg": True,
        "kind": "samples",
        "invert": True,
        "support": "20:-3:3",
        "weights": [1.0, 2.5],
        "cost": "euclidean",
        "samples": 50,
        "max_iter": 7,
        "tol": 0.0,
        "seed": 3,
        "precision": "float32",
        "output": "results",
        "resume": True,
    }
    assert config.model_fields_set == set(RunConfig.model_fields)


def test_one_path_needs_no_list(tmp_path):
    assert read_config(config_file(tmp_path, 'data = "scans"\nreg = 1\n')).data == ["scans"]


@pytest.mark.parametrize("support", ["auto", "points.csv", "points.npy", "10:0:1", "10:-1.5:2.5", "8:0:1,8:0:0.5"])
def test_supports_that_can_be_written(tmp_path, support):
    assert read_config(config_file(tmp_path, MINIMAL + f'support = "{support}"\n')).support == support


def test_an_unknown_key_is_named_with_its_line_and_the_known_ones(tmp_path):
    message = mistake(tmp_path, MINIMAL + "# a comment\nregg = 1\n", "line 4", "'regg'")
    for key in RunConfig.model_fields:
        assert key in message


@pytest.mark.parametrize("table", ["[solver]\nfast = true\n", "[[solver]]\nfast = true\n", "solver.fast = true\n"])
def test_an_unknown_table_is_named_with_its_line(tmp_path, table):
    mistake(tmp_path, MINIMAL + "\n" + table, "line 4", "'solver'")


@pytest.mark.parametrize("value", ['"small"', "true", "[0.1]", "0", "-0.5", "nan", "inf"])
def test_a_bad_reg_is_named_with_its_line(tmp_path, value):
    mistake(tmp_path, f'data = ["a.csv"]\n\nreg = {value}\n', "line 3", "reg")


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ('max_iter = "many"', "max_iter"),
        ("max_iter = 10.5", "max_iter"),
        ("max_iter = 0", "max_iter"),
        ("tol = -1e-6", "tol"),
        ("tol = nan", "tol"),
        ("samples = 0", "samples"),
        ("seed = 1.5", "seed"),
        ("invert = 1", "invert"),
        ('resume = "yes"', "resume"),
        ('kind = "picture"', "kind"),
        ('precision = "float16"', "precision"),
        ("cost = 2", "cost"),
        ("output = 1", "output"),
        ('weights = "1,2"', "weights"),
        ('weights = [1, "two"]', "weights[1]"),
        ("support = 100", "support"),
    ],
)
def test_a_bad_value_is_named_with_its_line(tmp_path, line, key):
    mistake(tmp_path, MINIMAL + line + "\n", "line 3", key)


@pytest.mark.parametrize(("data", "item"), [("3", "data"), ("[]", "data"), ('["a.csv", 3]', "data[1]")])
def test_bad_data_is_named(tmp_path, data, item):
    mistake(tmp_path, f"reg = 1\ndata = {data}\n", "line 2", item)


@pytest.mark.parametrize(("text", "key"), [("reg = 1\n", "data"), ('data = ["a.csv"]\n', "reg")])
def test_a_missing_key_is_named_and_explained(tmp_path, text, key):
    mistake(tmp_path, text, f"'{key}' is missing", RunConfig.model_fields[key].description)


def test_an_empty_file_misses_both(tmp_path):
    assert len(mistake(tmp_path, "", "'data' is missing", "'reg' is missing").splitlines()) == 2


def test_several_mistakes_are_said_at_once(tmp_path):
    message = mistake(tmp_path, 'data = ["a.csv"]\nreg = -1\ntol = "low"\nfoo = 1\n', "line 2", "line 3", "line 4")
    assert len(message.splitlines()) == 3


@pytest.mark.parametrize("line", ["reg = ", "reg 0.1", 'support = "open', "seed = 1 2", "reg = 1\nreg = 2"])
def test_bad_syntax_names_the_line(tmp_path, line):
    message = mistake(tmp_path, f'data = ["a.csv"]\n{line}\ntol = 0.1\n', "TOML")
    assert re.search(r"line [234]", message)


def test_a_mark_at_the_start_of_the_file_does_no_harm(tmp_path):
    """Some editors on Windows put it there."""
    assert read_config(config_file(tmp_path, "\ufeff" + MINIMAL)).reg == 0.1


@pytest.mark.parametrize(
    "support", ["", "many points", "10", "10:0", "10:0:1:2", "ten:0:1", "0:0:1", "10:1:0", "10:0:1,x", "points.txt"]
)
def test_a_bad_support_is_named_with_its_line(tmp_path, support):
    message = mistake(tmp_path, MINIMAL + f'support = "{support}"\n', "line 3", "support")
    assert not message.endswith("..")


def test_a_support_too_large_for_any_memory_is_refused_before_it_is_made(tmp_path):
    """Ten to the fifteen points: more than a processor can address, so no machine really tries."""
    path = config_file(tmp_path, MINIMAL + 'support = "100000:0:1,100000:0:1,100000:0:1"\n')
    with pytest.raises(bm.BarymeshError):
        read_config(path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ConfigError, match=r"no configuration file .*none\.toml"):
        read_config(tmp_path / "none.toml")


def test_a_folder_or_binary_file_is_no_configuration(tmp_path):
    with pytest.raises(ConfigError, match=re.escape(str(tmp_path))):
        read_config(tmp_path)
    (tmp_path / "run.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match=r"run\.toml"):
        read_config(tmp_path / "run.toml")


def test_paths_are_relative_to_the_file_wherever_it_is_run(tmp_path, rng, monkeypatch):
    """Data, support and output: all from the configuration's own folder."""
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    (project / "data").mkdir(parents=True)
    elsewhere.mkdir()
    points = np.sort(rng.normal(size=12))
    np.savetxt(project / "points.csv", points)
    for name in "ab":
        np.savetxt(project / "data" / f"{name}.csv", rng.normal(size=8))
    config_file(project, 'data = "data"\nreg = 0.5\nsupport = "points.csv"\noutput = "results/first"\n')
    monkeypatch.chdir(elsewhere)
    done = CliRunner().invoke(app, ["run", "../project/run.toml", "--quiet"])
    assert done.exit_code == 0, done.output
    assert list(elsewhere.iterdir()) == []
    result = bm.load(project / "results" / "first" / "result.npz")
    np.testing.assert_array_equal(result.support.points[:, 0], np.loadtxt(project / "points.csv"))
    assert result.node_weights.shape == (2, 12)


def test_absolute_paths_stay_as_they_are(tmp_path, rng):
    (tmp_path / "project").mkdir()
    np.savetxt(tmp_path / "a.csv", rng.normal(size=8))
    config = config_file(
        tmp_path / "project",
        f'data = "{(tmp_path / "a.csv").as_posix()}"\nreg = 0.5\nsupport = "12:-2:2"\n'
        f'output = "{(tmp_path / "out").as_posix()}"\n',
    )
    done = CliRunner().invoke(app, ["run", str(config), "--quiet"])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "out" / "result.npz").exists()
