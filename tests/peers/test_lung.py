"""The example with the patients of real institutions, by peers as processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "lung.py"


def test_the_smallest_institutions_find_their_barycenter(tmp_path):
    command = [sys.executable, EXAMPLE, "--output", tmp_path / "lung", "--smallest", "5"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    assert "5 nodes" in done.stdout
    assert "CONVERGED" in done.stdout
    found, distinct = (int(word) for word in done.stdout.partition("parents find ")[2].split()[:3:2])
    assert found >= 0.9 * distinct
    assert (tmp_path / "lung" / "lung.png").stat().st_size > 10_000
