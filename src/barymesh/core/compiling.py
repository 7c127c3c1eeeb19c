"""The decorators that compile kernels, and their flags.

Kernels are compiled on first use, never at import, and cached on disk. Divisions follow NumPy (no exception on zero).
Kernels must not rely on infinities, NaN or the sign of zero, which the flags exclude.

No flag lets LLVM reorder a sum or fuse a product into it: the result would depend on the surrounding code, and on
whether the kernel was just compiled or loaded from the cache, so a run would not repeat to the last bit. Kernels use
both explicitly where they are worth it: ``fma`` in vector_math.py, sums in vector_sums.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

FLAGS = {"nnan", "ninf", "nsz"}


def compiled(function: Callable[..., Any]) -> Any:
    """Compile for one thread."""
    return numba.njit(fastmath=FLAGS, error_model="numpy", cache=True)(function)


def compiled_inline(function: Callable[..., Any]) -> Any:
    """Compile as part of the caller: for the innermost steps, too short to be worth a call."""
    return numba.njit(fastmath=FLAGS, error_model="numpy", cache=True, inline="always")(function)


def compiled_parallel(function: Callable[..., Any]) -> Any:
    """Compile with ``numba.prange`` loops on all cores."""
    return numba.njit(parallel=True, fastmath=FLAGS, error_model="numpy", cache=True)(function)
