"""Distributions of scipy and their look-alikes, and functions that draw."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, special, stats

import barymesh as bm
from barymesh.errors import SamplerError
from barymesh.measures import Discretisation

ON_THE_LINE = {
    "normal": stats.norm(1.0, 2.0),
    "uniform": stats.uniform(-1, 3),
    "beta": stats.beta(0.5, 2.0),
    "exponential": stats.expon(scale=0.3),
    "poisson": stats.poisson(3.5),
    "binomial": stats.binom(6, 0.3),
}


@pytest.mark.parametrize("name", ON_THE_LINE)
def test_draws_have_the_moments_of_the_distribution(name, rng):
    frozen, size = ON_THE_LINE[name], 20_000
    draws = bm.Distribution(frozen).sample(size, rng)
    assert draws.shape == (size, 1)
    assert draws.mean() == pytest.approx(frozen.mean(), abs=5 * frozen.std() / np.sqrt(size))
    assert draws.std() == pytest.approx(frozen.std(), rel=0.05)


SKEW = [[2.0, 0.7], [0.7, 1.0]]
SMOOTH = {
    "normal": stats.norm(1.0, 2.0),
    "uniform": stats.uniform(-1, 3),
    "arcsine": stats.arcsine(),
    "beta": stats.beta(0.5, 2.0),
    "exponential": stats.expon(scale=0.3),
    "gamma": stats.gamma(0.3),
    "log-normal": stats.lognorm(0.5),
    "student": stats.t(4),
    "skew": stats.gumbel_r(),
}


@pytest.mark.parametrize("resolution", [0.05, 0.3, 2.0])
@pytest.mark.parametrize("name", SMOOTH)
def test_quantiles_integrate_what_the_oracle_integrates(name, resolution):
    """Sigmoids of about the width of the resolution, as the softmax is made of, against an integral in the plain."""
    frozen, measure = SMOOTH[name], bm.Distribution(SMOOTH[name])
    if name == "normal":
        assert isinstance(measure.exact, bm.Gaussian)
        measure.exact = None
    atoms = measure.atoms(Discretisation(resolution=resolution))
    places, w = atoms.points[:, 0], atoms.weights
    assert (w > 0).all()
    assert w.sum() == pytest.approx(1.0, abs=1e-12)
    for centre in frozen.ppf([0.01, 0.3, 0.5, 0.9]):

        def sigmoid(y, centre=centre):
            return special.expit((y - centre) / resolution)

        # integrated over the probabilities, so that densities may be infinite
        cuts = np.unique(np.clip(frozen.cdf(centre + resolution * np.arange(-40, 41)), 1e-13, 1 - 1e-13))
        ends = np.concatenate([[1e-13], cuts, [1 - 1e-13]])
        exactly = sum(
            integrate.quad(lambda u: sigmoid(frozen.ppf(u)), a, b, epsabs=1e-13, limit=200)[0]
            for a, b in pairwise(ends)
            if b > a
        )
        assert w @ sigmoid(places) == pytest.approx(exactly, abs=1e-9)


def test_a_normal_distribution_by_its_quantiles_gives_the_barycenter_of_the_gaussian():
    support = np.linspace(-5, 5, 100)
    for reg in (0.5, 0.05):
        normals = [bm.Distribution(stats.norm(mean, std)) for mean, std in ((-1.0, 0.5), (0.3, 0.2), (1.5, 1.0))]
        exact = bm.barycenter([normal.exact for normal in normals], support, reg=reg, tol=1e-9)
        for normal in normals:
            normal.exact = None
        quantiles = bm.barycenter(normals, support, reg=reg, tol=1e-9)
        assert 0.5 * np.abs(exact.weights - quantiles.weights).sum() < 1e-8


@pytest.mark.parametrize(
    ("frozen", "expected"),
    [
        (stats.norm(1.5, 0.5), bm.Gaussian(1.5, 0.5)),
        (stats.multivariate_normal([1.0], [[4.0]]), bm.Gaussian(1.0, 2.0)),
        (
            stats.multivariate_normal([1, 2], [[2.0, 0.7], [0.7, 1.0]]),
            bm.Gaussian([1, 2], cov=[[2.0, 0.7], [0.7, 1.0]]),
        ),
        (stats.multivariate_normal(np.zeros(3)), bm.Gaussian(np.zeros(3), 1.0)),
    ],
)
def test_normal_distributions_are_gaussians(frozen, expected):
    measure = bm.Distribution(frozen)
    assert repr(measure.exact) == repr(expected)
    assert not measure.sampled_only
    how = Discretisation(resolution=2.0)
    np.testing.assert_array_equal(measure.atoms(how).points, expected.atoms(how).points)
    support = bm.Support.regular([5] * expected.dimension, -2, 2)
    (node,) = bm.Problem.create([frozen], support, reg=5.0).measures
    assert isinstance(node, bm.Gaussian)


@pytest.mark.parametrize(
    "frozen",
    [
        stats.multivariate_normal(np.zeros(4)),
        stats.multivariate_normal([0, 0], [[1, 1], [1, 1]], allow_singular=True),
        stats.dirichlet([1, 2, 3]),
        stats.multivariate_t([0.0, 0.0]),
    ],
)
def test_what_has_no_quadrature_is_sampled(frozen):
    measure = bm.Distribution(frozen)
    assert measure.sampled_only
    how = Discretisation(samples=30, generator=lambda: np.random.default_rng(4))
    np.testing.assert_array_equal(measure.atoms(how).points, measure.sample(30, np.random.default_rng(4)))
    np.testing.assert_allclose(measure.atoms(how).weights, 1 / 30)


def test_what_can_only_be_sampled_says_so():
    assert bm.Sampler(lambda size, rng: rng.random(size)).sampled_only
    for measure in (
        bm.Gaussian(0, 1),
        bm.Empirical([0.0]),
        bm.Histogram([1.0]),
        bm.Image([[1.0]]),
        bm.Distribution(stats.gamma(3)),
        bm.Distribution(stats.poisson(3)),
    ):
        assert not measure.sampled_only


@pytest.mark.parametrize(
    "frozen",
    [
        stats.poisson(3.5),
        stats.binom(6, 0.3),
        stats.bernoulli(0.2),
        stats.randint(-3, 5),
        stats.geom(0.1),
        stats.poisson(2.0, loc=0.5),
        stats.rv_discrete(values=([-1.5, 0.25, 7.0], [0.2, 0.5, 0.3])),
        stats.rv_discrete(values=([-1.5, 0.25, 7.0], [0.2, 0.5, 0.3]))(loc=2.0),
    ],
)
def test_discrete_distributions_are_their_masses(frozen):
    measure = bm.Distribution(frozen)
    atoms = measure.atoms(Discretisation())
    values = atoms.points[:, 0]
    assert np.unique(values).size == values.size
    np.testing.assert_allclose(atoms.weights, frozen.pmf(values), atol=1e-11)
    assert frozen.pmf(values).sum() == pytest.approx(1.0, abs=2e-12)
    assert not measure.sampled_only


@pytest.mark.parametrize("frozen", [stats.randint(0, 10**7), stats.zipf(1.8), stats.nbinom(5, 0.001)])
def test_discrete_distributions_of_too_many_values_are_quantiles(frozen):
    """The midpoints of 2048 equal slices: no distribution function is off by more than one slice."""
    measure = bm.Distribution(frozen)
    assert measure.exact is None
    atoms = measure.atoms(Discretisation(resolution=1.0))
    for level in (0.1, 0.5, 0.9):
        at = frozen.ppf(level)
        assert atoms.weights[atoms.points[:, 0] <= at].sum() == pytest.approx(frozen.cdf(at), abs=1 / 2048)


def test_heavy_tails_keep_their_mass_and_stay_within_reach():
    """The costs of a Cauchy distribution are infinite; what is far out is at the edge of the support in any case."""
    support = bm.Support.regular(100, -20, 20)
    atoms = bm.Distribution(stats.cauchy()).atoms(Discretisation(support, resolution=0.1))
    places, w = atoms.points[:, 0], atoms.weights
    assert np.abs(places).max() <= 2001
    for at in (-100.0, -10.0, -1.0, 0.0, 2.0, 30.0):
        assert w[places <= at].sum() == pytest.approx(stats.cauchy.cdf(at), abs=2e-3)
    far = bm.Support.regular(100, -1e4, 1e4)
    atoms = bm.Distribution(stats.cauchy()).atoms(Discretisation(far, resolution=100.0))
    assert np.abs(atoms.points).max() > 1e4


class Bounded:
    """Quantiles and draws, and nothing else of what scipy has."""

    def rvs(self, size, random_state):
        return random_state.random(size)

    def ppf(self, levels):
        return np.asarray(levels) ** 2


def test_quantiles_alone_will_do():
    atoms = bm.Distribution(Bounded()).atoms(Discretisation())
    assert atoms.weights @ atoms.points[:, 0] == pytest.approx(1 / 3, abs=1e-12)
    assert atoms.weights @ atoms.points[:, 0] ** 2 == pytest.approx(1 / 5, abs=1e-12)


@pytest.mark.parametrize("ppf", [lambda u: np.full(np.shape(u), np.nan), lambda u: float(u), lambda u: "a"])
def test_broken_quantiles_are_refused(ppf):
    frozen = Bounded()
    frozen.ppf = ppf
    with pytest.raises(SamplerError, match=r"'Bounded'.*quantile"):
        bm.Distribution(frozen).atoms(Discretisation())


def test_a_gap_in_a_distribution_does_not_use_up_the_nodes():
    histogram = stats.rv_histogram((np.array([1.0, 0.0, 1.0]), np.array([0.0, 1.0, 9.0, 10.0])), density=True)
    atoms = bm.Distribution(histogram()).atoms(Discretisation(resolution=0.1))
    places, w = atoms.points[:, 0], atoms.weights
    assert w[places < 5].sum() == pytest.approx(0.5, abs=1e-9)
    assert w @ np.cos(places) == pytest.approx((np.sin(1) + np.sin(10) - np.sin(9)) / 2, abs=1e-8)
    assert atoms.weights.size < 4000


def test_the_oracle_of_a_distribution_on_the_line_draws_nothing():
    one, two = (
        bm.Distribution(stats.norm(0, 1)).atoms(Discretisation(generator=partial(np.random.default_rng, seed)))
        for seed in (1, 2)
    )
    np.testing.assert_array_equal(one.points, two.points)


@pytest.mark.parametrize(
    ("frozen", "d"),
    [
        (stats.norm(0, 1), 1),
        (stats.poisson(2), 1),
        (stats.multivariate_normal([0], [[1]]), 1),
        (stats.multivariate_normal([0, 0]), 2),
        (stats.dirichlet([1, 2, 3]), 3),
        (stats.uniform_direction(4), 4),
    ],
)
@pytest.mark.parametrize("size", [0, 1, 2, 5])
def test_shapes_and_repeatable_draws(frozen, d, size):
    """Also of one draw, for which scipy returns a bare vector."""
    measure = bm.Distribution(frozen)
    assert measure.dimension == d
    one, two = (measure.sample(size, np.random.default_rng(9)) for _ in range(2))
    assert one.shape == (size, d)
    np.testing.assert_array_equal(one, two)


class LookAlike:
    """Has ``rvs`` and nothing else."""

    def rvs(self, size, random_state):
        return random_state.normal(size=(size, 2)) + 5

    def __repr__(self):
        return "LookAlike()"


def test_anything_with_rvs_is_a_distribution():
    measure = bm.Distribution(LookAlike())
    assert measure.dimension == 2
    atoms = measure.atoms(Discretisation(samples=400))
    assert atoms.points.shape == (400, 2)
    np.testing.assert_allclose(atoms.weights @ atoms.points, [5, 5], atol=0.25)


def test_matrices_are_no_points():
    with pytest.raises(SamplerError, match=r"\(2, 2, 2\).*\(2, d\)"):
        bm.Distribution(stats.wishart(3, np.eye(2)))


@pytest.mark.parametrize("means", [[0.0, 1.0], [0.0, 1.0, 2.0]])
def test_several_distributions_in_one_object_are_refused(means):
    """``norm([0, 1])`` is two distributions; asked for two draws it returns one of each."""
    with pytest.raises(SamplerError):
        bm.Distribution(stats.norm(means, 1.0))


def flat(size, rng):
    return rng.exponential(size=size)


def planar(size, rng):
    return rng.normal(size=(size, 2)) * [1.0, 3.0]


@pytest.mark.parametrize(("function", "d"), [(flat, 1), (planar, 2), (partial(planar), 2)])
@pytest.mark.parametrize("size", [0, 1, 5])
def test_samplers_give_what_the_function_draws(function, d, size):
    measure = bm.Sampler(function)
    assert measure.dimension == d
    draws = measure.sample(size, np.random.default_rng(2))
    assert draws.shape == (size, d)
    np.testing.assert_array_equal(draws, np.reshape(function(size, np.random.default_rng(2)), (size, d)))


def test_sampler_atoms_are_equal_draws_from_the_addressed_generator():
    how = Discretisation(samples=5000, generator=lambda: np.random.default_rng(6))
    atoms = bm.Sampler(flat).atoms(how)
    np.testing.assert_array_equal(atoms.points[:, 0], np.random.default_rng(6).exponential(size=5000))
    assert atoms.weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert atoms.weights @ np.cos(atoms.points[:, 0]) == pytest.approx(0.5, abs=0.03)


def test_making_a_sampler_leaves_the_draws_of_a_run_alone():
    """The dimension is found with a generator of its own, so nothing is used up."""
    problem = bm.Problem.create([flat, flat], np.linspace(0, 3, 5), reg=0.1, samples=10, seed=3)
    again = bm.Problem.create([bm.Sampler(flat), flat], np.linspace(0, 3, 5), reg=0.1, samples=10, seed=3)
    for one, two in zip(problem.atoms, again.atoms, strict=True):
        np.testing.assert_array_equal(one.points, two.points)
    assert not np.array_equal(problem.atoms[0].points, problem.atoms[1].points)


def broken_draws(size, rng):
    return np.where(np.arange(size) == 1, np.nan, 0.0)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda size, rng: rng.normal(size=size - 1), ["2 draws", "(1,)", "(2, d)"]),
        (lambda size, rng: rng.normal(size=size + 3), ["2 draws", "(5,)"]),
        (lambda size, rng: rng.normal(size=(3, size)), ["2 draws", "(3, 2)"]),
        (lambda size, rng: rng.normal(size=(size, 2, 2)), ["2 draws", "(2, 2, 2)"]),
        (lambda size, rng: np.zeros((size, 0)), ["2 draws", "(2, 0)"]),
        (lambda size, rng: 1.0, ["2 draws", "()"]),
        (lambda size, rng: None, ["2 draws"]),
        (lambda size, rng: ["a"] * size, ["list", "not an array of numbers"]),
        (lambda size, rng: [[1, 2], [3]], ["list", "not an array of numbers"]),
        (lambda size, rng: {"x": 1}, ["dict", "not an array of numbers"]),
        (broken_draws, ["'broken_draws'", "nan", "draw 1", "finite"]),
        (partial(broken_draws), ["functools.partial", "nan"]),
        (lambda size, rng: np.full((size, 2), np.inf), ["inf", "draw 0"]),
    ],
)
def test_bad_samplers_are_refused_at_once(function, words):
    with pytest.raises(SamplerError) as caught:
        bm.Sampler(function)
    for word in words:
        assert word in str(caught.value)


def test_a_sampler_must_keep_to_its_dimension():
    """Two draws on the line, then many in space: the coordinates would be lost silently."""
    measure = bm.Sampler(lambda size, rng: rng.normal(size=size) if size == 2 else rng.normal(size=(size, 3)))
    with pytest.raises(bm.BarymeshError, match="3"):
        measure.sample(10, np.random.default_rng(0))


@pytest.mark.parametrize("frozen", [stats.betabinom(5000, 2, 3), stats.zipf(3.0), stats.geom(1e-3)])
def test_rounded_masses_and_long_tails_are_still_masses(frozen):
    exact = bm.Distribution(frozen).exact
    assert exact is not None
    np.testing.assert_allclose(exact.weights, frozen.pmf(exact.points[:, 0]), rtol=3e-4)


def test_a_normal_distribution_with_arrays_of_one_number_is_a_gaussian():
    (measure,) = bm.Problem.create([stats.norm([1.0], [2.0])], np.linspace(-5, 5, 11), reg=1).measures
    assert repr(measure) == "Gaussian(mean=[1.0], cov=[[4.0]])"


def test_quantiles_that_scipy_cannot_find_are_named():
    with pytest.raises(SamplerError, match=r"zipf.*Give samples"):
        bm.Distribution(stats.zipf(1.5)).atoms(Discretisation())
