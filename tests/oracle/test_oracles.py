"""Every compiled oracle against the plain formula, over measures, costs, dimensions and regularisations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barymesh.cost import Cost
from barymesh.measures import Atoms
from barymesh.oracle.atoms import AtomOracle
from barymesh.oracle.dense import DenseOracle
from barymesh.oracle.grid import GridOracle
from barymesh.oracle.groups import GroupedOracle, build_oracle
from barymesh.support.grid import Grid
from barymesh.support.points import Support
from tests.oracle.plain import node_oracle

# the smallest reg must not be smaller than this share of the cost's range
REGS = st.sampled_from([1e-4, 5e-4, 3e-3, 0.05, 1.0])


def cost_range(support, points, cost):
    return float(np.ptp(cost.matrix(support.points, points)))


def check(oracle, atoms, support, cost, lam, rtol=1e-9):
    """Value, gradient and log-gradient equal the plain formula; the gradient is a probability vector."""
    value, log_gradient = oracle.value_and_log_gradient(lam)
    value_again, gradient = oracle.value_and_gradient(lam)
    np.testing.assert_allclose(value, value_again, rtol=1e-12)
    assert np.isfinite(value).all()
    assert np.isfinite(log_gradient).all()
    np.testing.assert_allclose(gradient.sum(axis=1), 1.0, atol=1e-12)
    for i, a in enumerate(atoms):
        expected, expected_log = node_oracle(lam[i], cost.matrix(support.points, a.points).T, a.weights, oracle.reg)
        scale = np.abs(cost.matrix(support.points, a.points)).max() + np.abs(lam[i]).max()
        assert value[i] == pytest.approx(expected, abs=rtol * scale)
        # a logarithm of size L carries a rounding of L times 1e-16, times the length of the sums
        np.testing.assert_allclose(log_gradient[i], expected_log, rtol=1e-11, atol=1e-9)
        np.testing.assert_allclose(gradient[i], np.exp(expected_log), rtol=1e-9, atol=1e-14)


def atoms_from(rng, count, d):
    masses = rng.random(count)
    return Atoms.from_weights(rng.normal(size=(count, d)), masses)


@given(
    d=st.integers(1, 4),
    n=st.integers(1, 40),
    nodes=st.integers(1, 4),
    metric=st.sampled_from(["sqeuclidean", "euclidean", "cityblock"]),
    relative=REGS,
    spread=st.sampled_from([0.0, 0.3, 3.0]),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=80)
def test_atom_oracle_equals_the_formula(d, n, nodes, metric, relative, spread, seed):
    rng = np.random.default_rng(seed)
    support = Support(rng.normal(size=(n, d)))
    cost = Cost(metric)
    atoms = [atoms_from(rng, int(rng.integers(1, 30)), d) for _ in range(nodes)]
    reg = relative * max(cost_range(support, np.concatenate([a.points for a in atoms]), cost), 1e-3)
    lam = spread * rng.normal(size=(nodes, n))
    check(AtomOracle(atoms, support, cost, reg), atoms, support, cost, lam)


@given(
    shape=st.sampled_from([(2, 2), (5, 3), (9, 8), (1, 6), (17, 21), (3, 4, 5), (5, 6, 11), (2, 1, 9), (2, 3, 2, 3)]),
    other=st.booleans(),
    margins=st.booleans(),
    relative=REGS,
    spread=st.sampled_from([0.0, 0.1, 0.5]),
    metric=st.sampled_from(["sqeuclidean", "cityblock"]),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=80)
def test_grid_oracle_equals_the_formula(shape, other, margins, relative, spread, metric, seed):
    rng = np.random.default_rng(seed)
    target = Grid.of_image(shape)
    source = Grid.of_image(tuple(side + 1 for side in shape)) if other else target
    atoms = []
    for _ in range(3):
        masses = rng.random(source.points.shape[0]) * (rng.random(source.points.shape[0]) < 0.4)
        if margins:
            corners = [np.sort(rng.integers(0, side, 2)) for side in source.shape]
            inside = np.zeros(source.shape, dtype=bool)
            inside[tuple(slice(low, high + 1) for low, high in corners)] = True
            masses *= inside.ravel()
            masses[np.flatnonzero(inside.ravel())[0]] += 1.0
        else:
            masses[rng.integers(masses.size)] += 1.0
        atoms.append(Atoms.from_weights(source.points, masses, source))
    support, cost = Support.of_grid(target), Cost(metric)
    reg = relative * cost_range(support, source.points, cost)
    lam = spread * rng.normal(size=(3, support.size))
    oracle = build_oracle(atoms, support, cost, reg)
    assert isinstance(oracle, GridOracle)
    check(oracle, atoms, support, cost, lam)
    # block floating point, also where it would not be needed
    value, log_p, all_rows = np.empty(3), np.empty_like(lam), np.arange(3)
    oracle._safely(lam / reg, all_rows, all_rows, oracle.weights, value, log_p, np.empty(0), all_rows)
    for i, a in enumerate(atoms):
        costs = cost.matrix(support.points, a.points).T
        expected, expected_log = node_oracle(lam[i], costs, a.weights, reg)
        assert reg * value[i] == pytest.approx(expected, abs=1e-9 * (np.abs(costs).max() + np.abs(lam[i]).max()))
        np.testing.assert_allclose(log_p[i], expected_log, rtol=1e-11, atol=1e-9)


@given(
    n=st.integers(2, 40),
    points=st.integers(2, 30),
    metric=st.sampled_from(["sqeuclidean", "euclidean"]),
    relative=REGS,
    spread=st.sampled_from([0.0, 0.3, 3.0]),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=60)
def test_dense_oracle_equals_the_formula(n, points, metric, relative, spread, seed):
    rng = np.random.default_rng(seed)
    support, cost = Support(rng.normal(size=(n, 2))), Cost(metric)
    table = rng.normal(size=(points, 2))
    atoms = [Atoms.from_weights(table, rng.random(points) * (rng.random(points) < 0.7) + 1e-3) for _ in range(3)]
    reg = relative * max(cost_range(support, table, cost), 1e-3)
    oracle = build_oracle(atoms, support, cost, reg)
    assert isinstance(oracle, DenseOracle)
    check(oracle, atoms, support, cost, spread * rng.normal(size=(3, n)))


def smooth_potentials(grid, height, count):
    """Slopes that push the mass far across the grid: what makes ordinary arithmetic underflow."""
    axis = grid.points[:, 0]
    return np.array([height * (1 + 0.3 * k) * axis for k in range(count)])


@pytest.mark.parametrize("relative", [5e-4, 2.5e-4, 1e-4, 2e-5])
def test_grid_guard_notices_underflow_and_is_right(relative, rng):
    """Potentials so steep that the unguarded product form loses whole sums, row by row beside harmless ones."""
    grid = Grid.of_image((24, 24))
    support, cost = Support.of_grid(grid), Cost()
    atoms = []
    for k in range(4):
        masses = np.zeros(grid.shape)
        masses[2 * k : 2 * k + 3, 3:9] = rng.random((3, 6)) + 0.1
        atoms.append(Atoms.from_weights(grid.points, masses.ravel(), grid))
    oracle = GridOracle(atoms, grid, grid, np.square, relative * 2.0)
    lam = smooth_potentials(grid, 1.3, 4)
    lam[0] = 0.0
    sent = []
    original = oracle._safely
    oracle._safely = lambda x, rows, *others: (sent.append(rows.size), original(x, rows, *others))[1]
    check(oracle, atoms, support, cost, lam)
    assert sent, "the guard never triggered, so this test shows nothing"


def test_grid_guard_is_needed(rng):
    """Without the guard the fast kernel would be wrong here: its own answer, where it rejects a row, is not the
    formula's."""
    from barymesh.core import kernels

    grid = Grid.of_image((24, 24))
    masses = np.zeros(grid.shape)
    masses[:3, :3] = 1.0
    oracle = GridOracle([Atoms.from_weights(grid.points, masses.ravel(), grid)], grid, grid, np.square, 4e-4)
    x = smooth_potentials(grid, 1.0, 1) / oracle.reg
    value, log_p, ok = np.empty(1), np.full_like(x, np.nan), np.ones(1, dtype=bool)
    there, back = oracle.to_atoms, oracle.to_support
    kernels.fast_nodes(
        x, np.array([0]), oracle.offsets, oracle.position, oracle.padded_position, oracle.weights,
        there.first, there.others, back.first, back.others, oracle.boxes, oracle.whole, oracle.scratch,
        value, log_p, ok, np.empty(0), np.zeros(1, dtype=np.intp),
    )  # fmt: skip
    assert not ok[0]


@pytest.mark.parametrize("kind", [AtomOracle, DenseOracle])
def test_float32_is_close(kind, rng):
    support, cost = Support(rng.normal(size=(30, 2))), Cost()
    table = rng.normal(size=(20, 2))
    atoms = [Atoms.from_weights(table, rng.random(20)) for _ in range(3)]
    lam = 0.2 * rng.normal(size=(3, 30))
    exact = kind(atoms, support, cost, 0.1).value_and_gradient(lam)
    single = kind(atoms, support, cost, 0.1, np.float32).value_and_gradient(lam)
    np.testing.assert_allclose(single[0], exact[0], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(single[1], exact[1], rtol=1e-3, atol=1e-6)
    # what follows computes in float64
    assert single[1].dtype == np.float64


def test_float32_grid_is_close(rng):
    grid = Grid.of_image((9, 7))
    atoms = [Atoms.from_weights(grid.points, rng.random(63), grid) for _ in range(3)]
    lam = 0.05 * rng.normal(size=(3, 63))
    exact = GridOracle(atoms, grid, grid, np.square, 0.05).value_and_gradient(lam)
    single = GridOracle(atoms, grid, grid, np.square, 0.05, np.float32).value_and_gradient(lam)
    np.testing.assert_allclose(single[0], exact[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(single[1], exact[1], rtol=1e-4, atol=1e-7)


def mixed_problem(rng):
    grid = Grid.of_image((6, 5))
    support = Support.of_grid(grid)
    images = [Atoms.from_weights(grid.points, rng.random(30), grid) for _ in range(2)]
    table = rng.random((12, 2))
    shared = [Atoms.from_weights(table, rng.random(12)) for _ in range(2)]
    own = [atoms_from(rng, 9, 2)]
    return [images[0], own[0], shared[0], images[1], shared[1]], support


def test_mixed_measures_get_the_oracle_that_fits_each(rng):
    atoms, support = mixed_problem(rng)
    oracle = build_oracle(atoms, support, Cost(), 0.05)
    assert isinstance(oracle, GroupedOracle)
    assert {type(part) for part in oracle.parts} == {GridOracle, DenseOracle, AtomOracle}
    check(oracle, atoms, support, Cost(), 0.1 * rng.normal(size=(5, 30)))


def test_a_batch_of_nodes_gives_the_rows_of_the_whole(rng):
    atoms, support = mixed_problem(rng)
    oracle = build_oracle(atoms, support, Cost(), 0.05)
    x = rng.normal(size=(5, 30))
    nodes = np.array([4, 1, 0])
    value, log_p = oracle.evaluate(x)
    some_value, some_log_p = oracle.evaluate(x[nodes], nodes)
    np.testing.assert_allclose(some_value, value[nodes], rtol=1e-13)
    np.testing.assert_allclose(some_log_p, log_p[nodes], rtol=1e-12)
    sums = oracle.atom_log_sums(x)
    pieces = [sums[oracle.offsets[i] : oracle.offsets[i + 1]] for i in nodes]
    np.testing.assert_allclose(oracle.atom_log_sums(x[nodes], nodes), np.concatenate(pieces), rtol=1e-12)


def test_atom_sums_and_reweighting_follow_their_definition(rng):
    atoms, support = mixed_problem(rng)
    cost, reg = Cost(), 0.05
    oracle = build_oracle(atoms, support, cost, reg)
    x = rng.normal(size=(5, 30))
    replaced = oracle.weights * rng.uniform(0.2, 1.0, oracle.weights.size)
    _, log_p = oracle.evaluate(x, weights=replaced)
    sums = oracle.atom_log_sums(x)
    for i, a in enumerate(atoms):
        flat = slice(oracle.offsets[i], oracle.offsets[i + 1])
        exponents = x[i][None, :] - cost.matrix(support.points, a.points).T / reg
        log_z = np.log(np.exp(exponents).sum(axis=1))
        np.testing.assert_allclose(sums[flat], log_z, rtol=1e-11)
        rows = (replaced[flat][:, None] * np.exp(exponents - log_z[:, None])).sum(axis=0)
        np.testing.assert_allclose(np.exp(log_p[i]), rows, rtol=1e-9)


def test_gradient_is_the_derivative_of_the_value(rng):
    atoms, support = mixed_problem(rng)
    oracle = build_oracle(atoms, support, Cost(), 0.1)
    lam, direction = 0.1 * rng.normal(size=(5, 30)), rng.normal(size=(5, 30))
    step = 1e-5
    ahead, behind = (oracle.value_and_gradient(lam + s * direction)[0] for s in (step, -step))
    _, gradient = oracle.value_and_gradient(lam)
    np.testing.assert_allclose((ahead - behind) / (2 * step), (gradient * direction).sum(axis=1), rtol=1e-6, atol=1e-8)
