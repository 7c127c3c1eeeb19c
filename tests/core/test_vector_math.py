"""The vectorised exp and log are right to rounding over their whole range, ends included."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from barymesh.core.vector_math import LOWEST_32, LOWEST_64, fast_exp, fast_log


@numba.njit(fastmath=True, error_model="numpy")
def exp_of(x, out):
    for k in range(x.size):
        out[k] = fast_exp(x[k])


@numba.njit(fastmath=True, error_model="numpy")
def log_of(x, out):
    for k in range(x.size):
        out[k] = fast_log(x[k])


def ulps(got, exact, dtype):
    return np.abs((got - exact) / np.spacing(np.abs(exact).astype(dtype))).astype(float)


@pytest.mark.parametrize(("dtype", "low", "high"), [(np.float64, LOWEST_64, 709.0), (np.float32, LOWEST_32, 88.0)])
def test_exp_is_within_two_ulps(dtype, low, high, rng):
    x = np.concatenate([np.linspace(low, high, 100_001), rng.normal(size=10_000), [low, high, 0.0, -0.0]]).astype(dtype)
    out = np.empty_like(x)
    exp_of(x, out)
    assert ulps(out, np.exp(x.astype(np.longdouble)), dtype).max() < 2


def test_exp_is_exactly_zero_below_its_range():
    x = np.array([-708.1, -750.0, -1e6, -1e300])
    out = np.ones_like(x)
    exp_of(x, out)
    assert (out == 0).all()


def test_exp_of_zero_is_one():
    out = np.empty(8)
    exp_of(np.zeros(8), out)
    assert (out == 1).all()


def test_log_is_within_three_ulps(rng):
    near_one = 1 + rng.uniform(-0.3, 0.42, 20_000)
    wide = np.exp(rng.uniform(-707, 709, 100_000))
    edges = np.array([np.finfo(float).tiny, np.finfo(float).max, 1.0, np.sqrt(0.5), np.sqrt(2.0), 2.0, 0.5])
    x = np.concatenate([near_one, wide, edges])
    out = np.empty_like(x)
    log_of(x, out)
    exact = np.log(x.astype(np.longdouble))
    nonzero = exact != 0
    assert ulps(out[nonzero], exact[nonzero], float).max() < 3
    assert (out[~nonzero] == 0).all()


def test_python_fallbacks_agree_with_the_mathematics():
    assert fast_exp(-1.5) == pytest.approx(np.exp(-1.5), rel=1e-15)
    assert fast_exp(-1000.0) == 0.0
    assert fast_log(3.0) == pytest.approx(np.log(3.0), rel=1e-15)
