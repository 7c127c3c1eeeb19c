"""The certificate brackets the truth: below by any feasible potentials, above by plans with exact marginals."""

from __future__ import annotations

import warnings
from itertools import pairwise
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import barymesh as bm
from barymesh.exact import certify, solve
from barymesh.exact.certificate import completed, node_bounds
from barymesh.exact.rows import Rows
from barymesh.oracle import build_oracle


def random_problem(seed, relative):
    rng = np.random.default_rng(seed)
    d, n, m = int(rng.integers(1, 3)), int(rng.integers(2, 20)), int(rng.integers(1, 6))
    metric = str(rng.choice(["sqeuclidean", "euclidean", "chebyshev"]))
    measures = [bm.Empirical(rng.random((int(rng.integers(1, 12)), d)), None) for _ in range(m)]
    return bm.Problem.create(
        measures, rng.random((n, d)), reg=relative, relative_reg=True, weights=rng.uniform(0.1, 1, m), cost=metric
    )


def bounds_at(problem, oracle, x, p=None):
    _, log_p = oracle.evaluate(x)
    if p is None:
        mean = problem.weights @ log_p
        p = np.exp(mean - mean.max())
        p /= p.sum()
    return certify(oracle, problem.weights, x, log_p, p, problem.product_costs), p


def true_objective(problem, p):
    """``sum_i w_i W_i(p)`` by a long plain Sinkhorn for each measure: the value of the best plan."""
    total = 0.0
    for w, atoms in zip(problem.weights, problem.atoms, strict=True):
        kernel = -problem.cost.matrix(problem.support.points, atoms.points) / problem.reg
        f, g = np.zeros(len(p)), np.zeros(len(atoms.weights))
        for _ in range(20_000):
            f = np.log(p) - log_sum(kernel + g[None, :], 1)
            g = np.log(atoms.weights) - log_sum(kernel + f[:, None], 0)
        log_plan = f[:, None] + kernel + g[None, :]
        plan = np.exp(log_plan)
        entropy = (plan * (log_plan - np.log(atoms.weights)[None, :])).sum()
        total += w * (-(plan * kernel).sum() + entropy) * problem.reg
    return total


def log_sum(values, axis):
    top = values.max(axis=axis, keepdims=True)
    return (top + np.log(np.exp(values - top).sum(axis=axis, keepdims=True))).squeeze(axis)


@given(seed=st.integers(0, 2**32), log_relative=st.floats(-2, 0), steps=st.integers(1, 40))
@settings(max_examples=60)
def test_bounds_are_in_order_and_bracket_the_optimum(seed, log_relative, steps):
    problem = random_problem(seed, 10**log_relative)
    oracle = build_oracle(problem.atoms, problem.support, problem.cost, problem.reg)
    best = solve(Rows(oracle, problem.weights), max_iter=20_000, tol=1e-10)
    optimum, _ = bounds_at(problem, oracle, best.x, best.p)
    early = solve(Rows(oracle, problem.weights), max_iter=steps, tol=0)
    early_bounds, _ = bounds_at(problem, oracle, early.x, early.p)
    scale = 1e-9 * (1 + abs(optimum.upper))
    assert optimum.gap >= -scale
    assert optimum.gap < 1e-6 * (1 + abs(optimum.upper))
    assert early_bounds.lower <= optimum.upper + scale
    assert early_bounds.upper >= optimum.lower - scale


@given(seed=st.integers(0, 2**32), size=st.floats(0, 2))
@settings(max_examples=40)
def test_any_potentials_give_a_valid_lower_bound(seed, size):
    """Potentials from nowhere, infeasible ones too, never claim more than the optimum."""
    problem = random_problem(seed, 0.1)
    oracle = build_oracle(problem.atoms, problem.support, problem.cost, problem.reg)
    best = solve(Rows(oracle, problem.weights), max_iter=20_000, tol=1e-10)
    optimum, _ = bounds_at(problem, oracle, best.x, best.p)
    x = size * np.random.default_rng(seed).normal(size=best.x.shape)
    bounds, _ = bounds_at(problem, oracle, x)
    assert bounds.lower <= optimum.upper + 1e-9
    assert bounds.upper >= optimum.lower - 1e-9


@pytest.mark.parametrize("seed", range(6))
def test_upper_bound_is_above_the_true_objective_of_the_measure_it_certifies(seed):
    problem = random_problem(seed, 0.2)
    oracle = build_oracle(problem.atoms, problem.support, problem.cost, problem.reg)
    early = solve(Rows(oracle, problem.weights), max_iter=4, tol=0)
    bounds, p = bounds_at(problem, oracle, early.x, early.p)
    truth = true_objective(problem, p)
    assert bounds.lower <= truth + 1e-9
    assert bounds.upper >= truth - 1e-9


def test_the_gap_closes_with_the_tolerance(rng):
    images = rng.random((6, 8, 8))
    gaps = [bm.barycenter(images, reg=0.02, tol=tol).gap for tol in (1e-2, 1e-4, 1e-6, 1e-8)]
    assert all(later < earlier / 5 for earlier, later in pairwise(gaps))
    assert gaps[-1] < 1e-7


@given(seed=st.integers(0, 2**32), log_relative=st.floats(-2, 0), steps=st.integers(1, 40))
@settings(max_examples=40)
def test_the_gap_bounds_the_distance_to_the_barycenter(seed, log_relative, steps):
    """TV <= sqrt(gap / (2 reg)), by strong convexity; and the bound is of use once converged."""
    problem = random_problem(seed, 10**log_relative)
    options = {"reg": problem.reg, "weights": problem.weights, "cost": problem.cost.name}
    rough, fine = (
        bm.barycenter(problem.measures, problem.support.points, max_iter=k, tol=1e-12, **options)
        for k in (steps, 20_000)
    )
    assert 0.5 * np.abs(rough.weights - fine.weights).sum() <= rough.tv_bound + fine.tv_bound
    assert fine.tv_bound < 0.1


@given(
    seed=st.integers(0, 2**32), steps=st.integers(1, 40), cuts=st.lists(st.integers(0, 200), max_size=4),
    drift=st.sampled_from([0.0, 0.3]),
)  # fmt: skip
@settings(max_examples=40)
def test_the_certificate_is_a_sum_over_the_nodes(seed, steps, cuts, drift):
    """Nodes in different places add up their own bounds; one of them completes the sum. More nodes than are done
    together, so that parts are cut elsewhere than batches."""
    rng = np.random.default_rng(seed)
    count, n = int(rng.integers(1, 160)), 12
    measures = [bm.Empirical(rng.random((int(rng.integers(1, 6)), 1))) for _ in range(count)]
    problem = bm.Problem.create(measures, rng.random((n, 1)), reg=0.05, weights=rng.uniform(0.1, 1, count))
    oracle = problem.oracle
    found = solve(Rows(oracle, problem.weights), max_iter=steps, tol=0)
    # potentials that do not quite sum to zero must count too
    x = found.x + drift * rng.normal(size=(1, n))
    log_p = oracle.evaluate(x)[1]
    with mock.patch("barymesh.exact.certificate.BATCH_NUMBERS", 64 * n):
        whole = certify(oracle, problem.weights, x, log_p, found.p, problem.product_costs)
    places = np.split(np.arange(count), sorted({cut % (count + 1) for cut in cuts} - {0, count}))
    parts = []
    for nodes in places:
        own = build_oracle([problem.atoms[k] for k in nodes], problem.support, problem.cost, problem.reg)
        weights = problem.weights[nodes]
        costs = problem.part(nodes, weights).product_costs
        parts.append(node_bounds(own, weights, x[nodes], log_p[nodes], found.p, costs))
    together = completed(sum(parts[1:], start=parts[0]), found.p, problem.reg)
    scale = 1e-12 * (1 + np.abs(problem.reg * x).max())
    assert together.lower == pytest.approx(whole.lower, rel=1e-12, abs=scale)
    assert together.upper == pytest.approx(whole.upper, rel=1e-12, abs=scale)


def test_a_gap_is_never_negative():
    """Bounds in the wrong order show how large rounding is; a bound of 0 on the distance would be false."""
    rng = np.random.default_rng(0)
    measures = [1e20 * rng.normal(size=(30, 1)) for _ in range(3)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = bm.barycenter(measures, reg=0.1)
    assert result.gap > 0
    assert result.tv_bound == 1.0
