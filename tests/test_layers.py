"""The architecture, read from the imports: they point one way, and a name means one thing."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path

import pytest

import barymesh

ROOT = Path(barymesh.__file__).parent

# a layer imports from the layers above it in this list only; the parts of one line do not depend on one another in a
# circle. A name stands for the package and all its modules, except for those that have a line of their own
LAYERS = [
    ["errors", "status", "state", "random", "specification", "checks", "subsample", "interrupt", "method_names"],
    ["extras"],
    ["core", "resources"],
    ["io", "io.atomic", "io.toml", "io.idx", "io.slot_file", "io.validation", "io.limits"],
    ["support"],
    ["measures"],
    ["io.npz"],
    ["io.tables", "io.files", "io.frames"],
    ["support.choice", "support.text", "cost", "metrics"],
    ["network", "readers"],
    ["oracle", "scenario", "transport"],
    ["estimates", "problem_input", "problem", "history"],
    ["gradients", "record", "progress", "coupling", "transport_map"],
    ["result_measures", "result", "result_file", "summary"],
    ["options", "methods"],
    ["exact"],
    ["decentralized"],
    ["engines"],
    ["like", "weight_path"],
    ["api", "block_descent", "callbacks", "datasets", "gaussians", "privacy"],
    ["estimators", "viz", "io.output", "peers", "integrations"],
    ["sklearn"],
    ["dashboard"],
    ["cli"],
]
# the steps upwards that a function takes when it is called, or that only type checkers see: results, histories,
# problems and networks draw themselves, and a measure that is loaded later is read from a file
LATER = {(one, "viz") for one in ("history", "network", "problem", "result", "weight_path")}
LATER |= {("measures", "io.files")}


@cache
def modules():
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path, *, later=False):
    """The modules of barymesh that the file imports, with the packages they are in, which Python loads first. Either
    those imported when the file is loaded, or the others: ``later``, in functions, or for type checkers only."""
    return _read(path)[later]


@cache
def _read(path):
    known = modules()
    found = {False: set(), True: set()}

    def visit(node, is_later):
        is_later = is_later or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        is_later = is_later or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            root, *parts = name.split(".")
            if root == "barymesh":
                packages = {".".join(parts[: k + 1]) for k in range(len(parts))}
                found[is_later] |= packages & set(known)
        for child in ast.iter_child_nodes(node):
            visit(child, is_later)

    visit(_parsed(path), False)
    return found


@cache
def _parsed(path):
    return ast.parse(path.read_text())


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


def steps_upwards(*, later):
    """(module, imported module) with their layers, for each import of a higher layer."""
    for module, path in modules().items():
        if module not in ("", "__main__"):
            place, name = layer_of(module)
            # a package is loaded before its own modules in any case
            for other in {one for one in imports(path, later=later) if not module.startswith(f"{one}.")}:
                above, other_name = layer_of(other)
                if above > place:
                    yield f"{module} imports {other}", (name, other_name)


def test_imports_point_one_way():
    assert [text for text, _ in steps_upwards(later=False)] == []


def test_imports_in_functions_and_for_types_point_upwards_only_where_it_is_allowed():
    found = list(steps_upwards(later=True))
    assert [text for text, step in found if step not in LATER] == []
    assert {step for _, step in found} == LATER


def test_the_reader_of_imports_sees_all_of_them(tmp_path):
    file = tmp_path / "example.py"
    file.write_text(
        "import barymesh.cost\nfrom barymesh import errors\nfrom barymesh.viz.figure import Figure\n"
        "if TYPE_CHECKING:\n    from barymesh.result import Result\n"
        "class A:\n    def f(self):\n        if True:\n            import barymesh.api as api\n"
    )
    assert imports(file) == {"cost", "errors", "viz", "viz.figure"}
    assert imports(file, later=True) == {"result", "api"}


def test_no_package_imports_in_a_circle():
    graph = defaultdict(set)
    for module, path in modules().items():
        if module in ("", "__main__"):
            continue
        for other in imports(path):
            mine, theirs = layer_of(module)[1], layer_of(other)[1]
            if mine != theirs and not module.startswith(f"{other}."):
                graph[mine].add(theirs)
    try:
        tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(" -> ".join(f"{a} imports {b}" for a, b in pairwise(reversed(error.args[1]))))


def test_no_module_imports_in_a_circle():
    known = modules()
    graph = {
        module: {one for one in imports(path) if one != module and not module.startswith(f"{one}.")}
        for module, path in known.items()
        if module
    }
    try:
        tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(" -> ".join(reversed(error.args[1])))


def test_nothing_in_the_library_imports_the_study_or_the_benchmarks():
    for path in modules().values():
        for node in ast.walk(_parsed(path)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [name for name in names if name.split(".")[0] in ("barymesh_a2dwb", "benchmarks", "tests")]


def test_no_two_classes_have_one_name():
    names = Counter(
        node.name
        for path in modules().values()
        for node in ast.walk(_parsed(path))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in names.items() if count > 1] == []
