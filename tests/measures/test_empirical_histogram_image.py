"""The discrete measures: samples, histograms and images are their own atoms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import barymesh as bm
from barymesh.errors import DimensionError, MeasureError
from barymesh.measures import Discretisation, discretise

MASSES = np.array([1.0, 0.0, 2.0, 5.0])
PLACES = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [6.0, 7.0]])
# the same masses at four places, as each kind says it
KINDS = {
    "empirical": bm.Empirical(PLACES, MASSES),
    "histogram": bm.Histogram(MASSES, PLACES),
    "image": bm.Image(MASSES.reshape(2, 2)),
}


def places_of(measure):
    return measure.grid.points if isinstance(measure, bm.Image) else measure.points


@pytest.mark.parametrize("kind", KINDS)
def test_draws_come_as_often_as_the_masses_say(kind, rng):
    measure, size = KINDS[kind], 8000
    draws = measure.sample(size, rng)
    assert draws.shape == (size, 2)
    counts = np.array([(draws == place).all(axis=1).sum() for place in places_of(measure)])
    assert counts.sum() == size
    assert counts[1] == 0
    assert stats.chisquare(counts[MASSES > 0], MASSES[MASSES > 0] / 8 * size).pvalue > 0.01


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [0, 1, 9])
def test_same_generator_state_same_draws(kind, size):
    one, two = (KINDS[kind].sample(size, np.random.default_rng(3)) for _ in range(2))
    assert one.shape == (size, 2)
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("kind", KINDS)
def test_atoms_are_the_measure_without_its_zeros(kind):
    atoms = KINDS[kind].atoms(Discretisation())
    np.testing.assert_array_equal(atoms.index, [0, 2, 3])
    np.testing.assert_array_equal(atoms.points, places_of(KINDS[kind])[[0, 2, 3]])
    np.testing.assert_allclose(atoms.weights, [1 / 8, 2 / 8, 5 / 8])


@given(masses=st.lists(st.one_of(st.just(0.0), st.floats(1e-3, 1e3)), min_size=1, max_size=40), seed=st.integers(0, 99))
def test_atoms_integrate_like_the_masses(masses, seed):
    values = np.array([*masses, 1.0])
    points = np.random.default_rng(seed).normal(size=(values.size, 2))
    for measure in (bm.Empirical(points, values), bm.Histogram(values, points)):
        atoms = measure.atoms(Discretisation())
        assert (atoms.weights > 0).all()
        assert atoms.weights.size == np.count_nonzero(values)
        assert atoms.weights.sum() == pytest.approx(1.0, abs=1e-12)
        expected = values @ np.cos(points) / values.sum()
        np.testing.assert_allclose(atoms.weights @ np.cos(atoms.points), expected, atol=1e-12)


def test_samples_weigh_the_same_by_default_and_flat_ones_lie_on_the_line(rng):
    measure = bm.Empirical([3, 1, 2])
    assert measure.dimension == 1
    np.testing.assert_array_equal(measure.atoms(Discretisation()).points, [[3.0], [1.0], [2.0]])
    np.testing.assert_allclose(measure.atoms(Discretisation()).weights, 1 / 3)
    assert bm.Empirical(rng.normal(size=(7, 5))).dimension == 5


def test_masses_need_not_sum_to_one_nor_be_of_ordinary_size():
    np.testing.assert_allclose(bm.Histogram([1, 3]).masses, [0.25, 0.75])
    np.testing.assert_allclose(bm.Histogram([1e-310, 3e-310]).masses, [0.25, 0.75], rtol=1e-6)
    np.testing.assert_allclose(bm.Image(np.array([[True, False], [True, True]])).pixels, [[1 / 3, 0], [1 / 3, 1 / 3]])
    np.testing.assert_allclose(bm.Image(np.array([[255, 0]], dtype=np.uint8)).pixels, [[1, 0]])


def test_masses_too_large_to_sum_are_still_masses():
    """Without a warning, too: warnings are errors here."""
    np.testing.assert_allclose(bm.Histogram([1e308, 1e308, 2e307]).masses, [10 / 22, 10 / 22, 2 / 22])


def test_histograms_on_the_support_take_its_points():
    support = bm.Support(np.random.default_rng(0).normal(size=(4, 3)))
    measure = bm.Histogram(MASSES)
    assert measure.dimension is None
    atoms = measure.atoms(Discretisation(support))
    assert atoms.table is support.points
    assert atoms.grid is support.grid is None
    np.testing.assert_array_equal(atoms.points, support.points[[0, 2, 3]])
    with pytest.raises(MeasureError, match="points="):
        measure.sample(3, np.random.default_rng(0))


def test_histograms_on_a_grid_know_it():
    support = bm.Support.regular((2, 3))
    assert bm.Histogram(np.ones(6)).atoms(Discretisation(support)).grid is support.grid
    assert bm.Histogram(np.ones(6), support.points).atoms(Discretisation()).grid == support.grid
    np.testing.assert_allclose(bm.Histogram(np.arange(6).reshape(2, 3)).masses, np.arange(6) / 15)


@pytest.mark.parametrize("flat", [False, True])
def test_histograms_of_the_same_points_share_them(flat):
    """So that all of them together cost one matrix. Points on the line may be given flat."""
    points = np.array([0.0, 1.0, 5.0]) if flat else np.array([[0.0], [1.0], [5.0]])
    histograms = [bm.Histogram(masses, points) for masses in ([1, 2, 3], [3, 2, 1])]
    one, two = discretise(histograms, lambda k: Discretisation())
    assert one.table is two.table


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (7, 1), (3, 5), (28, 28), (9,), (2, 3, 4), (5, 1, 3), (2, 3, 2, 3)])
def test_pixels_are_square_and_the_longest_side_spans_one(shape, rng):
    pixels = rng.random(shape) + 0.01
    image = bm.Image(pixels)
    assert image.dimension == len(shape)
    points = image.grid.points.reshape(*shape, len(shape))
    step = 1.0 / max(max(shape) - 1, 1)
    for place in np.ndindex(*shape):
        np.testing.assert_allclose(points[place], np.array(place) * step, atol=1e-15)
    atoms = image.atoms(Discretisation())
    np.testing.assert_allclose(atoms.weights, pixels.ravel() / pixels.sum())
    assert atoms.grid is image.grid
    assert image.sample(5, rng).shape == (5, len(shape))


def test_the_first_coordinate_runs_down_the_rows():
    pixels = np.zeros((5, 3))
    pixels[4, 1] = 1.0
    np.testing.assert_allclose(bm.Image(pixels).atoms(Discretisation()).points, [[1.0, 0.25]])


def test_images_of_one_shape_share_their_pixel_grid(rng):
    one, two = (bm.Image(rng.random((4, 6))).atoms(Discretisation()) for _ in range(2))
    assert one.table is two.table


def test_an_image_can_sit_on_a_grid_of_its_own(rng):
    grid = bm.Grid((2, 3), (-1.0, 10.0), (1.0, 30.0))
    atoms = bm.Image(np.ones((2, 3)), grid).atoms(Discretisation())
    np.testing.assert_allclose(atoms.weights @ atoms.points, [0.0, 20.0], atol=1e-12)
    with pytest.raises(MeasureError, match=r"\(3, 2\).*\(2, 3\)"):
        bm.Image(np.ones((3, 2)), grid)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: bm.Empirical([]), MeasureError, ["empty", "at least one"]),
        (lambda: bm.Empirical(np.zeros((0, 3))), MeasureError, ["empty"]),
        (lambda: bm.Empirical(np.zeros((3, 0))), DimensionError, ["(3, 0)", "(N, d)"]),
        (lambda: bm.Empirical(np.zeros((2, 2, 2))), DimensionError, ["(2, 2, 2)", "(N, d)"]),
        (lambda: bm.Empirical(3.0), DimensionError, ["()", "(N, d)"]),
        (lambda: bm.Empirical([[0, 0], [1, np.nan]]), MeasureError, ["nan", "row 1", "remove"]),
        (lambda: bm.Empirical([[np.inf, 0]]), MeasureError, ["inf", "row 0"]),
        (lambda: bm.Empirical([0, 1], [1, 2, 3]), MeasureError, ["2 samples", "(3,)"]),
        (lambda: bm.Empirical([0, 1], [[1, 2]]), MeasureError, ["2 samples", "(1, 2)"]),
        (lambda: bm.Empirical([0, 1], 1.0), MeasureError, ["2 samples", "()"]),
        (lambda: bm.Empirical([0, 1], [1, -0.5]), MeasureError, ["-0.5", "position 1"]),
        (lambda: bm.Empirical([0, 1], [0, 0]), MeasureError, ["zero mass"]),
        (lambda: bm.Histogram([]), MeasureError, ["empty"]),
        (lambda: bm.Histogram([1, -2, 3]), MeasureError, ["-2.0", "position 1", "not negative"]),
        (lambda: bm.Histogram([1, 2, np.nan]), MeasureError, ["nan", "position 2"]),
        (lambda: bm.Histogram([np.inf, 2]), MeasureError, ["inf", "position 0"]),
        (lambda: bm.Histogram([0, 0, 0]), MeasureError, ["zero mass", "Leave it out"]),
        (lambda: bm.Histogram([1, 2], [0, 1, 2]), MeasureError, ["2 masses", "3 points"]),
        (lambda: bm.Histogram([1, 2], [0, np.nan]), MeasureError, ["nan", "row 1"]),
        (lambda: bm.Image(np.zeros((3, 3))), MeasureError, ["image", "zero mass"]),
        (lambda: bm.Image([[1, 2], [3, -4]]), MeasureError, ["-4.0", "(1, 1)"]),
        (lambda: bm.Image([[1, np.nan]]), MeasureError, ["nan", "(0, 1)"]),
        (lambda: bm.Image(5.0), MeasureError, ["at least one axis"]),
        (lambda: bm.Image(np.zeros((0, 4))), MeasureError, ["empty"]),
    ],
)
def test_bad_measures_are_refused_with_a_reason(make, error, words):
    with pytest.raises(error) as caught:
        make()
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: bm.Empirical(["a", "b"]),
        lambda: bm.Empirical([[0, 1], [2]]),
        lambda: bm.Histogram(["a", "b"]),
        lambda: bm.Histogram([1, 2], ["a", "b"]),
        lambda: bm.Image([["a"]]),
        lambda: bm.Gaussian("a", 1.0),
        lambda: bm.Gaussian(0.0, "a"),
    ],
)
def test_what_is_no_number_is_a_measure_error(make):
    """By name, so that one ``except BarymeshError`` catches it."""
    with pytest.raises(bm.BarymeshError):
        make()
