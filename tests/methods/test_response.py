"""The response of a node's estimate to its potential: against differences of the estimate itself."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import barymesh as bm
from barymesh.methods.response import Response
from barymesh.problem import Problem


def random_problem(seed, reg, cost):
    rng = np.random.default_rng(seed)
    n, atoms, d = int(rng.integers(2, 9)), int(rng.integers(1, 12)), int(rng.integers(1, 3))
    if cost == "matrix":
        costs = rng.random((n, atoms))
        return Problem.create([bm.Histogram(rng.dirichlet(np.ones(atoms)))], np.arange(float(n)), reg=reg, cost=costs)
    measure = bm.Empirical(rng.random((atoms, d)), rng.dirichlet(np.ones(atoms)))
    return Problem.create([measure], rng.random((n, d)), reg=reg, cost=cost)


COSTS = st.sampled_from(["sqeuclidean", "euclidean", "matrix"])


@given(seed=st.integers(0, 10**6), reg=st.sampled_from([0.05, 0.3, 2.0]), cost=COSTS)
@settings(max_examples=60)
def test_it_is_the_derivative_of_the_estimate(seed, reg, cost):
    problem, rng = random_problem(seed, reg, cost), np.random.default_rng(seed)
    n, damping = problem.support.size, 0.1
    x, step = rng.normal(size=n), 1e-6
    p = np.exp(problem.oracle.evaluate(x[None])[1][0])
    ends = [problem.oracle.evaluate(x + sign * step * np.eye(n), np.zeros(n, dtype=np.intp))[1] for sign in (1, -1)]
    # row l: the change of h for a change of x at l
    response = ((ends[0] - ends[1]) / (2 * step)).T
    expected = response + damping * np.eye(n) + p
    inverse = Response(problem).inverse(0, x, reg, damping)
    np.testing.assert_allclose(inverse @ expected, np.eye(n), atol=1e-5)


@given(seed=st.integers(0, 10**6), damping=st.sampled_from([1e-4, 1e-2, 1.0]))
def test_constants_and_empty_points(seed, damping):
    """h does not answer to constants; where p is far too small for a float, rows are still those of an average."""
    problem, rng = random_problem(seed, 1e-3, "sqeuclidean"), np.random.default_rng(seed)
    n = problem.support.size
    x = np.append(-2000.0, rng.normal(size=n - 1))
    inverse = Response(problem).inverse(0, x, 1e-3, damping)
    assert np.isfinite(inverse).all()
    np.testing.assert_allclose(inverse @ np.ones(n), 1 / (1 + damping), rtol=1e-4)
