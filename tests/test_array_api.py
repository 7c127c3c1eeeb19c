"""Arrays of other libraries go in, NumPy comes out."""

from __future__ import annotations

import array_api_strict as strict
import numpy as np
import pytest

import barymesh as bm
from barymesh.errors import MeasureError
from barymesh.network import as_network

POINTS = np.linspace(-1, 1, 12)
ROWS = np.random.default_rng(0).random((3, 12))


class Elsewhere:
    """An array on a device that NumPy cannot read, as torch and CuPy have them."""

    device = "cuda:0"
    shape = (3, 2)

    def __array__(self, dtype=None, copy=None):
        raise TypeError("can't convert cuda:0 device type tensor to numpy.")

    def __dlpack__(self, **options):
        raise BufferError("not in main memory")

    def __dlpack_device__(self):
        return 2, 0


class OnlyDlpack:
    """An array that can do nothing but hand over its memory."""

    def __init__(self, values):
        self.values = np.array(values)

    def __dlpack__(self, **options):
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("call .detach() first")


@pytest.mark.parametrize("foreign", [strict.asarray, OnlyDlpack])
def test_arrays_of_other_libraries_are_read(foreign):
    expected = bm.barycenter(ROWS, POINTS, reg=0.1, weights=[1, 2, 3])
    found = bm.barycenter(foreign(ROWS), foreign(POINTS), reg=0.1, weights=foreign([1.0, 2.0, 3.0]))
    assert type(found.weights) is np.ndarray
    np.testing.assert_array_equal(found.weights, expected.weights)
    one = bm.barycenter([foreign(ROWS[:, :2] - 1)], np.stack([POINTS, POINTS], axis=1), reg=0.1)
    assert type(one.duals) is np.ndarray
    images = foreign(ROWS.reshape(3, 3, 4))
    assert type(bm.barycenter(images, reg=0.1).image) is np.ndarray


def test_costs_measures_and_networks_too():
    matrix = (POINTS[:, None] - POINTS) ** 2
    expected = bm.barycenter(ROWS, POINTS, reg=0.1)
    found = bm.barycenter(ROWS, reg=0.1, cost=strict.asarray(matrix))
    np.testing.assert_allclose(found.weights, expected.weights, atol=1e-6)
    assert bm.Histogram(strict.asarray(ROWS[0])).masses.sum() == pytest.approx(1)
    assert bm.Gaussian(strict.asarray([0.0, 1.0]), 0.5).dimension == 2
    links = strict.asarray([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    assert as_network(links, 3).edges.tolist() == [[0, 1], [1, 2]]


def test_jax_arrays_are_read():
    """In single precision, whatever JAX does by default: a page of the documentation sets that for the process."""
    jnp = pytest.importorskip("jax.numpy")
    found = bm.barycenter(jnp.asarray(ROWS, dtype="float32"), jnp.asarray(POINTS, dtype="float32"), reg=0.1)
    expected = bm.barycenter(ROWS.astype(np.float32), POINTS.astype(np.float32), reg=0.1)
    np.testing.assert_array_equal(found.weights, expected.weights)


@pytest.mark.parametrize("wrap", [lambda array: array, lambda array: [array, array]])
def test_arrays_out_of_reach_are_refused_with_a_remedy(wrap):
    with pytest.raises(MeasureError, match=r"on cuda:0.*can't convert.*\.cpu\(\)"):
        bm.barycenter(wrap(Elsewhere()), POINTS, reg=0.1)


def test_complex_arrays_are_refused():
    with pytest.raises(MeasureError, match="complex"):
        bm.barycenter(strict.asarray(ROWS + 1j), POINTS, reg=0.1)
