"""Distributions of scipy and their look-alikes, and functions that draw."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy import stats

import barymesh as bm
from barymesh.errors import SamplerError
from barymesh.measures import Discretisation
from barymesh.measures.distribution import QUANTILES

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


@pytest.mark.parametrize("name", ON_THE_LINE)
def test_quantiles_integrate_bounded_functions(name):
    """The midpoints of 2048 equal slices: no distribution function is off by more than one slice."""
    frozen = ON_THE_LINE[name]
    atoms = bm.Distribution(frozen).atoms(Discretisation())
    places, w = atoms.points[:, 0], atoms.weights
    assert (w > 0).all()
    assert w.sum() == pytest.approx(1.0, abs=1e-12)
    assert w @ np.cos(places) == pytest.approx(frozen.expect(np.cos), abs=1 / QUANTILES)
    for at in frozen.ppf([0.03, 0.2, 0.5, 0.77, 0.999]):
        assert w[places <= at].sum() == pytest.approx(frozen.cdf(at), abs=1 / QUANTILES)


def test_quantiles_of_the_normal_have_its_moments():
    atoms = bm.Distribution(stats.norm(1.0, 2.0)).atoms(Discretisation())
    assert atoms.weights @ atoms.points[:, 0] == pytest.approx(1.0, abs=1e-12)
    assert atoms.weights @ (atoms.points[:, 0] - 1) ** 2 == pytest.approx(4.0, rel=2e-3)


def test_discrete_distributions_keep_to_their_values():
    """Each value has its probability, to within one slice in 2048."""
    atoms = bm.Distribution(stats.poisson(3.5)).atoms(Discretisation())
    assert set(atoms.points[:, 0]) <= set(range(30))
    for value in range(12):
        mass = atoms.weights[atoms.points[:, 0] == value].sum()
        assert mass == pytest.approx(stats.poisson.pmf(value, 3.5), abs=1 / QUANTILES)


def test_the_oracle_of_a_distribution_on_the_line_draws_nothing():
    one, two = (
        bm.Distribution(stats.norm(0, 1)).atoms(Discretisation(generator=partial(np.random.default_rng, seed)))
        for seed in (1, 2)
    )
    np.testing.assert_array_equal(one.points, two.points)


def test_multivariate_normal_is_sampled(rng):
    cov = np.array([[2.0, 0.7, 0.0], [0.7, 1.0, 0.1], [0.0, 0.1, 0.5]])
    measure = bm.Distribution(stats.multivariate_normal([1, 2, 3], cov))
    assert measure.dimension == 3
    draws = measure.sample(20_000, rng)
    np.testing.assert_allclose(draws.mean(axis=0), [1, 2, 3], atol=5 * np.sqrt(2 / 20_000))
    np.testing.assert_allclose(np.cov(draws.T), cov, atol=0.1)
    how = Discretisation(samples=30, generator=lambda: np.random.default_rng(4))
    atoms = measure.atoms(how)
    np.testing.assert_array_equal(atoms.points, measure.sample(30, np.random.default_rng(4)))
    np.testing.assert_allclose(atoms.weights, 1 / 30)


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
