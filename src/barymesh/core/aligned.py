"""Arrays that begin with a cache line."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

CACHE_LINE = 64


def aligned(shape: tuple[int, ...], kind: type) -> NDArray[Any]:
    """Zeros that begin with a cache line: vectors that straddle two lines would cost twice as much to load."""
    size = int(np.prod(shape)) * np.dtype(kind).itemsize
    memory_block = np.zeros(size + CACHE_LINE, dtype=np.uint8)
    skipped = -memory_block.ctypes.data % CACHE_LINE
    return memory_block[skipped : skipped + size].view(kind).reshape(shape)
