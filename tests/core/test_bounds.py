"""What a certificate needs to know of a plan's rows equals its formula in plain NumPy."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from barymesh.core import kernels


@given(st.tuples(st.integers(0, 9), st.integers(1, 70), st.integers(0, 4)), st.integers(0, 2**32))
def test_missing_rows(shape, seed):
    rows, n, count = shape
    rng = np.random.default_rng(seed)
    x, log_rows, p = rng.normal(size=(rows, n)), rng.normal(-3, 2, (rows, n)), rng.random(n)
    features, sums, missing = rng.normal(size=(count, n)), np.empty((rows, 3 + count)), log_rows.copy()
    kernels.missing_rows(x, missing, p, features, sums)
    expected = np.maximum(p - np.exp(log_rows), 0.0)
    entropy = np.where(expected > 0, expected * np.log(np.where(expected > 0, expected, 1.0)), 0.0)
    np.testing.assert_allclose(missing, expected, atol=1e-13)
    np.testing.assert_allclose(sums[:, 0], (x * np.exp(log_rows)).sum(axis=1), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(sums[:, 1], expected.sum(axis=1), atol=1e-12)
    np.testing.assert_allclose(sums[:, 2], entropy.sum(axis=1), atol=1e-11)
    np.testing.assert_allclose(sums[:, 3:], expected @ features.T, atol=1e-11)
