"""Configuration files: what they may say, and how mistakes in them are named."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import barymesh as bm
from barymesh.cli.app import app
from barymesh.cli.config import COMPARE, RUN, SIMULATE, CommandOptions, Gaussians
from barymesh.cli.config_file import errors_with_lines, key_help, known_keys, read_config
from barymesh.errors import BarymeshError, ConfigError, FileError, OptionError, WeightError
from barymesh.options import ENGINES, Options
from barymesh.options.model import is_needed
from barymesh.scenario import Crash, Loss, Sleep

MINIMAL = 'data = ["a.csv", "b.csv"]\nreg = 0.1\n'
SHARED = """\
reg = 0.01
relative_reg = true
kind = "samples"
invert = true
support = "20:-3:3"
weights = [1, 2.5]
columns = ["x", 2]
weight_column = "mass"
by = "site"
cost = "euclidean"
samples = 50
seed = 3
precision = "float32"
output = "results"
"""
FULL = f"""\
# all keys there are
data = ["a.csv", "folder"]
{SHARED}max_iter = 7
tol = 0
resume = true
method = "sinkhorn"
debias = true
"""


def config_file(folder, text):
    path = folder / "run.toml"
    path.write_text(text, encoding="utf-8")
    return path


def mistake(folder, text, *said, command=RUN, given=None):
    """Reading fails with a ConfigError that names the file and says all of ``said``."""
    path = config_file(folder, text)
    with pytest.raises(ConfigError) as caught:
        read_config(path, command, given)
    message = str(caught.value)
    for part in (str(path), *said):
        assert part in message
    return message


def run_config(folder, text):
    return read_config(config_file(folder, text), RUN)


def test_data_and_reg_are_enough(tmp_path):
    config = run_config(tmp_path, MINIMAL)
    assert config.command == CommandOptions(data=[tmp_path / "a.csv", tmp_path / "b.csv"], output=tmp_path / "out")
    assert config.options == {"reg": 0.1}


def test_every_key_can_be_set(tmp_path):
    config = run_config(tmp_path, FULL)
    options, own = dict(config.options), config.command
    assert options.pop("weights").tolist() == [1.0, 2.5]
    np.testing.assert_array_equal(options.pop("support").points, bm.Support.regular(20, -3, 3).points)
    assert options == {
        "reg": 0.01, "relative_reg": True, "cost": "euclidean", "samples": 50, "max_iter": 7, "tol": 0.0, "seed": 3,
        "precision": "float32", "method": "sinkhorn", "debias": True,
    }  # fmt: skip
    assert own.data == [tmp_path / "a.csv", tmp_path / "folder"]
    assert (own.columns, own.weight_column, own.by) == (["x", 2], "mass", "site")
    assert (own.kind, own.invert, own.output, own.resume) == ("samples", True, tmp_path / "results", True)
    assert {line.split(" = ")[0] for line in FULL.splitlines()[1:]} == set(known_keys(RUN))


def test_keys_and_options_are_one_list():
    """Every option that can be written as text is a key of some command, and nothing else is but the commands' own."""
    keys = {key for command in (RUN, SIMULATE, COMPARE) for key in known_keys(command)}
    options = {name for name, one in Options.fields().items() if one.metadata["text"]}
    assert keys == options | set(CommandOptions.fields())
    assert set(known_keys(SIMULATE)) == set(known_keys(COMPARE))


def test_one_path_needs_no_list(tmp_path):
    assert run_config(tmp_path, 'data = "scans"\nreg = 1\n').command.data == [tmp_path / "scans"]


@pytest.mark.parametrize(
    ("support", "size"),
    [("auto", None), ("points.csv", 3), ("points.npy", 3), ("10:0:1", 10), ("10:-1.5:2.5", 10), ("8:0:1,8:0:0.5", 64)],
)
def test_supports_that_can_be_written(tmp_path, support, size):
    np.savetxt(tmp_path / "points.csv", [0.5, 1.0, 2.5])
    np.save(tmp_path / "points.npy", [0.5, 1.0, 2.5])
    found = run_config(tmp_path, MINIMAL + f'support = "{support}"\n').options["support"]
    assert found == "auto" if size is None else found.size == size


def test_an_unknown_key_is_named_with_its_line_and_the_known_ones(tmp_path):
    message = mistake(tmp_path, MINIMAL + "# a comment\nregg = 1\n", "line 4", "'regg'")
    for key in known_keys(RUN):
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
        ("columns = []", "columns"),
        ("columns = [1.5]", "columns"),
        ("weight_column = true", "weight_column"),
        ('resume = "yes"', "resume"),
        ('kind = "picture"', "kind"),
        ('precision = "float16"', "precision"),
        ("cost = 2", "cost"),
        ("output = 1", "output"),
        ('weights = "1,2"', "weights"),
        ('weights = [1, "two"]', "weights"),
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
    mistake(tmp_path, text, f"'{key}' is missing", key_help(key))


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
    assert run_config(tmp_path, "\ufeff" + MINIMAL).options["reg"] == 0.1


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
        read_config(path, RUN)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileError, match=r"no file .*none\.toml"):
        read_config(tmp_path / "none.toml", RUN)


@pytest.mark.parametrize(("key", "digits"), [("seed", 6000), ("reg", 6000), ("reg", 4000), ("reg", 400)])
def test_endless_integers_are_refused(tmp_path, key, digits):
    text = f'data = "a.csv"\n{"" if key == "reg" else "reg = 1"}\n{key} = {"9" * digits}\n'
    with pytest.raises(ConfigError, match=r"run\.toml"):
        read_config(config_file(tmp_path, text), RUN)


def test_a_folder_or_binary_file_is_no_configuration(tmp_path):
    with pytest.raises(FileError, match=re.escape(str(tmp_path))):
        read_config(tmp_path, RUN)
    (tmp_path / "run.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileError, match=r"run\.toml"):
        read_config(tmp_path / "run.toml", RUN)


def test_paths_are_relative_to_the_file_wherever_it_is_run(tmp_path, rng, monkeypatch):
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


@pytest.mark.parametrize("absolute", [True, False])
def test_paths_elsewhere_are_shown_without_detours(tmp_path, rng, monkeypatch, absolute):
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path)
    np.savetxt("a.csv", rng.normal(size=8))
    above = tmp_path.as_posix() if absolute else ".."
    text = f'data = "{above}/a.csv"\nreg = 0.5\nsupport = "12:-2:2"\noutput = "{above}/out"\n'
    done = CliRunner().invoke(app, ["run", str(config_file(tmp_path / "project", text))])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "out" / "result.npz").exists()
    assert f" {tmp_path / 'out' if absolute else 'out'}" in done.stdout.replace("\n", "")
    assert ".." not in done.stdout


# networks

DRAWN = "gaussians = {count = 6, mean = [-2, 3], std = [0.1, 0.5]}"
NETWORK = f'{DRAWN}\nreg = 0.1\nnetwork = "cycle"\n'
FULL_NETWORK = f"""\
{SHARED}data = "a.csv"
network = "erdos_renyi:p=0.5"
method = "dcwb"
methods = ["dcwb", "a2dwb"]
duration = 5
delays = "uniform:low=0.1,high=0.5"
schedule = "poisson:rate=3"
faults = ["loss:probability=0.2"]
events = ["leave:node=1,at=3"]
step = 0.5
steps = {{dcwb = 0.25}}
tol = 1e-3
batch = "growing:epsilon=0.1"
record_every = 0.5
reference = true
snapshots = true
masks = true
debias = true
animation = "html"
"""


ENGINES_ONLY = [
    name
    for name, one in Options.fields().items()
    if one.metadata["text"] and one.metadata["places"] and "exact" not in one.metadata["places"]
]


def network_config(folder, text, **given):
    return read_config(config_file(folder, text), SIMULATE, given)


def network_mistake(folder, text, *said, **given):
    return mistake(folder, text, *said, command=SIMULATE, given=given)


def test_measures_reg_and_network_are_enough_for_a_simulation(tmp_path):
    config = network_config(tmp_path, NETWORK)
    assert config.options == {"reg": 0.1, "network": "cycle"}
    assert config.command.gaussians == Gaussians(count=6, mean=[-2, 3], std=[0.1, 0.5])
    assert config.command.animation is None


def test_every_key_of_a_simulation_can_be_set(tmp_path):
    for command in (SIMULATE, COMPARE):
        config = read_config(config_file(tmp_path, FULL_NETWORK), command)
        keys = {line.split(" = ")[0] for line in FULL_NETWORK.splitlines()}
        workers = {"engine", "workers", "interval", "address", "folder"}
        assert keys == set(known_keys(command)) - {"gaussians"} - workers
        for key in keys:
            own = key in CommandOptions.fields()
            value = getattr(config.command, key) if own else config.options[key]
            one = known_keys(command)[key]
            assert is_needed(one) or repr(value) != repr(one.default), key
        assert repr(config.options["delays"]) == "Uniform(low=0.1, high=0.5)"
        assert config.options["faults"] == (Loss(0.2),)
        assert [config.step_for(method) for method in ("dcwb", "a2dwb", "sinkhorn")] == [0.25, 0.5, None]


def test_keys_of_workers(tmp_path):
    text = NETWORK + 'engine = "ray"\nworkers = 3\ninterval = 0.5\naddress = "10.0.0.1:6379"\nfolder = "state"\n'
    options = network_config(tmp_path, text).options
    assert (options["engine"], options["workers"], options["address"]) == ("ray", 3, "10.0.0.1:6379")
    network_mistake(tmp_path, text, "line 7", 'address is for engine "ray"', engine="processes")
    mistake(tmp_path, text, "line 4", "barymesh compare simulates", command=COMPARE)
    animated = text + "animation = true\n"
    network_mistake(tmp_path, animated, "line 9", 'animation is for engine "simulation"')


@pytest.mark.parametrize("engine", ENGINES)
def test_a_key_without_a_meaning_for_the_engine_is_refused_with_its_line(tmp_path, engine):
    lines = {line.split(" = ")[0]: line for line in FULL_NETWORK.splitlines()} | {"workers": "workers = 2"}
    for key, one in Options.fields().items():
        places = one.metadata["places"]
        if key in lines and key not in ("network", "reg", *CommandOptions.fields()):
            text = NETWORK + lines[key] + "\n"
            if not places or engine in places:
                assert key in network_config(tmp_path, text, engine=engine).options
            else:
                network_mistake(tmp_path, text, "line 4", f"{key} is for", engine=engine)


@pytest.mark.parametrize("key", [*ENGINES_ONLY, "gaussians"])
def test_keys_of_networks_are_refused_without_one(tmp_path, key):
    line = next((line for line in [DRAWN, *FULL_NETWORK.splitlines()] if line.startswith(f"{key} = ")), f"{key} = 1")
    mistake(tmp_path, MINIMAL + line + "\n", "line 3", f"{key} is for", "simulate", "eave it out")


@pytest.mark.parametrize(("key", "value"), [("max_iter", 5), ("resume", "true")])
def test_keys_of_the_solver_are_refused_on_a_network(tmp_path, key, value):
    network_mistake(tmp_path, NETWORK + f"{key} = {value}\n", "line 4", f"{key} is for")


def test_flags_count_before_the_file(tmp_path):
    text = NETWORK + 'engine = "ray"\nworkers = 3\n'
    options = network_config(tmp_path, text, engine="processes", workers=2).options
    assert (options["engine"], options["workers"]) == ("processes", 2)
    with pytest.raises(OptionError, match="workers is for engine"):
        network_config(tmp_path, NETWORK, workers=2)


def test_errors_of_the_work_get_the_line_of_the_key(tmp_path):
    path = config_file(tmp_path, NETWORK + "weights = [1, 2]\n")
    with (
        pytest.raises(ConfigError, match=r"run\.toml, line 4: There are 6 measures, but weights"),
        errors_with_lines(path),
    ):
        raise WeightError("There are 6 measures, but weights has shape (2,).")
    with pytest.raises(OptionError, match=r"^no file's fault$"), errors_with_lines(path):
        raise OptionError("no file's fault")
    with pytest.raises(BarymeshError, match=r"^a cost$"), errors_with_lines(path):
        raise bm.errors.CostError("a cost")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("steps = {bregman = 1}", "bregman"), ("steps = {sinkhorn = 1}", "no step"), ("steps = {dcwb = 0}", "positive"),
        ('events = ["vanish:node=1"]', "vanish"), ("tol = -1", "tol"),
    ],
)  # fmt: skip
def test_bad_steps_events_and_tolerances_are_named(tmp_path, text, said):
    network_mistake(tmp_path, NETWORK + text + "\n", said)


@pytest.mark.parametrize(("value", "kind"), [("true", "gif"), ("false", None), ('"html"', "html")])
def test_an_animation_is_a_kind(tmp_path, value, kind):
    assert network_config(tmp_path, NETWORK + f"animation = {value}\n").command.animation == kind


@pytest.mark.parametrize(
    ("table", "text", "fault"),
    [
        ('{kind = "loss", probability = 0.2}', "loss:probability=0.2", Loss(0.2)),
        (
            '{kind = "crash", node = 3, start = 10, stop = 20.5, memory = false}',
            "crash:node=3,start=10,stop=20.5,memory=false",
            Crash(3, 10, 20.5, memory=False),
        ),
        ('{kind = "sleep", node = 1, start = 2, stop = inf}', "sleep:node=1,start=2", Sleep(1, 2)),
    ],
)
def test_a_fault_may_be_a_text_or_a_table(tmp_path, table, text, fault):
    for given in (f"[{table}]", f'["{text}"]', f'"{text}"', table):
        assert network_config(tmp_path, NETWORK + f"faults = {given}\n").options["faults"] == (fault,)


def test_faults_may_be_tables_with_a_heading(tmp_path):
    config = network_config(tmp_path, NETWORK + '[[faults]]\nkind = "loss"\nprobability = 0.1\n')
    assert config.options["faults"] == (Loss(0.1),)


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
        ("faults = [3]", "3 is no fault"),
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
        ("max_iter = 5", "limited by duration"),
        ('engine = "cloud"', "simulation, processes, ray"),
        ("frugal = true", "unknown key 'frugal'"),
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
        ("mean = [0, 1], std = [1, 1]", "'gaussians.count' is missing. Known keys: count, mean"),
        ("count = 2, mean = [1, 0], std = [1, 1]", "wrong way round"),
        ("count = 2, mean = 1, std = [1, 1]", "gaussians.mean"),
        ("count = 2, mean = [0, 1, 2], std = [1, 1]", "gaussians.mean"),
        ("count = 2, mean = [0, inf], std = [1, 1]", "gaussians.mean"),
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
    other = replace(drawn, seed=6).draw()
    assert not np.array_equal(means, [measure.mean for measure in other])


def test_files_of_a_network_are_beside_the_configuration(tmp_path):
    text = f'{DRAWN}\nreg = 0.1\nnetwork = "net.edges"\ndelays = "trace:seconds=delays.txt"\n'
    options = network_config(tmp_path, text).options
    assert options["network"] == tmp_path / "net.edges"
    assert options["delays"].seconds == tmp_path / "delays.txt"
    assert network_config(tmp_path, NETWORK).options["network"] == "cycle"
