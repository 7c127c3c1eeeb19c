"""The steps of the methods equal their formulas in plain NumPy."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

from barymesh.core import kernels
from barymesh.decentralized.baselines.theta import square_change

NODES, POINTS = st.integers(1, 12), st.integers(1, 70)
SEEDS = st.integers(0, 2**32)
SIZES = st.sampled_from([0.1, 3.0, 300.0, 5000.0])


def some_nodes(rng, count):
    return rng.permutation(count)[: rng.integers(0, count + 1)]


def plain_distance(log_p, log_q):
    return np.abs(softmax(log_p) - softmax(log_q)).sum()


@given(POINTS, SIZES, SEEDS)
def test_l1_distance(n, size, seed):
    log_p, log_q = size * np.random.default_rng(seed).normal(size=(2, n))
    np.testing.assert_allclose(kernels.l1_distance(log_p, log_q), plain_distance(log_p, log_q), rtol=1e-10, atol=1e-14)
    assert kernels.l1_distance(log_p, log_p) == 0


@given(NODES, POINTS, SIZES, SEEDS)
def test_l1_distances(count, n, size, seed):
    rng = np.random.default_rng(seed)
    nodes = some_nodes(rng, count)
    h, target, known = (
        size * rng.normal(size=(nodes.size, n)),
        size * rng.normal(size=(count, n)),
        rng.random(nodes.size),
    )
    found = np.empty(nodes.size)
    kernels.l1_distances(nodes, known < 0.7, 5.5, h, target, found)
    for row, node in enumerate(nodes):
        expected = plain_distance(h[row], target[node]) if known[row] < 0.7 else 5.5
        np.testing.assert_allclose(found[row], expected, rtol=1e-10, atol=1e-14)


@given(NODES, SEEDS)
def test_adapt_relaxations(count, seed):
    rng = np.random.default_rng(seed)
    nodes, error, relaxation = some_nodes(rng, count), rng.random(count), rng.uniform(0.5, 2.0, count)
    errors = np.where(rng.random(nodes.size) < 0.2, error[nodes], rng.random(nodes.size))
    expected_error, expected = error.copy(), relaxation.copy()
    factor = np.where(errors > error[nodes], 0.8, 1.3)
    expected[nodes], expected_error[nodes] = np.clip(factor * relaxation[nodes], 0.7, 1.6), errors
    kernels.adapt_relaxations(nodes, errors, 0.8, 1.3, 0.7, 1.6, error, relaxation)
    np.testing.assert_array_equal(relaxation, expected)
    np.testing.assert_array_equal(error, expected_error)


@given(NODES, POINTS, SEEDS)
def test_move_potentials(count, n, seed):
    rng = np.random.default_rng(seed)
    nodes, relaxation, largest = some_nodes(rng, count), rng.random(count), rng.choice([0.5, 1e12])
    centred = bool(rng.integers(2))
    h, target, x = rng.normal(size=(nodes.size, n)), rng.normal(size=(count, n)), rng.normal(size=(count, n))
    step = relaxation[nodes, None] * (target[nodes] - h)
    moved = x[nodes] + step - step.mean(axis=1, keepdims=True)
    if centred:
        moved -= moved.mean(axis=1, keepdims=True)
    expected = x.copy()
    expected[nodes] = np.clip(moved, -largest, largest)
    kernels.move_potentials(nodes, relaxation, h, target, largest, centred, x)
    np.testing.assert_allclose(x, expected, rtol=1e-13, atol=1e-13)


@given(NODES, POINTS, st.booleans(), SEEDS)
def test_accelerated_points(count, n, naive, seed):
    rng = np.random.default_rng(seed)
    nodes, scale, m = some_nodes(rng, count), rng.random(count), int(rng.integers(1, 1000))
    omega, momentum = rng.normal(size=(2, count, n))
    last_index, last_excess = rng.integers(1, 10**6, count), rng.random(count)
    index = last_index[nodes] + rng.integers(0, 10**6, nodes.size)
    excess = last_excess[nodes] + rng.random(nodes.size)
    rise = square_change(index, excess, last_index[nodes], last_excess[nodes], m)[:, None]
    before, speed = omega[nodes], momentum[nodes]
    expected_omega, expected_momentum = omega.copy(), momentum.copy()
    expected_omega[nodes], expected_momentum[nodes] = before + rise * speed, (1 + rise) * speed
    expected_lam = scale[nodes, None] * (before if naive else before + rise * speed)
    lam, share = np.empty((nodes.size, n)), np.empty(nodes.size)
    kernels.accelerated_points(
        omega, momentum, last_index, last_excess, nodes, index, excess, m, scale, naive, lam, share
    )
    np.testing.assert_allclose(omega, expected_omega, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(momentum, expected_momentum, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(lam, expected_lam, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(share, m / (0.5 * (index - 1) + m + excess), rtol=1e-14)
    assert (last_index[nodes] == index).all()
    assert (last_excess[nodes] == excess).all()


@given(NODES, POINTS, SEEDS)
def test_accelerated_step(count, n, seed):
    rng = np.random.default_rng(seed)
    nodes, step = some_nodes(rng, count), rng.random()
    omega, momentum = rng.normal(size=(2, count, n))
    share, counts = rng.uniform(0.1, 1, nodes.size), rng.integers(0, 9, nodes.size)
    g, totals = rng.random((2, nodes.size, n))
    slope = counts[:, None] * g - totals
    expected_omega, expected_momentum = omega.copy(), momentum.copy()
    expected_omega[nodes] -= step * slope
    expected_momentum[nodes] += step * ((1 - share) / share)[:, None] * slope
    kernels.accelerated_step(omega, momentum, nodes, step, share, g, totals, counts)
    np.testing.assert_allclose(omega, expected_omega, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(momentum, expected_momentum, rtol=1e-13, atol=1e-13)


@given(st.integers(1, 1000), st.integers(0, 70), st.integers(0, 70))
def test_theta_excesses(m, skipped, count):
    """In two blocks, against the recursion of theta itself."""
    inverses = [float(m)]
    for _ in range(skipped + count):
        inverses.append((1 + np.sqrt(1 + 4 * inverses[-1] ** 2)) / 2)
    expected = [inverse - 0.5 * k - m for k, inverse in enumerate(inverses)]
    first, second = np.empty(skipped), np.empty(count)
    following = kernels.theta_excesses(0.0, 0, m, first)
    last = kernels.theta_excesses(following, skipped, m, second)
    np.testing.assert_allclose([*first, *second, last], expected, atol=1e-11)


@given(NODES, POINTS, st.integers(0, 40), SEEDS)
def test_squared_differences(count, n, edges, seed):
    rng = np.random.default_rng(seed)
    p, pairs, found = rng.normal(size=(count, n)), rng.integers(0, count, (edges, 2)), np.empty(edges)
    kernels.squared_differences(p, pairs, found)
    np.testing.assert_allclose(found, ((p[pairs[:, 0]] - p[pairs[:, 1]]) ** 2).sum(axis=1), rtol=1e-12)
