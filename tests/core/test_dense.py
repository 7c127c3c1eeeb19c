"""The products with a Gibbs kernel, and the steps around them, equal their formulas in plain NumPy."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from barymesh.core import kernels
from barymesh.oracle.gibbs import line_kernel, matrix_kernel, padded, squared_kernel

SHAPES = st.tuples(st.integers(1, 15), st.integers(1, 70))
SEEDS = st.integers(0, 2**32)
REALS = st.sampled_from([np.float64, np.float32])


def close(found, expected, dtype=np.float64):
    tolerance = 1000 * float(np.finfo(dtype).eps)
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@given(st.tuples(st.integers(1, 15), st.integers(1, 600), st.integers(1, 90)), SEEDS, REALS)
def test_a_product_with_a_matrix(shape, seed, dtype):
    m, n, columns = shape
    rng = np.random.default_rng(seed)
    rows, matrix = rng.random((m, n)).astype(dtype), rng.random((n, columns)).astype(dtype)
    close(matrix_kernel(matrix).times(rows)[:, :columns], rows @ matrix, dtype)


@given(st.tuples(st.integers(1, 15), st.integers(1, 70), st.integers(1, 90)), SEEDS)
def test_a_product_with_a_toeplitz_matrix(shape, seed):
    m, n, columns = shape
    rng = np.random.default_rng(seed)
    rows, exponents = rng.random((m, n)), rng.random(n + columns - 1)
    matrix = np.exp(-exponents[n - 1 + np.arange(columns)[None, :] - np.arange(n)[:, None]])
    close(line_kernel(exponents, n, columns).times(rows)[:, :columns], rows @ matrix)


@given(SHAPES, SEEDS, REALS)
def test_shifted_exp(shape, seed, dtype):
    x, top, out = np.random.default_rng(seed).normal(0, 5, shape), np.empty(shape[0]), np.empty(shape, dtype)
    kernels.shifted_exp(x, top, out)
    assert (top == x.max(axis=1)).all()
    close(out, np.exp(x - top[:, None]), dtype)


@given(SHAPES, st.integers(0, 5), SEEDS, REALS)
def test_divide(shape, padding, seed, dtype):
    rng = np.random.default_rng(seed)
    masses = (rng.random(shape) * (rng.random(shape) < 0.7)).astype(dtype)
    z = np.exp(rng.uniform(-90, 5, (shape[0], shape[1] + padding))).astype(dtype)
    tiny = 1e-30
    lowest = np.where(masses > 0, z[:, : shape[1]], 1.0).min(axis=1)
    used = np.where(masses > 0, z[:, : shape[1]], 1.0).astype(float)
    expected = np.where(used > tiny, masses / used, 0.0)
    logs = (masses * np.log(np.maximum(used, 1e-300))).sum(axis=1)
    value, largest, ok = np.empty(shape[0]), np.empty(shape[0]), np.empty(shape[0], bool)
    kernels.divide(masses, z, tiny, value, largest, ok)
    close(z[:, : shape[1]], expected.astype(dtype), dtype)
    close(value, logs)
    assert (largest == np.maximum(z[:, : shape[1]].max(axis=1), 0)).all()
    assert (ok == (lowest > tiny)).all()


@given(SHAPES, st.integers(0, 5), SEEDS, REALS)
def test_log_gradients(shape, padding, seed, dtype):
    rng = np.random.default_rng(seed)
    x, top, largest = rng.normal(size=shape), rng.normal(size=shape[0]), rng.uniform(0, 3, shape[0])
    sums = np.exp(rng.uniform(-80, 5, (shape[0], shape[1] + padding))).astype(dtype)
    before = rng.random(shape[0]) < 0.8
    ok, log_p, tiny = before.copy(), np.empty(shape), 1e-30
    kernels.log_gradients(x, top, sums, largest, tiny, ok, log_p)
    own = sums[:, : shape[1]].astype(float)
    close(log_p, x - top[:, None] + np.log(own))
    assert (ok == (before & (own.min(axis=1) > tiny * np.maximum(largest, 1)))).all()


@given(SHAPES, SEEDS, REALS)
def test_log_sums(shape, seed, dtype):
    rng = np.random.default_rng(seed)
    z = np.exp(rng.uniform(-80, 0, shape)).astype(dtype)
    counts = rng.integers(1, shape[1] + 1, shape[0])
    starts = np.concatenate([[0], np.cumsum(counts)])
    position = np.concatenate([rng.choice(shape[1], count, replace=False) for count in counts])
    top, out, ok = rng.normal(size=shape[0]), np.empty(starts[-1]), np.empty(shape[0], bool)
    kernels.log_sums(z, top, position, starts[:-1].copy(), starts, 1e-30, out, ok)
    for i in range(shape[0]):
        own = z[i, position[starts[i] : starts[i + 1]]].astype(float)
        close(out[starts[i] : starts[i + 1]], top[i] + np.log(own))
        assert ok[i] == (own.min() > 1e-30)


@given(st.tuples(st.integers(0, 20), st.integers(0, 30), st.integers(1, 4)), SEEDS, REALS)
def test_the_kernel_of_squared_distances(shape, seed, dtype):
    n, count, dimension = shape
    rng = np.random.default_rng(seed)
    points, table = rng.normal(size=(n, dimension)), rng.normal(size=(count, dimension))
    expected = np.exp(-np.square(points[:, None] - table).sum(axis=2))
    strips = np.empty((padded(count) // kernels.STRIP, n, kernels.STRIP), dtype)
    kernels.squared_gibbs(points, table, strips)
    found = strips.transpose(1, 0, 2).reshape(n, padded(count))
    close(found[:, :count], expected, dtype)
    assert (found[:, count:] == 0).all()


@given(st.tuples(st.integers(1, 9), st.integers(1, 40), st.integers(1, 40)), SEEDS, REALS)
def test_a_dense_oracle_is_its_steps_one_after_the_other(shape, seed, dtype):
    rows, n, atoms = shape
    rng = np.random.default_rng(seed)
    x, masses = (
        rng.normal(0, 3, (rows, n)),
        (rng.random((rows, atoms)) * (rng.random((rows, atoms)) < 0.8)).astype(dtype),
    )
    points, table = rng.normal(size=(n, 2)), rng.normal(size=(atoms, 2))
    kernel = np.exp(-np.square(points[:, None] - table).sum(axis=2))
    there, back = squared_kernel(points, table, dtype), squared_kernel(table, points, dtype)
    e, z, sums = (np.empty((rows, width), dtype) for width in (n, padded(atoms), padded(n)))
    top, value, log_p, ok = np.empty(rows), np.empty(rows), np.empty((rows, n)), np.empty(rows, bool)
    kernels.dense_nodes(
        x, masses, there.numbers, there.layout, back.numbers, back.layout, 1e-30, e, z, sums, top, value, log_p, ok
    )
    total = np.exp(x - x.max(axis=1, keepdims=True)) @ kernel
    close(value, (masses * np.log(total)).sum(axis=1), dtype)
    back_sums = (masses / total) @ kernel.T
    full = masses.any(axis=1)
    assert (ok == (full & (back_sums.min(axis=1) > 1e-30 * np.maximum((masses / total).max(axis=1), 1)))).all()
    shifted = x - x.max(axis=1, keepdims=True)
    np.testing.assert_allclose(
        log_p[ok], (shifted + np.log(np.maximum(back_sums, 1e-300)))[ok], atol=1e-3 if dtype is np.float32 else 1e-11
    )
