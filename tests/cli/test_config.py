"""Configuration files: what they may say, and how mistakes in them are named."""

from __future__ import annotations

import re

import numpy as np
import pytest
from typer.testing import CliRunner

import barymesh as bm
from barymesh.cli.app import app
from barymesh.cli.config import Gaussians, RunConfig, SimulateConfig, read_config
from barymesh.errors import ConfigError, FileError
from barymesh.scenario.faults import FAULTS
from barymesh.specification import build_named

MINIMAL = 'data = ["a.csv", "b.csv"]\nreg = 0.1\n'
FULL = """\
# all keys there are
data = ["a.csv", "folder"]
reg = 0.01
relative_reg = true
kind = "samples"
invert = true
columns = ["x", 2]
weight_column = "mass"
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


def mistake(folder, text, *said, kind=RunConfig):
    """Reading fails with a ConfigError that names the file and says all of ``said``."""
    path = config_file(folder, text)
    with pytest.raises(ConfigError) as caught:
        read_config(path, kind)
    message = str(caught.value)
    for part in (str(path), *said):
        assert part in message
    assert "pydantic" not in message
    return message


def test_data_and_reg_are_enough(tmp_path):
    config = read_config(config_file(tmp_path, MINIMAL), RunConfig)
    assert config == RunConfig(data=["a.csv", "b.csv"], reg=0.1)
    assert config.support is None
    assert config.output == "out"
    assert not config.resume


def test_every_key_can_be_set(tmp_path):
    config = read_config(config_file(tmp_path, FULL), RunConfig)
    assert config.model_dump() == {
        "data": ["a.csv", "folder"],
        "reg": 0.01,
        "relative_reg": True,
        "kind": "samples",
        "invert": True,
        "columns": ["x", 2],
        "weight_column": "mass",
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
    assert read_config(config_file(tmp_path, 'data = "scans"\nreg = 1\n'), RunConfig).data == ["scans"]


@pytest.mark.parametrize("support", ["auto", "points.csv", "points.npy", "10:0:1", "10:-1.5:2.5", "8:0:1,8:0:0.5"])
def test_supports_that_can_be_written(tmp_path, support):
    assert read_config(config_file(tmp_path, MINIMAL + f'support = "{support}"\n'), RunConfig).support == support


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
    assert read_config(config_file(tmp_path, "\ufeff" + MINIMAL), RunConfig).reg == 0.1


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
        read_config(path, RunConfig)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileError, match=r"no file .*none\.toml"):
        read_config(tmp_path / "none.toml", RunConfig)


@pytest.mark.parametrize(("key", "digits"), [("seed", 6000), ("reg", 6000), ("reg", 4000), ("reg", 400)])
def test_endless_integers_are_refused(tmp_path, key, digits):
    text = f'data = "a.csv"\n{"" if key == "reg" else "reg = 1"}\n{key} = {"9" * digits}\n'
    with pytest.raises(ConfigError, match=r"run\.toml"):
        read_config(config_file(tmp_path, text), RunConfig)


def test_a_folder_or_binary_file_is_no_configuration(tmp_path):
    with pytest.raises(FileError, match=re.escape(str(tmp_path))):
        read_config(tmp_path, RunConfig)
    (tmp_path / "run.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileError, match=r"run\.toml"):
        read_config(tmp_path / "run.toml", RunConfig)


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


# networks

DRAWN = "gaussians = {count = 6, mean = [-2, 3], std = [0.1, 0.5]}"
NETWORK = f'{DRAWN}\nreg = 0.1\nnetwork = "cycle"\n'
FULL_NETWORK = """\
reg = 0.01
relative_reg = true
kind = "samples"
invert = true
columns = ["x", 2]
weight_column = "mass"
support = "20:-3:3"
weights = [1, 2.5]
cost = "euclidean"
samples = 50
seed = 3
precision = "float32"
output = "results"
data = "a.csv"
network = "erdos_renyi:p=0.5"
method = "dcwb"
methods = ["dcwb", "a2dwb"]
duration = 5
delays = "uniform:low=0.1,high=0.5"
schedule = "poisson:rate=3"
faults = ["loss:probability=0.2"]
events = ["leave:node=1,at=3"]
step = 0.5
steps = {dcwb = 0.25}
frugal = true
tol = 1e-3
batch = "growing:epsilon=0.1"
record_every = 0.5
reference = true
snapshots = true
animation = "html"
"""


def network_config(folder, text):
    return read_config(config_file(folder, text), SimulateConfig)


def network_mistake(folder, text, *said):
    return mistake(folder, text, *said, kind=SimulateConfig)


def test_measures_reg_and_network_are_enough_for_a_simulation(tmp_path):
    config = network_config(tmp_path, NETWORK)
    assert config.method == "sinkhorn"
    assert (config.duration, config.record_every, config.tol) == (60, 1, 1e-6)
    assert config.batch is None
    assert config.step is None
    assert config.animation is None


def test_every_key_of_a_simulation_can_be_set(tmp_path):
    config = network_config(tmp_path, FULL_NETWORK)
    for key in set(SimulateConfig.model_fields) - {"gaussians"}:
        assert re.search(rf"^{key} = ", FULL_NETWORK, re.MULTILINE), key
        assert getattr(config, key) != SimulateConfig.model_fields[key].default, key
    options = config.running_options(tmp_path)
    assert repr(options["delays"]) == "Uniform(low=0.1, high=0.5)"
    assert options["faults"] == ["loss:probability=0.2"]
    assert options["snapshots"]
    steps = [config.step_for(method) for method in ("dcwb", "a2dwb", "sinkhorn")]
    assert steps == [0.25, 0.5, None]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("steps = {bregman = 1}", "bregman"), ("steps = {sinkhorn = 1}", "no step"), ("steps = {dcwb = 0}", "positive"),
        ('events = ["vanish:node=1"]', "vanish"), ("tol = -1", "tol"),
    ],
)  # fmt: skip
def test_bad_steps_events_and_tolerances_are_named(tmp_path, text, said):
    mistake(tmp_path, NETWORK + text + "\n", said, kind=SimulateConfig)


def test_run_and_simulate_know_the_same_keys_of_a_problem():
    own = {"max_iter", "resume"}
    assert set(RunConfig.model_fields) - own < set(SimulateConfig.model_fields)
    assert not own & set(SimulateConfig.model_fields)


@pytest.mark.parametrize(("value", "kind"), [("true", "gif"), ("false", None), ('"mp4"', "mp4"), ('"html"', "html")])
def test_an_animation_is_a_kind_and_needs_snapshots(tmp_path, value, kind):
    config = network_config(tmp_path, NETWORK + f"animation = {value}\n")
    assert config.animation == kind
    assert not config.snapshots
    assert config.running_options(tmp_path)["snapshots"] is (kind is not None)


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ('{kind = "loss", probability = 0.2}', "loss:probability=0.2"),
        (
            '{kind = "crash", node = 3, start = 10, stop = 20.5, memory = false}',
            "crash:node=3,start=10,stop=20.5,memory=false",
        ),
        ('{kind = "sleep", node = 1, start = 2, stop = inf}', "sleep:node=1,start=2"),
    ],
)
def test_a_fault_may_be_a_text_or_a_table(tmp_path, table, text):
    def built(given):
        (fault,) = network_config(tmp_path, NETWORK + f"faults = {given}\n").faults
        return build_named(fault, FAULTS, "fault", ConfigError)

    assert built(f"[{table}]") == built(f'["{text}"]') == built(f'"{text}"')


def test_faults_may_be_tables_with_a_heading(tmp_path):
    config = network_config(tmp_path, NETWORK + '[[faults]]\nkind = "loss"\nprobability = 0.1\n')
    assert config.faults == ["loss:probability=0.1"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('method = "bregman"', "a2dwb_naive"),
        ('methods = ["dcwb", "best"]', "'best'"),
        ("methods = []", "methods"),
        ("duration = 0", "duration"),
        ("duration = inf", "duration"),
        ('record_every = "often"', "record_every"),
        ("record_every = -1", "record_every"),
        ('delays = "long"', "lognormal"),
        ('delays = "uniform:least=1"', "'least'"),
        ('schedule = "never"', "poisson"),
        ('faults = ["fire"]', "link_down"),
        ('faults = ["loss"]', "'probability'"),
        ("faults = [{probability = 0.1}]", "kind"),
        ('faults = [{kind = "loss", share = 0.1}]', "'share'"),
        ("faults = [3]", "faults[0]"),
        ("step = 0", "positive"),
        ("step = true", "theory"),
        ('step = "practice"', "'practice'"),
        ("batch = 0", "at least 1"),
        ("batch = 1.5", "whole number"),
        ('batch = "some"', "'some'"),
        ('reference = "yes"', "reference"),
        ("snapshots = 1", "snapshots"),
        ('animation = "avi"', "gif, mp4, html"),
        ("animation = 3", "3"),
        ("max_iter = 5", "unknown key 'max_iter'"),
    ],
)
def test_a_bad_value_of_a_simulation_is_named_with_its_line(tmp_path, line, said):
    message = network_mistake(tmp_path, NETWORK + line + "\n", "line 4", line.split()[0], said)
    assert len(message.splitlines()) == 1
    assert not message.endswith("..")


@pytest.mark.parametrize("network", ["smallworld", "", "erdos", "net.json"])
def test_an_unknown_network_lists_the_known_ones(tmp_path, network):
    text = f'{DRAWN}\nreg = 0.1\nnetwork = "{network}"\n'
    network_mistake(tmp_path, text, "line 3", f"'{network}'", "erdos_renyi", "cycle", ".csv")


@pytest.mark.parametrize("sources", ["", f'data = "a.csv"\n{DRAWN}\n'])
def test_measures_come_from_exactly_one_place(tmp_path, sources):
    network_mistake(tmp_path, f'{sources}reg = 0.1\nnetwork = "cycle"\n', "'data'", "'gaussians'", "exactly one")


@pytest.mark.parametrize(
    ("inside", "said"),
    [
        ("count = 0, mean = [0, 1], std = [1, 1]", "gaussians.count"),
        ("mean = [0, 1], std = [1, 1]", "'gaussians.count' is missing. It holds how many"),
        ("count = 2, mean = [1, 0], std = [1, 1]", "wrong way round"),
        ("count = 2, mean = 1, std = [1, 1]", "gaussians.mean"),
        ("count = 2, mean = [0, 1, 2], std = [1, 1]", "gaussians.mean"),
        ("count = 2, mean = [0, inf], std = [1, 1]", "gaussians.mean[1]"),
        ("count = 2, mean = [0, 1], std = [0, 1]", "not positive"),
        ("count = 2, mean = [0, 1], std = [1, 1], sd = 3", "'gaussians.sd'. Known keys: count, mean, std"),
    ],
)
def test_mistakes_in_drawn_measures_are_named(tmp_path, inside, said):
    network_mistake(tmp_path, f'reg = 0.1\nnetwork = "cycle"\ngaussians = {{{inside}}}\n', "line 3", said)


def test_drawn_measures_lie_in_their_ranges_and_depend_on_the_seed_alone():
    drawn = Gaussians(count=400, mean=[-2, 3], std=[0.1, 0.5], dimension=2, seed=5)
    measures = drawn.draw()
    means = np.array([measure.mean for measure in measures])
    deviations = np.sqrt([np.diag(measure.cov) for measure in measures])
    assert means.shape == deviations.shape == (400, 2)
    assert -2 <= means.min() < -1.8
    assert 2.8 < means.max() <= 3
    assert 0.1 - 1e-12 <= deviations.min() < 0.12
    assert 0.48 < deviations.max() <= 0.5 + 1e-12
    np.testing.assert_array_equal(means, [measure.mean for measure in drawn.draw()])
    other = drawn.model_copy(update={"seed": 6}).draw()
    assert not np.array_equal(means, [measure.mean for measure in other])


def test_files_of_a_network_are_beside_the_configuration(tmp_path):
    text = f'{DRAWN}\nreg = 0.1\nnetwork = "net.edges"\ndelays = "trace:seconds=delays.txt"\n'
    config = network_config(tmp_path, text)
    assert config.network_from(tmp_path) == tmp_path / "net.edges"
    assert config.running_options(tmp_path)["delays"].seconds == tmp_path / "delays.txt"
    assert network_config(tmp_path, NETWORK).network_from(tmp_path) == "cycle"
