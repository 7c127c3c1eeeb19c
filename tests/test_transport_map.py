"""Maps to the barycenter and back: the means under the plan, and those of theory where it has them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import sqrtm

import barymesh as bm
from barymesh.errors import DimensionError, MeasureError, OptionError
from tests.test_coupling import PROBLEMS


@pytest.mark.parametrize("name", [name for name in PROBLEMS if name != "matrix"])
def test_maps_are_the_means_under_the_plan(name):
    measures, support, options = PROBLEMS[name]
    result = bm.barycenter(measures, support, **options)
    for i in range(len(result.duals)):
        plan, atoms, move = result.plan(i), result.problem.atoms_of(i), result.map(i)
        there = (plan.T @ result.support.points)[atoms.index] / atoms.weights[:, None]
        np.testing.assert_allclose(move(atoms.points), there, atol=1e-9)
        rows = plan.sum(axis=1)
        some = rows > 1e-250
        back = (plan @ atoms.table)[some] / rows[some, None]
        np.testing.assert_allclose(move.back(result.support.points[some]), back, atol=1e-9)


def test_maps_of_gaussians_are_those_of_theory():
    """Between Gaussians the map is affine, and so is the barycenter: its deviation is the mean of theirs."""
    result = bm.barycenter([bm.Gaussian(-2, 0.5), bm.Gaussian(3, 1.5)], np.linspace(-8, 8, 400), reg=0.002)
    y = np.linspace(-3, -1, 9)
    np.testing.assert_allclose(result.map(0)(y), 0.5 + 2 * (y + 2), atol=0.02)
    np.testing.assert_allclose(result.map(1).back(result.map(0)(y)), 3 + 3 * (y + 2), atol=0.03)
    assert result.cost(0) == pytest.approx(2.5**2 + 0.5**2, rel=0.01)
    assert result.mean()[0] == pytest.approx(0.5, abs=1e-3)
    assert result.cov()[0, 0] == pytest.approx(1.0, rel=0.01)
    np.testing.assert_allclose(result.quantile([0.1586553, 0.5, 0.8413447]), [-0.5, 0.5, 1.5], atol=0.05)


def test_maps_of_correlated_gaussians_are_those_of_bures():
    first, second = np.array([[0.5, 0.2], [0.2, 0.3]]), np.array([[0.3, -0.1], [-0.1, 0.6]])
    result = bm.barycenter(
        [bm.Gaussian([0, 0], cov=first), bm.Gaussian([1, 1], cov=second)], "30:-2.5:3.5,30:-2.5:3.5", reg=0.1
    )
    root = sqrtm(first).real
    bures = np.linalg.inv(root) @ sqrtm(root @ second @ root).real @ np.linalg.inv(root)
    y = np.random.default_rng(0).normal(size=(20, 2)) @ root.T * 0.7
    # half of the way along the geodesic; the entropy pulls towards the mean
    expected = 0.5 * (y + 1 + y @ bures.T)
    assert np.abs(result.map(0)(y) - expected).max() < 0.2


def test_points_keep_their_shape():
    rng = np.random.default_rng(0)
    colours = bm.barycenter([rng.random((40, 3)), rng.random((30, 3)) ** 2], reg=0.05)
    picture = rng.random((4, 5, 3))
    moved = colours.map(0)(picture)
    assert moved.shape == (4, 5, 3)
    np.testing.assert_array_equal(moved.reshape(-1, 3), colours.map(0)(picture.reshape(-1, 3)))
    assert colours.map(0)(np.empty((0, 3))).shape == (0, 3)
    line = bm.barycenter([[0.0, 1.0], [2.0, 3.5]], reg=0.1)
    assert line.map(0)([0.5]).shape == (1,)
    assert line.map(0)([[0.5]]).shape == (1, 1)
    assert line.map(0).back([[0.5]]).shape == (1, 1)


def test_what_cannot_be_moved_is_refused():
    result = bm.barycenter([[0.0, 1.0], [2.0, 3.5]], reg=0.1)
    with pytest.raises(DimensionError, match=r"shape \(2, 3\); they must be \(..., 1\)"):
        result.map(0)(np.ones((2, 3)))
    with pytest.raises(DimensionError):
        result.map(0)(1.0)
    with pytest.raises(MeasureError, match="NaN"):
        result.map(0).back([np.nan])
    measures, support, options = PROBLEMS["matrix"]
    with pytest.raises(OptionError, match="no place for new points"):
        bm.barycenter(measures, support, **options).map(0)


def test_a_loaded_result_moves_points_without_its_measures(tmp_path):
    result = bm.barycenter([bm.Gaussian(-2, 0.5), bm.Gaussian(3, 1.5)], reg=0.1)
    loaded = bm.load(result.save(tmp_path / "mean"))
    np.testing.assert_array_equal(loaded.map(0)([-2.0, 0.0]), result.map(0)([-2.0, 0.0]))
    with pytest.raises(MeasureError, match="with_measures"):
        loaded.map(0).back([0.0])
