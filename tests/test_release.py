"""What is released: wheel and sdist are complete and clean, and the wheel works where the source is not."""

from __future__ import annotations

import email
import importlib.util
import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest
import yaml

import barymesh as bm
from tests.packages import PROJECT, core

ROOT = Path(__file__).parents[1]
# the packages of the wheel: the library, and the study that "barymesh paper" runs
PACKAGES = {"barymesh": ROOT / "src" / "barymesh", "barymesh_a2dwb": ROOT / "studies" / "barymesh_a2dwb"}
# what only some users need
OPTIONAL = {
    "bokeh", "dp-accounting", "jax", "llvmlite", "matplotlib", "mlflow-skinny", "mlxtend", "numba", "pandas", "pillow",
    "platformdirs", "prometheus-client", "pyarrow", "pyzmq", "ray", "scikit-learn", "tensorboardx", "tomli-w",
}  # fmt: skip


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder with the wheel and the sdist, both made from the clone, whose kernels are compiled already."""
    folder = tmp_path_factory.mktemp("dist")
    # the back end of this environment if it is there, else one fetched for the occasion
    tools = ("scikit_build_core", "nanobind")
    here = ["--no-isolation"] if all(importlib.util.find_spec(name) for name in tools) else []
    run(sys.executable, "-m", "build", "--sdist", "--wheel", ROOT, "--outdir", folder, *here)
    return folder


@pytest.fixture(scope="module")
def wheel(built):
    (file,) = built.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory, wheel):
    """A fresh environment that has the wheel, and finds the dependencies, but not the source."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    # a line of a .pth file adds the folder, but does not read the .pth files there, by which the source would come in
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel)
    return folder


def test_the_version_has_one_place():
    assert "version" not in PROJECT
    assert "version" in PROJECT["dynamic"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", bm.__version__)


def test_the_wheel_has_the_library_and_the_study_and_nothing_else(wheel):
    """In particular no benchmarks, which are run from a clone."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = email.message_from_bytes(archive.read(f"barymesh-{bm.__version__}.dist-info/METADATA"))
        commands = archive.read(f"barymesh-{bm.__version__}.dist-info/entry_points.txt").decode()
    assert {name.split("/")[0] for name in names} == {*PACKAGES, f"barymesh-{bm.__version__}.dist-info"}
    for package, folder in PACKAGES.items():
        assert {f"{package}/{file.relative_to(folder)}" for file in folder.rglob("*.py")} <= names
    assert {"barymesh/py.typed", *(f"barymesh_a2dwb/report.{kind}" for kind in ("html", "css", "js"))} <= names
    assert "paper = barymesh_a2dwb.command:register" in commands
    assert not [name for name in names if "bench" in name]
    assert not [name for name in names if re.search(r"\.cpp$|\.h$|\.pyc$|__pycache__|(^|/)tests?/", name)]
    # the kernels with their types
    (extension,) = [name for name in names if name.endswith(tuple(EXTENSION_SUFFIXES))]
    assert extension.startswith("barymesh/core/kernels.")
    assert "barymesh/core/kernels.pyi" in names
    assert metadata["Version"] == bm.__version__
    assert metadata["Requires-Python"] == ">=3.11"


def test_the_sdist_has_what_it_takes_to_test_it(built):
    (file,) = built.glob("*.tar.gz")
    with tarfile.open(file) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "src/barymesh/py.typed"} <= names
    assert {"CMakeLists.txt", "cmake/check_symbols.py", "src/barymesh/core/module.cpp"} <= names
    assert "tests/test_release.py" in names
    assert not [name for name in names if re.search(r"\.so$|\.pyc$|^\.venv|^build/|^out/|^demo/", name)]


def test_the_wheel_works_elsewhere(elsewhere, tmp_path):
    """Where there is no compiler, and the barycenter that the doctor computes is right."""
    command = elsewhere / "bin" / "barymesh"
    assert run(command, "--version", cwd=tmp_path).strip() == f"barymesh {bm.__version__}"
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    said = run(command, "doctor", "--json", cwd=tmp_path, env={**alone, "PATH": str(command.parent)})
    told = {one["part"]: one for one in json.loads(said)["findings"]}
    assert {one["state"] for one in told.values()} <= {"fine", "not installed", "take care"}
    assert str(elsewhere) in told["barymesh"]["found"]
    assert str(elsewhere) in told["compiled kernels"]["found"]
    assert told["a barycenter"]["state"] == "fine"
    # these metadata are new, whatever those of the environment of the tests are
    assert {told[f"[{extra}]"]["state"] for extra in ("plots", "peers", "parquet", "ray")} == {"fine"}


def test_the_tests_of_the_kernels_pass_against_the_wheel(elsewhere):
    """In an environment without a compiler; `make test-wheel` runs all tests like this."""
    python = elsewhere / "bin" / "python"
    alone = {"HOME": os.environ.get("HOME", "/"), "PATH": str(python.parent)}
    where = "import barymesh.core.kernels as kernels; print(kernels.__file__)"
    assert str(elsewhere) in run(python, "-c", where, cwd=ROOT, env=alone)
    quiet = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist")
    said = run(python, "-m", "pytest", *quiet, "tests/core", "tests/oracle", cwd=ROOT, env=alone)
    assert "passed" in said


def test_the_core_is_small(wheel):
    """``pytest -rP -k core`` shows the sizes."""
    packages = core()
    assert not OPTIONAL & set(packages)
    sizes = {
        name: sum(file.locate().stat().st_size for file in one.files or () if file.locate().exists())
        for name, one in packages.items()
    }
    with zipfile.ZipFile(wheel) as archive:
        unpacked = sum(entry.file_size for entry in archive.infolist())
    largest = sorted(sizes, key=sizes.__getitem__, reverse=True)[:6]
    print(f"wheel {wheel.stat().st_size / 1e6:.2f} MB, installed {unpacked / 1e6:.2f} MB,")
    print(f"with {len(sizes)} dependencies {(sum(sizes.values()) + unpacked) / 1e6:.0f} MB; the largest:")
    print(", ".join(f"{name} {sizes[name] / 1e6:.0f} MB" for name in largest))
    assert wheel.stat().st_size < 2e6
    assert sum(sizes.values()) + unpacked < 400e6


@pytest.mark.parametrize("name", ["ci", "wheels"])
def test_github_understands_the_workflow(name):
    file = ROOT / ".github" / "workflows" / f"{name}.yml"
    run(sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", file)


def jobs_of(name):
    return yaml.safe_load((ROOT / ".github" / "workflows" / f"{name}.yml").read_text())["jobs"]


def test_the_workflow_runs_what_is_run_here():
    (job,) = jobs_of("ci").values()
    assert "bash .ci/run" in [step.get("run") for step in job["steps"]]
    assert job["strategy"]["matrix"]["python"][0] == "3.11"


def test_wheels_are_built_for_every_system_and_tried():
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    machines = [one["machine"] for one in jobs_of("wheels")["wheels"]["strategy"]["matrix"]["include"]]
    assert {machine.partition("-")[0] for machine in machines} == {"ubuntu", "macos", "windows"}
    # one for the oldest version that is supported, and one for the stable ABI
    stable = tools["scikit-build"]["wheel"]["py-api"]
    assert tools["cibuildwheel"]["build"] == ["cp311-*", f"{stable}-*"]
    # the words between the quotation marks are the program that every wheel is tried with
    _, program, _ = tools["cibuildwheel"]["test-command"].split('"')
    run(sys.executable, "-c", program)
