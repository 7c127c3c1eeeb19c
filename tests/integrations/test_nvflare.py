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
from barymesh.errors import FileError, OptionError
from tests.integrations.folders import folders

pytest.importorskip("nvflare")

EXAMPLE = Path(__file__).parents[2] / "examples" / "nvflare"
SIZES = (40, 5, 15)
# the sites have installed the module that reads their data, and no code is sent. Who makes the job tries to have their
# files streamed to the server. Sites and server allow the classes, as the documentation asks them to
PROOF_OF_CONCEPT = """
    from nvflare.app_common import default_component_policy as policy
    # before those who read it are loaded
    policy.DEFAULT_CLASS_ALLOW_LIST += ("barymesh.integrations.nvflare",)
    from barymesh.integrations.nvflare import barycenter_job
    from nvflare.app_common.logging.job_log_streamer import JobLogStreamer
    from nvflare.recipe.poc_env import PocEnv

    job = barycenter_job(
        "barycenter", "sites:load", support="60:-4:4", reg=0.1, sites=3, weights="size", timeout=120,
    )
    for number, name in enumerate(("barymesh.log", "barymesh-memory.npz", "memory.npz")):
        job.to_clients(JobLogStreamer(log_file_name=name, target_parent_server=True), id=f"thief{number}")
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
        "BARYMESH_DATA": str(tmp_path), "BARYMESH_SITE": str(tmp_path), "PYTHONPATH": str(EXAMPLE),
        "BARYMESH_NUM_THREADS": "1", "HOME": str(tmp_path), "PATH": programs,
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


def holds(folder, text):
    """Whether any file in the folder has this text in it."""
    return any(text.encode() in file.read_bytes() for file in folder.rglob("*") if file.is_file())


def test_a_site_with_bad_data_ends_the_job_and_tells_nobody_why(tmp_path, environment):
    (tmp_path / "site-2.csv").write_text("x\nseven\n")
    place, printed = simulated(tmp_path, environment)
    assert not list(place.rglob("barycenter.npz"))
    wrong = "line 2, x: not a number"
    assert wrong in (tmp_path / "site-2" / "barymesh.log").read_text()
    assert not holds(place, wrong)
    assert wrong not in printed


def test_a_job_cannot_have_sites_do_without_masks_or_call_other_functions(tmp_path, environment):
    """What protects a site is not in the job."""
    cases = (("open", "sites:load", "nothing without masks"), ("other", "shutil:rmtree", "the decorator site_measure"))
    for name, load, said in cases:
        options = f"support='50:-5:5', reg=0.3, sites=3, masks={name != 'open'}"
        code = f"""
            from barymesh.integrations.nvflare import barycenter_job
            job = barycenter_job({name!r}, {load!r}, {str(EXAMPLE / "sites.py")!r}, {options})
            job.export_job({str(tmp_path / "jobs")!r})
        """
        run(environment, sys.executable, "-c", dedent(code))
        place = tmp_path / name
        run(environment, "nvflare", "simulator", tmp_path / "jobs" / name, "-w", place, "-n", "3", "-t", "3")
        assert not list(place.rglob("barycenter.npz"))
        # of a site that was asked before the run had ended
        assert said in "".join(log.read_text() for log in tmp_path.glob("site-*/barymesh.log"))
        assert all((tmp_path / f"site-{k + 1}").is_dir() for k in range(3))


def test_a_site_whose_key_is_not_found_sends_nothing(tmp_path, environment, monkeypatch):
    """As where the folder has another name than the site has with FLARE."""
    from barymesh.integrations import nvflare

    monkeypatch.setenv("BARYMESH_SITE", str(tmp_path))
    monkeypatch.setattr(nvflare, "_loader", lambda text: lambda name: np.zeros((3, 1)))
    executor = nvflare.BarycenterExecutor("sites:load", "60:-4:4", 0.1, 3, masks=False)
    with pytest.raises(FileError):
        executor._remembered("clinic", tmp_path, tmp_path / "memory", 0)
    monkeypatch.setenv("BARYMESH_MASKS", "none")
    assert executor._remembered("clinic", tmp_path, tmp_path / "memory", 0).round == -1


def test_no_other_function_is_called_than_one_that_reads_a_measure():
    from barymesh.integrations import nvflare

    for text in ("shutil:rmtree", "unittest.mock:call", "os:path", "os"):
        with pytest.raises(OptionError, match="decorator site_measure"):
            nvflare._loader(text)


def test_the_job_runs_in_the_proof_of_concept_mode(tmp_path, environment):
    printed = run(environment, sys.executable, "-c", dedent(PROOF_OF_CONCEPT))
    found = list((tmp_path / "poc").rglob("barycenter.npz"))
    assert found, printed[-4000:]
    is_barycenter(bm.load(found[0]), tmp_path)
    # what a site remembers is in its own folder, and nowhere in those of the framework
    assert len(list(tmp_path.glob("site-*/memory-*.npz"))) == 3
    assert not [file for file in (tmp_path / "poc").rglob("*") if "memory" in file.name]


def test_a_server_does_not_learn_why_a_site_failed(tmp_path, environment):
    """One record is far outside of the support: how far would tell where."""
    with (tmp_path / "site-2.csv").open("a") as file:
        file.write("61.375\n")
    run(environment, sys.executable, "-c", dedent(PROOF_OF_CONCEPT))
    assert not list((tmp_path / "poc").rglob("barycenter.npz"))
    assert "more than 16 times" in (tmp_path / "site-2" / "barymesh.log").read_text()
    for told in ("more than 16 times", "largest cost from a record"):
        assert not holds(tmp_path / "poc", told)
