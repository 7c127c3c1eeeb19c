"""The support that is chosen from the data, and what is said about it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import barymesh as bm
from barymesh.errors import AccuracyWarning, DimensionError, SupportError
from barymesh.support.choice import CLOUD, COUNTS, TAIL, choose_support

seeds = st.integers(0, 2**32)


def chosen(measures, reg=0.1, own=True, seed=0, samples=100):
    return choose_support(measures, reg, own=own, seed=seed, samples=samples)


def test_a_common_grid_is_kept(rng):
    images = [bm.Image(rng.random((4, 6))) for _ in range(3)]
    support = chosen(images)
    assert support.grid == images[0].grid
    assert "4 x 6" in support.reason
    assert chosen(images[:1]).grid == images[0].grid


def test_common_points_are_kept(rng):
    points = rng.normal(size=(9, 2))
    support = chosen([bm.Empirical(points), bm.Histogram(rng.random(9), points)])
    np.testing.assert_array_equal(support.points, points)
    assert "9 points" in support.reason


@pytest.mark.parametrize("points", [np.array([0.0, 1.0, 5.0]), [0.0, 1.0, 5.0], [[0.0], [1.0], [5.0]]])
def test_common_points_are_kept_however_they_were_written(points):
    """Flat, or as a list: the measures' common points if they have some."""
    support = chosen([bm.Histogram([1, 2, 3], points), bm.Histogram([3, 2, 1], points)])
    np.testing.assert_array_equal(support.points, [[0.0], [1.0], [5.0]])


def test_common_points_with_repetitions_give_a_support():
    """Samples repeat themselves, on whole numbers for instance; nobody gave a support with duplicates."""
    points = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 0.0], [2.0, 1.0]])
    support = chosen([bm.Empirical(points), bm.Empirical(points, [1, 2, 3, 4])])
    assert len(np.unique(support.points, axis=0)) == support.size


def test_auto_does_not_keep_a_common_grid(rng):
    images = [bm.Image(rng.random((4, 6)) + 0.1) for _ in range(3)]
    assert chosen(images, own=False).grid != images[0].grid


def test_different_grids_get_a_new_one(rng):
    support = chosen([bm.Image(np.ones((4, 4))), bm.Image(np.ones((5, 5)))])
    assert support.grid.lower == (0.0, 0.0)
    assert support.grid.upper == (1.0, 1.0)


@given(seed=seeds, d=st.integers(1, 3), count=st.integers(1, 4), log_reg=st.floats(-6, 2))
@settings(max_examples=60)
def test_the_grid_covers_the_data_and_keeps_to_its_limits(seed, d, count, log_reg):
    rng = np.random.default_rng(seed)
    clouds = [rng.normal(size=(int(rng.integers(2, 30)), d)) * rng.uniform(0.1, 10) for _ in range(count)]
    everything = np.concatenate(clouds)
    support = chosen([bm.Empirical(cloud) for cloud in clouds], 10**log_reg, own=False)
    np.testing.assert_allclose(support.grid.lower, everything.min(axis=0))
    np.testing.assert_allclose(support.grid.upper, everything.max(axis=0))
    few, many = COUNTS[d]
    assert few <= max(support.grid.shape) <= many
    assert support.reason


@pytest.mark.parametrize(
    ("d", "reg", "step"),
    [
        (1, 1.0, 1 / 99),
        (1, 1e-4, 0.005),
        (1, 1e-9, 1 / 999),
        (2, 1.0, 1 / 39),
        (2, 1e-3, np.sqrt(1e-3) / 2),
        (2, 1e-9, 1 / 127),
        (3, 1.0, 1 / 15),
        (3, 1e-9, 1 / 31),
        (1, None, 1 / 99),
        (3, None, 1 / 15),
    ],
)
def test_the_spacing_resolves_half_of_sqrt_reg_within_limits(d, reg, step):
    corners = np.array([np.zeros(d), np.ones(d)])
    support = chosen([bm.Empirical(corners)], reg)
    assert support.spacing <= step * (1 + 1e-9)
    assert support.spacing > 0.9 * step


def test_long_and_short_sides_have_the_same_spacing():
    support = chosen([bm.Empirical([[0.0, 0.0], [10.0, 1.0]])], 100.0)
    assert support.grid.shape == (40, 5)


def test_flat_data_get_a_flat_grid():
    support = chosen([bm.Empirical([[0.0, 3.0], [1.0, 3.0]])], 100.0)
    assert support.grid == bm.Grid((40, 1), (0.0, 3.0), (1.0, 3.0))


def test_tails_are_left_out():
    """One part in ten thousand at each end, of every measure."""
    support = chosen([bm.Gaussian(0.0, 1.0), bm.Gaussian(10.0, 2.0)], 1e-3)
    cut = stats.norm.isf(TAIL)
    assert support.grid.lower[0] == pytest.approx(-cut, abs=0.1)
    assert support.grid.upper[0] == pytest.approx(10 + 2 * cut, abs=0.2)


# outliers and heavy tails


def warned(measures, reg, words, **options):
    """The choice for these measures, which comes with a warning that has these words."""
    with pytest.warns(AccuracyWarning) as caught:
        support = chosen(measures, reg, **options)
    assert len(caught) == 1
    for word in words:
        assert word in str(caught[0].message)
    return support


@pytest.mark.parametrize("reg", [0.01, 1e-3, None])
def test_one_outlier_does_not_stretch_the_support(rng, reg):
    """One of 500 samples at 1e5: a spacing of 100 would show nothing of the others."""
    clouds = [rng.normal(size=500) + shift for shift in (0, 3)]
    without = chosen([bm.Empirical(cloud) for cloud in clouds], reg)
    clouds[1][7] = 1e5
    words = ["outliers", "0.001 of the mass", "0.002 of measure 1", "support="]
    support = warned([bm.Empirical(cloud) for cloud in clouds], reg, words)
    assert support.grid.lower[0] == pytest.approx(without.grid.lower[0])
    assert without.grid.upper[0] < support.grid.upper[0] < 15
    assert "0.001 of the mass" in support.reason


def test_a_cauchy_distribution_gets_a_support_that_resolves_reg():
    support = warned([stats_measure(stats.cauchy()), stats_measure(stats.cauchy(2))], 0.01, ["heavy tails"])
    assert support.spacing <= 0.1
    assert support.grid.lower[0] < -30
    assert support.grid.upper[0] > 35


def test_an_outlier_in_the_plane(rng):
    cloud = rng.normal(size=(1000, 2))
    cloud[3, 1] = -1e4
    support = warned([bm.Empirical(cloud)], 0.05, ["0.001 of measure 0"])
    assert support.grid.lower[1] > -15
    assert support.grid.upper[0] == pytest.approx(cloud[:, 0].max())


def stats_measure(frozen):
    return bm.Distribution(frozen)


LIGHT = {
    "normal": stats.norm(),
    "uniform": stats.uniform(-1, 2),
    "exponential": stats.expon(),
    "logistic": stats.logistic(),
    "beta": stats.beta(0.5, 5),
    "gamma": stats.gamma(2),
    "log-normal": stats.lognorm(0.8),
}


@pytest.mark.parametrize("name", LIGHT)
@pytest.mark.parametrize("reg", [1.0, 1e-6, None])
def test_light_tails_are_kept_whole(name, reg):
    """However fine a grid would have to be: all but the outermost 1e-4 of the mass is on it, without a warning."""
    draws = LIGHT[name].rvs(size=5000, random_state=np.random.default_rng(5))
    support = chosen([bm.Empirical(draws)], reg)
    share = np.mean((draws < support.grid.lower[0]) | (draws > support.grid.upper[0]))
    assert share <= 2.1e-4


def test_heavy_tails_are_kept_where_reg_allows():
    """At a large reg the whole range can be resolved."""
    support = chosen([stats_measure(stats.cauchy())], 100.0)
    assert support.grid.upper[0] > 1000


def test_a_small_part_elsewhere_is_kept_if_the_rest_is_one_point():
    """Nearly all the mass in one place: the rest is what there is to see."""
    support = chosen([bm.Empirical([0.0, 5.0, 9.0], [0.98, 0.01, 0.01])], 1e-9)
    assert (support.grid.lower, support.grid.upper) == ((0.0,), (9.0,))


def test_a_second_cluster_is_no_outlier(rng):
    cloud = np.concatenate([rng.normal(size=950), 1000 + rng.normal(size=50)])
    assert chosen([bm.Empirical(cloud)], 1e-4).grid.upper[0] > 1000


def test_all_mass_in_one_point():
    support = chosen([bm.Empirical([[1.0, 2.0]])] * 2, own=False)
    np.testing.assert_array_equal(support.points, [[1.0, 2.0]])
    assert support.reason


def test_beyond_three_dimensions_points_are_drawn():
    measures = [bm.Gaussian(np.zeros(5), 1.0), bm.Gaussian(np.full(5, 50.0), 1.0), bm.Gaussian(np.full(5, 99.0), 1.0)]
    support = chosen(measures, seed=4)
    assert support.grid is None
    assert CLOUD <= support.size <= CLOUD + len(measures)
    assert "5 dimensions" in support.reason
    near = [int((np.abs(support.points[:, 0] - centre) < 10).sum()) for centre in (0, 50, 99)]
    assert max(near) - min(near) <= 1
    np.testing.assert_array_equal(chosen(measures, seed=4).points, support.points)
    assert not np.array_equal(chosen(measures, seed=5).points, support.points)


def test_points_drawn_twice_count_once():
    support = chosen([bm.Empirical(np.eye(4)), bm.Empirical(2 * np.eye(4))])
    assert support.size == 8


@pytest.mark.parametrize("seed", [-1, 2**70])
@pytest.mark.parametrize("d", [1, 4])
def test_any_whole_seed_will_do(seed, d):
    """As it does for the draws of the measures themselves."""
    assert chosen([bm.Gaussian(np.zeros(d), 1.0), bm.Gaussian(np.ones(d), 1.0)], seed=seed).size > 1


def test_histograms_without_points_need_a_support():
    with pytest.raises(SupportError, match=r"Measure 1 .*no points that are known.*support=.*points="):
        chosen([bm.Gaussian(0, 1), bm.Histogram([1, 2])])


def test_measures_of_different_dimensions_have_no_support():
    """A matter of dimensions, so a DimensionError, which says what measure does not fit."""
    with pytest.raises(DimensionError, match=r"Measure 2.*3"):
        chosen([bm.Gaussian(0, 1), bm.Gaussian(1, 1), bm.Gaussian([0, 0, 0], 1)])


def test_a_sampler_that_fails_late_is_named():
    def fails_late(size, rng):
        return np.where(np.arange(size) == 5, np.nan, 1.0)

    with pytest.raises(bm.BarymeshError, match="Measure 1"):
        chosen([bm.Gaussian(0, 1), bm.Sampler(fails_late)])


def test_auto_prints_its_reason(capsys):
    result = bm.barycenter([bm.Gaussian(0, 1), bm.Gaussian(2, 1)], "auto", reg=1.0)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert result.support.reason
    assert printed.err == f"Support: {result.support.reason}.\n"


def test_a_given_support_prints_nothing(capsys):
    bm.barycenter([bm.Gaussian(0, 1)], np.linspace(-3, 3, 20), reg=1.0)
    assert capsys.readouterr() == ("", "")


def test_a_choice_is_kept_in_the_result(rng):
    result = bm.barycenter(rng.random((2, 5, 5)), reg=0.5)
    assert "5 x 5" in result.support.reason
