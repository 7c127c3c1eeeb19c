"""Limits of containers: read from both versions of cgroups, and kept by everything that asks for cores or memory."""

from __future__ import annotations

import os

import pytest

import barymesh as bm
from barymesh.core import kernels
from barymesh.errors import NotEnoughMemoryError, OptionError
from barymesh.resources import cgroups, cores, memory

GIB = 2**30


@pytest.fixture
def system(tmp_path, monkeypatch):
    """Write the files of a made-up system: ``system(own="0::/a", files={"a/cpu.max": "..."})``."""

    def write(own, files):
        root = tmp_path / "cgroup"
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(f"{text}\n")
        (tmp_path / "own").write_text(f"{own}\n")
        monkeypatch.setattr(cgroups, "ROOT", root)
        monkeypatch.setattr(cgroups, "OWN", tmp_path / "own")

    return write


@pytest.mark.parametrize(
    ("own", "files", "quota"),
    [
        ("0::/", {}, None),
        ("0::/", {"cpu.max": "max 100000"}, None),
        ("0::/", {"cpu.max": "250000 100000"}, 2.5),
        ("0::/a/b", {"cpu.max": "max 100000", "a/cpu.max": "50000 100000", "a/b/cpu.max": "max 100000"}, 0.5),
        ("0::/a/b", {"a/cpu.max": "150000 100000", "a/b/cpu.max": "400000 100000"}, 1.5),
        ("0::/elsewhere", {"cpu.max": "100000 100000"}, 1.0),
        ("1:cpu:/", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ("1:cpu:/", {"cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "100000"}, 0.5),
        (
            "3:cpu,cpuacct:/docker/x\n0::/",
            {"cpu/docker/x/cpu.cfs_quota_us": "300000", "cpu/docker/x/cpu.cfs_period_us": "100000"},
            3.0,
        ),
        ("0::/../outside", {"cpu.max": "100000 100000"}, 1.0),
    ],
)
def test_the_quota_of_cores(system, own, files, quota):
    system(own, files)
    assert cgroups.core_quota() == quota


@pytest.mark.parametrize(
    ("own", "files", "limit", "left"),
    [
        ("0::/", {}, None, None),
        ("0::/", {"memory.max": "max", "memory.current": "5"}, None, None),
        ("0::/", {"memory.max": 2 * GIB, "memory.current": GIB}, 2 * GIB, GIB),
        (
            "0::/",
            {"memory.max": 2 * GIB, "memory.current": GIB, "memory.stat": f"anon 1\ninactive_file {GIB // 2}"},
            2 * GIB,
            3 * GIB // 2,
        ),
        ("0::/", {"memory.max": GIB, "memory.current": 2 * GIB}, GIB, 0),
        # the outer group is the narrower one, or has less left
        ("0::/a", {"memory.max": GIB, "memory.current": 0, "a/memory.max": 4 * GIB, "a/memory.current": 0}, GIB, GIB),
        (
            "0::/a",
            {"memory.max": 8 * GIB, "memory.current": 7 * GIB, "a/memory.max": 4 * GIB, "a/memory.current": 0},
            4 * GIB,
            GIB,
        ),
        ("4:memory:/x", {"memory/x/memory.limit_in_bytes": 2**63 - 4096}, None, None),
        (
            "4:memory:/x",
            {
                "memory/x/memory.limit_in_bytes": 2 * GIB,
                "memory/x/memory.usage_in_bytes": GIB,
                "memory/x/memory.stat": f"inactive_file 0\ntotal_inactive_file {GIB // 2}",
            },
            2 * GIB,
            3 * GIB // 2,
        ),
    ],
)
def test_the_limit_of_memory_and_what_is_left(system, own, files, limit, left):
    system(own, files)
    assert cgroups.memory_limit() == limit
    assert cgroups.memory_left() == left


@pytest.mark.parametrize(("quota", "cores_left"), [(None, 8), (0.2, 1), (1.5, 2), (2.4, 2), (64.0, 8)])
def test_cores_keep_to_the_quota(monkeypatch, quota, cores_left):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)
    monkeypatch.setattr(cgroups, "core_quota", lambda: quota)
    assert cores.available_cores() == cores_left


def test_memory_keeps_to_the_limit(monkeypatch):
    monkeypatch.setattr(cgroups, "memory_left", lambda: 1000)
    monkeypatch.setattr(memory, "LITTLE", 0)
    assert memory.available_bytes() == 1000
    memory.require(1000, "This", "Do less.")
    with pytest.raises(NotEnoughMemoryError, match="This needs"):
        memory.require(1001, "This", "Do less.")


@pytest.fixture
def threads(monkeypatch):
    """How many threads the kernels are set to use, and no setting in the environment."""
    before = kernels.threads()
    monkeypatch.delenv("BARYMESH_NUM_THREADS", raising=False)
    yield kernels.threads
    kernels.set_threads(before)


@pytest.mark.parametrize(("chosen", "expected"), [(None, 1), ("7", 7), ("", 1)])
def test_as_many_threads_as_the_container_has_cores(monkeypatch, threads, chosen, expected):
    if chosen is not None:
        monkeypatch.setenv("BARYMESH_NUM_THREADS", chosen)
    monkeypatch.setattr(cgroups, "core_quota", lambda: 1.2)
    cores.set_threads()
    assert threads() == expected


def test_the_number_of_threads_can_be_set(threads):
    bm.set_threads(3)
    assert threads() == 3


@pytest.mark.parametrize("count", [0, -2, 1.5, True, "4"])
def test_a_number_of_threads_that_makes_no_sense_is_refused(threads, count):
    with pytest.raises(OptionError, match="whole number of at least 1"):
        bm.set_threads(count)


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5"])
def test_a_variable_that_makes_no_sense_is_refused(monkeypatch, threads, text):
    monkeypatch.setenv("BARYMESH_NUM_THREADS", text)
    with pytest.raises(OptionError, match="BARYMESH_NUM_THREADS"):
        bm.set_threads()
