"""The image and the demonstration of five sites. What the containers run is run here as processes."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from importlib.resources import files
from pathlib import Path

import jsonschema
import numpy as np
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import barymesh as bm
from barymesh.peers.kit import SECRET
from barymesh.peers.members import NewNode
from barymesh.peers.status import query
from barymesh.resources.cores import ONE_THREAD
from tests.packages import EXTRAS_OF_PROJECT, PROJECT, needed_by
from tests.peers.cluster import until
from tests.ports import free_ports

# a guard against hanging
PATIENCE = 240
NODE_EXTRAS = ("images", "parquet", "peers", "privacy")
ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "deploy" / "docker"
COMPOSE = yaml.safe_load((DOCKER / "compose.yaml").read_text())
SITES = {name: service for name, service in COMPOSE["services"].items() if name not in ("prepare", "result")}
ENVIRONMENT = {**os.environ, **ONE_THREAD, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def instructions():
    """Of the Dockerfile: pairs of a word and what follows it, of the last stage in the end."""
    lines = [line for line in (DOCKER / "Dockerfile").read_text().splitlines() if not line.startswith("#")]
    return [line.split(maxsplit=1) for line in "\n".join(lines).replace("\\\n", "").splitlines() if line]


def last(word):
    return [rest for found, rest in instructions() if found == word][-1]


@pytest.fixture(scope="module")
def demo():
    spec = importlib.util.spec_from_file_location("demo", DOCKER / "demo.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_image_runs_without_root_and_hears_signals():
    assert int(last("USER")) >= 1000
    # as lists: no shell stands between the signal and the node
    assert json.loads(last("ENTRYPOINT")) == ["barymesh"]
    assert json.loads(last("CMD"))[0] == "node"
    assert json.loads(last("HEALTHCHECK").partition("CMD")[2])[0] == "python"


def test_a_build_gets_what_it_copies_and_nothing_private():
    rules = (ROOT / ".dockerignore").read_text().split("\n")
    allowed = [rule[1:] for rule in rules if rule.startswith("!")]
    assert rules[rules.index("*") + 1 :][: len(allowed)] == [f"!{name}" for name in allowed]
    copied = [rest.split()[:-1] for word, rest in instructions() if word == "COPY" and "--from" not in rest]
    for name in (name for names in copied for name in names):
        assert (ROOT / name).exists(), name
        assert any(fnmatch(name, rule) or name.startswith(f"{rule}/") for rule in allowed), name


def locked(name):
    """The packages of a lock file: each with its version and hashes, and nothing else."""
    text = "".join(line for line in (DOCKER / name).read_text().splitlines(True) if not line.startswith("#"))
    found = {}
    for entry in text.replace("\\\n", "").splitlines():
        package, *hashes = entry.split()
        assert hashes, entry
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", one) for one in hashes), entry
        package, version = package.split("==")
        found[canonicalize_name(package)] = version
    return found


def test_what_is_installed_is_locked_by_hashes_and_enough_for_a_node():
    """Both files fit what pyproject.toml asks for, all the way down."""
    commands = [part.strip() for word, rest in instructions() if word == "RUN" for part in rest.split("&&")]
    installs = [part for part in commands if "pip install" in part or "pip wheel" in part]
    assert all("--require-hashes" in part or "--no-deps" in part for part in installs), installs
    assert not [part for part in installs if "pip wheel" in part and "--no-build-isolation" not in part]
    assert any(part.endswith("pip check") for part in commands)
    node, build = locked("requirements.txt"), locked("build-requirements.txt")
    wanted = PROJECT["dependencies"] + [one for extra in NODE_EXTRAS for one in EXTRAS_OF_PROJECT[extra]]
    system = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    for found, requirements in ((node, wanted), (build, system)):
        for one in map(Requirement, requirements):
            assert one.specifier.contains(found[canonicalize_name(one.name)]), one
    assert {"cmake", "ninja"} <= set(build)
    # those of other systems are left out
    missing = set(needed_by([*PROJECT["dependencies"], f"barymesh[{','.join(NODE_EXTRAS)}]"])) - set(node)
    assert missing <= {"colorama", "cffi", "pycparser"}


def test_both_stages_have_one_base_which_a_build_may_name_by_digest():
    bases = [rest.split()[0] for word, rest in instructions() if word == "FROM"]
    assert bases == ["${PYTHON_IMAGE}"] * 2


def test_compose_understands_the_file():
    schema = files("check_jsonschema") / "builtin_schemas" / "vendor" / "compose-spec.json"
    jsonschema.validate(COMPOSE, json.loads(schema.read_text()))


def test_a_site_sees_its_own_volume_and_the_inner_network_only(demo):
    assert list(SITES) == [node.name for node in demo.NODES]
    assert COMPOSE["networks"] == {"sites": {"internal": True}}
    for name, service in SITES.items():
        assert service["volumes"] == [f"{name}:/kit"]
        assert service["networks"] == ["sites"]
    for service in COMPOSE["services"].values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert "ports" not in service
    for name in ("prepare", "result"):
        assert COMPOSE["services"][name]["network_mode"] == "none"
    assert COMPOSE["services"]["prepare"]["entrypoint"][-1] == last("USER")


def test_five_sites_find_the_barycenter_of_their_data(demo, tmp_path):
    for name in SITES:
        (tmp_path / name).mkdir()
    ports = free_ports(10)
    nodes = [
        NewNode(node.name, f"tcp://127.0.0.1:{ports[k]}", status_port=ports[k + 5]) for k, node in enumerate(demo.NODES)
    ]
    demo.prepare(tmp_path, os.getuid(), nodes)
    secrets = {(tmp_path / name / SECRET).read_text() for name in SITES}
    assert len(secrets) == len(SITES)

    def healthy(name):
        check = [sys.executable, str(DOCKER / "healthcheck.py"), str(tmp_path / name)]
        return subprocess.run(check, capture_output=True, text=True)

    assert "does not answer" in healthy("a").stderr
    assert healthy("a").returncode == 1
    running = []
    try:
        for name in SITES:
            command = [word.replace("/kit", str(tmp_path / name)) for word in json.loads(last("CMD"))]
            log = (tmp_path / f"{name}.log").open("w")
            running.append(subprocess.Popen(["barymesh", *command], env=ENVIRONMENT, stdout=log, stderr=log))
            log.close()
        until(lambda: query(nodes[0].status_port) is not None, "the first site answers")
        assert healthy("a").returncode == 0
        for name, process in zip(SITES, running, strict=True):
            assert process.wait(PATIENCE) == 0, (tmp_path / f"{name}.log").read_text()
    finally:
        for process in running:
            process.kill()
            process.wait()
    # once more changes nothing
    demo.prepare(tmp_path, os.getuid(), nodes)
    assert {(tmp_path / name / SECRET).read_text() for name in SITES} == secrets

    shown = subprocess.run(
        [sys.executable, str(DOCKER / "demo.py"), "result", str(tmp_path)],
        env=ENVIRONMENT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    assert [line.split()[0] for line in shown[1:]] == list(SITES)
    pooled = bm.barycenter(
        [demo.samples(k)[:, None] for k in range(5)], np.linspace(-6, 6, 80), reg=demo.REG, tol=1e-10
    )
    for name, line in zip(SITES, shown[1:], strict=True):
        distance = 0.5 * np.abs(bm.load(tmp_path / name / "run" / "result.npz").weights - pooled.weights).sum()
        assert distance < 1e-4
        assert float(line.split()[3]) < 1e-4


def test_a_node_without_status_port_is_told_what_to_do(tmp_path):
    (tmp_path / "node.toml").write_text('name = "a"\n')
    (tmp_path / "network.toml").write_text('[[nodes]]\nname = "a"\n')
    check = [sys.executable, str(DOCKER / "healthcheck.py"), str(tmp_path)]
    done = subprocess.run(check, capture_output=True, text=True)
    assert done.returncode == 1
    assert "status=PORT" in done.stderr
