"""Shared settings: repeatable property tests, no time limit on an example (the first one compiles kernels)."""

from __future__ import annotations

import os

# tests run side by side, one on each core: threads of their own would only wait for one another. Before NumPy and Numba
# are loaded; runs on several threads have tests of their own, in processes of their own (test_repeats.py)
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.update(dict.fromkeys(("NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1"))

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "barymesh", deadline=None, derandomize=True, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("barymesh")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20260101)
