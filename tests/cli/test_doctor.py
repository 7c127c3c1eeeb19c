"""``barymesh doctor`` finds nothing wrong here, finds what is wrong elsewhere, and always says what to do."""

from __future__ import annotations

import json
import subprocess
import sys

from packaging.requirements import Requirement
from typer.testing import CliRunner

import barymesh as bm
from barymesh.cli import doctor
from barymesh.cli.app import app
from barymesh.cli.doctor import Finding, Severity
from barymesh.extras import EXTRAS
from barymesh.resources import cgroups
from tests.packages import APART, EXTRAS_OF_PROJECT, PROJECT


def requirements():
    """What the package asks for, as its metadata will say it."""
    yield from map(Requirement, PROJECT["dependencies"])
    for extra, needed in EXTRAS_OF_PROJECT.items():
        yield from (Requirement(f"{one} ; extra == '{extra}'") for one in needed)


def by_part(findings):
    return {finding.part: finding for finding in findings}


def test_here_everything_works(monkeypatch):
    # an installation for development may have older metadata than its source
    monkeypatch.setattr(doctor, "_requirements", requirements)
    findings = list(doctor.examine())
    assert [finding for finding in findings if finding.state is Severity.BROKEN] == []
    for finding in findings:
        assert finding.found
        assert bool(finding.remedy) is (finding.state is not Severity.FINE), finding
    found = by_part(findings)
    for needed in PROJECT["dependencies"]:
        assert found[Requirement(needed).name].state is Severity.FINE
    assert "certified gap" in found["a barycenter"].found
    assert "CURVE" in found["sockets"].found
    for extra in set(EXTRAS) - set(APART):
        assert found[f"[{extra}]"].state is Severity.FINE, found[f"[{extra}]"]


def test_an_extra_brings_what_its_own_extras_bring(monkeypatch):
    monkeypatch.setattr(doctor, "_requirements", requirements)
    found = by_part(doctor._optional())
    assert "pyzmq" in found["[ray]"].found
    assert "matplotlib" in found["[report]"].found
    assert "pyzmq" not in found["[report]"].found


def test_the_command_prints_json_and_nothing_else():
    done = subprocess.run([sys.executable, "-m", "barymesh", "doctor", "--json"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert told["works"] is True
    assert {"part", "state", "found", "remedy"} == set(told["findings"][0])


def test_what_is_missing_or_old_is_broken_and_said(monkeypatch):
    wanted = [
        "numpy>=99",
        "not-a-package>=1",
        "scipy>=1",
        "pyarrow>=99 ; extra == 'parquet'",
        "not-there ; extra == 'mnist'",
    ]
    monkeypatch.setattr(doctor, "_requirements", lambda: map(Requirement, wanted))
    done = CliRunner().invoke(app, ["doctor"])
    assert done.exit_code == 3
    assert "2 broken" in done.output
    found = by_part(doctor.examine())
    assert found["numpy"].state is Severity.BROKEN
    assert found["numpy"].remedy == "pip install --upgrade 'numpy>=99'"
    assert found["not-a-package"].found == "missing; >=1 is needed"
    assert found["scipy"].state is Severity.FINE
    assert found["[parquet]"].state is Severity.CARE
    assert "unknown to this installation" in found["[ray]"].found
    assert found["[mnist]"].remedy == "pip install 'barymesh[mnist]'"
    for part in ("numpy", "[parquet]", "pip install --upgrade 'numpy>=99'"):
        assert part in done.output


def test_kernels_that_fail_are_broken(monkeypatch):
    def fails(*measures, **options):
        raise OSError("the library is gone")

    monkeypatch.setattr(bm, "barycenter", fails)
    found = by_part(doctor.examine())["kernels"]
    assert found.state is Severity.BROKEN
    assert "the library is gone" in found.found
    assert "Reinstall" in found.remedy


def test_a_wrong_answer_is_broken(monkeypatch):
    right = bm.barycenter([bm.Gaussian(-1, 0.5)], bm.Support.regular(40, -3, 3), reg=0.1)
    monkeypatch.setattr(bm, "barycenter", lambda *measures, **options: right)
    assert by_part(doctor.examine())["a barycenter"].state is Severity.BROKEN


def test_more_threads_than_a_container_may_use_are_told(monkeypatch):
    monkeypatch.setattr(cgroups, "core_quota", lambda: 0.5)
    monkeypatch.setattr("barymesh.core.kernels.threads", lambda: 8)
    (found,) = doctor._threads()
    assert found.state is Severity.CARE
    assert "limit of this container 0.5" in found.found
    assert "BARYMESH_NUM_THREADS=1" in found.remedy


def test_the_memory_of_a_container_is_what_is_left_of_its_limit(monkeypatch):
    monkeypatch.setattr(cgroups, "memory_limit", lambda: 2**29)
    monkeypatch.setattr(cgroups, "memory_left", lambda: 2**28)
    found = by_part(doctor._room())["memory"]
    assert found.state is Severity.CARE
    assert found.found == "0.2 GiB free, limit 0.5 GiB"


def test_little_room_is_told():
    assert doctor._enough("memory", 1, 2, "1 byte", "Close").state is Severity.CARE
    assert doctor._enough("memory", 3, 2, "3 bytes", "Close") == Finding("memory", Severity.FINE, "3 bytes")
