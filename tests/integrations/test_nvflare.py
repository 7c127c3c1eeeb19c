"""The example job, in the simulator of NVIDIA FLARE, and in its proof-of-concept mode: a server and clients as
processes on the loopback. The framework needs an environment of its own: ``make frameworks`` runs these tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

import barymesh as bm
from tests.integrations.folders import folders

pytest.importorskip("nvflare")

EXAMPLE = Path(__file__).parents[2] / "examples" / "nvflare"
SIZES = (40, 5, 15)
PROOF_OF_CONCEPT = """
    import sys
    sys.path.insert(0, sys.argv[1])
    from job import job
    from nvflare.recipe.poc_env import PocEnv

    place = PocEnv(num_clients=3, extra={"login_timeout": 300})
    try:
        print("result:", place.get_job_result(place.deploy(job), timeout=900))
    finally:
        place.stop()
"""


@pytest.fixture
def environment(tmp_path):
    """With the data of the sites; the framework writes nowhere but in the folder of the test."""
    folders(
        tmp_path, [f"site-{k + 1}" for k in range(3)], support="60:-4:4", reg=0.1, weights="size", records=sum(SIZES)
    )
    rng = np.random.default_rng(0)
    for k, size in enumerate(SIZES):
        np.savetxt(tmp_path / f"site-{k + 1}.csv", rng.normal(k - 1.0, 0.7, size), header="x", comments="")
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {
        "BARYMESH_DATA": str(tmp_path), "BARYMESH_NUM_THREADS": "1", "HOME": str(tmp_path), "PATH": programs,
        "NVFLARE_POC_WORKSPACE": str(tmp_path / "poc"),
    }  # fmt: skip


def run(environment, *command):
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1200)
    return done.stdout + done.stderr


def simulated(tmp_path, environment):
    """The example in the simulator: its folder, and what it printed. One thread runs all sites, each in a new process
    in every round."""
    run(environment, sys.executable, EXAMPLE / "job.py", tmp_path / "jobs")
    place = tmp_path / "simulated"
    return place, run(environment, "nvflare", "simulator", tmp_path / "jobs" / "barycenter", "-w", place, "-n", "3")


def is_barycenter(result, tmp_path):
    measures = bm.read_measures([tmp_path / f"site-{k + 1}.csv" for k in range(3)])
    best = bm.barycenter(measures, "60:-4:4", reg=0.1, weights="size", tol=1e-10)
    distance = np.abs(result.weights - best.weights).sum() / 2
    assert result.success
    assert distance <= 1e-6
    assert distance <= result.tv_bound <= 1e-3
    # sums of what sites do in the middle of the support do not tell the objective
    assert np.isnan(result.value)
    assert result.measures == 3


def test_the_job_runs_in_the_simulator(tmp_path, environment):
    place, printed = simulated(tmp_path, environment)
    found = list(place.rglob("barycenter.npz"))
    assert len(found) == 1, printed
    is_barycenter(bm.load(found[0]), tmp_path)
    # what is installed at the sites is not sent
    assert [file.name for file in (tmp_path / "jobs").rglob("*.py")] == ["sites.py"]


def test_a_site_with_bad_data_ends_the_job_and_tells_nobody_why(tmp_path, environment):
    (tmp_path / "site-2.csv").write_text("x\nseven\n")
    place, _ = simulated(tmp_path, environment)
    assert not list(place.rglob("barycenter.npz"))
    wrong = "line 2, x: not a number"
    assert any(wrong in log.read_text() for log in (place / "site-2").rglob("log*"))
    assert not any(wrong in log.read_text() for log in (place / "server").rglob("log*"))


def test_the_job_runs_in_the_proof_of_concept_mode(tmp_path, environment):
    printed = run(environment, sys.executable, "-c", dedent(PROOF_OF_CONCEPT), EXAMPLE)
    found = list((tmp_path / "poc").rglob("barycenter.npz"))
    assert found, printed[-4000:]
    is_barycenter(bm.load(found[0]), tmp_path)
