"""Paths of weights: every step is the barycenter of its weights, also where some are 0."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

import barymesh as bm
from barymesh.errors import OptionError, WeightError

LINE = np.linspace(-5, 10, 150)
GAUSSIANS = [bm.Gaussian(-2, 0.5), bm.Gaussian(3, 1.5)]


@pytest.fixture(scope="module")
def geodesic():
    return bm.path(GAUSSIANS, steps=5, support=LINE, reg=0.02, tol=1e-8)


def test_two_measures_give_the_geodesic(geodesic):
    """Between Gaussians it has the means and, up to the blur, the deviations between theirs."""
    shares = np.linspace(0, 1, 5)
    np.testing.assert_allclose(geodesic.weights, np.column_stack([1 - shares, shares]))
    np.testing.assert_allclose([result.mean()[0] for result in geodesic], -2 + 5 * shares, atol=1e-4)
    deviations = [np.sqrt(result.cov()[0, 0]) for result in geodesic]
    np.testing.assert_allclose(deviations, 0.5 + shares, rtol=0.03)


def test_every_step_is_the_barycenter_of_its_weights(geodesic):
    assert len(geodesic) == 5
    for own, result in zip(geodesic.weights, geodesic, strict=True):
        acting = np.flatnonzero(own)
        expected = bm.barycenter([GAUSSIANS[k] for k in acting], LINE, reg=0.02, weights=own[acting], tol=1e-8)
        assert np.abs(result.weights - expected.weights).sum() < 1e-6
        assert result.success
        assert result.gap < 1e-4
        np.testing.assert_array_equal(result.problem.weights, own)


def test_measures_of_weight_0_have_plans_too(geodesic):
    for result in geodesic:
        for k in range(2):
            assert np.abs(result.plan(k).sum(axis=1) - result.weights).sum() < 1e-6
    # all of the second measure comes from the first
    assert geodesic[0].cost(1) == pytest.approx(5**2 + 1**2, rel=0.01)


def test_each_step_begins_where_the_last_one_ended(geodesic):
    fine = bm.path(GAUSSIANS, [0.5, 0.5], [0.499, 0.501], 3, LINE, reg=0.02, tol=1e-8)
    assert fine[1].iterations < fine[0].iterations / 2 + 2


def test_images_with_samples_of_one_seed():
    rng = np.random.default_rng(0)
    measures = [lambda size, rng: rng.normal(size=(size, 2)), rng.normal(2, 1, (30, 2)), bm.Gaussian([1, 0], 0.5)]
    found = bm.path(measures, [0, 1, 1], [1, 1, 0], 3, reg=0.3, samples=40)
    whole = bm.barycenter(measures, found[0].support, reg=0.3, samples=40, weights=[1, 2, 1])
    assert np.abs(found[1].weights - whole.weights).sum() < 1e-5
    np.testing.assert_array_equal(found[2].problem.atoms_of(0).table, whole.problem.atoms_of(0).table)


def test_wrong_paths_are_refused():
    with pytest.raises(WeightError, match="weights_from and weights_to"):
        bm.path([*GAUSSIANS, bm.Gaussian(0, 1)], support=LINE, reg=0.1)
    with pytest.raises(WeightError, match="weights must be positive"):
        bm.path(GAUSSIANS, [-1, 2], support=LINE, reg=0.1)
    with pytest.raises(WeightError, match="The weight of measure 0 is 0"):
        bm.path(GAUSSIANS, [0, 0], support=LINE, reg=0.1)
    with pytest.raises(WeightError, match="give one weight each"):
        bm.path(GAUSSIANS, [1, 0, 0], support=LINE, reg=0.1)
    with pytest.raises(OptionError, match="steps is 1; it must be at least 2"):
        bm.path(GAUSSIANS, steps=1, support=LINE, reg=0.1)
    with pytest.raises(OptionError, match="network is no option of path"):
        bm.path(GAUSSIANS, support=LINE, reg=0.1, network="cycle")
    with pytest.raises(OptionError, match="leave out output"):
        bm.path(GAUSSIANS, support=LINE, reg=0.1, output="like")
    with pytest.raises(OptionError, match="points of a FreeSupport move"):
        bm.path(GAUSSIANS, support=bm.FreeSupport(3), reg=0.1)
    with pytest.raises(TypeError):
        bm.path(GAUSSIANS, support=LINE, regularisation=0.1)


def test_ctrl_c_and_callbacks_return_the_steps_so_far():
    seen = []

    def stop(record):
        seen.append(record)
        return len(seen) > 10

    found = bm.path(GAUSSIANS, steps=5, support=LINE, reg=0.02, callback=stop)
    assert 1 <= len(found) < 5
    assert found[-1].status is bm.Status.STOPPED
    assert len(found.weights) == len(found)


@pytest.mark.parametrize("kind", ["line", "image", "volume", "cloud"])
def test_paths_are_drawn_and_animated(kind, tmp_path):
    rng = np.random.default_rng(0)
    cases = {
        "line": (GAUSSIANS, LINE),
        "image": (rng.random((2, 6, 7)), None),
        "volume": (rng.random((2, 3, 4, 3)), None),
        "cloud": ([rng.normal(size=(9, 2)), rng.normal(size=(8, 2)) + 2], rng.normal(size=(12, 2))),
    }
    measures, support = cases[kind]
    found = bm.path(measures, steps=3, support=support, reg=0.1, tol=1e-3)
    assert len(found.plot().axes) == (1 if kind == "line" else 3)
    found.animate(tmp_path / "path.gif", fps=5)
    with Image.open(tmp_path / "path.gif") as picture:
        assert picture.n_frames == 3
    with pytest.raises(OptionError, match=r"ends in \.gif"):
        found.animate(tmp_path / "path.avi")
