"""Shared settings: repeatable property tests, no time limit on an example."""

from __future__ import annotations

import gc
import os
import signal
from typing import Any

# tests run side by side, one on each core: threads of their own would only wait for one another. Before NumPy and
# barymesh are loaded; runs on several threads have tests of their own (core/test_threads.py, test_repeats.py)
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.update(dict.fromkeys(("BARYMESH_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1"))

# Ray's workers would have the lowest priority, and wait for everything else: nodes there must keep their pace
os.environ.setdefault("RAY_worker_niceness", "0")
# a shell has programs in the background ignore Ctrl-C, and so would all that tests start in order to interrupt it
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from barymesh.resources.cores import available_cores
from tests import scheduling

settings.register_profile(
    "barymesh", deadline=None, derandomize=True, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("barymesh")


def pytest_configure(config: pytest.Config) -> None:
    scheduling.give_way()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, the others as they were."""
    items.sort(key=lambda item: scheduling.place(item.nodeid.partition("::")[0]))


def pytest_collection_finish(session: pytest.Session) -> None:
    """What all tests import stays until the end: the search for garbage need not go through it time and again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Of ``-n auto``: one for each core, and those that wait."""
    return available_cores() + scheduling.WAITERS


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    return scheduling.TwoQueues(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20260101)
