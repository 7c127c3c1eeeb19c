"""The one use of a node's data: how far a record can move it, the noise on it, and what is refused."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

import barymesh as bm
from barymesh.errors import BarymeshError, DimensionError, MeasureError, OptionError, RegularisationError
from barymesh.privacy import private_measure
from barymesh.privacy.noise import Stream
from barymesh.privacy.release import shares

LINE = bm.Support.regular(500, 0, 1)
# a blur far narrower than the spacing: what is left is the Euclidean projection
SHARP = 1e-12
WANTED = {"reg": SHARP, "epsilon": 2.0, "delta": 1e-6, "key": b"a secret"}
RECORDS = np.random.default_rng(5).uniform(0, 1, (50_000, 1))


@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(1, 3), st.booleans())
def test_another_record_moves_the_shares_by_no_more_than_the_sensitivity(seed, count, dimension, regular):
    rng = np.random.default_rng(seed)
    points = bm.Support.regular([4] * dimension, -2, 2) if regular else bm.Support(rng.normal(size=(9, dimension)))
    records = rng.normal(scale=3, size=(count, dimension))
    other = records.copy()
    other[rng.integers(count)] = rng.normal(scale=100, size=dimension)
    before, after = shares(records, points), shares(other, points)
    for vector in (before, after):
        assert vector.min() >= 0
        assert vector.sum() == pytest.approx(1)
    assert np.linalg.norm(before - after) <= np.sqrt(2) / count * (1 + 1e-12)


def test_records_count_for_the_nearest_point_wherever_they_are():
    support = bm.Support([[0.0, 0.0], [1.0, 0.0], [0.0, 3.0]])
    records = np.array([[-50.0, -1.0], [0.6, 0.1], [0.4, 0.0], [9.0, 99.0]])
    np.testing.assert_array_equal(shares(records, support), [0.5, 0.25, 0.25])


def noise_of(**changed):
    """What was added, without its mean, of a release in which no share came near zero."""
    options = {**WANTED, **changed}
    records, support = options.pop("records", RECORDS), options.pop("support", LINE)
    private, release = private_measure(records, support, **options)
    assert private.masses.min() > 0
    added = private.masses - shares(records, support)
    return added / (release.noise_multiplier * np.sqrt(2) / release.records), release


def test_the_noise_is_normal_with_the_deviation_that_the_accountant_asks_for():
    noise, release = noise_of()
    assert release.records == 50_000
    assert release.noise_multiplier == pytest.approx(scale_of(2.0, 1e-6), rel=1e-6)
    assert noise.std() == pytest.approx(1, abs=0.1)
    assert scipy.stats.kstest(noise, "norm").pvalue > 0.01
    # of neighbouring points it is independent
    assert abs(np.corrcoef(noise[1:], noise[:-1])[0, 1]) < 0.15


def scale_of(epsilon, delta):
    """z by the theorem of Balle and Wang (2018), solved by bisection."""
    normal = scipy.stats.norm.cdf

    def spent(z):
        return normal(0.5 / z - epsilon * z) - np.exp(epsilon) * normal(-0.5 / z - epsilon * z)

    low, high = 0.01, 1000.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if spent(middle) > delta else (low, middle)
    return high


def test_normals_of_a_stream():
    drawn = Stream(b"key", b"what for").normals(100_000)
    assert scipy.stats.kstest(drawn, "norm").pvalue > 0.01
    assert np.isfinite(drawn).all()
    np.testing.assert_array_equal(drawn[:10], Stream(b"key", b"what for").normals(10))


def test_streams_of_parts_that_read_alike_when_joined_differ():
    texts = [(b"k", b"ab", b"c"), (b"k", b"a", b"bc"), (b"k", b"abc"), (b"ka", b"b", b"c"), (b"k", b"abc", b"")]
    assert len({Stream(*parts).bytes(16) for parts in texts}) == len(texts)


def test_the_same_records_with_the_same_key_are_the_same_release_in_any_order():
    first, release = noise_of()
    shuffled = np.random.default_rng(1).permutation(RECORDS)
    again, same = noise_of(records=shuffled)
    np.testing.assert_array_equal(first, again)
    assert same == release


CHANGED = RECORDS.copy()
CHANGED[17] = 0.25


@pytest.mark.parametrize(
    "change",
    [
        {"key": b"another"},
        {"key": None},
        {"epsilon": 2.0000001},
        {"delta": 1.0000001e-6},
        {"records": CHANGED},
        {"records": RECORDS[:-1]},
        {"support": bm.Support.regular(500, 0, 1 + 1e-9)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_whatever_changes_the_noise_is_another(change):
    first, release = noise_of()
    other, changed = noise_of(**change)
    # with the same noise at another scale, two releases would give the records away
    assert abs(np.corrcoef(first, other)[0, 1]) < 0.2
    assert changed.digest != release.digest


def test_without_a_key_no_two_releases_are_the_same():
    assert noise_of(key=None)[1].digest != noise_of(key=None)[1].digest


def test_another_process_makes_the_same_release_of_the_same_draws():
    support = bm.Support.regular(30, -3, 3)
    options = "reg=0.1, epsilon=1.0, delta=1e-6, samples=500, key=b'k'"
    code = f"""
import barymesh as bm
from barymesh.privacy import private_measure
private, release = private_measure(lambda size, rng: rng.normal(size=size), bm.Support.regular(30, -3, 3), {options})
print(release.digest, private.masses.tobytes().hex())
"""
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    private, release = private_measure(
        lambda size, rng: rng.normal(size=size), support, reg=0.1, epsilon=1.0, delta=1e-6, samples=500, key=b"k"
    )
    assert [release.digest, private.masses.tobytes().hex()] == there
    assert release.records == 500


def test_a_distribution_is_drawn_from():
    support = bm.Support.regular(40, -4, 4)
    private, release = private_measure(
        scipy.stats.norm(1, 0.5), support, reg=0.05, epsilon=5.0, delta=1e-8, samples=50_000, key=b"k"
    )
    assert release.records == 50_000
    assert private.masses @ support.points[:, 0] == pytest.approx(1, abs=0.02)


ROWS = np.linspace(-1, 1, 50)[:, None]


@pytest.mark.parametrize(
    ("measure", "changed", "error", "words"),
    [
        (bm.Gaussian(0, 1), {}, MeasureError, "Gaussian cannot be made private.*Give the records"),
        (bm.Mixture.of_gaussians([0, 1], [1, 1]), {}, MeasureError, "Mixture cannot be made private"),
        (bm.Histogram(np.ones(10)), {}, MeasureError, "Histogram cannot be made private"),
        (bm.Image(np.ones(5)), {}, MeasureError, "Image cannot be made private"),
        (bm.Empirical(ROWS, np.arange(1, 51)), {}, MeasureError, "have weights"),
        (bm.Empirical(ROWS), {"samples": 10}, OptionError, "samples= is 10.*50; leave it out"),
        (scipy.stats.norm(), {}, OptionError, "number of records, such as samples="),
        (scipy.stats.norm(), {"samples": 0}, OptionError, "samples is 0"),
        (np.zeros((3, 2)), {}, DimensionError, "2 dimensions"),
        (bm.Empirical(np.zeros((3, 2))), {}, DimensionError, "2 dimensions, the support in 1"),
        (ROWS, {"delta": 0.02}, OptionError, r"delta is 0.02 with 50 records.*such as 2e-04"),
        (ROWS, {"delta": 0.0}, OptionError, "delta is 0.0"),
        (ROWS, {"delta": None}, OptionError, "delta is None"),
        (ROWS, {"epsilon": 0}, OptionError, "epsilon is 0"),
        (ROWS, {"epsilon": float("nan")}, OptionError, "epsilon is nan"),
        (ROWS, {"epsilon": 21}, OptionError, "protects nobody"),
        (ROWS, {"reg": 0.0}, RegularisationError, "reg is 0.0"),
        (ROWS, {"key": b""}, OptionError, "bytes"),
        (ROWS, {"key": "text"}, OptionError, "bytes"),
        (np.array([[0.0], [np.nan]]), {}, MeasureError, "NaN"),
    ],
)
def test_what_is_refused(measure, changed, error, words):
    with pytest.raises(error, match=words):
        private_measure(measure, np.linspace(-1, 1, 10), **{**WANTED, **changed})
    assert issubclass(error, BarymeshError)


def test_the_barycenter_of_much_data_with_little_noise_is_near_the_true_one():
    support = bm.Support.regular(50, -5, 5)
    gaussians = [bm.Gaussian(mean, std) for mean, std in ((-2, 0.5), (0, 1.0), (3, 0.6))]
    true = bm.barycenter(gaussians, support, reg=0.2).weights

    def distance(records, epsilon):
        private = [
            private_measure(
                one.sample(records, np.random.default_rng(k)), support, reg=0.2, epsilon=epsilon, delta=1e-6, key=b"k"
            )[0]
            for k, one in enumerate(gaussians)
        ]
        return np.abs(bm.barycenter(private, support, reg=0.2, tol=1e-5).weights - true).sum() / 2

    assert distance(100_000, 10.0) < 0.01
    # and the noise is there
    assert distance(200, 0.1) > 0.1
