"""Regular grids, the support made of them or of any points, and its choice from the data."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import barymesh as bm
from barymesh.errors import SupportError
from barymesh.support.grid import recognise

# shapes of one to four axes, some of one point only, never a single point in all
shapes = st.lists(st.integers(1, 6), min_size=1, max_size=4).map(tuple).filter(lambda shape: max(shape) > 1)
full_shapes = st.lists(st.integers(2, 6), min_size=1, max_size=4).map(tuple)
seeds = st.integers(0, 2**32)


def some_grid(shape, seed):
    """Any offset and any spacing, each axis its own; axes of one point have no extent."""
    rng = np.random.default_rng(seed)
    lower = rng.uniform(-10, 10, len(shape))
    steps = 10 ** rng.uniform(-2, 2, len(shape))
    upper = lower + steps * (np.array(shape) - 1)
    return bm.Grid(shape, tuple(lower), tuple(upper))


# grids


@given(shape=shapes, seed=seeds)
def test_points_are_in_c_order(shape, seed):
    grid = some_grid(shape, seed)
    table = grid.points.reshape(*shape, len(shape))
    assert grid.dimension == len(shape)
    for place in np.ndindex(*shape):
        expected = [
            low + k * (high - low) / max(count - 1, 1)
            for k, low, high, count in zip(place, grid.lower, grid.upper, shape, strict=True)
        ]
        np.testing.assert_allclose(table[place], expected, rtol=1e-12, atol=1e-12)


@given(shape=shapes, seed=seeds)
def test_axes_run_from_lower_to_upper(shape, seed):
    grid = some_grid(shape, seed)
    for axis, low, high, count in zip(grid.axes, grid.lower, grid.upper, shape, strict=True):
        assert axis.size == count
        assert (axis[0], axis[-1]) == (low, high)


def test_equal_grids_share_their_points_and_nobody_can_spoil_them():
    """One array for all; a caller who writes into it would move the grid of everybody else."""
    one, two = bm.Grid((2, 2), (0.0, 0.0), (1.0, 1.0)), bm.Grid((2, 2), (0.0, 0.0), (1.0, 1.0))
    assert one.points is two.points
    with pytest.raises(ValueError, match="read-only"):
        bm.Support.of_grid(one).points[0] += 0.0


@given(shape=shapes, seed=seeds)
def test_regular_grids_are_recognised(shape, seed):
    grid = some_grid(shape, seed)
    assert recognise(grid.points.copy()) == grid


@given(shape=full_shapes, seed=seeds)
def test_regular_grids_are_recognised_through_rounding_noise(shape, seed):
    grid = some_grid(shape, seed)
    noisy = grid.points + np.random.default_rng(seed).uniform(-1e-12, 1e-12, grid.points.shape)
    found = recognise(noisy)
    assert found is not None
    assert found.shape == shape
    np.testing.assert_allclose(found.points, grid.points, atol=1e-11)


@given(shape=shapes.filter(lambda shape: 1 in shape), seed=seeds)
def test_grids_that_are_flat_along_an_axis_are_recognised_through_rounding_noise(shape, seed):
    """A row of a picture, say, whose second coordinate was computed rather than typed."""
    grid = some_grid(shape, seed)
    noisy = grid.points + np.random.default_rng(seed).uniform(-1e-12, 1e-12, grid.points.shape)
    found = recognise(noisy)
    assert found is not None
    assert found.shape == shape


@pytest.mark.parametrize(
    "points",
    [
        np.linspace(-5, 5, 100),
        np.arange(0, 1, 0.1),
        np.arange(28) / 27,
        np.cumsum(np.full(50, 0.1)),
        np.linspace(0, 1, 1000) + 1e4,
        [3.0, 7.5],
    ],
)
def test_points_as_people_write_them_are_recognised(points):
    assert recognise(np.asarray(points, dtype=float)[:, None]) is not None


@given(shape=shapes.filter(lambda shape: np.prod(shape) > 2), seed=seeds)
def test_a_grid_with_one_point_moved_is_no_grid(shape, seed):
    rng = np.random.default_rng(seed)
    grid = some_grid(shape, seed)
    points = grid.points.copy()
    axis = int(rng.choice(np.flatnonzero(np.array(shape) > 1)))
    step = (grid.upper[axis] - grid.lower[axis]) / (shape[axis] - 1)
    points[rng.integers(len(points)), axis] += rng.choice([-1, 1]) * rng.uniform(0.01, 0.45) * step
    assert recognise(points) is None


@given(shape=full_shapes, seed=seeds)
def test_a_grid_in_another_order_is_no_grid(shape, seed):
    points = some_grid(shape, seed).points
    order = np.random.default_rng(seed).permutation(len(points))
    found = recognise(points[order])
    assert (found is not None) == (order == np.arange(len(points))).all()


def test_fortran_order_and_descending_axes_are_other_orders():
    square = bm.Grid((3, 3), (0.0, 0.0), (1.0, 1.0)).points
    assert recognise(square.reshape(3, 3, 2).swapaxes(0, 1).reshape(9, 2)) is None
    assert recognise(np.linspace(1, 0, 5)[:, None]) is None


@given(seed=seeds, n=st.integers(3, 40), d=st.integers(1, 4))
def test_scattered_points_are_no_grid(seed, n, d):
    assert recognise(np.random.default_rng(seed).normal(size=(n, d))) is None


@given(shape=full_shapes.filter(lambda shape: np.prod(shape) > 3), seed=seeds)
def test_a_grid_with_a_point_missing_is_no_grid(shape, seed):
    points = some_grid(shape, seed).points
    inner = int(np.random.default_rng(seed).integers(1, len(points) - 1))
    assert recognise(np.delete(points, inner, axis=0)) is None


def test_uneven_axes_and_single_points_are_no_grids():
    assert recognise(np.array([[0.0], [1.0], [2.0], [10.0]])) is None
    assert recognise(np.geomspace(1, 100, 20)[:, None]) is None
    assert recognise(np.array([[1.0, 2.0]])) is None
    assert recognise(np.array([[1.0, 2.0], [1.0, 2.0]])) is None


@given(shape=shapes)
def test_pixels_of_an_image_are_square(shape):
    grid = bm.Grid.of_image(shape)
    assert max(grid.upper) == pytest.approx(1.0)
    steps = [high / (count - 1) for high, count in zip(grid.upper, shape, strict=True) if count > 1]
    np.testing.assert_allclose(steps, steps[0])


# supports


def test_explicit_points(rng):
    points = rng.normal(size=(7, 3))
    support = bm.Support(points)
    assert (support.size, support.dimension, support.grid, support.reason) == (7, 3, None, "")
    np.testing.assert_array_equal(support.points, points)
    assert repr(support) == "Support(7 points in 3 dimensions)"
    points[0] = 99.0
    assert (support.points != 99.0).all()


def test_explicit_points_of_a_grid_are_recognised():
    support = bm.Support(np.linspace(-5, 5, 11))
    assert support.grid == bm.Grid((11,), (-5.0,), (5.0,))
    assert support.dimension == 1
    assert support.spacing == pytest.approx(1.0)
    assert repr(support) == "Support(11 grid on [-5, 5])"


def test_regular_supports():
    support = bm.Support.regular((3, 5), [0, -1], [1, 3], reason="because")
    assert support.grid == bm.Grid((3, 5), (0.0, -1.0), (1.0, 3.0))
    assert support.reason == "because"
    assert support.size == 15
    assert repr(support) == "Support(3 x 5 grid on [0, 1] x [-1, 3])"
    assert bm.Support.regular(4).grid == bm.Grid((4,), (0.0,), (1.0,))
    assert bm.Support.regular(np.int64(4), -2, 2).grid == bm.Grid((4,), (-2.0,), (2.0,))
    assert bm.Support.regular((1, 3), [2, 0], [2, 1]).size == 3


@given(shape=shapes, seed=seeds)
def test_spacing_of_a_grid_is_its_widest_step(shape, seed):
    grid = some_grid(shape, seed)
    steps = [(b - a) / (c - 1) for a, b, c in zip(grid.lower, grid.upper, shape, strict=True) if c > 1]
    assert bm.Support.of_grid(grid).spacing == pytest.approx(max(steps))


@given(seed=seeds, n=st.integers(1, 30), d=st.integers(1, 4), scale=st.sampled_from([1e-3, 1.0, 1e3]))
def test_spacing_is_positive_and_scales_with_the_points(seed, n, d, scale):
    points = np.random.default_rng(seed).normal(size=(n, d))
    spacing = bm.Support(points).spacing
    assert spacing > 0
    if n > 1:
        assert bm.Support(scale * points).spacing == pytest.approx(scale * spacing)
        assert spacing <= np.ptp(points, axis=0).max() * (1 + 1e-12)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: bm.Support([]), ["empty", "at least one"]),
        (lambda: bm.Support(np.zeros((0, 2))), ["empty"]),
        (lambda: bm.Support(np.zeros((3, 0))), ["empty"]),
        (lambda: bm.Support(np.zeros((2, 2, 2))), ["(n, d)", "(2, 2, 2)"]),
        (lambda: bm.Support(3.0), ["(n, d)", "()"]),
        (lambda: bm.Support([0.0, 1.0, np.nan]), ["point 2", "nan", "finite"]),
        (lambda: bm.Support([[0.0, 1.0], [np.inf, 0.0]]), ["point 1", "inf", "finite"]),
        (lambda: bm.Support([5.0, 1.0, 2.0, 1.0]), ["1 and 3", "[1.]", "1 duplicates", "numpy.unique"]),
        (lambda: bm.Support([[0, 1], [2, 3], [0, 1], [0, 1]]), ["0 and 2", "[0. 1.]", "2 duplicates"]),
        (lambda: bm.Support([0.0, -0.0]), ["0 and 1", "duplicates"]),
        (lambda: bm.Support.regular((3, 0)), ["0 points", "axis 1", "at least one"]),
        (lambda: bm.Support.regular((3, -2)), ["-2 points", "axis 1"]),
        (lambda: bm.Support.regular(3, 1, 1), ["1.0 to 1.0", "axis 0", "above"]),
        (lambda: bm.Support.regular((3, 3), 0, [1, -1]), ["0.0 to -1.0", "axis 1"]),
        (lambda: bm.Support.regular(3, 0, np.nan), ["nan", "axis 0"]),
        (lambda: bm.Support.regular(3, -np.inf, 0), ["-inf", "axis 0"]),
    ],
)
def test_bad_supports_are_refused_with_a_reason(make, words):
    with pytest.raises(SupportError) as caught:
        make()
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: bm.Support("points.csv"),
        lambda: bm.Support([[0, 1], [2]]),
        lambda: bm.Support(["a", "b"]),
        lambda: bm.Support.regular((3, 3), [0, 0, 0], 1),
        lambda: bm.Support.regular(()),
        lambda: bm.Support.regular(2.5),
        lambda: bm.Support.regular((2.7, 3)),
    ],
)
def test_what_makes_no_support_is_a_support_error(make):
    """By name, so that one ``except BarymeshError`` catches it, and never rounded in silence."""
    with pytest.raises(SupportError):
        make()


@given(seed=seeds, n=st.integers(2, 30), d=st.integers(1, 3))
def test_the_duplicates_named_are_duplicates(seed, n, d):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n, d))
    first, second = sorted(map(int, rng.choice(n, 2, replace=False)))
    points[second] = points[first]
    with pytest.raises(SupportError, match=f"points {first} and {second} are the same"):
        bm.Support(points)


# names of the coordinates


def test_names_of_coordinates():
    assert bm.Support([[0, 1], [2, 3]], names=["x", "y"]).names == ("x", "y")
    assert bm.Support([0, 1]).names is None
    assert bm.Support.regular((2, 2)).names is None
    grid = bm.Support.regular((2, 2), reason="why")
    named = grid.named(["a", "b"])
    assert (named.names, named.reason, grid.names) == (("a", "b"), "why", None)
    assert named.points is grid.points
    for make in (lambda: bm.Support([0, 1], names=["x", "y"]), lambda: grid.named(["a"])):
        with pytest.raises(SupportError, match="names"):
            make()
