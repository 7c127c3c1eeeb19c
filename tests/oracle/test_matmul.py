"""The small matrix product equals NumPy's for every shape and both precisions."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from barymesh.oracle.matmul import LANES, matmul, padded


@given(
    rows=st.integers(1, 20),
    inner=st.integers(1, 20),
    tiles=st.integers(1, 4),
    dtype=st.sampled_from([np.float64, np.float32]),
    seed=st.integers(0, 2**32),
)
def test_equals_numpy(rows, inner, tiles, dtype, seed):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(rows, inner)).astype(dtype)
    b = rng.normal(size=(inner, tiles * LANES)).astype(dtype)
    c = np.full((rows, tiles * LANES), np.nan, dtype)
    matmul(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=100 * np.finfo(dtype).eps, atol=100 * np.finfo(dtype).eps)


def test_padding_is_the_next_whole_number_of_tiles():
    assert [padded(k) for k in (1, 8, 9, 28)] == [8, 8, 16, 32]
