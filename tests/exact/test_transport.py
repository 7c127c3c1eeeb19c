"""Regularised transport costs to a given measure: what POT finds, whatever the oracle."""

from __future__ import annotations

import numpy as np
import ot
import pytest

import barymesh as bm
from barymesh.exact.transport import transport_costs
from barymesh.oracle import build_oracle


@pytest.mark.parametrize("relative", [0.3, 0.05])
@pytest.mark.parametrize("kind", ["scattered", "grid", "clouds"])
def test_costs_are_what_pot_finds(rng, kind, relative):
    points = rng.normal(size=(25, 2)) if kind != "grid" else bm.Support.regular((5, 5)).points
    measures = [rng.normal(size=(12, 2)) for _ in range(3)] if kind == "clouds" else rng.random((3, 25))
    problem = bm.Problem.create(measures, points, reg=relative, relative_reg=True)
    target = rng.dirichlet(np.ones(25))
    oracle = build_oracle(problem.atoms, problem.support, problem.cost, problem.reg)
    costs, error = transport_costs(oracle, target, max_iter=20_000, tol=1e-9)
    assert error <= 1e-9
    for atoms, cost in zip(problem.atoms, costs, strict=True):
        matrix = ot.dist(points, atoms.points)
        plan = ot.sinkhorn(target, atoms.weights, matrix, problem.reg, "sinkhorn_log", 50_000, 1e-9)
        entropy = (plan * np.log(np.maximum(plan, 1e-300) / atoms.weights)).sum()
        assert cost == pytest.approx((plan * matrix).sum() + problem.reg * entropy, abs=1e-6 * (1 + matrix.max()))


def test_too_few_iterations_give_a_lower_bound_and_say_so(rng):
    problem = bm.Problem.create(rng.random((3, 25)), bm.Support.regular(25), reg=0.01)
    oracle = build_oracle(problem.atoms, problem.support, problem.cost, problem.reg)
    target = rng.dirichlet(np.ones(25))
    exact, _ = transport_costs(oracle, target, max_iter=20_000, tol=1e-10)
    for steps in (1, 3, 10):
        costs, error = transport_costs(oracle, target, max_iter=steps, tol=1e-10)
        assert error > 1e-10
        assert (costs <= exact + 1e-12).all()


def test_a_reference_given_as_weights_is_as_good_as_one_computed(rng):
    rows, line = rng.random((4, 20)), np.linspace(0, 1, 20)
    true = bm.barycenter(rows, line, reg=0.02, tol=1e-10).weights
    given, computed = (
        bm.barycenter(rows, line, reg=0.02, network="cycle", duration=5, reference=reference).history
        for reference in (true, True)
    )
    np.testing.assert_allclose(given["dual_error"], computed["dual_error"], atol=1e-8)
    np.testing.assert_allclose(given["tv"], computed["tv"], atol=1e-8)
