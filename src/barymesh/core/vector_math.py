"""Exponential and logarithm that LLVM can vectorise inside numba loops.

``np.exp`` inside numba calls the scalar C library, one value at a time. These versions are range reduction plus a
polynomial, without branches, so a loop over them becomes SIMD code: five times faster on AVX2.

The rounding trick ``(x + BIG) - BIG`` must survive optimisation, another reason why no flag may reorder sums.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from barymesh.core.compiling import FLAGS

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


def emit_fma(builder, suffix, a, b, c):
    """Emit the instruction ``a * b + c`` for numbers or vectors; ``suffix`` is LLVM's name of their type."""
    kind = c.type
    name = f"llvm.fmuladd.{suffix}"
    return builder.call(
        cgutils.get_or_insert_function(builder.module, ir.FunctionType(kind, [kind] * 3), name), [a, b, c]
    )


def _fused_multiply_add(typing_context, a, b, c):
    def build(context, builder, signature, args):
        return emit_fma(builder, f"f{a.bitwidth}", *args)

    return a(a, a, a), build


# a * b + c, rounded once if the processor can
fma: Any = intrinsic(_fused_multiply_add)


def fast_exp(x: float) -> float:
    """``exp(x)`` for x <= 709 within 1 ulp or so; exactly 0 below -708 (float32: 88 and -87)."""
    return math.exp(x) if x >= LOWEST_64 else 0.0


def fast_log(x: float) -> float:
    """``log(x)`` for positive normal numbers (above 2.3e-308), within 1 ulp or so; float64 arithmetic."""
    return math.log(x)


def _exp_64(x):
    # Chebyshev fit of exp on [-ln2/2, ln2/2], degree 11, error 3e-18
    shifted = fma(x, LOG2_E, BIG_64)
    whole = shifted - BIG_64
    r = fma(-whole, LN2_LOW_64, fma(-whole, LN2_HIGH_64, x))
    # Estrin's scheme, not Horner's: latency, not throughput, limits the loop
    r2 = r * r
    r4 = r2 * r2
    low = fma(r2, fma(r, 0.1666666666666668, 0.5000000000000019), 1.0 + r)
    middle = fma(
        r2,
        fma(r, 0.00019841269890047113, 0.0013888888952314775),
        fma(r, 0.008333333333319601, 0.0416666666664881),
    )
    high = fma(
        r2,
        fma(r, 2.5110037605963777e-08, 2.763263963904103e-07),
        fma(r, 2.755724091857897e-06, 2.4801485482328494e-05),
    )
    p = fma(r4, fma(r4, high, middle), low)
    bits = np.float64(shifted).view(np.int64)
    scale = np.int64((bits + np.int64(1023)) << np.int64(52)).view(np.float64)
    return p * scale if x >= LOWEST_64 else 0.0


def _exp_32(x):
    # Chebyshev fit of degree 6, error 2e-9
    shifted = fma(x, np.float32(LOG2_E), BIG_32)
    whole = np.float32(shifted - BIG_32)
    r = fma(-whole, LN2_LOW_32, fma(-whole, LN2_HIGH_32, x))
    p = np.float32(0.0013941108433972674)
    p = fma(p, r, np.float32(0.008375126398153335))
    p = fma(p, r, np.float32(0.04166635289677516))
    p = fma(p, r, np.float32(0.16666415514653277))
    p = fma(p, r, np.float32(0.5000000047117757))
    p = fma(p, r, np.float32(1.000000037716214))
    p = fma(p, r, np.float32(1.0))
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
    low = fma(z2, fma(z, 0.11111111195856962, 0.14285714285401807), fma(z, 0.2000000000000044, 0.3333333333333333))
    high = fma(z2, fma(z, 0.06543313076280502, 0.0663438656906799), fma(z, 0.07693119851418824, 0.09090897820066195))
    p = fma(z2 * z2, high, low)
    tail = fma(exponent, LN2_LOW_64, 2.0 * s * z * p)
    return fma(exponent, LN2_HIGH_64, 2.0 * s + tail)


@overload(fast_log, jit_options={"fastmath": FLAGS, "error_model": "numpy"}, inline="never")
def _overload_log(x):
    return _log_64
