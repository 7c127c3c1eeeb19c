"""Systems with positive definite matrices are solved as by NumPy."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from barymesh.core import kernels


@given(st.integers(0, 4), st.integers(1, 40), st.integers(0, 5), st.integers(0, 2**32))
def test_systems_are_solved(count, n, further, seed):
    rng = np.random.default_rng(seed)
    halves = rng.normal(size=(count, n, n + 3))
    systems = halves @ np.swapaxes(halves, 1, 2) + 0.1 * np.eye(n)
    right = rng.normal(size=(count, n))
    factors = rng.normal(size=(count, n, n + further))
    factors[:, :, :n] = np.triu(systems) + np.tril(factors[:, :, :n], -1)
    kernels.factor_systems(factors)
    found = right.copy()
    kernels.solve_systems(factors, found)
    expected = np.linalg.solve(systems, right[:, :, None])[:, :, 0] if count else right
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8 * (1.0 + np.abs(expected).max(initial=0.0)))


def test_an_unknown_without_a_pivot_is_0():
    factor = np.diag([4.0, 0.0, 1.0])[None].copy()
    kernels.factor_systems(factor)
    found = np.array([[8.0, 1.0, 3.0]])
    kernels.solve_systems(factor, found)
    np.testing.assert_array_equal(found, [[2.0, 0.0, 3.0]])
