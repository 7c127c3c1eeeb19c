"""Sums in a written-down order: right, and the same to the last bit as that order taken one number at a time."""

from __future__ import annotations

import math

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barymesh.core.vector_sums import LANES, dot, squared_distance, sum_of

SIZES = st.integers(0, 5 * LANES)


@numba.njit
def compiled_sums(a, b):
    return sum_of(a), dot(a, b), squared_distance(a, b)


def in_the_written_order(terms):
    lanes = [terms.dtype.type(0)] * LANES
    for k, term in enumerate(terms):
        lanes[k % LANES] += term
    while len(lanes) > 1:
        lanes = [lanes[k] + lanes[k + 1] for k in range(0, len(lanes), 2)]
    return lanes[0]


@given(SIZES, st.integers(0, 2**32))
def test_the_sums_are_right(size, seed):
    a, b = np.random.default_rng(seed).normal(size=(2, size))
    found = compiled_sums(a, b)
    np.testing.assert_allclose(found, [math.fsum(a), math.fsum(a * b), math.fsum((a - b) ** 2)], rtol=0, atol=1e-12)


@given(SIZES, st.integers(0, 2**32), st.sampled_from([np.float64, np.float32]))
def test_the_order_is_the_one_written_down(size, seed, kind):
    a = np.random.default_rng(seed).normal(size=size).astype(kind)
    assert compiled_sums(a, a)[0] == in_the_written_order(a)


@given(SIZES, st.integers(0, 2**32))
def test_a_narrower_second_vector_is_widened_first(size, seed):
    a, b = np.random.default_rng(seed).normal(size=(2, size))
    narrow = b.astype(np.float32)
    assert compiled_sums(a, narrow) == compiled_sums(a, narrow.astype(float))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_the_sum_has_the_kind_of_the_first_vector(kind):
    # 2^24 + 1 is no float32
    a = np.array([2.0**24, 0, 1.0] + [0.0] * LANES, dtype=kind)
    assert compiled_sums(a, a)[0] == 2**24 + (kind is np.float64)
