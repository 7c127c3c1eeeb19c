"""What a user passes becomes measures in exactly one way, or the error names both."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import barymesh as bm
from barymesh.errors import DimensionError, MeasureError, SamplerError
from barymesh.measures import as_measures

LINE = bm.Support(np.linspace(0, 1, 5))
PLANE = bm.Support(np.random.default_rng(0).random((6, 2)))
GRID = bm.Support.regular((2, 3), [0, 0], [10, 20])


class Table:
    """Not an array, but convertible, as data frames and tensors are."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype=dtype)


class CallableTable(Table):
    """Tensors and models may be callable as well; their numbers come first."""

    def __call__(self, *arguments):
        raise AssertionError("the numbers should have been read")


def message_of(error, given, support=None, **options):
    with pytest.raises(error) as caught:
        as_measures(given, support, **options)
    assert isinstance(caught.value, bm.BarymeshError)
    return str(caught.value)


def kinds(measures):
    return [type(measure) for measure in measures]


# lists


def test_measures_stay_as_they_are():
    given = [bm.Gaussian(0, 1), bm.Empirical([[1.0]]), bm.Histogram(np.ones(5)), bm.Image(np.ones((2, 2)))]
    assert all(one is two for one, two in zip(as_measures(given), given, strict=True))


def test_every_kind_in_one_list(rng):
    cloud = rng.normal(size=(7, 2))
    given = [
        bm.Gaussian([0, 0], 1),
        bm.Mixture.of_gaussians([[0, 0], [1, 1]], 1.0),
        stats.multivariate_normal([0, 0]),
        lambda size, rng: rng.normal(size=(size, 2)),
        cloud,
        Table(cloud),
        CallableTable(cloud),
        cloud.tolist(),
        cloud.astype(np.float32),
        np.arange(1, 7),
    ]
    measures = as_measures(given, PLANE)
    expected = [bm.Gaussian, bm.Mixture, bm.Distribution, bm.Sampler, *[bm.Empirical] * 5, bm.Histogram]
    assert kinds(measures) == expected
    for k in range(4, 9):
        np.testing.assert_allclose(measures[k].points, cloud, rtol=1e-6)
    np.testing.assert_allclose(measures[9].masses, np.arange(1, 7) / 21)


@pytest.mark.parametrize("wrap", [list, tuple, iter, lambda items: (item for item in items)])
def test_any_iterable_is_a_list(wrap):
    measures = as_measures(wrap([bm.Gaussian(0, 1), stats.norm(0, 1), lambda size, rng: rng.random(size)]))
    assert kinds(measures) == [bm.Gaussian, bm.Distribution, bm.Sampler]


def test_a_generator_goes_through_the_front_door():
    result = bm.barycenter((bm.Gaussian(k, 0.5) for k in range(3)), np.linspace(-2, 4, 20), reg=0.5)
    assert result.node_weights.shape == (3, 20)


def test_distributions_that_are_callable_are_distributions():
    """Unfrozen ones, and look-alikes with both ``rvs`` and ``__call__``."""
    assert kinds(as_measures([stats.norm, stats.poisson(3)])) == [bm.Distribution, bm.Distribution]


@pytest.mark.parametrize("support", [None, PLANE])
def test_narrow_arrays_in_a_list_are_samples(support, rng):
    (measure,) = as_measures([rng.random((9, 2))], support)
    assert isinstance(measure, bm.Empirical)
    assert measure.points.shape == (9, 2)


@pytest.mark.parametrize("sign", [1, -1])
def test_wide_arrays_in_a_list_are_read_by_their_shape_alone(rng, sign):
    """A single row, or a support of that dimension, leaves one reading; the sign of the values does not matter."""
    wide = sign * rng.random((9, 5))
    with pytest.raises(MeasureError, match="two ways"):
        as_measures([wide])
    assert kinds(as_measures([wide[:1]])) == [bm.Empirical]
    assert kinds(as_measures([wide], bm.Support(rng.random((3, 5))))) == [bm.Empirical]


@given(
    values=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=12),
    sign=st.sampled_from([1.0, -1.0, None]),
    size=st.sampled_from([None, 5, 8]),
)
def test_a_flat_array_in_a_list_is_read_by_its_length_alone(values, sign, size):
    """Samples on the line, or refused if it is as long as the support; whatever the values and their signs."""
    array = np.array(values) if sign is None else sign * np.abs(values)
    support = None if size is None else bm.Support(np.arange(size))
    if array.size == size:
        message = message_of(MeasureError, [array], support)
        assert "two ways" in message
    else:
        (measure,) = as_measures([array], support)
        assert isinstance(measure, bm.Empirical)
        np.testing.assert_array_equal(measure.points[:, 0], array)


def test_a_flat_array_can_be_a_histogram_only_where_samples_on_the_line_make_no_sense():
    assert kinds(as_measures([np.arange(1, 7)], PLANE)) == [bm.Histogram]
    assert kinds(as_measures([np.ones(5)], LINE, histograms_have_cost=True)) == [bm.Histogram]
    assert kinds(as_measures([np.ones(7)], LINE, histograms_have_cost=True)) == [bm.Histogram]


# one array


@pytest.mark.parametrize("wrap", [np.asarray, Table, CallableTable])
def test_one_flat_stack_is_histograms_on_the_support(wrap):
    rows = np.arange(15.0).reshape(3, 5)
    measures = as_measures(wrap(rows), LINE)
    assert kinds(measures) == [bm.Histogram] * 3
    for measure, row in zip(measures, rows, strict=True):
        assert measure.points is None
        np.testing.assert_allclose(measure.masses, row / row.sum())


def test_one_flat_stack_with_a_cost_matrix_needs_no_support():
    assert kinds(as_measures(np.ones((2, 7)), histograms_have_cost=True)) == [bm.Histogram] * 2
    assert kinds(as_measures(np.ones((2, 7)), LINE, histograms_have_cost=True)) == [bm.Histogram] * 2


@pytest.mark.parametrize("shape", [(4, 6), (1, 9), (3, 4, 5), (2, 3, 2, 3)])
def test_one_deep_stack_is_images_or_volumes(shape, rng):
    measures = as_measures(Table(rng.random((2, *shape))))
    assert kinds(measures) == [bm.Image] * 2
    assert {measure.grid for measure in measures} == {bm.Grid.of_image(shape)}


def test_images_of_the_shape_of_the_support_sit_on_it(rng):
    assert as_measures(rng.random((4, 2, 3)), GRID)[0].grid == GRID.grid
    assert as_measures(rng.random((4, 3, 2)), GRID)[0].grid == bm.Grid.of_image((3, 2))
    assert as_measures(rng.random((4, 2, 3)), PLANE)[0].grid == bm.Grid.of_image((2, 3))


@pytest.mark.parametrize("kind", [np.uint8, np.int64, bool, np.float32])
def test_numbers_of_any_type(kind):
    measures = as_measures(np.array([[0, 1, 1, 0, 1], [1, 0, 0, 0, 0]], dtype=kind), LINE)
    np.testing.assert_allclose(measures[0].masses, [0, 1 / 3, 1 / 3, 0, 1 / 3])


# two readings: the error names both, and how to say which


@pytest.mark.parametrize("wrap", [np.asarray, list, Table])
def test_a_flat_item_as_long_as_the_support_may_be_samples_or_a_histogram(wrap):
    message = message_of(MeasureError, [bm.Gaussian(0, 1), wrap([0.0, 1.0, 2.0, 3.0, 4.0])], LINE)
    for word in ("Measure 1:", "two ways", "5 samples", "histogram", "Empirical(array)", "Histogram(array)"):
        assert word in message


def test_a_wide_item_may_be_samples_or_an_image(rng):
    message = message_of(MeasureError, [bm.Gaussian(0, 1), rng.random((9, 5))])
    for word in ("Measure 1:", "two ways", "9 samples in 5 dimensions", "image", "Empirical(array)", "Image(array)"):
        assert word in message


@pytest.mark.parametrize("wrap", [np.asarray, Table])
def test_one_flat_stack_without_support_may_be_histograms_or_samples(wrap, rng):
    message = message_of(MeasureError, wrap(rng.random((9, 5))))
    for word in ("two ways", "9 histograms", "support=", "5 points", "9 samples", "[barymesh.Empirical(array)]"):
        assert word in message


@pytest.mark.parametrize("say", [bm.Empirical, bm.Histogram, bm.Image])
def test_saying_which_is_enough(say):
    assert kinds(as_measures([say([0.0, 1.0, 2.0, 3.0, 4.0])], LINE)) == [say]


# no reading: the error says why, and where


@pytest.mark.parametrize(
    ("item", "support", "error", "words"),
    [
        (np.ones((9, 3)), PLANE, DimensionError, ["(9, 3)", "3 dimensions", "support has 2", "Image(array)"]),
        (np.ones(4), PLANE, DimensionError, ["4 numbers", "2 dimensions", "6 points"]),
        (np.ones((2, 3, 4)), None, MeasureError, ["(2, 3, 4)", "Image(array)", "not in a list"]),
        (3.0, None, MeasureError, ["()", "samples (N, d)"]),
        (None, None, MeasureError, ["samples (N, d)"]),
        (object(), None, MeasureError, ["object", "no measure", "rvs()", "(size, rng)"]),
        ({"a": 1}, None, MeasureError, ["dict", "no measure"]),
        ([[0, 1], [2]], None, MeasureError, ["list", "no measure"]),
        ("cloud.csv", None, MeasureError, ["'cloud.csv'", "path", "read_measures"]),
        (b"cloud.csv", None, MeasureError, ["cloud.csv", "path", "read_measures"]),
        (Path("cloud.csv"), None, MeasureError, ["cloud.csv", "path", "read_measures"]),
        ([[0.0, np.nan]], None, MeasureError, ["nan", "row 0", "remove"]),
        ([-1.0, np.inf], None, MeasureError, ["inf", "row 1"]),
        (np.zeros((0, 2)), PLANE, MeasureError, ["empty"]),
        (np.zeros((3, 0)), None, DimensionError, ["(3, 0)"]),
        (np.zeros(6), PLANE, MeasureError, ["zero mass"]),
        (-np.ones(6), PLANE, MeasureError, ["-1.0", "position 0"]),
        (lambda size, rng: rng.random(3), None, SamplerError, ["2 draws", "(3,)"]),
        (stats.wishart(3, np.eye(2)), None, SamplerError, ["2 draws", "(2, 2, 2)"]),
    ],
)
@pytest.mark.parametrize("before", [0, 2])
def test_errors_in_a_list_name_the_position(item, support, error, words, before):
    message = message_of(error, [bm.Gaussian(0, 1)] * before + [item], support)
    assert message.startswith(f"Measure {before}:")
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("stack", "support", "words"),
    [
        (np.array([[1, 1, 1, 1, 1], [1, 0, -3, 0, 1]]), LINE, ["Measure 1:", "-3.0", "position 2"]),
        (np.array([[1, 1, 1, 1, 1], [1, 0, np.nan, 0, 1]]), LINE, ["Measure 1:", "nan", "position 2"]),
        (np.array([[1, 1, 1, 1, 1], [0, 0, 0, 0, 0]]), LINE, ["Measure 1:", "zero mass"]),
        (np.stack([np.ones((2, 3)), np.zeros((2, 3))]), None, ["Measure 1:", "image", "zero mass"]),
        (np.stack([np.ones((2, 3)), -np.ones((2, 3))]), GRID, ["Measure 1:", "-1.0", "(0, 0)"]),
        (np.ones((5, 3)), LINE, ["5 histograms", "3 entries", "5 points", "transpose"]),
        (np.ones(5), LINE, ["(5,)", "Rows are measures", "Histogram(array)", "Empirical(array)"]),
        (np.array(5.0), LINE, ["()", "not a stack"]),
        (np.zeros((0, 5)), LINE, ["no measures", "at least one"]),
        (np.zeros((0, 4, 4)), None, ["no measures", "at least one"]),
        (np.array([["a", "b"]]), LINE, ["not an array of numbers"]),
        (Table([["a", "b"]]), LINE, ["not an array of numbers"]),
    ],
)
def test_errors_in_a_stack_name_the_row(stack, support, words):
    message = message_of(MeasureError, stack, support)
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], ["no measures", "at least one"]),
        ((), ["no measures"]),
        (bm.Gaussian(0, 1), ["One measure", "[measure]"]),
        ("folder", ["'folder'", "path", "read_measures('folder')"]),
        (Path("folder"), ["folder", "path", "read_measures"]),
        (3.5, ["list or an array", "float"]),
        (None, ["list or an array", "NoneType"]),
        (len, ["list or an array", "builtin_function_or_method"]),
    ],
)
def test_what_is_no_list_is_refused_with_a_remedy(given, words):
    message = message_of(MeasureError, given)
    for word in words:
        assert word in message


def test_an_empty_item_is_called_empty():
    """It has no reading at all, let alone two."""
    assert "empty" in message_of(MeasureError, [bm.Gaussian(0, 1), []])


@pytest.mark.parametrize("given", [[np.array([1 + 2j, -2.0])], np.ones((2, 5)) + 1j])
def test_complex_numbers_are_refused(given):
    """Their imaginary parts must not be dropped on the way."""
    with pytest.raises(MeasureError):
        as_measures(given, LINE)


def test_a_dictionary_of_measures_is_not_taken_for_paths():
    assert "path" not in message_of(MeasureError, {"first": bm.Gaussian(0, 1)})
