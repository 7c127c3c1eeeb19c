"""Products with the Gibbs kernel: equal to NumPy's, and each row for itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barymesh.cost import Cost
from barymesh.measures.base import Atoms
from barymesh.oracle import build_oracle
from barymesh.oracle.atoms import AtomOracle
from barymesh.oracle.dense import DenseOracle
from barymesh.oracle.gibbs import line_exponents, line_kernel, matrix_kernel, on_one_line
from barymesh.support.grid import Grid
from barymesh.support.points import Support


def line(count, lower=0.0, spacing=0.125):
    return Grid((count,), (lower,), (lower + spacing * (count - 1),))


@given(
    shape=st.tuples(st.integers(1, 20), st.integers(1, 1200), st.integers(1, 100)),
    dtype=st.sampled_from([np.float64, np.float32]),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=40)
def test_a_matrix_times_rows_equals_numpy(shape, dtype, seed):
    m, n, columns = shape
    rng = np.random.default_rng(seed)
    rows, matrix = rng.random((m, n)).astype(dtype), rng.random((n, columns)).astype(dtype)
    found = matrix_kernel(matrix).times(rows)[:, :columns]
    np.testing.assert_allclose(found, rows @ matrix, rtol=20 * n * np.finfo(dtype).eps)


@given(
    n=st.integers(2, 700),
    columns=st.integers(2, 150),
    shift=st.integers(-3, 3),
    metric=st.sampled_from(["sqeuclidean", "cityblock"]),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=40)
def test_the_kernel_of_a_line_is_the_matrix_of_its_costs(n, columns, shift, metric, seed):
    support, grid, cost = line(n), line(columns, 0.125 * shift), Cost(metric)
    assert on_one_line(support, grid)
    exponents = line_exponents(support, grid, cost.separable, 2.0)
    matrix = np.exp(-cost.matrix(support.points, grid.points) / 2.0)
    rows = np.random.default_rng(seed).random((3, n))
    found = line_kernel(exponents, n, columns).times(rows)[:, :columns]
    np.testing.assert_allclose(found, rows @ matrix, rtol=1e-10)
    back = line_kernel(exponents[::-1].copy(), columns, n).times(found)[:, :n]
    np.testing.assert_allclose(back, found @ matrix.T, rtol=1e-10)


@pytest.mark.parametrize(
    "other",
    [None, line(1), line(9, spacing=0.25), line(9, spacing=0.12500001), Grid((3, 3), (0.0, 0.0), (1.0, 1.0))],
)
def test_what_is_no_common_line_is_noticed(other):
    assert not on_one_line(line(9), other)
    assert not on_one_line(other, line(9))


@pytest.mark.parametrize("kind", ["points", "line"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_row_does_not_depend_on_its_company(kind, dtype, rng):
    """To the last bit: a simulation carries out activations in batches of any size."""
    grid = line(150) if kind == "line" else None
    points = rng.random((150, 2)) if grid is None else grid.points
    support = Support(points) if grid is None else Support.of_grid(grid)
    atoms = [Atoms.from_weights(points, rng.random(150), grid) for _ in range(17)]
    oracle = build_oracle(atoms, support, Cost(), 0.3, dtype)
    assert isinstance(oracle, DenseOracle)
    x = rng.normal(size=(17, 150))
    value, log_p = oracle.evaluate(x)
    for nodes in ([3], [16, 2], list(range(1, 12))):
        alone = oracle.evaluate(x[nodes], np.array(nodes))
        assert (alone[0] == value[nodes]).all()
        assert (alone[1] == log_p[nodes]).all()


@pytest.mark.parametrize("reg", [0.5, 1e-3])
def test_sums_and_other_weights_equal_the_log_domain(reg, rng):
    """What the certificate asks for; at the small reg some rows underflow, and are done in the log domain."""
    grid = line(60)
    support, cost = Support.of_grid(grid), Cost()
    atoms = [Atoms.from_weights(grid.points, rng.random(60) * (np.arange(60) > 20 * k), grid) for k in range(3)]
    dense, exact = DenseOracle(atoms, support, cost, reg), AtomOracle(atoms, support, cost, reg)
    x = rng.normal(size=(3, 60)) / reg
    x[2] += np.linspace(0, 60, 60) / reg
    nodes = np.array([2, 0])
    np.testing.assert_allclose(dense.atom_log_sums(x[nodes], nodes), exact.atom_log_sums(x[nodes], nodes), rtol=1e-11)
    weights = exact.weights * rng.random(exact.weights.size)
    for found, wanted in zip(dense.evaluate(x, weights=weights), exact.evaluate(x, weights=weights), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-11)
