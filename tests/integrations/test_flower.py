"""The example project, by ``flwr run``: in Flower's simulation, and with a SuperLink and SuperNodes as processes on the
loopback. Flower needs an environment of its own: ``make frameworks`` runs these tests."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import barymesh as bm
from tests.integrations.folders import folders
from tests.ports import free_ports

pytest.importorskip("flwr")

PROJECT = Path(__file__).parents[2] / "examples" / "flower"
LINK, NODE = "flower-superlink", "flower-supernode"
SIZES = (40, 5, 15)
# what a site finds wrong with its data
WRONG = "line 2, x: not a number"


@contextmanager
def process(home, name, *arguments):
    """A program of Flower that runs until the end of the block, with its log in the folder ``home``."""
    environment = os.environ | {"FLWR_HOME": str(home), "FLWR_TELEMETRY_ENABLED": "0", "BARYMESH_NUM_THREADS": "1"}
    # the simulation has a cluster of its own, whatever else runs on this machine
    environment["RAY_ADDRESS"] = "local"
    program = Path(sys.executable).with_name(name)
    # programs of Flower start others by their names
    environment["PATH"] = f"{program.parent}{os.pathsep}{environment['PATH']}"
    number = len(list(home.glob("*.log")))
    with (home / f"{name}-{number}.log").open("w") as log:
        running = subprocess.Popen([program, *arguments], env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            yield running
        finally:
            running.terminate()
            running.wait(30)


@contextmanager
def superlink(home, *options):
    """A SuperLink at the loopback, which ``flwr run`` knows by the name ``here``; its port."""
    (port,) = free_ports(1)
    (home / "config.toml").write_text(f'[superlink]\n[superlink.here]\naddress = "127.0.0.1:{port}"\ninsecure = true\n')
    common = ("--insecure", "--disable-runtime-dependency-installation", "--host", "127.0.0.1", "--port", str(port))
    with process(home, LINK, *options, *common):
        end = time.monotonic() + 300
        while time.monotonic() < end:
            with socket.socket() as one:
                if one.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.2)
        yield port


def flwr_run(home, project, config, *options):
    """``flwr run`` to the end, and what it printed."""
    words = " ".join(f"{key}={json.dumps(value)}" for key, value in config.items())
    environment = os.environ | {"FLWR_HOME": str(home), "FLWR_TELEMETRY_ENABLED": "0"}
    command = [Path(sys.executable).with_name("flwr"), "run", project, "here", "--stream", "-c", words, *options]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    return done.stdout + done.stderr


@pytest.fixture
def project(tmp_path):
    """A copy: Flower changes the files of a project that it runs."""
    return shutil.copytree(PROJECT, tmp_path / "project")


def appears(file):
    """Whether the run writes the file; the log of a run may end before the run does."""
    end = time.monotonic() + 300
    while not file.exists() and time.monotonic() < end:
        time.sleep(0.2)
    return file.exists()


AGREED = {"support": "60:-4:4", "reg": 0.1, "weights": "size", "records": sum(SIZES)}


def is_barycenter(result, measures, support, reg):
    best = bm.barycenter(measures, support, reg=reg, weights="size", tol=1e-10)
    assert result.success
    distance = np.abs(result.weights - best.weights).sum() / 2
    assert distance <= 1e-6
    assert distance <= result.tv_bound <= 1e-3
    # sums of what sites do in the middle of the support do not tell the objective
    assert np.isnan(result.value)
    assert result.measures == len(measures)


def test_the_project_runs_in_the_simulation(tmp_path, project):
    with superlink(tmp_path, "--simulation"):
        output = tmp_path / "found.npz"
        printed = flwr_run(
            tmp_path, project, {"output": str(output), "reg": 0.2}, "--federation-config", "num-supernodes=3"
        )
        assert appears(output), printed
    # what the example draws
    draws = [np.random.default_rng(k).normal(k - 1.0, 0.5, size=(50 * (k + 1), 1)) for k in range(3)]
    is_barycenter(bm.load(output), draws, "60:-4:4", 0.2)


def test_data_of_a_site_are_never_masked_with_keys_that_are_no_secret(monkeypatch):
    """Also if the site was started with the numbers that nodes of a simulation have."""
    monkeypatch.syspath_prepend(PROJECT)
    identity = importlib.import_module("barymesh_flower.app").identity
    numbers = {"partition-id": 0, "num-partitions": 3}
    assert identity(SimpleNamespace(node_config=numbers)) is not None
    assert identity(SimpleNamespace(node_config={**numbers, "data": "a.csv"})) is None


def test_the_project_runs_with_real_nodes_and_says_nothing_of_their_data(tmp_path, project):
    rng = np.random.default_rng(0)
    files = [tmp_path / f"site{k}.csv" for k in range(3)]
    for k, file in enumerate(files):
        np.savetxt(file, rng.normal(k - 1.0, 0.7, SIZES[k]), header="x", comments="")
    output = tmp_path / "found.npz"
    with ExitStack() as stack:
        port = stack.enter_context(superlink(tmp_path))
        for file, identity in zip(files, folders(tmp_path, **AGREED), strict=True):
            stack.enter_context(
                process(
                    tmp_path, NODE, "--insecure", "--superlink", f"127.0.0.1:{port}", "--port",
                    str(free_ports(1)[0]), "--node-config", f'data="{file}" identity="{identity}"',
                )
            )  # fmt: skip
        printed = flwr_run(tmp_path, project, {"output": str(output)})
        assert appears(output), printed
        is_barycenter(bm.load(output), bm.read_measures(files), "60:-4:4", 0.1)
        # what is wrong with the data of a site is told to nobody else
        output.unlink()
        files[1].write_text("x\nseven\n")
        printed = flwr_run(tmp_path, project, {"output": str(output)})
    logs = {name: "".join(log.read_text() for log in tmp_path.glob(f"{name}*.log")) for name in (LINK, NODE)}
    assert not output.exists()
    assert "No report of round 0 came from" in printed
    assert WRONG in logs[NODE]
    assert WRONG not in printed + logs[LINK]
