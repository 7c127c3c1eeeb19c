"""Arrays of other libraries in, the same kind out. torch and JAX are tried where they are installed."""

from __future__ import annotations

import array_api_strict as strict
import numpy as np
import pytest

import barymesh as bm
from barymesh.errors import OptionError
from barymesh.like import ResultLike


def made_by(name):
    if name == "strict":
        return strict.asarray
    if name == "torch":
        return pytest.importorskip("torch").as_tensor
    return pytest.importorskip("jax.numpy").asarray


@pytest.fixture(params=["strict", "torch", "jax"])
def make(request):
    return made_by(request.param)


@pytest.mark.parametrize("kind", [np.float32, np.int32])
def test_arrays_come_out_as_they_went_in(make, kind):
    rng = np.random.default_rng(0)
    rows = rng.integers(1, 9, (3, 12)).astype(kind)
    given, points = make(rows), np.linspace(0, 1, 12)
    expected = bm.barycenter(rows, points, reg=0.05, weights=[1, 2, 3])
    found = bm.barycenter(given, points, reg=0.05, weights=[1, 2, 3], output="like")
    arrays = {
        "weights": found.weights, "node_weights": found.node_weights, "duals": found.duals, "plan": found.plan(1),
        "map": found.map(0)(points), "back": found.map(0).back(points), "sample": found.sample(5), "mean": found.mean(),
        "cov": found.cov(), "quantile": found.quantile([0.2, 0.5]), "image": found.image,
    }  # fmt: skip
    assert {name: type(array) for name, array in arrays.items()} == dict.fromkeys(arrays, type(given))
    assert {str(array.device) for array in arrays.values()} == {str(given.device)}
    if kind is np.float32:
        assert {array.dtype for array in arrays.values()} == {given.dtype}
    np.testing.assert_allclose(np.asarray(found.weights), expected.weights, rtol=1e-5)
    np.testing.assert_array_equal(found.numpy.weights, expected.weights)
    assert found.gap == expected.gap
    assert repr(found) == repr(found.numpy)
    assert {"plan", "weights", "numpy"} <= set(dir(found))


def test_points_that_move_are_of_that_kind_too(make):
    rng = np.random.default_rng(0)
    clouds = [make(rng.normal(size=(20, 2))), make(rng.normal(2, 1, (15, 2)))]
    found = bm.barycenter(clouds, bm.FreeSupport(3), reg=0.5, tol=1e-4, output="like")
    assert found.status is bm.Status.STATIONARY
    assert type(found.points) is type(clouds[0])
    np.testing.assert_allclose(np.asarray(found.points), found.support.points, rtol=1e-5)


def test_methods_take_such_arrays_and_results_continue(make, tmp_path):
    rng = np.random.default_rng(0)
    clouds = [make(rng.normal(size=(20, 2))), make(rng.normal(2, 1, (15, 2)))]
    found = bm.barycenter(clouds, reg=0.2, output="like")
    assert type(found.map(1)(clouds[1])) is type(clouds[0])
    again = bm.barycenter(clouds, found.support, reg=0.2, output="like", start=found)
    assert again.iterations <= 2
    loaded = bm.load(found.save(tmp_path / "result"))
    assert type(loaded) is bm.Result
    assert isinstance(found.with_measures(clouds), ResultLike)


def test_numpy_stays_numpy():
    rows = np.random.default_rng(0).random((2, 9))
    found = bm.barycenter(rows, np.arange(9.0), reg=0.5, output="like")
    assert type(found) is bm.Result
    assert type(bm.barycenter([bm.Gaussian(0, 1)], reg=0.5, output="like")) is bm.Result
    assert type(bm.barycenter(strict.asarray(rows), np.arange(9.0), reg=0.5).weights) is np.ndarray


def test_one_kind_at_a_time():
    torch = pytest.importorskip("torch")
    with pytest.raises(OptionError, match="arrays of one library; the measures are of array_api_strict and torch"):
        bm.barycenter([torch.zeros(3, 2), strict.asarray(np.ones((3, 2)))], reg=0.5, output="like")
    with pytest.raises(OptionError, match="numpy, like"):
        bm.barycenter([torch.zeros(3, 2)], reg=0.5, output="torch")
