"""The small matrix product equals NumPy's for every shape and both precisions."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from barymesh.core.matmul import LANES, matmul, padded


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
def test_any_part_equals_numpy(shape, dtype, seed, data):
    height, depth, tiles = shape
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(height, depth)).astype(dtype)
    b = rng.normal(size=(depth, tiles * LANES)).astype(dtype)
    c = np.full((height, tiles * LANES), np.nan, dtype)
    rows, columns, inner = (data.draw(parts(size)) for size in (height, tiles * LANES, depth))
    matmul(a, b, c, rows, columns, inner)
    wanted = (slice(*rows), slice(*columns))
    expected = a[slice(*rows), slice(*inner)] @ b[slice(*inner), slice(*columns)]
    np.testing.assert_allclose(c[wanted], expected, rtol=100 * np.finfo(dtype).eps, atol=100 * np.finfo(dtype).eps)
    outside = np.ones(height, dtype=bool)
    outside[slice(*rows)] = False
    assert np.isnan(c[outside]).all(), "rows that were not asked for were written"


def test_padding_is_the_next_whole_number_of_tiles():
    assert [padded(k) for k in (1, 8, 9, 28)] == [8, 8, 16, 32]
