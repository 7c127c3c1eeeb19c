"""The cores that this process may use, for work that is shared among processes or threads."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from barymesh.resources import cgroups

ONE_THREAD = dict.fromkeys(("NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def available_cores() -> int:
    """Cores that this process may use: those it may run on, or fewer if its container has a limit on CPU time."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = cgroups.core_quota()
    return cores if quota is None else max(1, min(cores, round(quota)))


def limit_threads() -> None:
    """Let the compiled code use no more threads than a container has cores; numba by itself sees all of the machine's.

    Numba reads the variable when it is imported, so this must come first. A number that the user chose is kept.
    """
    if cgroups.core_quota() is not None and "numba" not in sys.modules:
        os.environ.setdefault("NUMBA_NUM_THREADS", str(available_cores()))


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Processes started within this block compute on one thread each: with more they would compete for the cores."""
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(ONE_THREAD)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
