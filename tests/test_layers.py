"""The plan of the house, read from its imports: they point one way, and a name means one thing."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path

import pytest

import barymesh

ROOT = Path(barymesh.__file__).parent

# each layer imports from layers above it in this list only; parts of one line stand beside one another
LAYERS = [
    [
        "errors",
        "status",
        "state",
        "random",
        "specification",
        "checks",
        "subsample",
        "interrupt",
        "method_names",
    ],
    ["core", "resources"],
    ["io", "io.atomic", "io.toml", "io.idx", "io.slot_file", "io.validation", "io.limits"],
    ["support.grid", "support.points"],
    ["measures"],
    ["io.npz"],
    ["io.tables", "io.files"],
    ["support", "cost", "metrics"],
    ["network", "options.readers"],
    ["oracle", "scenario", "transport"],
    ["estimates", "problem", "history"],
    ["gradients", "record", "progress", "result"],
    ["options", "methods"],
    ["exact"],
    ["decentralized"],
    ["engines"],
    ["api", "block_descent", "callbacks", "datasets", "privacy"],
    ["sklearn", "viz", "io.output", "peers"],
    ["dashboard"],
    ["cli"],
]


def modules():
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path, *, inside_functions=False):
    """The modules of barymesh that the file imports when it is loaded; types alone do not count."""
    known = modules()
    found = set()

    def visit(node):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and not inside_functions:
            return
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "barymesh":
            base = node.module.removeprefix("barymesh").removeprefix(".")
            for alias in node.names:
                full = f"{base}.{alias.name}".removeprefix(".")
                found.add(full if full in known else base)
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(path.read_text()))
    return found - {""}


def layer_of(module):
    """The place in the list: that of the longest name in it that the module begins with."""
    best = None
    for place, names in enumerate(LAYERS):
        for name in names:
            fits = module == name or module.startswith(name + ".")
            if fits and (best is None or len(name) > len(best[1])):
                best = place, name
    return best


def test_every_module_has_a_layer():
    exempt = {"", "__main__"}
    assert [name for name in modules() if name not in exempt and layer_of(name) is None] == []


def test_imports_point_one_way():
    upwards = []
    for module, path in modules().items():
        if module in ("", "__main__"):
            continue
        place, name = layer_of(module)
        for other in imports(path):
            above, other_name = layer_of(other)
            if above > place or (above == place and other_name != name and name in other_name):
                upwards.append(f"{module} imports {other}")
    assert upwards == []


def test_no_package_imports_in_a_circle():
    graph = defaultdict(set)
    for module, path in modules().items():
        if module in ("", "__main__"):
            continue
        for other in imports(path):
            mine, theirs = layer_of(module)[1], layer_of(other)[1]
            if mine != theirs:
                graph[mine].add(theirs)
    try:
        tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(" -> ".join(f"{a} imports {b}" for a, b in pairwise(reversed(error.args[1]))))


def test_no_module_imports_in_a_circle():
    known = modules()
    graph = {module: imports(path) & set(known) - {module} for module, path in known.items() if module}
    try:
        tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(" -> ".join(reversed(error.args[1])))


def test_nothing_in_the_library_imports_the_study_or_the_benchmarks():
    for path in modules().values():
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [name for name in names if name.split(".")[0] in ("barymesh_a2dwb", "benchmarks", "tests")]


def test_no_two_classes_have_one_name():
    names = Counter(
        node.name
        for path in modules().values()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in names.items() if count > 1] == []
