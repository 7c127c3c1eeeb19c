"""Shared settings: repeatable property tests, no time limit on an example (the first one compiles kernels)."""

from __future__ import annotations

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
