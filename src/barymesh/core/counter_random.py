"""Counter-based random numbers for compiled code: every draw is a function of its address alone.

``random_stream(seed, purpose, a, b)`` identifies a stream, ``random_bits(stream, k)`` is its k-th 64-bit number: the
SplitMix64 generator (Steele, Lea, Flood 2014), entered at any position. So a draw depends neither on the order of the
draws, nor on the batch, nor on the process. Different purposes have independent streams.
"""

from __future__ import annotations

import numpy as np

from barymesh.core.compiling import compiled, compiled_inline
from barymesh.core.vector_math import fast_log, fma

# the purposes
CHOICES, NORMALS, DELAYS, CLOCKS, ORDERS = range(5)

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FACTOR_1, FACTOR_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
ONE = np.uint64(1)
TWO_53 = 2.0**-53
HALF_PI = 1.5707963267948966


@compiled_inline
def mix(x):
    """SplitMix64's finaliser: a bijection of 64-bit numbers whose every output bit depends on every input bit."""
    x = (x ^ (x >> np.uint64(30))) * FACTOR_1
    x = (x ^ (x >> np.uint64(27))) * FACTOR_2
    return x ^ (x >> np.uint64(31))


@compiled_inline
def random_stream(seed, purpose, a, b):
    """The stream for the pair ``(a, b)``, such as activation b of node a."""
    x = mix(np.uint64(seed) + GOLDEN * (np.uint64(purpose) + ONE))
    x = mix(x ^ (np.uint64(a) * GOLDEN + ONE))
    return mix(x ^ (np.uint64(b) * GOLDEN + ONE))


@compiled_inline
def random_bits(stream, k):
    """The k-th 64-bit number of a stream."""
    return mix(stream + GOLDEN * (np.uint64(k) + ONE))


@compiled_inline
def unit(bits):
    """A number in (0, 1) from 64 random bits."""
    return (np.float64(np.int64(bits >> np.uint64(11))) + 0.5) * TWO_53


@compiled
def normals(stream, out):
    """Fill ``out`` with independent standard normal numbers (Box and Muller)."""
    for k in range(0, out.size, 2):
        radius = np.sqrt(-2.0 * fast_log(unit(random_bits(stream, k))))
        sine, cosine = sine_and_cosine(4.0 * unit(random_bits(stream, k + 1)))
        out[k] = radius * cosine
        if k + 1 < out.size:
            out[k + 1] = radius * sine


@compiled_inline
def sine_and_cosine(quarters):
    """Sine and cosine of an angle in quarter turns, 0 to 4: Taylor series on plus or minus an eighth of a turn, error
    1e-15."""
    whole = np.floor(quarters + 0.5)
    r = (quarters - whole) * HALF_PI
    z = r * r
    sine = fma(z, 1 / 6227020800, -1 / 39916800)
    for coefficient in (1 / 362880, -1 / 5040, 1 / 120, -1 / 6, 1.0):
        sine = fma(z, sine, coefficient)
    sine *= r
    cosine = fma(z, -1 / 87178291200, 1 / 479001600)
    for coefficient in (-1 / 3628800, 1 / 40320, -1 / 720, 1 / 24, -1 / 2, 1.0):
        cosine = fma(z, cosine, coefficient)
    # arithmetic, not branches, which random angles would mispredict: an odd quarter swaps the two, the sign alternates
    odd = np.float64(np.int64(whole) & 1)
    sign = 1.0 - np.float64(np.int64(whole) & 2)
    sine, cosine = sign * (sine + odd * (cosine - sine)), sign * (cosine - odd * (cosine + sine))
    return sine, cosine
