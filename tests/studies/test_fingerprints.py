"""A finished run is made again if anything that it depends on has changed, and only then."""

from __future__ import annotations

import ast
import shutil
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from barymesh_a2dwb import experiments
from barymesh_a2dwb.experiments import plan_study
from barymesh_a2dwb.fingerprints import OUTER, PACKAGES, digest_of, source_files
from barymesh_a2dwb.runs import find_reference, run_job
from barymesh_a2dwb.study import METHODS
from tests.studies.test_running import TINY


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The sources, to be changed."""
    folder = tmp_path_factory.mktemp("sources")
    ignored = shutil.ignore_patterns("__pycache__")
    return {name: shutil.copytree(path, folder / name, ignore=ignored) for name, path in PACKAGES.items()}


@pytest.fixture(scope="module")
def found(copy):
    """The files of the copy that count."""
    return source_files(packages=copy)


def changed(path, found):
    """Whether a change of the file changes the digest."""
    content, before = path.read_bytes(), digest_of(found)
    path.write_bytes(content + b"\nCHANGED = True\n")
    try:
        return digest_of(found) != before
    finally:
        path.write_bytes(content)


@pytest.mark.parametrize("layer", [layer.removeprefix("barymesh.") for layer in OUTER])
def test_a_change_around_the_computation_changes_nothing(copy, found, layer):
    files = sorted((copy["barymesh"] / layer).rglob("*.py"))
    assert files
    assert not any(changed(file, found) for file in files)


@pytest.mark.parametrize("name", ["command", "running", "storage", "claims", "figures", "report", "tables", "panels"])
def test_a_change_of_what_the_study_shows_changes_nothing(copy, found, name):
    assert not changed(copy["barymesh_a2dwb"] / f"{name}.py", found)


@pytest.mark.parametrize("layer", ["core", "decentralized", "engines", "exact", "network", "oracle", "scenario"])
def test_every_layer_that_computes_counts(found, layer):
    names = [name for name in found if name.startswith(f"barymesh.{layer}.")]
    assert names
    assert all(changed(found[name], found) for name in names)


def test_the_sources_of_the_kernels_count(copy, found):
    core = copy["barymesh"] / "core"
    if not (core / "module.cpp").exists():
        pytest.skip("installed from a wheel, which has the compiled kernels only")
    assert changed(core / "module.cpp", found)
    assert changed(core / "simd.h", found)


def test_without_their_sources_the_compiled_kernels_count(tmp_path):
    """As in an installation from a wheel."""
    package = tmp_path / "made"
    package.mkdir()
    (package / "entry.py").write_text("from made import loops\nfrom made.loops import add\n")
    (package / "loops.pyi").write_text("def add() -> None: ...\n")
    extension = package / f"loops{EXTENSION_SUFFIXES[0]}"
    extension.write_bytes(b"\x7fELF")
    found = source_files("made.entry", {"made": package})
    assert set(found.values()) == {package / "entry.py", extension}
    before = digest_of(found)
    extension.write_bytes(b"\x7fELG")
    assert digest_of(found) != before


def test_the_module_of_the_runs_and_the_problem_count(found):
    for name in ("barymesh_a2dwb.runs", "barymesh.problem"):
        assert changed(found[name], found)


def test_all_code_that_runs_is_counted(monkeypatch):
    """Measured by a profiler: every function of the packages that a run calls is in a file of its fingerprint."""
    monkeypatch.setattr(experiments, "QUICK", TINY)
    case = plan_study("gaussian", quick=True, sweeps=False).cases["gaussian"]
    jobs = [case.job("erdos_renyi", method) for method in METHODS]
    called = set()

    def profile(frame, event, argument):
        # the code of a module only defines what others call
        if event == "call" and frame.f_code.co_name != "<module>":
            called.add(frame.f_code.co_filename)

    previous = sys.getprofile()
    sys.setprofile(profile)
    try:
        known = find_reference(case, case.problem.reg)
        for job in jobs:
            run_job(case, job, known)
    finally:
        sys.setprofile(previous)
    roots = tuple(f"{path}/" for path in PACKAGES.values())
    ours = {Path(name) for name in called if name.startswith(roots)}
    assert len(ours) > 20
    assert ours <= set(source_files().values())


def test_imports_are_followed_wherever_they_are(tmp_path):
    package = tmp_path / "made"
    (package / "inner").mkdir(parents=True)
    files = {
        "__init__.py": "from made import never\n",
        "never.py": "",
        "entry.py": (
            "import json\nfrom typing import TYPE_CHECKING\nimport made.plain\nfrom made.inner import value, module\n"
            "if TYPE_CHECKING:\n    from made import for_types\nelse:\n    from made import otherwise\n"
            "def function():\n    from .relative import name\n"
        ),
        "plain.py": "try:\n    import made.tried\nexcept ImportError:\n    pass\n",
        "tried.py": "import made.entry\n",
        "for_types.py": "",
        "otherwise.py": "",
        "relative.py": "",
        "inner/__init__.py": "value = 1\n",
        "inner/module.py": "",
        "inner/unused.py": "",
    }
    for name, text in files.items():
        (package / name).write_text(text)
    found = source_files("made.entry", {"made": package})
    names = ("entry", "plain", "tried", "otherwise", "relative", "inner", "inner.module")
    assert set(found) == {f"made.{name}" for name in names}


def test_the_library_does_not_know_the_study():
    for path in PACKAGES["barymesh"].rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.startswith("barymesh_a2dwb") for name in names), path
