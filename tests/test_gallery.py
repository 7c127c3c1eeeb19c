"""The form of the gallery's examples. They are run, every one, when the site is built, and their own assertions hold
then; here nothing is run twice."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples" / "gallery"
EXAMPLES = sorted(FOLDER.glob("*.py"))
FIGURES = ("figure", "subplots", "subplot_mosaic")
# one screen or two: an example that needs more is a program
LINES = 105
# an attacker does not keep to the public interface, and brings along the network that it attacks
ATTACK, ATTACK_LINES = "plot_attack", 145
# the modules of barymesh that users are told of
PUBLIC = (
    "barymesh",
    "barymesh.network",
    "barymesh.scenario",
    "barymesh.datasets.digits",
    "barymesh.datasets.mnist",
)


@pytest.fixture(params=EXAMPLES, ids=lambda path: path.stem)
def example(request):
    return request.param


@pytest.fixture
def tree(example):
    return ast.parse(example.read_text(encoding="utf-8"))


def calls(tree):
    """The dotted name of everything that is called, with the call."""
    return [(ast.unparse(node.func), node) for node in ast.walk(tree) if isinstance(node, ast.Call)]


def test_there_are_twelve_and_a_header():
    assert len(EXAMPLES) == 12
    title, underline, *_ = (FOLDER / "README.txt").read_text(encoding="utf-8").splitlines()
    assert underline == "=" * len(title)


def test_every_file_is_one_that_the_gallery_shows(example):
    assert example.name.startswith("plot_")
    assert len(example.read_text(encoding="utf-8").splitlines()) <= (ATTACK_LINES if example.stem == ATTACK else LINES)


def test_begins_with_a_title_and_the_question(tree):
    title, underline, blank, *question = ast.get_docstring(tree).splitlines()
    assert underline == "=" * len(title)
    assert not blank
    assert len(" ".join(question).split()) >= 30


def test_cells_are_introduced_in_words(example):
    cells = example.read_text(encoding="utf-8").split("\n# %%\n")[1:]
    assert len(cells) >= 2
    assert all(cell.startswith("# ") for cell in cells)


def test_checks_what_it_says(tree):
    claims = [node.test for node in ast.walk(tree) if isinstance(node, ast.Assert)]
    assert claims
    assert not any(isinstance(claim, ast.Constant) for claim in claims)


def test_ends_with_a_figure(tree):
    assert any(name == f"plt.{way}" for name, _ in calls(tree) for way in FIGURES)
    assert ast.unparse(tree.body[-1]) == "plt.show()"


def test_uses_the_public_interface_only(example, tree):
    if example.stem == ATTACK:
        pytest.skip("an attacker does not keep to it")
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            own = [name for name in node.names if name.name.split(".")[0] == "barymesh"]
            assert all((name.name, name.asname) == ("barymesh", "bm") for name in own)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "barymesh":
            assert node.module in PUBLIC
            offered = import_module(node.module)
            listed = getattr(offered, "__all__", [name for name in vars(offered) if not name.startswith("_")])
            assert {name.name for name in node.names} <= set(listed)
        elif isinstance(node, ast.Attribute):
            assert not node.attr.startswith("_")
            if isinstance(node.value, ast.Name) and node.value.id == "bm":
                assert node.attr in import_module("barymesh").__all__


def test_everything_random_has_a_seed(tree):
    drawn = [node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and is_numpy_random(node.value)]
    assert all(name == "default_rng" for name in drawn)
    assert all(call.args for name, call in calls(tree) if name.endswith("default_rng"))


def is_numpy_random(node):
    return ast.unparse(node) in ("np.random", "numpy.random")
