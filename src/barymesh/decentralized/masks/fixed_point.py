"""Numbers as integers modulo 2^64, whose sums are exact and cannot overflow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from barymesh.errors import NumericalError

Floats = NDArray[np.float64]
Words = NDArray[np.uint64]

# sums stay below 2^SUM_BITS in size; one bit is for the sign, and one for rounding
SUM_BITS = 62
MODULUS = 2.0**64


@dataclass(frozen=True, eq=False)
class FixedPoint:
    """Numbers as integers modulo 2^64, multiples of ``1 / scale``. ``limits, scale (size,)``: a node of weight w has
    numbers of at most ``w limits``, and no sum over nodes whose weights are at most ``total`` together overflows."""

    limits: Floats
    scale: Floats

    @classmethod
    def create(cls, limits: Floats, total: float, nodes: int) -> FixedPoint:
        """The finest in which no sum can overflow. ``nodes``: how many there are, each of which rounds once."""
        if not (np.isfinite(limits).all() and (limits > 0).all() and np.isfinite(total) and total > 0):
            raise ValueError("limits and total must be positive and finite")
        if nodes >= 2**SUM_BITS:
            raise ValueError(f"{nodes} nodes are too many for fixed point")
        # a power of 2: multiplication by it is exact
        return cls(limits, np.exp2(np.floor(SUM_BITS - np.log2(limits * total))))

    def words(self, values: Floats, weight: float, low_bits: Words) -> Words:
        """``values (size,)`` of a node of this weight. Larger ones than the limits are cut, which does not depend on
        the weight; if the weight is more than was allowed for, the words are those of the sum modulo 2^64 all the same,
        so sums with a false total tell no more than those with the true one.

        What is lost in a word is random, by the ``low_bits (size,)``: numbers are rounded after two random numbers of
        up to half a unit were added, so that neither the mean nor the variance of a word shows more of a number than
        its sum with others does (zeros add nothing); and the digits that a large double lacks are random ones, since
        zeros would show those of smaller doubles in the sum."""
        if not np.isfinite(values).all():
            raise NumericalError("A node's contribution has numbers that are not finite. Nothing was sent.")
        most = weight * self.limits
        units = np.clip(values, -most, most) * self.scale
        # apart, because large doubles would round the sum
        whole = np.floor(units)
        step = np.rint(units - whole + _dither(low_bits)).astype(np.int64).view(np.uint64)
        size = np.fmod(np.abs(whole), MODULUS).astype(np.uint64)
        unknown = np.clip(np.log2(np.spacing(np.abs(whole))), 0, 63).astype(np.uint64)
        return np.where(whole < 0, -size, size) + step + (low_bits & ((np.uint64(1) << unknown) - np.uint64(1)))

    def numbers(self, words: Words) -> Floats:
        """The sums that the ``words (size,)`` stand for."""
        return np.asarray(words.view(np.int64) / self.scale)


def _dither(bits: Words) -> Floats:
    """The sum of two random numbers from -1/2 to 1/2 for each word; 0 for zeros."""
    halves = (bits >> np.uint64(32)).astype(float), (bits & np.uint64(2**32 - 1)).astype(float)
    return np.where(bits == 0, 0.0, (halves[0] + halves[1] + 1.0) * 2.0**-32 - 1.0)
