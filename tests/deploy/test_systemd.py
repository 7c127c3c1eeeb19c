"""The systemd unit: systemd accepts it, and what it starts is a node."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from barymesh.resources.cores import ONE_THREAD
from tests.peers.test_node import network_of

UNIT = Path(__file__).parents[2] / "deploy" / "systemd" / "barymesh-node@.service"
# of the C function prctl
PR_SET_MDWE = 65
PROGRAM = str(Path(sys.executable).with_name("barymesh"))


def started():
    """The command of the unit, with the program of this environment."""
    (command,) = re.findall(r"^ExecStart=(.*)$", UNIT.read_text(), re.MULTILINE)
    return command.replace("/opt/barymesh/bin/barymesh", PROGRAM)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_accepts_it_and_finds_it_well_enclosed(tmp_path):
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace("/opt/barymesh/bin/barymesh", PROGRAM))
    for command in (["verify", "--man=no"], ["security", "--offline=true", "--threshold=20"]):
        done = subprocess.run(["systemd-analyze", *command, str(copy)], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Unknown" not in done.stderr


def deny_write_execute():
    """MemoryDenyWriteExecute of the unit for this process and its children; kernels before 6.3 cannot, and go on."""
    refuse_exec_gain = 1
    ctypes.CDLL(None).prctl(PR_SET_MDWE, refuse_exec_gain, 0, 0, 0)


def test_what_it_starts_is_a_node(tmp_path):
    assert "MemoryDenyWriteExecute=yes" in UNIT.read_text()
    network_of(tmp_path / "made")
    kit = (tmp_path / "made" / "kits" / "a").rename(tmp_path / "a")
    (tmp_path / "x.csv").write_text("x\n-1\n0.5\n")
    command = started()
    for name, value in {
        "/etc/barymesh/%i": kit,
        "%S/barymesh/%i": tmp_path / "state",
        "${DATA}": tmp_path / "x.csv",
        "$OPTIONS": "--duration 0.5",
    }.items():
        assert name in command
        command = command.replace(name, str(value))
    done = subprocess.run(
        command.split(),
        env={**os.environ, **ONE_THREAD},
        preexec_fn=deny_write_execute,
        capture_output=True,
        text=True,
    )
    # out of time, and not for want of memory that can be written and executed
    assert done.returncode == 5, done.stderr
    assert (tmp_path / "state" / "result.npz").exists()
