"""The oracle of weighted atoms equals its formula in plain NumPy, for potentials small and huge."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp

from barymesh.core import kernels

REALS = st.sampled_from([np.float64, np.float32])


class Case:
    """A batch of nodes with random atoms, and what the formula gives for it in float64."""

    def __init__(self, shape, squared, exponents, dtype, seed):
        rng = np.random.default_rng(seed)
        rows, n, d, most = shape
        counts = rng.integers(1, most + 1, rows)
        self.stop = np.cumsum(counts)
        self.start = self.stop - counts
        table = int(rng.integers(1, 20))
        self.index = rng.integers(0, table, self.stop[-1])
        self.weights = rng.uniform(0.01, 1, self.stop[-1]).astype(dtype)
        self.lam, self.scale = (exponents * rng.normal(size=(rows, n))).astype(dtype), 2.0
        empty = np.empty((0, 0), dtype)
        if squared:
            self.support_t = (np.sqrt(exponents) * rng.normal(size=(d, n))).astype(dtype)
            self.points = (np.sqrt(exponents) * rng.normal(size=(table, d))).astype(dtype)
            self.cost = np.empty((0, n), dtype)
            gaps = self.support_t.T[None].astype(float) - self.points[:, None].astype(float)
            costs = (gaps**2).sum(axis=2)
        else:
            self.support_t, self.points = empty, empty
            self.cost = (exponents * rng.random((table, n))).astype(dtype)
            costs = self.cost.astype(float)
        terms = [
            self.scale * self.lam[i].astype(float) - costs[self.index[self.start[i] : self.stop[i]]]
            for i in range(rows)
        ]
        self.log_z = [logsumexp(part, axis=1) for part in terms]
        weights = [self.weights[self.start[i] : self.stop[i]].astype(float) for i in range(rows)]
        self.value = np.array([w @ log_z for w, log_z in zip(weights, self.log_z, strict=True)])
        self.log_p = np.array(
            [
                logsumexp(part + (np.log(w) - log_z)[:, None], axis=0)
                for part, w, log_z in zip(terms, weights, self.log_z, strict=True)
            ]
        )
        # a rounding error of the largest number in an exponent is a relative one of the term
        largest = max(np.abs(part).max() + np.abs(costs).max() for part in terms)
        self.tolerance = 10 * float(np.finfo(dtype).eps) * (largest + n + most)
        self.table = self.support_t, self.points, self.cost, self.index


CASES = st.builds(
    Case,
    st.tuples(st.integers(1, 5), st.integers(1, 70), st.integers(1, 4), st.integers(1, 20)),
    st.booleans(),
    st.sampled_from([0.1, 3.0, 100.0, 5000.0]),
    REALS,
    st.integers(0, 2**32),
)


@given(CASES, st.integers(0, 3), st.booleans(), st.integers(0, 2**32))
def test_approach_atoms(case, steps, centred, seed):
    """It evaluates and moves in turn."""
    batch, n = case.lam.shape
    rng = np.random.default_rng(seed)
    rows, (x, target) = rng.permutation(batch + 2)[:batch], rng.normal(size=(2, batch + 2, n))
    table = *case.table, case.weights, case.start, case.stop
    expected, log_p = x.copy(), np.empty((batch, n))
    for _ in range(steps):
        lam = expected[rows].astype(case.lam.dtype)
        kernels.evaluate_atoms(lam, 1.0, *table, np.empty(batch), np.empty_like(lam), log_p)
        kernels.move_potentials(rows, np.ones(len(x)), log_p, target, 50.0, centred, expected)
    kernels.approach_atoms(rows, steps, target, 50.0, centred, *table, x)
    np.testing.assert_array_equal(x, expected)


@given(CASES, st.booleans())
def test_evaluate_atoms(case, logarithms):
    rows, n = case.lam.shape
    value, p, log_p = np.empty(rows), np.empty_like(case.lam), np.empty((rows, n if logarithms else 0))
    kernels.evaluate_atoms(
        case.lam, case.scale, *case.table, case.weights, case.start, case.stop, value, p, log_p
    )  # fmt: skip
    total = case.weights.astype(float).sum()
    np.testing.assert_allclose(value, case.value, rtol=case.tolerance, atol=case.tolerance * total)
    tiny = 1e-290 if p.dtype == np.float64 else 1e-33
    np.testing.assert_allclose(p, np.exp(case.log_p), rtol=case.tolerance, atol=tiny)
    if logarithms:
        np.testing.assert_allclose(log_p, case.log_p, rtol=1e-15, atol=case.tolerance)


@given(CASES)
def test_atom_log_sums(case):
    x, out = case.lam.dtype.type(case.scale) * case.lam, np.empty(case.stop[-1])
    kernels.atom_log_sums(x, *case.table, case.start, case.stop, case.start, out)
    np.testing.assert_allclose(out, np.concatenate(case.log_z), rtol=1e-15, atol=case.tolerance)


@given(CASES, st.integers(0, 4))
def test_a_row_does_not_depend_on_the_others(case, row):
    row, n = row % case.lam.shape[0], case.lam.shape[1]

    def evaluate(rows):
        value, p, log_p = np.empty(rows.size), np.empty((rows.size, n), case.lam.dtype), np.empty((rows.size, n))
        kernels.evaluate_atoms(
            case.lam[rows], case.scale, *case.table, case.weights, case.start[rows], case.stop[rows], value, p, log_p
        )
        return np.column_stack([value, p, log_p])

    together = evaluate(np.arange(case.lam.shape[0]))
    np.testing.assert_array_equal(evaluate(np.array([row]))[0], together[row])
