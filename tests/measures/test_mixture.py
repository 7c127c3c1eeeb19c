"""Mixtures: frequencies, moments and quadratures of weighted components of any kind."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import barymesh as bm
from barymesh.errors import DimensionError, MeasureError
from barymesh.measures import Discretisation


def test_draws_come_from_the_components_as_often_as_their_weights_say(rng):
    """Three components far apart, so that every draw tells where it came from."""
    mixture, size = bm.Mixture.of_gaussians([-100.0, 0.0, 100.0], 1.0, [1, 2, 5]), 8000
    draws = mixture.sample(size, rng)
    assert draws.shape == (size, 1)
    counts = np.bincount((np.round(draws[:, 0] / 100) + 1).astype(int), minlength=3)
    assert stats.chisquare(counts, np.array([1, 2, 5]) / 8 * size).pvalue > 0.01


def test_the_order_of_draws_tells_nothing(rng):
    """The first draws are as mixed as the last: half of the sample is a sample too."""
    draws = bm.Mixture.of_gaussians([-100.0, 100.0], 1.0).sample(4000, rng)[:, 0]
    left = [int((part < 0).sum()) for part in np.split(draws, 4)]
    assert stats.chi2_contingency([left, [1000 - k for k in left]]).pvalue > 0.01


@given(seed=st.integers(0, 2**32), d=st.integers(1, 2))
@settings(max_examples=20)
def test_quadrature_has_the_moments_and_waves_of_the_mixture(seed, d):
    rng = np.random.default_rng(seed)
    means, stds, weights = rng.normal(size=(3, d)), rng.uniform(0.2, 1.0, 3), rng.uniform(0.1, 1, 3)
    atoms = bm.Mixture.of_gaussians(means, stds, weights).atoms(Discretisation(resolution=0.3))
    y, w, share = atoms.points, atoms.weights, weights / weights.sum()
    assert (w > 0).all()
    assert w.sum() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(w @ y, share @ means, atol=1e-10)
    second = sum(p * (s**2 * np.eye(d) + np.outer(m, m)) for p, s, m in zip(share, stds, means, strict=True))
    np.testing.assert_allclose((y * w[:, None]).T @ y, second, atol=1e-9)
    a = rng.normal(size=d)
    wave = share @ (np.cos(means @ a) * np.exp(-0.5 * stds**2 * (a @ a)))
    assert w @ np.cos(y @ a) == pytest.approx(wave, abs=1e-9)


def test_draws_have_the_moments_of_the_quadrature(rng):
    mixture, size = bm.Mixture([bm.Gaussian([0, 0], 1.0), bm.Gaussian([3, -1], [0.2, 2.0])], [0.3, 0.7]), 40_000
    atoms, draws = mixture.atoms(Discretisation(resolution=0.5)), mixture.sample(size, rng)
    mean = atoms.weights @ atoms.points
    spread = np.sqrt(atoms.weights @ (atoms.points - mean) ** 2)
    assert (np.abs(draws.mean(axis=0) - mean) < 5 * spread / np.sqrt(size)).all()
    np.testing.assert_allclose(draws.std(axis=0), spread, rtol=0.03)


def test_components_of_any_kind_and_mixtures_of_mixtures(rng):
    inner = bm.Mixture([bm.Empirical([[10.0], [20.0]]), bm.Histogram([1, 3], [30.0, 40.0])], [1, 1])
    outer = bm.Mixture([inner, bm.Distribution(stats.uniform(-1, 2))], [3, 1])
    atoms = outer.atoms(Discretisation())
    masses = {place: atoms.weights[atoms.points[:, 0] == place].sum() for place in (10.0, 20.0, 30.0, 40.0)}
    assert masses == pytest.approx({10.0: 3 / 16, 20.0: 3 / 16, 30.0: 3 / 32, 40.0: 9 / 32})
    assert atoms.weights.sum() == pytest.approx(1.0)
    draws = outer.sample(4000, rng)[:, 0]
    assert (draws == 40.0).mean() == pytest.approx(9 / 32, abs=0.03)


def test_components_of_no_weight_leave_no_atoms(rng):
    mixture = bm.Mixture([bm.Empirical([[0.0]]), bm.Empirical([[5.0]])], [1, 0])
    np.testing.assert_array_equal(mixture.atoms(Discretisation()).points, [[0.0]])
    assert (mixture.sample(100, rng) == 0).all()


def test_samplers_in_one_mixture_draw_different_numbers():
    """All components share one stream, so that equal samplers do not repeat each other."""
    mixture = bm.Mixture([bm.Sampler(lambda size, rng: rng.normal(size=size)) for _ in range(2)])
    how = Discretisation(samples=20, generator=lambda: np.random.default_rng(1))
    atoms = mixture.atoms(how)
    assert np.unique(atoms.points).size == 40
    np.testing.assert_array_equal(atoms.points, mixture.atoms(how).points)


@pytest.mark.parametrize("size", [0, 1, 9])
def test_same_generator_state_same_draws(size):
    mixture = bm.Mixture.of_gaussians([[0, 0], [1, 1]], [1.0, 2.0])
    one, two = (mixture.sample(size, np.random.default_rng(3)) for _ in range(2))
    assert one.shape == (size, 2)
    np.testing.assert_array_equal(one, two)


def test_uniform_weights_by_default():
    np.testing.assert_allclose(bm.Mixture.of_gaussians([0, 1, 2, 3], 1.0).weights, 0.25)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: bm.Mixture([]), MeasureError, ["empty", "at least one"]),
        (lambda: bm.Mixture([bm.Gaussian(0, 1), bm.Gaussian([0, 0], 1)]), DimensionError, ["1", "2", "same"]),
        (lambda: bm.Mixture([bm.Histogram([1, 2])]), DimensionError, ["None"]),
        (lambda: bm.Mixture.of_gaussians([0, 1], 1.0, [1, -1]), MeasureError, ["-1.0", "position 1"]),
        (lambda: bm.Mixture.of_gaussians([0, 1], 1.0, [1, np.nan]), MeasureError, ["nan", "position 1"]),
        (lambda: bm.Mixture.of_gaussians([0, 1], 1.0, [0, 0]), MeasureError, ["zero mass"]),
        (lambda: bm.Mixture.of_gaussians([0, 1], 1.0, [1, 1, 1]), MeasureError, ["2 components", "(3,)"]),
        (lambda: bm.Mixture.of_gaussians([0, 1], [1.0, -1.0]), MeasureError, ["-1.0", "positive"]),
    ],
)
def test_bad_mixtures_are_refused_with_a_reason(make, error, words):
    with pytest.raises(error) as caught:
        make()
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: bm.Mixture([stats.norm(0, 1)]),
        lambda: bm.Mixture([np.ones((3, 2))]),
        lambda: bm.Mixture(bm.Gaussian(0, 1)),
    ],
)
def test_components_that_are_no_measures_are_refused(make):
    """A mixture takes measures; anything else is a named error, not an AttributeError."""
    with pytest.raises(MeasureError):
        make()


def test_as_many_stds_as_means():
    with pytest.raises(bm.BarymeshError, match="3"):
        bm.Mixture.of_gaussians([0, 1], [1.0, 2.0, 3.0])
