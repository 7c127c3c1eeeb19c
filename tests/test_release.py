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
from importlib.metadata import distribution
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import barymesh as bm

ROOT = Path(__file__).parents[1]
# the packages of the wheel: the library, and the study that "barymesh paper" runs
PACKAGES = {"barymesh": ROOT / "src" / "barymesh", "barymesh_a2dwb": ROOT / "studies" / "barymesh_a2dwb"}
# what only some users need, and nobody should get unasked
OPTIONAL = {"bokeh", "jax", "mlflow-skinny", "mlxtend", "pandas", "pyarrow", "ray", "scikit-learn", "tensorboardx"}


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder with the wheel, made from the sdist, and the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    # the back end of this environment if it is there, else one fetched for the occasion
    here = ["--no-isolation"] if importlib.util.find_spec("hatchling") else []
    run(sys.executable, "-m", "build", ROOT, "--outdir", folder, *here)
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
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "version" not in project
    assert "version" in project["dynamic"]
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
    assert not [name for name in names if re.search(r"\.nb[ic]$|\.pyc$|__pycache__|(^|/)tests?/", name)]
    assert metadata["Version"] == bm.__version__
    assert metadata["Requires-Python"] == ">=3.11"


def test_the_sdist_has_what_it_takes_to_test_it(built):
    (file,) = built.glob("*.tar.gz")
    with tarfile.open(file) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "src/barymesh/py.typed"} <= names
    assert "tests/test_release.py" in names
    assert not [name for name in names if re.search(r"\.nb[ic]$|\.pyc$|^\.venv|^out/|^demo/", name)]


def test_the_wheel_works_elsewhere(elsewhere, tmp_path):
    """Its kernels compile there, and the barycenter that the doctor computes is right."""
    command = elsewhere / "bin" / "barymesh"
    assert run(command, "--version", cwd=tmp_path).strip() == f"barymesh {bm.__version__}"
    # not optimised: they are compiled to be used once
    said = run(command, "doctor", "--json", cwd=tmp_path, env={**os.environ, "NUMBA_OPT": "0"})
    told = {one["part"]: one for one in json.loads(said)["findings"]}
    assert {one["state"] for one in told.values()} <= {"fine", "not installed", "take care"}
    assert str(elsewhere) in told["barymesh"]["found"]
    assert told["compiled kernels"]["found"].startswith(f"compiled, and kept in {elsewhere}")
    assert told["a barycenter"]["state"] == "fine"
    # these metadata are new, whatever those of the environment of the tests are
    assert {told[f"[{extra}]"]["state"] for extra in ("sklearn", "parquet", "ray")} == {"fine"}


def needed_by(requirements):
    """The packages that come along, by name, all the way down."""
    found, waiting = {}, list(requirements)
    while waiting:
        one = Requirement(waiting.pop())
        name = canonicalize_name(one.name)
        if name in found or (one.marker and not one.marker.evaluate({"extra": ""})):
            continue
        found[name] = distribution(one.name)
        waiting += found[name].requires or []
    return found


def test_the_core_is_small(wheel):
    """``pytest -rP -k core`` shows the sizes."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    packages = needed_by(project["dependencies"])
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
    assert wheel.stat().st_size < 1e6


def test_the_workflow_runs_what_is_run_here():
    file = ROOT / ".github" / "workflows" / "ci.yml"
    run(sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", file)
    (job,) = yaml.safe_load(file.read_text())["jobs"].values()
    assert "bash .ci/run" in [step.get("run") for step in job["steps"]]
    assert job["strategy"]["matrix"]["python"][0] == "3.11"
