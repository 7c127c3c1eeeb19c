"""Mini-batch gradients: unbiased for every kind of measure, addressed, and right for every cost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import barymesh as bm
from barymesh.gradients.sampled import SampledOracle
from barymesh.oracle import build_oracle
from barymesh.problem import Problem
from barymesh.support.grid import Grid

LINE = np.linspace(-2, 2, 9)
PLANE = np.stack(np.meshgrid(np.linspace(-1, 1, 4), np.linspace(-1, 1, 3)), axis=-1).reshape(-1, 2)
RNG = np.random.default_rng(0)
ON_THE_LINE = [
    bm.Gaussian(0.3, 0.5),
    bm.Mixture.of_gaussians([-1, 1], [0.2, 0.4], [0.3, 0.7]),
    bm.Mixture([bm.Gaussian(0, 1), bm.Empirical([[0.5], [1.0]])], [0.5, 0.5]),
    bm.Empirical(RNG.normal(size=(20, 1)), RNG.random(20)),
    bm.Histogram(RNG.random(9)),
    stats.norm(0.2, 0.7),
    lambda size, rng: rng.exponential(size=size) - 1,
]
IN_THE_PLANE = [
    bm.Gaussian([0.1, 0.2], cov=[[0.3, 0.2], [0.2, 0.4]]),
    bm.Mixture.of_gaussians([[0, 0], [1, 1]], [0.2, 0.3]),
    bm.Image(RNG.random((5, 4))),
]


def problem(measures, support, **options):
    return Problem.create(measures, support, reg=0.3, samples=200_000, **options)


@pytest.mark.parametrize(
    ("measures", "support", "cost"),
    [
        (ON_THE_LINE, LINE, "sqeuclidean"),
        (ON_THE_LINE, LINE, "euclidean"),
        (IN_THE_PLANE, PLANE, "sqeuclidean"),
        (IN_THE_PLANE, PLANE, lambda z, y: np.abs(z[:, None] - y[None]).sum(axis=2) ** 1.5),
    ],
)
def test_many_samples_give_the_exact_gradient(measures, support, cost):
    case = problem(measures, support, cost=cost)
    oracle, exact = SampledOracle(case), build_oracle(case.atoms, case.support, case.cost, case.reg)
    lam = 0.2 * np.random.default_rng(1).normal(size=(len(measures), case.support.size))
    count, nodes = 40_000, np.arange(len(measures))
    estimate = oracle.gradient(lam, nodes, np.zeros(nodes.size, dtype=np.int64), np.full(nodes.size, count))
    truth = exact.value_and_gradient(lam)[1]
    np.testing.assert_allclose(estimate.sum(axis=1), 1, atol=1e-12)
    # a probability's mean over N draws is off by at most 1/(2 sqrt N) in deviation; five of them, and the truth's own
    assert np.abs(estimate - truth).max() < 5 * 0.5 * (count**-0.5 + 200_000**-0.5)


def test_with_a_cost_matrix():
    matrix = RNG.random((6, 4))
    case = Problem.create(RNG.random((3, 4)), None, reg=0.2, cost=matrix)
    oracle, exact = SampledOracle(case), build_oracle(case.atoms, case.support, case.cost, case.reg)
    lam, nodes = 0.2 * RNG.normal(size=(3, 6)), np.arange(3)
    estimate = oracle.gradient(lam, nodes, np.zeros(3, dtype=np.int64), np.full(3, 40_000))
    assert np.abs(estimate - exact.value_and_gradient(lam)[1]).max() < 0.0125


def test_rows_with_different_numbers_of_samples():
    case = problem(ON_THE_LINE, LINE)
    oracle = SampledOracle(case)
    nodes, lam = np.array([5, 0, 3]), np.zeros((3, 9))
    sizes, activations = np.array([3, 1, 7]), np.array([9, 2, 4])
    together = oracle.gradient(lam, nodes, activations, sizes)
    for k in range(3):
        alone = oracle.gradient(lam[:1], nodes[[k]], activations[[k]], sizes[[k]])
        np.testing.assert_array_equal(alone[0], together[k])
    other = oracle.gradient(lam, nodes, activations + 1, sizes)
    assert (np.abs(other - together).max(axis=1) > 0).all()


def test_seeds_give_different_samples():
    first, second = (SampledOracle(problem(ON_THE_LINE, LINE, seed=seed)) for seed in (1, 2))
    arguments = (np.zeros((7, 9)), np.arange(7), np.zeros(7, dtype=np.int64), np.full(7, 2))
    assert (np.abs(first.gradient(*arguments) - second.gradient(*arguments)).max(axis=1) > 0).all()


@given(
    shape=st.lists(st.integers(1, 9), min_size=2, max_size=4), log_reg=st.floats(-4, 2), size=st.floats(0.0, 3.0),
    seed=st.integers(0, 2**20),
)  # fmt: skip
@settings(max_examples=150)
def test_on_a_grid_it_is_the_same_as_on_points(shape, log_reg, size, seed):
    """The factorised way and the pairwise one, for draws near and far outside the grid, duals small and huge."""
    rng = np.random.default_rng(seed)
    grid = Grid(tuple(shape), (-1.0,) * len(shape), tuple(rng.uniform(-0.9, 3.0, len(shape))))
    d, reg = len(shape), 10**log_reg
    measures = [
        bm.Empirical(rng.normal(size=(5, d)) * 10 ** rng.uniform(-2, 1.0)),
        bm.Empirical(rng.normal(size=(4, d))),
    ]
    case = Problem.create(measures, grid.points, reg=reg, seed=seed)
    oracle = SampledOracle(case)
    lam = rng.normal(size=(2, grid.points.shape[0])) * 10**size * reg
    asked = (lam, np.arange(2), np.array([3, 4]), np.array([7, 12]))
    fast = oracle.gradient(*asked)
    assert oracle.axes is not None or grid.points.shape[0] == 1
    oracle.axes = None
    np.testing.assert_allclose(fast, oracle.gradient(*asked), rtol=1e-9, atol=1e-13)
