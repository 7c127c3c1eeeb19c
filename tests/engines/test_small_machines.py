"""Machines with one core, and next to no shared memory: every place where workers run finds the barycenter there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parents[2]
# a view of the file system of its own, in which shared memory has two megabytes
APART = ("unshare", "--mount", "--map-root-user", "sh", "-c")
SMALL = 'mount -t tmpfs -o size=2m none /dev/shm && exec "$0" "$@"'
CODE = """
import os, sys
import numpy as np
import barymesh as bm
from tests.engines.loaders import MEASURES, POINTS

if __name__ == "__main__":
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    where = {
        "processes": {"engine": "processes", "network": "cycle", "duration": 300},
        "ray": {"engine": "ray", "network": "cycle", "duration": 300},
        "shards": {"engine": "ray"},
    }[sys.argv[1]]
    best = bm.barycenter(MEASURES, POINTS, reg=0.3, tol=1e-10, progress=False)
    found = bm.barycenter(MEASURES, POINTS, reg=0.3, progress=False, **where)
    stat = os.statvfs("/dev/shm")
    print(found.status.name, np.abs(found.weights - best.weights).sum() < 1e-5, stat.f_blocks * stat.f_frsize <= 2**21)
"""


@pytest.mark.parametrize("where", ["processes", "ray", "shards"])
def test_one_core_and_little_shared_memory(where):
    if subprocess.run([*APART, SMALL, "true"], capture_output=True).returncode:
        pytest.skip("no namespaces of our own here")
    clean = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
    done = subprocess.run(
        [*APART, SMALL, sys.executable, "-c", CODE, where], capture_output=True, text=True, cwd=HERE, env=clean
    )
    assert done.stdout.split() == ["CONVERGED", "True", "True"], done.stdout + done.stderr
