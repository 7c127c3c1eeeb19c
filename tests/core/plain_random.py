"""The random numbers of core/random.h in plain Python: SplitMix64, entered at any position."""

from __future__ import annotations

import numpy as np

CHOICES, NORMALS, DELAYS, CLOCKS, ORDERS = range(5)
GOLDEN, MASK = 0x9E3779B97F4A7C15, 2**64 - 1


def mix(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def random_stream(seed, purpose, a, b):
    x = mix((seed + GOLDEN * (purpose + 1)) & MASK)
    x = mix(x ^ ((a * GOLDEN + 1) & MASK))
    return mix(x ^ ((b * GOLDEN + 1) & MASK))


def words(stream, count):
    return [mix((stream + GOLDEN * (k + 1)) & MASK) for k in range(count)]


def units(stream, count):
    """Numbers in (0, 1)."""
    return np.array([((word >> 11) + 0.5) * 2.0**-53 for word in words(stream, count)])


def normals(stream, count):
    """Standard normal numbers, by Box and Muller."""
    levels = units(stream, count + count % 2)
    radius, angle = np.sqrt(-2 * np.log(levels[::2])), 2 * np.pi * levels[1::2]
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).ravel()[:count]
