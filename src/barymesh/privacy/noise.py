"""Noise computed from a secret key: always the same for the same data, and unpredictable without the key."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
# half a step is added to keep off 0 and 1; with 53 bits the largest number would round to 1, whose quantile is infinite
BITS = 52


class Stream:
    """Bytes from SHAKE-256 of the ``key`` and of ``parts`` that identify their purpose. Different parts give
    independent streams."""

    def __init__(self, key: bytes, *parts: bytes) -> None:
        self._hash = hashlib.shake_256()
        for part in (b"barymesh privacy 1", key, *parts):
            # with the lengths, so that no two lists of parts read alike
            self._hash.update(len(part).to_bytes(8, "big") + part)

    def bytes(self, count: int) -> bytes:
        """The first ``count``."""
        return self._hash.digest(count)

    def normals(self, count: int) -> Floats:
        """Standard normal numbers, by the quantiles of 52-bit uniforms."""
        from scipy.special import ndtri

        words = np.frombuffer(self.bytes(8 * count), dtype="<u8") >> np.uint64(64 - BITS)
        return np.asarray(ndtri((words + 0.5) / 2.0**BITS))
