"""The random numbers are those of SplitMix64, and look random."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from barymesh.core import kernels
from tests.core import plain_random

STREAMS = st.integers(0, 2**64 - 1)


def words(stream, count):
    out = np.empty(count, dtype=np.uint64)
    kernels.random_words(stream, out)
    return out


def normals(stream, count):
    out = np.empty(count)
    kernels.random_normals(stream, out)
    return out


def test_known_answers():
    """The first numbers of SplitMix64 from seed 1234567, as published with the generator."""
    known = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]
    assert words(1234567, 5).tolist() == known
    assert plain_random.words(1234567, 5) == known


@given(STREAMS, st.integers(0, 70))
def test_words_equal_those_of_the_plain_generator(stream, count):
    assert words(stream, count).tolist() == plain_random.words(stream, count)


@given(STREAMS, st.integers(0, 70))
def test_normals_equal_those_of_the_plain_generator(stream, count):
    np.testing.assert_allclose(normals(stream, count), plain_random.normals(stream, count), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("count", [1, 2, 7, 20_001])
def test_normals(count):
    out = normals(99, count)
    assert np.isfinite(out).all()
    if count > 1000:
        assert stats.kstest(out, "norm").pvalue > 1e-3
        assert abs(np.corrcoef(out[:-1:2], out[1::2])[0, 1]) < 0.03
    np.testing.assert_array_equal(normals(99, count + 2)[: count - count % 2], out[: count - count % 2])


def test_units_are_uniform_and_addresses_independent():
    addresses = [(a, b) for a in range(20) for b in range(20)]
    streams = np.array([plain_random.units(plain_random.random_stream(3, 0, a, b), 50) for a, b in addresses])
    assert stats.kstest(streams.ravel(), "uniform").pvalue > 1e-3
    assert streams.min() > 0
    assert streams.max() < 1
    assert abs(np.corrcoef(streams[:-1].ravel(), streams[1:].ravel())[0, 1]) < 0.03
    assert len(np.unique(streams[:, 0])) == 400
