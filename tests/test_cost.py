"""The cost: metrics by name, functions, matrices, and a bound on the largest value."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

import barymesh as bm
from barymesh import cost as cost_module
from barymesh.cost import Cost
from barymesh.errors import CostError
from barymesh.support.points import Support

METRICS = ["sqeuclidean", "euclidean", "cityblock", "chebyshev", "minkowski", "canberra", "braycurtis", "cosine"]
seeds = st.integers(0, 2**32)


def two_clouds(seed, d=3, n=None, count=None):
    rng = np.random.default_rng(seed)
    n, count = n or int(rng.integers(1, 20)), count or int(rng.integers(1, 20))
    return rng.normal(size=(n, d)) * rng.uniform(0.1, 10), rng.normal(size=(count, d)) + rng.normal(size=d)


@pytest.mark.parametrize("metric", METRICS)
def test_metrics_are_those_of_scipy(metric):
    support, atoms = two_clouds(0)
    np.testing.assert_array_equal(Cost(metric).matrix(support, atoms), cdist(support, atoms, metric))
    assert Cost(metric).name == metric


def test_the_default_is_the_squared_distance():
    assert Cost().name == "sqeuclidean"
    assert Cost().squared
    assert not Cost("euclidean").squared


@pytest.mark.parametrize("metric", [*METRICS, "correlation", "hamming"])
def test_a_cost_is_a_matter_of_two_points_alone(metric):
    """What lies around them must not matter: measures are priced one by one, and in blocks."""
    support, atoms = two_clouds(1, n=8, count=9)
    whole = Cost(metric).matrix(support, atoms)
    np.testing.assert_allclose(Cost(metric).matrix(support[2:6], atoms[3:7]), whole[2:6, 3:7], rtol=1e-12)


@pytest.mark.parametrize("metric", ["seuclidean", "mahalanobis"])
def test_metrics_that_estimate_their_scale_from_the_data_are_refused(metric):
    """scipy computes their variances from the very points passed, so every measure would have a cost of its own."""
    with pytest.raises(CostError, match=metric):
        Cost(metric)


@given(seed=seeds, d=st.integers(1, 4), metric=st.sampled_from(["sqeuclidean", "cityblock"]))
def test_separable_costs_add_up_over_the_axes(seed, d, metric):
    support, atoms = two_clouds(seed, d)
    one_axis = Cost(metric).separable
    total = sum(one_axis(support[:, None, k] - atoms[None, :, k]) for k in range(d))
    np.testing.assert_allclose(total, cdist(support, atoms, metric), rtol=1e-12)


def test_other_costs_are_not_separable():
    def sqeuclidean(z, y):
        return 2 * cdist(z, y, "sqeuclidean")

    for spec in ("euclidean", "chebyshev", np.ones((2, 2)), sqeuclidean):
        assert Cost(spec).separable is None
        assert not Cost(spec).squared


def test_a_function_is_called_with_support_and_atoms():
    support, atoms = two_clouds(2)

    def cubed(z, y):
        assert (z.shape, y.shape) == (support.shape, atoms.shape)
        return cdist(z, y) ** 3

    cost = Cost(cubed)
    assert cost.name == "cubed"
    np.testing.assert_array_equal(cost.matrix(support, atoms), cdist(support, atoms) ** 3)
    np.testing.assert_array_equal(Cost(lambda z, y: [[1, 2]]).matrix(np.zeros((1, 1)), np.zeros((2, 1))), [[1.0, 2.0]])


@pytest.mark.parametrize("name", ["sqeuclidean", "euclidean", "cityblock"])
def test_a_function_named_like_a_metric_is_still_a_function(name):
    support, atoms = two_clouds(3)

    def ten(z, y):
        return np.full((len(z), len(y)), 10.0)

    ten.__name__ = name
    assert (Cost(ten).matrix(support, atoms) == 10).all()
    assert Cost(ten).largest(Support(support), atoms) == 10


def test_a_matrix_is_itself():
    given = np.arange(6).reshape(2, 3)
    cost = Cost(given)
    assert cost.name == "precomputed"
    np.testing.assert_array_equal(cost.matrix(np.zeros((2, 1)), np.zeros((3, 1))), given)
    np.testing.assert_array_equal(Cost(given.tolist()).matrix(np.zeros((2, 1)), np.zeros((3, 1))), given)


def test_a_matrix_gives_the_barycenter_of_the_metric_it_holds(rng):
    points, histograms = rng.random(6), rng.random((3, 6))
    named = bm.barycenter(histograms, points, reg=0.1, tol=1e-10)
    matrix = bm.barycenter(histograms, reg=0.1, tol=1e-10, cost=cdist(points[:, None], points[:, None], "sqeuclidean"))
    np.testing.assert_allclose(matrix.weights, named.weights, atol=1e-9)
    np.testing.assert_array_equal(matrix.support.points[:, 0], np.arange(6))


def test_a_matrix_goes_with_a_support_in_the_plane(rng):
    """The matrix stands in for all coordinates, so those of the support can be of any dimension."""
    points, histograms = rng.random((6, 2)), rng.random((3, 6))
    named = bm.barycenter(histograms, points, reg=0.1, tol=1e-10)
    matrix = bm.barycenter(histograms, points, reg=0.1, tol=1e-10, cost=cdist(points, points, "sqeuclidean"))
    np.testing.assert_allclose(matrix.weights, named.weights, atol=1e-9)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Cost("taxicab distance"), ["'taxicab distance'", "sqeuclidean", "scipy.spatial.distance", "matrix"]),
        (lambda: Cost(""), ["''", "sqeuclidean"]),
        (lambda: Cost(None), ["matrix", "()"]),
        (lambda: Cost(3.0), ["matrix", "()"]),
        (lambda: Cost(np.ones(4)), ["matrix", "(4,)"]),
        (lambda: Cost(np.ones((2, 2, 2))), ["matrix", "(2, 2, 2)"]),
        (lambda: Cost([[0.0, 1.0], [2.0, np.nan]]), ["nan", "row 1", "column 1", "finite"]),
        (lambda: Cost([[0.0, np.inf]]), ["inf", "row 0", "column 1"]),
        (lambda: Cost([[0.0, 1.0], [-2.5, 0.0]]), ["-2.5", "row 1", "column 0", "not negative"]),
    ],
)
def test_bad_costs_are_refused_at_once(make, words):
    with pytest.raises(CostError) as caught:
        make()
    for word in words:
        assert word in str(caught.value)


def negative(z, y):
    return -np.ones((len(z), len(y)))


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (np.ones((2, 2)), ["(2, 2)", "(2, 3)", "row", "column"]),
        (np.ones((3, 2)), ["(3, 2)", "(2, 3)"]),
        (negative, ["'negative'", "-1.0", "row 0", "column 0", "not negative"]),
        (lambda z, y: np.full((len(z), len(y)), np.nan), ["nan", "finite"]),
        (lambda z, y: np.ones((len(y), len(z))), ["(3, 2)", "(2, 3)", "must return"]),
        (lambda z, y: 1.0, ["()", "(2, 3)"]),
    ],
)
def test_bad_values_are_refused_when_they_appear(spec, words):
    with pytest.raises(CostError) as caught:
        Cost(spec).matrix(np.zeros((2, 1)), np.zeros((3, 1)))
    for word in words:
        assert word in str(caught.value)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_metric_that_is_undefined_at_a_point_says_where():
    """The cosine distance knows no direction of the origin."""
    with pytest.raises(CostError, match=r"'cosine'.*nan.*row 1, column 0"):
        Cost("cosine").matrix(np.array([[1.0, 1.0], [0.0, 0.0]]), np.array([[1.0, 0.0]]))


@pytest.mark.parametrize(
    "use",
    [
        lambda: Cost([["a"]]),
        lambda: Cost([[1, 2], [3]]),
        lambda: Cost(lambda z, y: "a").matrix(np.zeros((1, 1)), np.zeros((1, 1))),
    ],
)
def test_what_is_no_number_is_a_cost_error(use):
    with pytest.raises(CostError):
        use()


def absolute(z, y):
    return cdist(z, y, "cityblock")


@given(
    seed=seeds,
    d=st.integers(1, 4),
    spec=st.sampled_from([*METRICS[:-1], absolute]),
    block=st.integers(1, 50),
    on_grid=st.booleans(),
)
@settings(max_examples=200)
def test_the_largest_cost_is_exact(seed, d, spec, block, on_grid):
    """However many costs are looked at together, on grids and on scattered points."""
    points, atoms = two_clouds(seed, d)
    support = Support.regular([3] * d, points.min(axis=0), points.max(axis=0) + 0.1) if on_grid else Support(points)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cost_module, "LARGEST_BLOCK", block)
        largest = Cost(spec).largest(support, atoms)
    assert largest == pytest.approx(Cost(spec).matrix(support.points, atoms).max(), rel=1e-12)


@given(seed=seeds, n=st.integers(1, 20), count=st.integers(1, 20))
def test_the_largest_cost_of_a_matrix(seed, n, count):
    given_costs = np.random.default_rng(seed).random((n, count)) * 7
    assert Cost(given_costs).largest(Support(np.arange(n)), np.zeros((count, 1))) == given_costs.max()
