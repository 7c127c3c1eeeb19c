"""Figures about a problem before it is solved: typical and largest cost, what the support misses, and the work."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.spatial.distance import cdist

import barymesh as bm
from barymesh.errors import AccuracyWarning, RegularisationError
from barymesh.estimates import Work

PAIR = [bm.Gaussian(0, 1), bm.Gaussian(1, 1)]
LINE = np.linspace(-3, 3, 20)


# the median cost


def test_relative_reg_is_a_multiple_of_the_median_cost(rng):
    """Of that between support points and units of mass: repeated as often as it has mass, every atom counts once."""
    points, counts = rng.normal(size=(9, 2)), rng.integers(0, 5, size=(3, 9))
    counts[:, 0] += 20 - counts.sum(axis=1)
    problem = bm.Problem.create(counts, points, reg=0.02, relative_reg=True)
    units = np.repeat(points, counts.sum(axis=0), axis=0)
    assert problem.reg == pytest.approx(0.02 * np.median(cdist(points, units, "sqeuclidean")), rel=1e-12)


@pytest.mark.parametrize("count", [34, 35, 36, 37])
def test_relative_reg_does_not_depend_on_how_many_images_there_are(count):
    """Every k-th pixel of them all would hit the same columns again and again."""
    images = np.random.default_rng(8).random((count, 28, 28)) + 0.5
    grid = bm.Grid.of_image((28, 28)).points
    reg = bm.Problem.create(images, reg=1.0, relative_reg=True).reg
    assert reg == pytest.approx(np.median(cdist(grid, grid, "sqeuclidean")), rel=0.02)


def test_relative_reg_of_a_distribution_is_that_of_its_samples(rng):
    """Whichever nodes its quadrature has."""
    support = np.linspace(-3, 3, 50)
    samples = bm.Problem.create([rng.normal(size=(20_000, 1))], support, reg=1.0, relative_reg=True).reg
    for measure in (bm.Gaussian(0, 1), stats.norm(), stats.t(300), bm.Mixture([bm.Gaussian(0, 1)])):
        assert bm.Problem.create([measure], support, reg=1.0, relative_reg=True).reg == pytest.approx(samples, rel=0.1)


def test_relative_reg_repeats_and_depends_on_the_seed_alone(rng):
    clouds, support = rng.normal(size=(2, 2000, 2)), rng.normal(size=(1000, 2))
    one, two, other = (
        bm.Problem.create(list(clouds), support, reg=1.0, relative_reg=True, seed=seed).reg for seed in (1, 1, 2)
    )
    assert one == two != other
    assert other == pytest.approx(one, rel=0.03)


@pytest.mark.parametrize("metric", ["euclidean", "cityblock"])
def test_relative_reg_follows_the_metric(metric, rng):
    points, cloud = rng.normal(size=(2, 8, 3))
    problem = bm.Problem.create([cloud], points, reg=0.5, relative_reg=True, cost=metric)
    assert problem.reg == pytest.approx(0.5 * np.median(cdist(points, cloud, metric)), rel=1e-12)


def test_relative_reg_with_a_cost_matrix(rng):
    costs = rng.random((4, 6))
    problem = bm.Problem.create(rng.random((2, 6)), reg=0.1, relative_reg=True, cost=costs)
    assert problem.reg == pytest.approx(0.1 * np.median(costs), rel=1e-12)


def test_relative_reg_does_not_know_units():
    """Millimetres or metres: the same barycenter."""
    small, large = (
        bm.barycenter([bm.Gaussian(0, s), bm.Gaussian(s, 2 * s)], s * LINE, reg=0.05, relative_reg=True, tol=1e-9)
        for s in (1.0, 1000.0)
    )
    np.testing.assert_allclose(small.weights, large.weights, atol=1e-8)


def test_relative_reg_of_a_large_problem_is_close_to_the_median(rng):
    """Only a share of the pairs is looked at."""
    images = rng.random((3, 50, 50))
    problem = bm.Problem.create(images, reg=1.0, relative_reg=True)
    points = problem.support.points
    assert problem.reg == pytest.approx(np.median(cdist(points, points, "sqeuclidean")), rel=0.03)


def test_relative_to_nothing():
    with pytest.raises(RegularisationError, match=r"median cost is 0.*absolute"):
        bm.Problem.create([[[1.0]]], [1.0], reg=1, relative_reg=True)


# the largest cost


@pytest.mark.parametrize("metric", ["sqeuclidean", "euclidean", "cityblock", "chebyshev", "canberra"])
def test_the_largest_cost_is_exact_over_all_measures(metric, rng):
    clouds = [rng.normal(size=(5, 3)) * k for k in (1, 5)]
    for support in (rng.normal(size=(7, 3)), bm.Support.regular((3, 4, 2), -1, 1)):
        problem = bm.Problem.create(clouds, support, reg=10.0, cost=metric)
        exactly = max(cdist(problem.support.points, c, metric).max() for c in clouds)
        assert problem.largest_cost() == pytest.approx(exactly, rel=1e-12)


def test_pixels_without_mass_do_not_count_in_the_largest_cost():
    pixels = np.zeros((9, 9))
    pixels[4, 4] = 1
    problem = bm.Problem.create(pixels[None], reg=0.1)
    assert problem.largest_cost() == pytest.approx(0.5)


# supports that do not fit the data, or reg


def warnings_about(words, *arguments, **options):
    """The AccuracyWarnings of a problem; there is one for each of the words."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        problem = bm.Problem.create(*arguments, **options)
    messages = [str(one.message) for one in caught if issubclass(one.category, AccuracyWarning)]
    assert len(messages) == len(words)
    for message, word in zip(messages, words, strict=True):
        assert word in message
    return problem


FAR = np.linspace(20, 30, 101)


@pytest.mark.parametrize(
    "measure",
    [
        bm.Empirical(np.linspace(1, 3.5, 50)),
        bm.Gaussian(2, 0.5),
        stats.uniform(1, 2.5),
        stats.poisson(2),
        bm.Histogram(np.ones(9), np.linspace(1, 3.5, 9)),
        bm.Sampler(lambda size, rng: rng.uniform(1, 3.5, size)),
        bm.Mixture([bm.Gaussian(1, 0.1), bm.Gaussian(3, 0.1)]),
    ],
    ids=lambda measure: type(measure).__name__,
)
def test_a_support_that_misses_the_data_is_warned_of(measure):
    problem = warnings_about(["About 100% of the measures' mass lies outside"], [measure], FAR, reg=0.1)
    assert problem.share_outside() == 1.0
    warnings_about(["About 50% of"], [measure, bm.Gaussian(25, 0.5)], FAR, reg=0.1)
    warnings_about(["About 75% of"], [measure, bm.Gaussian(25, 0.5)], FAR, reg=0.1, weights=[3, 1])


def test_the_warning_names_the_box_and_is_given_by_barycenter_too():
    with pytest.warns(AccuracyWarning, match=r"\[20, 30\].*give another, or none"):
        bm.barycenter([bm.Empirical([1.0, 3.5])], FAR, reg=0.1)


@given(seed=st.integers(0, 10**6), d=st.integers(1, 3))
def test_the_share_outside_is_that_of_the_points_beyond_one_spacing(seed, d):
    rng = np.random.default_rng(seed)
    points, weights = rng.normal(size=(30, d)) * 2, rng.random(30)
    support = bm.Support.regular([5] * d, -1, 1)
    problem = bm.Problem.create([bm.Empirical(points, weights)], support, reg=1.0)
    beyond = (np.abs(points) > 1.5).any(axis=1)
    assert problem.share_outside() == pytest.approx(weights[beyond].sum() / weights.sum())


def test_images_and_histograms_on_the_support_are_never_outside(rng):
    assert warnings_about([], rng.random((3, 8, 8)), reg=0.1).share_outside() == 0
    assert warnings_about([], rng.random((3, 20)), LINE, reg=1.0).share_outside() == 0


def test_one_point_is_a_support_for_everything():
    assert warnings_about([], [bm.Gaussian(0, 1)], [50.0], reg=1.0).share_outside() == 0


@pytest.mark.parametrize(
    ("support", "reg", "words"),
    [
        (np.linspace(-5, 5, 101), 0.01, []),
        (np.linspace(-5, 5, 100), 0.01, []),
        (np.linspace(-5, 5, 90), 0.01, ["spacing of the support, 0.11, exceeds sqrt(reg) = 0.1"]),
        (np.linspace(-5, 5, 11), 0.01, ["from 1 on"]),
        (None, 0.01, []),
        (None, 1e-7, ["exceeds sqrt(reg) = 0.00032"]),
    ],
)
def test_a_spacing_too_wide_for_reg_is_warned_of(support, reg, words):
    warnings_about(words, PAIR, support, reg=reg)


def test_a_relative_reg_is_judged_by_what_it_amounts_to():
    warnings_about(["exceeds sqrt(reg)"], PAIR, LINE, reg=1e-3, relative_reg=True)
    warnings_about([], PAIR, LINE, reg=0.1, relative_reg=True)


def test_measures_on_the_points_of_the_support_have_nothing_between_them(rng):
    """Images on their own pixels are an exact problem at any reg."""
    masses = rng.random((2, 9))
    points = rng.normal(size=(9, 2))
    warnings_about([], masses.reshape(2, 3, 3), reg=1e-3)
    warnings_about([], masses, points, reg=1e-3)
    warnings_about([], [bm.Empirical(points, m) for m in masses], reg=1e-3)
    warnings_about(["spacing"], masses.reshape(2, 3, 3), bm.Support.regular((4, 4)), reg=1e-3)


def test_other_costs_have_no_such_width(rng):
    warnings_about([], PAIR, LINE, reg=0.01, cost="euclidean")
    warnings_about([], rng.random((2, 3)), reg=0.01, cost=rng.random((4, 3)))


# work


def test_the_work_of_an_iteration_is_told_beforehand(rng):
    clouds = [bm.Empirical(rng.normal(size=(100, 3))) for _ in range(3)]
    small = bm.Problem.create(clouds, bm.Support.regular((4, 4, 4), -2, 2), reg=3.0).work
    assert (small.points, small.support, small.pairs) == (300, 64, 300 * 64)
    assert not small.is_large
    large = Work(20 * 307_200, 7938, 20 * 307_200 * 7938.0)
    assert large.is_large
    for word in ("6,144,000 points", "7,938", "subsample", "grid", "coarser support"):
        assert word in str(large)


def test_measures_on_common_points_and_grids_are_less_work(rng):
    masses = rng.random((3, 400))
    points = rng.normal(size=(400, 2))
    support = bm.Support.regular((20, 20), -2, 2)
    apart = bm.Problem.create([bm.Empirical(points + k, m) for k, m in enumerate(masses)], support, reg=1.0).work.pairs
    shared = bm.Problem.create([bm.Empirical(points, m) for m in masses], support, reg=1.0).work.pairs
    images = bm.Problem.create(masses.reshape(3, 20, 20), reg=1.0).work.pairs
    assert images < shared < apart
