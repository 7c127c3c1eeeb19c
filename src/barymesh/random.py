"""Addressed randomness: what is drawn depends on (seed, node, activation) alone.

Never on batching, threads, engine or order. So a run repeats exactly, however it is executed, and two engines can be
compared sample by sample.
"""

from __future__ import annotations

import numpy as np

WORD = 2**64


def addressed_generator(seed: int, node: int, activation: int = 0) -> np.random.Generator:
    """A counter-based generator for one activation of one node.

    The seed is Philox's key; node and activation are the two high words of its counter, and every address has 2^128
    draws before it could meet the next.
    """
    counter = np.array([0, 0, activation % WORD, node % WORD], dtype=np.uint64)
    key = np.array([seed % WORD, (seed // WORD) % WORD], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(counter=counter, key=key))
