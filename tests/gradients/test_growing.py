"""Samples that grow: the empirical measure of all draws so far, in whatever order it is asked for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import barymesh as bm
from barymesh.core import kernels
from barymesh.errors import OptionError
from barymesh.gradients import growing
from barymesh.gradients.growing import GrowingOracle
from barymesh.gradients.sampled import SampledOracle
from barymesh.oracle import build_oracle
from barymesh.problem import Problem
from barymesh.random import addressed_generator

RNG = np.random.default_rng(0)
LINE = np.linspace(-2, 2, 9)
PLANE = np.stack(np.meshgrid(np.linspace(-1, 1, 4), np.linspace(-1, 1, 3)), axis=-1).reshape(-1, 2)
SPACE = np.stack(np.meshgrid(*[np.linspace(-1, 1, 3)] * 3), axis=-1).reshape(-1, 3)
LISTED = [bm.Empirical(RNG.normal(size=(20, 1)), RNG.random(20)), bm.Histogram(RNG.random(9)), bm.Empirical([[0.4]])]
SPREAD = [
    bm.Gaussian(0.3, 0.5),
    bm.Gaussian(-1.0, 0.01),
    bm.Mixture.of_gaussians([-1, 1], [0.2, 0.4], [0.3, 0.7]),
    bm.Mixture([bm.Gaussian(0, 1), bm.Empirical([[0.5], [1.0]])], [0.5, 0.5]),
    stats.norm(0.2, 0.7),
    lambda size, rng: rng.exponential(size=size) - 1,
]
IMAGES = [bm.Image(RNG.random((5, 4))) for _ in range(2)]
IN_THE_PLANE = [bm.Gaussian([0.1, 0.2], cov=[[0.3, 0.2], [0.2, 0.4]]), bm.Mixture.of_gaussians([[0, 0], [1, 1]], 0.2)]
IN_SPACE = [bm.Gaussian([0.1, 0.2, 0.3], 0.1, order=8), lambda size, rng: rng.uniform(-0.2, 0.2, size=(size, 3))]
SQUARED, EUCLIDEAN = "sqeuclidean", "euclidean"


def unsteady(z, y):
    """A cost whose last bits depend on how many points it is asked about, as those of a matrix product may."""
    return ((z[:, None] - y[None]) ** 2).sum(axis=2) * (1 + 2.0**-50 * len(y))


def problem(measures, support, cost=SQUARED, reg=0.3, **options):
    return Problem.create(measures, support, reg=reg, cost=cost, **options)


def potentials(case, scale=1.0):
    return scale * np.random.default_rng(1).normal(size=(len(case.measures), case.support.size))


def of_all_draws(case, x, batch, batches):
    """The gradient over the plain empirical measure: the mean over its mini-batches."""
    sampled, nodes = SampledOracle(case), np.arange(len(case.measures))
    sizes = np.full(nodes.size, batch)
    return np.mean([sampled.gradient(x * case.reg, nodes, np.full(nodes.size, k), sizes) for k in range(batches)], 0)


def drawn(case, node, batch, batches):
    """A node's draws ``(batch * batches, d)``, one mini-batch after the other."""
    of, measure = SampledOracle(case), case.measures[node]
    if node in of.called:
        return np.concatenate([measure.sample(batch, addressed_generator(case.seed, node, k)) for k in range(batches)])
    points, starts = np.empty((batches * batch, of.dimension)), batch * np.arange(batches + 1)
    kernels.draw_points(
        case.seed, np.full(batches, node), np.arange(batches), starts,
        of.first, of.last, of.cumulative, of.centres, of.root, of.roots, points,
    )  # fmt: skip
    return points * of.unit


def at(oracle, x, batches):
    nodes = np.arange(len(x))
    return oracle.log_gradient(x, nodes, np.full(nodes.size, batches))


def variation(p, q):
    return 0.5 * np.abs(p - q).sum(axis=1).max()


@pytest.mark.parametrize(
    ("measures", "support", "cost"),
    [(LISTED, LINE, SQUARED), (LISTED, LINE, EUCLIDEAN), (IMAGES, PLANE, SQUARED), (IMAGES, PLANE, unsteady)],
)
def test_atoms_merge_exactly(measures, support, cost):
    case = problem(measures, support, cost)
    oracle, x = GrowingOracle(case, 30), potentials(case)
    np.testing.assert_allclose(np.exp(at(oracle, x, 7)), of_all_draws(case, x, 30, 7), rtol=1e-12)
    points, weights, offsets = oracle.sample(np.arange(len(measures)), np.full(len(measures), 7))
    for i, atoms in enumerate(case.atoms):
        mine = points[offsets[i] : offsets[i + 1]] * oracle.sampled.unit
        gaps = np.abs(mine[:, None] - atoms.points[None]).max(axis=2)
        assert (gaps.min(axis=1) < 1e-12).all()
        assert mine.shape[0] <= atoms.weights.size
        counts = weights[offsets[i] : offsets[i + 1]] * 210
        np.testing.assert_allclose(counts, np.rint(counts), atol=1e-9)
        assert np.rint(counts).sum() == 210


def test_atoms_of_a_cost_matrix():
    case = Problem.create(RNG.random((3, 4)), None, reg=0.2, cost=RNG.random((6, 4)))
    x = potentials(case)
    np.testing.assert_allclose(np.exp(at(GrowingOracle(case, 30), x, 7)), of_all_draws(case, x, 30, 7), rtol=1e-12)


@pytest.mark.parametrize(
    ("measures", "support", "cost"),
    [
        (SPREAD, LINE, SQUARED),
        # this cost has kinks, which a measure narrower than a cell notices
        ([SPREAD[0], *SPREAD[2:]], LINE, EUCLIDEAN),
        (SPREAD + LISTED, LINE, SQUARED),
        (IN_THE_PLANE, PLANE, SQUARED),
        (IN_THE_PLANE + IMAGES, PLANE, unsteady),
        (IN_SPACE, SPACE, SQUARED),
    ],
)
@pytest.mark.parametrize("scale", [0.0, 3.0])
def test_cells_change_little(measures, support, cost, scale):
    case = problem(measures, support, cost)
    oracle, x = GrowingOracle(case, 500, most=20_000), potentials(case, scale)
    assert variation(np.exp(at(oracle, x, 10)), of_all_draws(case, x, 500, 10)) < 3e-4
    assert (oracle.tables.level == 0).all()


def test_draws_with_a_cell_of_their_own_stay_in_place():
    case = problem(SPREAD, LINE)
    x = potentials(case)
    log_p = at(GrowingOracle(case, 1), x, 1)
    np.testing.assert_allclose(np.exp(log_p), of_all_draws(case, x, 1, 1), rtol=1e-4)


@pytest.mark.parametrize("most", [1, 5, 100, 4096])
@pytest.mark.parametrize(
    ("measures", "support"), [(SPREAD, LINE), (IN_THE_PLANE, PLANE), (IN_SPACE, SPACE)], ids=["line", "plane", "space"]
)
def test_points_are_bounded_and_keep_the_mean(measures, support, most):
    case, batch, batches = problem(measures, support), 20, 100
    oracle, nodes = GrowingOracle(case, batch, most=most), np.arange(len(measures))
    points, weights, offsets = oracle.sample(nodes, np.full(nodes.size, batches))
    assert (np.diff(offsets) <= most).all()
    # cells are joined in pairs, so that a node loses at most half its points at a time
    assert (np.diff(offsets) >= np.where(oracle.tables.level > 0, most // 2, 1)).all()
    np.testing.assert_allclose(np.add.reduceat(weights, offsets[:-1]), 1, rtol=1e-12)
    means = np.add.reduceat(weights[:, None] * points, offsets[:-1]) * oracle.sampled.unit
    expected = [drawn(case, int(node), batch, batches).mean(axis=0) for node in nodes]
    np.testing.assert_allclose(means, expected, atol=1e-6)


def test_wider_cells_are_better_than_fewer_draws():
    measures = [lambda size, rng, s=s: rng.normal(0.1, s, (size, 2)) for s in (0.3, 0.5)]
    case = problem(measures, PLANE, reg=0.1)
    x = potentials(case)
    full = of_all_draws(case, x, 500, 40)
    wider = variation(np.exp(at(GrowingOracle(case, 500, most=500), x, 40)), full)
    fewer = variation(of_all_draws(case, x, 500, 1), full)
    assert wider < fewer / 4


def test_many_draws_give_the_exact_gradient():
    case = problem(SPREAD[:3] + LISTED, LINE)
    x = potentials(case)
    exact = np.exp(build_oracle(case.atoms, case.support, case.cost, case.reg).evaluate(x)[1])
    oracle = GrowingOracle(case, 100)
    few, many = (np.abs(np.exp(at(oracle, x, k)) - exact).max() for k in (1, 400))
    # a probability's mean over N draws is off by at most 1/(2 sqrt N) in deviation; five of them
    assert few < 5 * 0.5 * 100**-0.5
    assert many < 5 * 0.5 * 40_000**-0.5


def test_beyond_three_dimensions_the_first_draws_are_kept():
    measures = [bm.Gaussian(np.zeros(5), 0.4), lambda size, rng: rng.normal(size=(size, 5))]
    case = problem(measures, RNG.normal(size=(6, 5)), reg=1.0)
    oracle, x = GrowingOracle(case, 10, most=57), potentials(case)
    np.testing.assert_allclose(np.exp(at(oracle, x, 3)), of_all_draws(case, x, 10, 3), rtol=1e-4)
    np.testing.assert_allclose(np.exp(at(oracle, x, 80)), of_all_draws(case, x, 10, 5), rtol=1e-4)
    np.testing.assert_allclose(
        np.exp(at(GrowingOracle(case, 10, most=1), x, 80)), of_all_draws(case, x, 10, 1), rtol=1e-4
    )


MIXED = {
    "line": problem(SPREAD + LISTED, LINE, seed=3),
    "unsteady": problem(SPREAD + LISTED, LINE, unsteady, seed=4),
    "plane": problem(IN_THE_PLANE + IMAGES, PLANE, seed=5),
    "space": problem(IN_SPACE, SPACE, seed=6),
}


@pytest.mark.parametrize("name", MIXED)
@settings(max_examples=10)
@given(data=st.data())
def test_a_row_depends_on_its_node_and_batches_alone(name, data):
    """Whatever was asked before, in whatever order, also of fewer batches, and whatever else is asked: equal bits."""
    case = MIXED[name]
    most = data.draw(st.sampled_from([3, 40, 4096]))
    oracle, count = GrowingOracle(case, 6, most=most), len(case.measures)
    node = st.integers(0, count - 1)
    for _ in range(data.draw(st.integers(1, 5))):
        rows = data.draw(st.lists(st.tuples(node, st.integers(1, 40)), min_size=1, max_size=2 * count))
        nodes, batches = (np.array(column) for column in zip(*rows, strict=True))
        x = RNG.normal(size=(nodes.size, case.support.size))
        log_p = oracle.log_gradient(x, nodes, batches)
    row = data.draw(st.integers(0, nodes.size - 1))
    fresh = GrowingOracle(case, 6, most=most)
    np.testing.assert_array_equal(log_p[row], fresh.log_gradient(x[[row]], nodes[[row]], batches[[row]])[0])


@pytest.mark.parametrize("name", MIXED)
def test_one_at_a_time_or_all_at_once(name, monkeypatch):
    case = MIXED[name]
    x = potentials(case)
    slow, fast, piecewise = (GrowingOracle(case, 10, most=60) for _ in range(3))
    for k in range(1, 31):
        grown = at(slow, x, k)
    np.testing.assert_array_equal(grown, at(fast, x, 30))
    monkeypatch.setattr(growing, "DRAWS", 35 * len(case.measures))
    monkeypatch.setattr(growing, "COST_NUMBERS", 1000)
    np.testing.assert_array_equal(grown, at(piecewise, x, 30))
    assert (slow.tables.level == fast.tables.level).all()
    # back to an earlier save, and on again
    np.testing.assert_array_equal(at(slow, x, 12), at(GrowingOracle(case, 10, most=60), x, 12))
    np.testing.assert_array_equal(at(slow, x, 30), grown)


def test_threads_do_not_matter():
    """Few pairs of point and support point are done by one thread, many by all."""
    case = problem([bm.Gaussian(mean, 0.5) for mean in np.linspace(-1, 1, 60)], np.linspace(-2, 2, 50))
    x = potentials(case)
    together, oracle = at(GrowingOracle(case, 20), x, 10), GrowingOracle(case, 20)
    for node in range(0, 60, 7):
        np.testing.assert_array_equal(
            oracle.log_gradient(x[[node]], np.array([node]), np.array([10]))[0], together[node]
        )


def test_a_failed_draw_changes_nothing():
    broken = [False]

    def sampler(size, rng):
        if broken[0]:
            raise RuntimeError("no more")
        return rng.normal(size=size)

    case = problem([bm.Gaussian(0, 1), sampler], LINE)
    oracle, x = GrowingOracle(case, 10), potentials(case)
    at(oracle, x, 3)
    broken[0] = True
    with pytest.raises(RuntimeError, match="no more"):
        at(oracle, x, 5)
    broken[0] = False
    np.testing.assert_array_equal(at(oracle, x, 5), at(GrowingOracle(case, 10), x, 5))


@pytest.mark.parametrize(("dimension", "support"), [(1, LINE), (3, SPACE)])
def test_draws_out_of_range_are_moved_to_its_edge(dimension, support):
    case = problem([lambda size, rng: rng.choice([-1e300, 0.1, 1e300], size=(size, 1)) * np.ones(dimension)], support)
    oracle = GrowingOracle(case, 20)
    log_p = at(oracle, np.zeros((1, case.support.size)), 5)
    assert np.isfinite(log_p).all()
    np.testing.assert_allclose(np.exp(log_p).sum(), 1, rtol=1e-12)
    points = np.sort(oracle.sample(np.array([0]), np.array([5]))[0] * oracle.sampled.unit, axis=0)
    np.testing.assert_allclose(points[1], 0.1, atol=1e-6)
    assert (points[0] < -1000 * case.resolution).all()
    np.testing.assert_allclose(points[2], -points[0], rtol=1e-9)


def test_seeds_give_different_samples():
    first, second = (GrowingOracle(problem(SPREAD + LISTED[:2], LINE, seed=seed), 2) for seed in (1, 2))
    x = np.zeros((8, 9))
    assert (np.abs(at(first, x, 1) - at(second, x, 1)).max(axis=1) > 0).all()


def test_memory_is_shared_and_bounded():
    case = problem([bm.Gaussian(mean, 0.3) for mean in np.linspace(-1, 1, 50)], LINE)
    oracle = GrowingOracle(case, 40)
    for k in range(1, 30):
        oracle.sample(np.arange(50), np.full(50, k))
    tables = oracle.tables
    assert tables.used <= 2 * tables.room.sum()
    assert tables.entries[0].size <= 4 * tables.room.sum()
    starts = np.sort(tables.begin)
    assert (np.diff(starts) >= tables.room[np.argsort(tables.begin)][:-1]).all()


def test_refuses_what_means_nothing():
    case = problem(LISTED, LINE)
    for options in ({"batch": 0}, {"batch": 2.5}, {"batch": 3, "most": 0}):
        with pytest.raises(OptionError):
            GrowingOracle(case, **options)
    with pytest.raises(OptionError, match="at least one batch"):
        at(GrowingOracle(case, 3), potentials(case), 0)


def test_no_rows_at_all():
    for cost in (SQUARED, EUCLIDEAN):
        empty = np.empty(0, dtype=np.int64)
        assert GrowingOracle(problem(LISTED, LINE, cost), 3).log_gradient(np.empty((0, 9)), empty, empty).shape == (
            0,
            9,
        )
