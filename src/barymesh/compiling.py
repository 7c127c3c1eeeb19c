"""How kernels are compiled: one place for the flags.

Compiled on first use, never at import, and cached on disk. Divisions follow NumPy (no exception on zero), and sums may
be reordered; kernels therefore must not rely on infinities or NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def compiled(function: Callable[..., Any]) -> Any:
    """Compile for one thread."""
    return numba.njit(fastmath=True, error_model="numpy", cache=True)(function)


def compiled_inline(function: Callable[..., Any]) -> Any:
    """Compile as part of the caller: for the innermost steps, whose loops are too short to pay for a call."""
    return numba.njit(fastmath=True, error_model="numpy", cache=True, inline="always")(function)


def compiled_parallel(function: Callable[..., Any]) -> Any:
    """Compile with ``numba.prange`` loops on all cores."""
    return numba.njit(parallel=True, fastmath=True, error_model="numpy", cache=True)(function)
