"""The cores that this process may use, for work that is shared among processes or threads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from barymesh.core import kernels
from barymesh.errors import OptionError
from barymesh.resources import cgroups

VARIABLE = "BARYMESH_NUM_THREADS"
ONE_THREAD = dict.fromkeys((VARIABLE, "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
MOST_THREADS = 1024


def available_cores() -> int:
    """Cores that this process may use: those it may run on, or fewer if its container has a limit on CPU time."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = cgroups.core_quota()
    return cores if quota is None else max(1, min(cores, round(quota)))


def set_threads(count: int | None = None) -> int:
    """Set how many threads compute, this one included.

    Small problems stay on one thread. Results do not depend on the number, to the last bit.

    Parameters
    ----------
    count : int, optional
        At least 1. By default the environment variable ``BARYMESH_NUM_THREADS``, or the cores that this process may
        use.

    Returns
    -------
    int
        The number from now on.

    Examples
    --------
    >>> import barymesh as bm
    >>> bm.set_threads(1)
    1
    >>> bm.set_threads() >= 1
    True
    """
    if count is None:
        text = os.environ.get(VARIABLE, "")
        if text and not (text.isdecimal() and int(text[:9]) > 0):
            raise OptionError(f"{VARIABLE} is {text!r}. Set it to a whole number of at least 1, or unset it.")
        count = int(text[:9]) if text else available_cores()
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise OptionError(f"The number of threads is {count!r}. Use a whole number of at least 1.")
    kernels.set_threads(min(count, MOST_THREADS))
    return kernels.threads()


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
