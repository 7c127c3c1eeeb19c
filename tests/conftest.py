"""Shared settings: repeatable property tests, no time limit on an example."""

from __future__ import annotations

import os

# tests run side by side, one on each core: threads of their own would only wait for one another. Before NumPy and
# barymesh are loaded; runs on several threads have tests of their own (core/test_threads.py, test_repeats.py)
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.update(dict.fromkeys(("BARYMESH_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1"))

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "barymesh", deadline=None, derandomize=True, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("barymesh")


# two processes share the files of tests: those that take longest begin first, so that both end at about the same time
LONGEST = (
    "test_repeats", "test_faults", "test_conformance", "test_code_blocks", "test_sinkhorn", "test_members", "test_tree",
    "test_ray", "test_against_pot", "test_browser", "test_simulation", "test_peers", "test_docker", "test_comparisons",
    "test_certificate", "test_files", "test_processes", "test_oracles", "test_release",
)  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, the others as they were."""
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.stem, len(LONGEST)))


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20260101)
