"""The passes of the accelerated iteration equal their formulas in plain NumPy."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from barymesh.core import kernels

SHAPES = st.tuples(st.integers(1, 9), st.integers(1, 70))
SEEDS = st.integers(0, 2**32)


KINDS = st.sampled_from([np.float32, np.uint16])


def stored(values, kind):
    """Numbers of a history: float32, or their upper halves, rounded to nearest, halves to even."""
    single = np.asarray(values, dtype=np.float32)
    if kind is np.float32:
        return single
    bits = single.view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def meant(history):
    if history.dtype == np.float32:
        return history.astype(float)
    return (history.astype(np.uint32) << 16).view(np.float32).astype(float)


def close(found, expected, tolerance=1e-12):
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@given(SHAPES, SEEDS)
def test_weighted_mean(shape, seed):
    rng = np.random.default_rng(seed)
    rows, weights, out = rng.normal(size=shape), rng.random(shape[0]), np.empty(shape[1])
    kernels.weighted_mean(rows, weights, out)
    close(out, weights @ rows)


@given(SHAPES, SEEDS)
def test_residual(shape, seed):
    rng = np.random.default_rng(seed)
    log_p, mean, p = rng.normal(0, 3, shape), rng.normal(0, 3, shape[1]), rng.random(shape[1])
    found, error = log_p.copy(), np.empty(shape[0])
    kernels.residual(found, mean, p, error)
    assert (found == mean - log_p).all()
    close(error, np.abs(np.exp(log_p) - p).sum(axis=1))


@given(SHAPES, SEEDS, st.floats(0.5, 2), KINDS)
def test_close_slot(shape, seed, relaxation, kind):
    rng = np.random.default_rng(seed)
    r, last, step = rng.normal(size=shape), rng.normal(size=shape), rng.normal(size=shape)
    change, move = stored(last, kind), stored(step, kind)
    difference = r - meant(change)
    expected = stored(meant(move) + relaxation * difference, kind)
    kernels.close_slot(r, relaxation, change, move)
    assert (change == stored(difference, kind)).all()
    assert (move == expected).all()


@given(SHAPES, SEEDS, st.integers(1, 5), KINDS)
def test_gram(shape, seed, count, kind):
    rng = np.random.default_rng(seed)
    changes = stored(rng.normal(size=(5, *shape)), kind)
    r, weights, p = rng.normal(size=shape), rng.random(shape[0]), rng.random(shape[1])
    out = np.full((shape[0], count, count + 1), np.nan)
    kernels.gram(changes, count, r, weights, p, out)
    used = meant(changes[:count])
    norm = np.einsum("i,l,qil,sil->iqs", weights, p, used, used)
    close(out[:, :, :count], np.triu(norm))
    close(out[:, :, count], np.einsum("i,l,qil,il->iq", weights, p, used, r))


@given(SHAPES, SEEDS, st.integers(0, 5), st.integers(0, 4), st.floats(0.5, 2), KINDS)
def test_accelerate(shape, seed, count, slot, relaxation, kind):
    rng = np.random.default_rng(seed)
    x, r, drift = rng.normal(size=shape), rng.normal(size=shape), rng.normal(size=shape[1])
    moves, changes = stored(rng.normal(size=(2, 5, *shape)), kind)
    coefficients, fallback = rng.normal(size=max(count, 1)), np.empty(shape)
    start = x - drift
    taken = relaxation * r - np.einsum("q,qil->il", coefficients[:count], meant(moves[:count]))
    others = [k for k in range(5) if k != slot]
    unchanged = moves[others].copy(), changes[others].copy()
    kernels.accelerate(x, r, drift, fallback, moves, changes, count, coefficients, relaxation, slot)
    close(x, start + taken)
    assert (fallback == start + r).all()
    close(meant(moves[slot]), taken, 1e-5 if kind is np.float32 else 2**-8)
    assert (changes[slot] == stored(r, kind)).all()
    assert (moves[others] == unchanged[0]).all()
    assert (changes[others] == unchanged[1]).all()


@given(st.integers(1, kernels.LONGEST_HISTORY), st.integers(1, 30), SEEDS)
def test_least_squares(count, n, seed):
    rng = np.random.default_rng(seed)
    differences, r, ridge = rng.normal(size=(count, n)) * np.exp(rng.normal(0, 3, (count, 1))), rng.normal(size=n), 1e-3
    found, table = np.empty(count), np.column_stack([np.triu(differences @ differences.T), differences @ r])
    assert kernels.least_squares(table, ridge, found)
    unit = differences / np.linalg.norm(differences, axis=1, keepdims=True)
    expected = np.linalg.solve(unit @ unit.T + ridge * np.eye(count), unit @ r)
    close(found * np.linalg.norm(differences, axis=1), expected, 1e-9)


@given(st.integers(1, 5), st.sampled_from([np.nan, np.inf, -np.inf]), SEEDS)
def test_no_least_squares_of_numbers_that_are_not_finite(count, bad, seed):
    rng = np.random.default_rng(seed)
    table = np.column_stack([np.eye(count), np.ones(count)])
    row = int(rng.integers(count))
    table[row, int(rng.integers(row, count + 1))] = bad
    assert not kernels.least_squares(table, 1e-10, np.empty(count))
