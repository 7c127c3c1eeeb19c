"""The building blocks of the kernels: exponentials, logarithms, sums and small products, right to rounding."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barymesh.core import kernels

# running sums of a sum, see core/simd.h
LANES = 16
SIZES = st.integers(0, 5 * LANES)


def exp_of(x):
    out = np.empty_like(x)
    kernels.vector_exp(x, out)
    return out


def ulps(got, exact, dtype):
    return np.abs((got - exact) / np.spacing(np.abs(exact).astype(dtype))).astype(float)


@pytest.mark.parametrize(("dtype", "low", "high"), [(np.float64, -708.0, 709.0), (np.float32, -87.0, 88.0)])
def test_exp_is_within_two_ulps(dtype, low, high, rng):
    x = np.concatenate([np.linspace(low, high, 100_001), rng.normal(size=10_000), [low, high, 0.0, -0.0]]).astype(dtype)
    assert ulps(exp_of(x), np.exp(x.astype(np.longdouble)), dtype).max() < 2


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_exp_is_exactly_zero_below_its_range(dtype):
    x = np.array([-708.1, -750.0, -1e6, -1e30], dtype)
    assert (exp_of(x) == 0).all()


def test_exp_of_zero_is_one():
    assert (exp_of(np.zeros(8)) == 1).all()


@given(st.integers(1, 40), st.integers(0, 2**32), st.sampled_from([np.float64, np.float32]))
def test_a_number_does_not_depend_on_its_neighbours(size, seed, dtype):
    x = np.random.default_rng(seed).normal(0, 20, size).astype(dtype)
    assert [exp_of(x[k : k + 1])[0] for k in range(size)] == exp_of(x).tolist()


def test_log_is_within_three_ulps(rng):
    near_one = 1 + rng.uniform(-0.3, 0.42, 20_000)
    wide = np.exp(rng.uniform(-707, 709, 100_000))
    edges = np.array([np.finfo(float).tiny, np.finfo(float).max, 1.0, np.sqrt(0.5), np.sqrt(2.0), 2.0, 0.5])
    x = np.concatenate([near_one, wide, edges])
    out = np.empty_like(x)
    kernels.vector_log(x, out)
    exact = np.log(x.astype(np.longdouble))
    nonzero = exact != 0
    assert ulps(out[nonzero], exact[nonzero], float).max() < 3
    assert (out[~nonzero] == 0).all()


def in_fixed_order(terms):
    lanes = [terms.dtype.type(0)] * LANES
    for k, term in enumerate(terms):
        lanes[k % LANES] += term
    while len(lanes) > 1:
        lanes = [lanes[k] + lanes[k + 1] for k in range(0, len(lanes), 2)]
    return lanes[0]


@given(SIZES, st.integers(0, 2**32))
def test_the_sums_are_right(size, seed):
    a, b = np.random.default_rng(seed).normal(size=(2, size))
    found = kernels.vector_sum(a), kernels.vector_dot(a, b)
    np.testing.assert_allclose(found, [math.fsum(a), math.fsum(a * b)], rtol=0, atol=1e-12)


@given(SIZES, st.integers(0, 2**32), st.sampled_from([np.float64, np.float32]))
def test_the_order_of_a_sum_is_fixed(size, seed, kind):
    a = np.random.default_rng(seed).normal(size=size).astype(kind)
    assert kernels.vector_sum(a) == in_fixed_order(a)


@given(SIZES, st.integers(0, 2**32))
def test_a_narrower_second_vector_is_widened_first(size, seed):
    a, b = np.random.default_rng(seed).normal(size=(2, size))
    narrow = b.astype(np.float32)
    assert kernels.vector_dot(a, narrow) == kernels.vector_dot(a, narrow.astype(float))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_sum_has_the_precision_of_its_terms(kind):
    # 2^24 + 1 is no float32
    a = np.array([2.0**24, 0, 1.0] + [0.0] * LANES, dtype=kind)
    assert kernels.vector_sum(a) == 2**24 + (kind is np.float64)


@st.composite
def parts(draw, size):
    start = draw(st.integers(0, size - 1))
    return start, draw(st.integers(start + 1, size))


@given(
    shape=st.tuples(st.integers(1, 30), st.integers(1, 20), st.integers(1, 4)),
    dtype=st.sampled_from([np.float64, np.float32]),
    seed=st.integers(0, 2**32),
    data=st.data(),
)
def test_any_part_of_a_product_equals_numpy(shape, dtype, seed, data):
    height, depth, strips = shape
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(height, depth)).astype(dtype)
    b = rng.normal(size=(depth, strips * kernels.STRIP)).astype(dtype)
    c = np.full((height, strips * kernels.STRIP), np.nan, dtype)
    rows, columns, inner = (data.draw(parts(size)) for size in (height, strips * kernels.STRIP, depth))
    kernels.part_of_product(a, b, c, np.array(rows), np.array(columns), np.array(inner))
    expected = a[slice(*rows), slice(*inner)] @ b[slice(*inner), slice(*columns)]
    tolerance = 100 * np.finfo(dtype).eps
    np.testing.assert_allclose(c[slice(*rows), slice(*columns)], expected, rtol=tolerance, atol=tolerance)
    outside = np.ones(height, dtype=bool)
    outside[slice(*rows)] = False
    assert np.isnan(c[outside]).all(), "rows outside the range were written"


@given(st.integers(2, 30), st.integers(1, 20), st.integers(0, 2**32), st.sampled_from([np.float64, np.float32]))
def test_a_row_of_a_product_does_not_depend_on_the_others(height, depth, seed, dtype):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(height, depth)).astype(dtype), rng.normal(size=(depth, 16)).astype(dtype)
    together, alone = np.empty((height, 16), dtype), np.empty((1, 16), dtype)
    columns, inner = np.array([0, 16]), np.array([0, depth])
    kernels.part_of_product(a, b, together, np.array([0, height]), columns, inner)
    for k in range(height):
        kernels.part_of_product(a[k : k + 1], b, alone, np.array([0, 1]), columns, inner)
        assert (alone[0] == together[k]).all()


@pytest.mark.parametrize(
    "array", [np.zeros((4, 4))[:, 0], np.zeros(4, np.float16), np.zeros((4, 1)), [0.0, 1.0], np.zeros(8)[::2]]
)
def test_arrays_of_another_kind_are_refused(array):
    with pytest.raises(TypeError):
        kernels.vector_sum(array)
