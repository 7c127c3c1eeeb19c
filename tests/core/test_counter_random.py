"""The addressed generator is SplitMix64, and its numbers look random."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from barymesh.core import counter_random as addressed
from barymesh.core.compiling import compiled


@compiled
def words(name, count):
    out = np.empty(count, np.uint64)
    for k in range(count):
        out[k] = addressed.random_bits(name, k)
    return out


@compiled
def units(seed, a, b, count):
    out = np.empty(count)
    for k in range(count):
        out[k] = addressed.unit(addressed.random_bits(addressed.random_stream(seed, 0, a, b), k))
    return out


@compiled
def angles(quarters):
    sines, cosines = np.empty_like(quarters), np.empty_like(quarters)
    for k in range(quarters.size):
        sines[k], cosines[k] = addressed.sine_and_cosine(quarters[k])
    return sines, cosines


def test_known_answers():
    """The first numbers of SplitMix64 from seed 1234567, as published with the generator."""
    known = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]
    assert words(np.uint64(1234567), 5).tolist() == known


def test_units_are_uniform_and_addresses_independent():
    grid = np.array([[units(np.uint64(3), a, b, 50) for b in range(20)] for a in range(20)])
    assert stats.kstest(grid.ravel(), "uniform").pvalue > 1e-3
    assert grid.min() > 0
    assert grid.max() < 1
    streams = grid.reshape(400, 50)
    assert abs(np.corrcoef(streams[:-1].ravel(), streams[1:].ravel())[0, 1]) < 0.03
    assert len(np.unique(streams[:, 0])) == 400


@pytest.mark.parametrize("count", [1, 2, 7, 20_001])
def test_normals(count):
    out = np.empty(count)
    addressed.normals(np.uint64(99), out)
    assert np.isfinite(out).all()
    if count > 1000:
        assert stats.kstest(out, "norm").pvalue > 1e-3
        assert abs(np.corrcoef(out[:-1:2], out[1::2])[0, 1]) < 0.03
    again = np.empty(count + 2)
    addressed.normals(np.uint64(99), again)
    np.testing.assert_array_equal(again[: count - count % 2], out[: count - count % 2])


def test_sine_and_cosine():
    quarters = np.linspace(0, 4, 1001)
    sines, cosines = angles(quarters)
    np.testing.assert_allclose(sines, np.sin(quarters * np.pi / 2), atol=2e-15)
    np.testing.assert_allclose(cosines, np.cos(quarters * np.pi / 2), atol=2e-15)
