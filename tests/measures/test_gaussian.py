"""Gaussians: draws with the right moments, and quadratures that integrate what they should."""

from __future__ import annotations

import warnings
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import barymesh as bm
from barymesh.errors import AccuracyWarning, DimensionError, MeasureError
from barymesh.measures import Discretisation
from barymesh.measures.gaussian import MOST_NODES
from tests.oracle.plain import node_oracle

LINE = np.linspace(-5, 5, 100)


def some_gaussian(d, seed, **options):
    """A mean and a covariance without any special structure."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(d, d)) / np.sqrt(d)
    return bm.Gaussian(rng.normal(size=d), cov=root @ root.T + 0.05 * np.eye(d), **options)


@pytest.mark.parametrize("d", [1, 2, 3, 6])
def test_draws_have_the_mean_and_the_covariance(d, rng):
    measure, size = some_gaussian(d, d), 40_000
    draws = measure.sample(size, rng)
    assert draws.shape == (size, d)
    spread = np.sqrt(np.diag(measure.cov))
    assert (np.abs(draws.mean(axis=0) - measure.mean) < 5 * spread / np.sqrt(size)).all()
    # the covariance of normal draws has an error of at most sqrt(2/size), relative to the spreads
    off = np.abs(np.cov(draws.T).reshape(d, d) - measure.cov) / np.outer(spread, spread)
    assert (off < 5 * np.sqrt(2 / size)).all()


def test_draws_on_the_line_follow_the_normal_law(rng):
    from scipy.stats import kstest

    assert kstest(bm.Gaussian(2.0, 0.3).sample(5000, rng)[:, 0], "norm", args=(2.0, 0.3)).pvalue > 0.01


@pytest.mark.parametrize("size", [0, 1, 7])
def test_same_generator_state_same_draws(size):
    measure = some_gaussian(3, 0)
    one, two = (measure.sample(size, np.random.default_rng(5)) for _ in range(2))
    assert one.shape == (size, 3)
    np.testing.assert_array_equal(one, two)


def test_std_and_cov_say_the_same():
    by_std = bm.Gaussian([1.0, 2.0], [0.5, 2.0])
    by_cov = bm.Gaussian([1.0, 2.0], cov=[[0.25, 0.0], [0.0, 4.0]])
    np.testing.assert_allclose(by_std.cov, by_cov.cov)
    np.testing.assert_allclose(bm.Gaussian([1.0, 2.0], 0.5).cov, 0.25 * np.eye(2))
    assert bm.Gaussian(0, 1).dimension == 1
    assert by_std.dimension == 2
    assert "mean=[1.0, 2.0]" in repr(by_std)


@pytest.mark.filterwarnings("ignore::barymesh.errors.AccuracyWarning")
@given(d=st.integers(1, 3), seed=st.integers(0, 2**32), resolution=st.sampled_from([0.05, 0.3, 5.0]))
@settings(max_examples=15)
def test_quadrature_integrates_mean_covariance_and_waves(d, seed, resolution):
    """E cos(a.y) is cos(a.mean) exp(-a'Ca/2), and so on: all to rounding."""
    measure = some_gaussian(d, seed)
    atoms = measure.atoms(Discretisation(resolution=resolution))
    y, w = atoms.points, atoms.weights
    assert (w > 0).all()
    assert w.sum() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(w @ y, measure.mean, atol=1e-10)
    centred = y - measure.mean
    np.testing.assert_allclose((centred * w[:, None]).T @ centred, measure.cov, atol=1e-9)
    a = np.random.default_rng(seed).normal(size=d)
    a /= np.sqrt(a @ measure.cov @ a)
    assert w @ (centred @ a) ** 4 == pytest.approx(3.0, rel=1e-9)
    assert w @ np.cos(y @ a) == pytest.approx(np.cos(a @ measure.mean) * np.exp(-0.5), abs=1e-9)


@pytest.mark.parametrize("order", [1, 2, 5, 12])
def test_order_q_integrates_polynomials_up_to_degree_2q_minus_1(order):
    atoms = bm.Gaussian(0.0, 1.0, order=order).atoms(Discretisation())
    assert atoms.weights.size == order
    for power in range(2 * order):
        expected = 0.0 if power % 2 else float(np.prod(np.arange(1, power, 2)))
        size = atoms.weights @ np.abs(atoms.points[:, 0]) ** power
        assert atoms.weights @ atoms.points[:, 0] ** power == pytest.approx(expected, abs=1e-12 * size)


def test_a_mean_with_too_many_axes_is_refused():
    with pytest.raises(DimensionError, match=r"shape \(2, 2\); give one number, or one for each dimension"):
        bm.Gaussian(np.zeros((2, 2)), 1.0)


def test_order_one_is_the_mean_alone():
    atoms = some_gaussian(3, 1, order=1).atoms(Discretisation())
    np.testing.assert_allclose(atoms.points, some_gaussian(3, 1).mean[None])
    np.testing.assert_array_equal(atoms.weights, [1.0])


@pytest.mark.filterwarnings("ignore::barymesh.errors.AccuracyWarning")
@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_number_of_nodes_is_bounded(d):
    assert some_gaussian(d, 2).atoms(Discretisation(resolution=1e-4)).weights.size <= MOST_NODES


@pytest.mark.filterwarnings("ignore::barymesh.errors.AccuracyWarning")
@pytest.mark.parametrize("d", [1, 2, 3])
def test_a_finer_resolution_never_takes_fewer_nodes(d):
    resolutions = (10.0, 1.0, 0.5, 0.3, 0.1, 0.03, 0.01, 1e-4)
    counts = [some_gaussian(d, 2).atoms(Discretisation(resolution=r)).weights.size for r in resolutions]
    # near the cap the shares of the axes are rounded, which moves the product by less than a hundredth
    assert all(later >= 0.99 * earlier for earlier, later in pairwise(counts))


@pytest.mark.parametrize("widths", [3.0, 10.0, 20.0])
def test_nodes_lie_a_quarter_of_a_resolution_apart_where_the_mass_is(widths):
    points = np.sort(bm.Gaussian(0.0, 1.0).atoms(Discretisation(resolution=1 / widths)).points[:, 0])
    central = np.diff(points[np.abs(points) < 1.0])
    np.testing.assert_allclose(central, 0.25 / widths, rtol=0.05)


def test_beyond_three_dimensions_the_oracle_is_a_sample():
    measure = some_gaussian(4, 3)
    how = Discretisation(samples=50, generator=lambda: np.random.default_rng(8))
    atoms = measure.atoms(how)
    np.testing.assert_array_equal(atoms.points, measure.sample(50, np.random.default_rng(8)))
    np.testing.assert_allclose(atoms.weights, 1 / 50)


def gradient_error(mean, std, reg, potential):
    """How far the softmax gradient by the problem's own atoms is from a very fine trapezoid rule."""
    problem = bm.Problem.create([bm.Gaussian(mean, std)], LINE, reg=reg)
    fine = np.linspace(mean - 9.5 * std, mean + 9.5 * std, 6_001)
    density = np.exp(-0.5 * ((fine - mean) / std) ** 2)

    def gradient(places, weights):
        cost = problem.cost.matrix(problem.support.points, places).T
        return np.exp(node_oracle(potential, cost, weights, reg)[1])

    quadrature = gradient(problem.atoms[0].points, problem.atoms[0].weights)
    return np.abs(quadrature - gradient(fine[:, None], density / density.sum())).max()


STDS, REGS = [0.1, 0.3, 0.5, 1.0, 2.0], [0.01, 0.05, 0.2, 1.0]


@pytest.mark.parametrize("reg", REGS)
@pytest.mark.parametrize("std", STDS)
def test_softmax_gradient_without_potential_matches_a_fine_rule(std, reg):
    assert max(gradient_error(mean, std, reg, np.zeros(100)) for mean in (0.0, 1.3, 4.5)) < 1e-9


@pytest.mark.parametrize("reg", REGS)
@pytest.mark.parametrize("std", STDS)
def test_softmax_gradient_at_the_solution_matches_a_fine_rule(std, reg):
    """At the potential that counts: the one the solver ends with."""
    result = bm.barycenter([bm.Gaussian(1.3, std), bm.Gaussian(-2.0, 0.4)], LINE, reg=reg, tol=1e-6)
    assert gradient_error(1.3, std, reg, result.duals[0]) < 1e-9


@pytest.mark.parametrize("reg", REGS)
@pytest.mark.parametrize("std", STDS)
def test_softmax_gradient_under_a_smooth_wave_matches_a_fine_rule(std, reg):
    """A potential with hills and valleys, as smooth as they come."""
    assert max(gradient_error(mean, std, reg, np.cos(LINE)) for mean in (0.0, 1.3, 4.5)) < 1e-9


@pytest.mark.parametrize(
    ("d", "side", "std", "reg"), [(2, 32, 1.0, 0.2), (2, 40, 1.0, 0.05), (2, 40, 1.0, 0.01), (3, 20, 1.0, 0.05)]
)
def test_softmax_gradient_in_the_plane_and_in_space_matches_a_fine_rule(d, side, std, reg):
    """Without potential all factors over the axes, so the marginal of the gradient needs a fine rule on one axis only.

    Fine enough for the problem's reg and support, or a warning says that it is not.
    """
    axis, mean = np.linspace(-2, 2, side), 0.3
    problem = bm.Problem.create([bm.Gaussian([mean] * d, std)], bm.Support.regular((side,) * d, -2, 2), reg=reg)
    fine = np.linspace(mean - 9.5 * std, mean + 9.5 * std, 6_001)
    density = np.exp(-0.5 * ((fine - mean) / std) ** 2)

    def marginal(places, weights):
        return np.exp(node_oracle(np.zeros(side), (places[:, None] - axis) ** 2, weights, reg)[1])

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        atoms = problem.atoms[0]
    error = np.abs(marginal(atoms.points[:, 0], atoms.weights) - marginal(fine, density / density.sum())).sum()
    assert error < 1e-6 or [w.category for w in warned] == [AccuracyWarning]
    assert (reg == 0.2) <= (error < 1e-6)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "words"),
    [
        ((0.0,), {}, MeasureError, ["exactly one", "std=", "cov="]),
        ((0.0, 1.0), {"cov": 1.0}, MeasureError, ["exactly one", "std=", "cov="]),
        ((0.0, 0.0), {}, MeasureError, ["0.0", "positive", "Empirical"]),
        ((0.0, -2.5), {}, MeasureError, ["-2.5", "positive"]),
        ((0.0, np.nan), {}, MeasureError, ["nan", "positive"]),
        ((0.0, np.inf), {}, MeasureError, ["inf", "finite"]),
        (([0.0, 0.0], [1.0, 1.0, 1.0]), {}, DimensionError, ["(3,)", "one number or 2"]),
        (([0.0, 0.0],), {"cov": np.eye(3)}, DimensionError, ["(3, 3)", "(2, 2)"]),
        (([0.0, 0.0],), {"cov": [[1.0, 0.5], [0.0, 1.0]]}, MeasureError, ["symmetric"]),
        (([0.0, 0.0],), {"cov": [[1.0, np.nan], [np.nan, 1.0]]}, MeasureError, ["finite"]),
        (([0.0, 0.0],), {"cov": [[1.0, 2.0], [2.0, 1.0]]}, MeasureError, ["positive definite", "-1"]),
        ((np.nan, 1.0), {}, MeasureError, ["nan", "mean"]),
        (([], 1.0), {}, DimensionError, ["mean", "(1, 0)"]),
        ((np.zeros((2, 2)), 1.0), {}, DimensionError, ["mean"]),
        ((0.0, 1.0), {"order": 0}, MeasureError, ["order", "0", "at least 1"]),
        ((0.0, 1.0), {"order": -3}, MeasureError, ["order", "-3"]),
    ],
)
def test_bad_gaussians_are_refused_with_a_reason(arguments, options, error, words):
    with pytest.raises(error) as caught:
        bm.Gaussian(*arguments, **options)
    for word in words:
        assert word in str(caught.value)


def test_a_small_covariance_that_is_not_symmetric_is_refused():
    """Symmetry is a matter of the matrix, not of its units."""
    with pytest.raises(MeasureError, match="symmetric"):
        bm.Gaussian([0.0, 0.0], cov=[[1e-9, 5e-10], [0.0, 1e-9]])


def test_a_fractional_order_is_refused():
    with pytest.raises(MeasureError, match=r"2\.5"):
        bm.Gaussian(0.0, 1.0, order=2.5)


@pytest.mark.parametrize("std", [1e-200, 1e200])
def test_a_std_whose_square_is_out_of_range_is_refused_by_its_name(std):
    """The user gave a std, so the message must not speak of the smallest eigenvalue of a cov."""
    with pytest.raises(MeasureError, match="std"):
        bm.Gaussian(0.0, std)


def test_a_gaussian_in_space_that_is_resolved_gives_no_warning():
    """Warnings are errors here. As fine as 32 nodes along each axis are is enough at a large reg."""
    for resolution in (1.0, 2.0, 10.0):
        atoms = bm.Gaussian(np.zeros(3), 1.0).atoms(Discretisation(resolution=resolution))
        moments = atoms.weights @ atoms.points**4
        np.testing.assert_allclose(moments, 3.0, rtol=1e-9)
    with pytest.warns(AccuracyWarning, match="3-D"):
        bm.Gaussian(np.zeros(3), 1.0).atoms(Discretisation(resolution=0.1))
