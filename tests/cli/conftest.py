"""Files for the command line."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture
def inside(tmp_path, monkeypatch):
    """A folder with a.csv, b.csv and c.csv on the line, made the current one."""
    rng = np.random.default_rng(3)
    for k, name in enumerate("abc"):
        np.savetxt(tmp_path / f"{name}.csv", rng.normal(size=12) + k, header="x", comments="")
    monkeypatch.chdir(tmp_path)
    return tmp_path
