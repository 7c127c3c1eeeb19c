"""Every bad input is refused before any work, by a named error that says what is wrong and what to do."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy import stats
from scipy.spatial.distance import cdist

import barymesh as bm
from barymesh import errors
from barymesh.errors import (
    CostError,
    DimensionError,
    FileError,
    MeasureError,
    NotEnoughMemoryError,
    OptionError,
    RegularisationError,
    SamplerError,
    SupportError,
    WeightError,
)
from barymesh.resources import memory

PAIR = [bm.Gaussian(0, 1), bm.Gaussian(1, 1)]
LINE = np.linspace(-3, 3, 20)


def refused(error, words, *arguments, **options):
    """``barycenter`` refuses these arguments with this error, whose message has these words."""
    with pytest.raises(error) as caught:
        bm.barycenter(*arguments, **options)
    assert isinstance(caught.value, bm.BarymeshError)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("reg", [0, 0.0, -1, -0.5, np.nan, np.inf, -np.inf, "0.1", None, [0.1], np.array([0.1]), 1j])
def test_bad_reg(reg):
    refused(RegularisationError, [f"reg is {reg!r}", "positive finite", "median cost"], PAIR, LINE, reg=reg)


@pytest.mark.parametrize("reg", [pytest.param(10**400, id="10**400"), np.complex128(1 + 1j)])
def test_strange_reg(reg):
    """Numbers, of a kind, that are no regularisation."""
    refused(RegularisationError, ["reg is", "positive finite"], PAIR, LINE, reg=reg)


def test_reg_may_not_be_lost_beside_the_costs():
    """Where costs over reg come near to what stands for log 0, values and certificates would be wrong."""
    pixels = np.zeros((2, 20, 20))
    pixels[0, 3, 4] = pixels[1, 15, 9] = 1.0
    message = ["reg is 1e-11", "1e-10 of the largest cost", "or more"]
    refused(RegularisationError, message, pixels, reg=1e-11)
    refused(RegularisationError, message, pixels, reg=1e-11, debias=True)
    refused(RegularisationError, message, pixels, reg=1e-11, network="complete")
    # the barycenter of two points lies half way, at a quarter of their squared distance from both
    found = bm.barycenter(pixels, reg=1e-9)
    centre = found.support.points[pixels[0].argmax()] / 2 + found.support.points[pixels[1].argmax()] / 2
    apart = np.square(found.support.points - centre).sum(axis=1).min()
    right = np.square(found.support.points[pixels[0].argmax()] - centre).sum() + apart
    assert found.value == pytest.approx(right, abs=1e-6)
    assert 0 <= found.gap < 1e-12


@pytest.mark.parametrize("reg", [1, np.float32(0.5), np.int64(2), 0.25])
def test_good_reg(reg):
    assert bm.Problem.create(PAIR, LINE, reg=reg).reg == float(reg)


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([1, -1], ["measure 1", "-1.0", "positive"]),
        ([np.nan, 1], ["measure 0", "nan", "finite"]),
        ([1, np.inf], ["measure 1", "inf", "finite"]),
        ([0, 0], ["measure 0 is 0", "no part", "Leave out"]),
        ([1, 0], ["measure 1 is 0", "no part", "Leave out", "command line"]),
        ([1, 1, 1], ["2 measures", "(3,)", "one weight each"]),
        ([1], ["2 measures", "(1,)"]),
        ([], ["2 measures", "(0,)"]),
        ([[1, 1]], ["2 measures", "(1, 2)"]),
        (1.0, ["2 measures", "()"]),
        (["a", "b"], ["weight"]),
        ([[1], [1, 2]], ["weight"]),
    ],
)
def test_bad_weights(weights, words):
    refused(WeightError, words, PAIR, LINE, reg=1, weights=weights)


def test_weights_are_normalised():
    np.testing.assert_allclose(bm.Problem.create(PAIR, LINE, reg=1, weights=[1, 3]).weights, [0.25, 0.75])
    np.testing.assert_allclose(bm.Problem.create(PAIR, LINE, reg=1).weights, [0.5, 0.5])
    np.testing.assert_allclose(bm.Problem.create(PAIR * 2, LINE, reg=1, weights=np.float32([1, 1, 1, 1])).weights, 0.25)
    np.testing.assert_allclose(bm.Problem.create(PAIR, LINE, reg=1, weights=[1e-300, 3e-300]).weights, [0.25, 0.75])


def test_weights_too_large_to_sum_are_still_weights():
    np.testing.assert_allclose(bm.Problem.create(PAIR, LINE, reg=1, weights=[1e308, 1e308]).weights, [0.5, 0.5])


def ten_at_most(size, rng):
    return rng.normal(size=min(size, 10))


def nan_in_the_end(size, rng):
    return np.where(np.arange(size) < 10, 0.0, np.nan)


def words_in_the_end(size, rng):
    return rng.normal(size=size) if size < 10 else ["a"] * size


@pytest.mark.parametrize(
    ("measures", "error", "words"),
    [
        ([], MeasureError, ["no measures", "at least one"]),
        (np.zeros((0, 20)), MeasureError, ["no measures", "at least one"]),
        ([PAIR[0], np.zeros((0, 1))], MeasureError, ["Measure 1", "empty", "at least one"]),
        ([PAIR[0], bm.Gaussian([0, 0], 1)], DimensionError, ["Measure 1", "2 dimensions", "support in 1", "agree"]),
        ([PAIR[0], stats.multivariate_normal([0, 0, 0])], DimensionError, ["Measure 1", "3 dimensions"]),
        ([PAIR[0], np.zeros((4, 2))], DimensionError, ["Measure 1", "2 dimensions", "support has 1"]),
        (np.ones((2, 5, 5)), DimensionError, ["Measure 0", "2 dimensions", "support in 1"]),
        (np.stack([np.ones((4, 5)), np.zeros((4, 5))]), MeasureError, ["Measure 1", "image", "zero mass", "Leave it"]),
        (np.stack([np.ones(20), np.zeros(20)]), MeasureError, ["Measure 1", "histogram", "zero mass", "Leave it"]),
        (np.stack([np.ones(20), -np.ones(20)]), MeasureError, ["Measure 1", "-1.0", "position 0", "not negative"]),
        (np.ones((2, 21)), MeasureError, ["21 entries", "20 points", "transpose"]),
        ([PAIR[0], bm.Histogram(np.ones(21))], MeasureError, ["Measure 1", "21 masses", "20 points", "points="]),
        ([PAIR[0], ten_at_most], SamplerError, ["Measure 1", "'ten_at_most'", "1000 draws", "(10,)", "(1000, d)"]),
        ([PAIR[0], nan_in_the_end], SamplerError, ["Measure 1", "'nan_in_the_end'", "nan", "draw 10", "finite"]),
        ([PAIR[0], words_in_the_end], SamplerError, ["Measure 1", "'words_in_the_end'", "list", "numbers"]),
        ([PAIR[0], lambda size, rng: rng.random((3, 3))], SamplerError, ["Measure 1", "2 draws", "(3, 3)", "(2, d)"]),
        ([PAIR[0], lambda size, rng: [np.nan] * size], SamplerError, ["Measure 1", "nan", "draw 0", "finite"]),
        ([PAIR[0], lambda size, rng: [0.5]], SamplerError, ["Measure 1", "2 draws", "(1,)", "(2, d)"]),
        ([PAIR[0], lambda size, rng: "abc"], SamplerError, ["Measure 1", "str", "numbers"]),
        ([PAIR[0], [-1.0, np.nan]], MeasureError, ["Measure 1", "nan", "row 1", "remove"]),
        (PAIR[0], MeasureError, ["One measure", "[measure]"]),
    ],
)
def test_bad_measures(measures, error, words):
    refused(error, words, measures, LINE, reg=1)


def changing(size, rng):
    return rng.normal(size=size) if size == 2 else rng.normal(size=(size, 3))


@pytest.mark.parametrize("support", [LINE, None])
def test_a_sampler_that_changes_its_dimension_is_named(support):
    refused(bm.BarymeshError, ["Measure 1", "3"], [PAIR[0], changing], support, reg=1)


def test_a_support_may_be_written_as_text(tmp_path):
    """A grid, or a file of points."""
    written = bm.Problem.create(PAIR, "20:-3:3", reg=1).support
    np.testing.assert_array_equal(written.points, bm.Support.regular(20, -3, 3).points)
    np.savetxt(tmp_path / "points.csv", [0.5, 2.0, 3.5, 9.0])
    read = bm.Problem.create(PAIR, str(tmp_path / "points.csv"), reg=1).support
    np.testing.assert_array_equal(read.points[:, 0], [0.5, 2.0, 3.5, 9.0])
    refused(FileError, ["nowhere.csv"], PAIR, "nowhere.csv", reg=1)


@pytest.mark.parametrize(
    ("support", "words"),
    [
        ([], ["empty", "at least one"]),
        (np.zeros((0, 1)), ["empty"]),
        ([0.0, 1.0, np.nan], ["point 2", "nan", "finite"]),
        ([0.0, 2.0, 0.5, 2.0], ["1 and 3", "[2.]", "numpy.unique"]),
        (np.zeros((2, 2, 2)), ["(2, 2, 2)", "(n, d)"]),
        ("AUTO", ["AUTO"]),
        ([[0.0], [1.0, 2.0]], []),
    ],
)
def test_bad_support(support, words):
    refused(SupportError, words, PAIR, support, reg=1)


def test_support_of_another_dimension():
    refused(DimensionError, ["Measure 0", "1 dimensions", "support in 2"], PAIR, np.eye(2), reg=1)


def test_no_support_to_choose():
    refused(SupportError, ["Measure 0", "histogram", "support="], [bm.Histogram([1, 2])], reg=1)


@pytest.mark.parametrize("support", [None, "auto"])
def test_measures_of_different_dimensions_without_a_support(support):
    refused(DimensionError, ["1", "2"], [PAIR[0], bm.Gaussian([0, 0], 1)], support, reg=1)


BAD_OPTIONS = [
    ({"precision": "float16"}, ["'float16'", "float64", "float32"]),
    ({"precision": 64}, ["64", "float64"]),
    ({"precision": None}, ["None", "float64"]),
    ({"precision": ["float64"]}, ["float64"]),
    ({"samples": 0}, ["samples is 0", "at least 1"]),
    ({"samples": -5}, ["samples is -5", "at least 1"]),
    ({"samples": 2.5}, ["samples", "2.5"]),
    ({"samples": np.nan}, ["samples", "nan"]),
    ({"samples": "many"}, ["samples", "many"]),
    ({"samples": None}, ["samples", "None"]),
    ({"max_iter": 0}, ["max_iter is 0", "at least 1"]),
    ({"max_iter": -1}, ["max_iter is -1", "at least 1"]),
    ({"max_iter": 2.5}, ["max_iter", "2.5"]),
    ({"max_iter": np.nan}, ["max_iter", "nan"]),
    ({"max_iter": "ten"}, ["max_iter", "ten"]),
    ({"max_iter": None}, ["max_iter", "None"]),
    ({"tol": -1e-6}, ["tol is -1e-06", "0 or larger"]),
    ({"tol": np.nan}, ["tol is nan", "finite"]),
    ({"tol": np.inf}, ["tol is inf", "finite"]),
    ({"tol": "small"}, ["tol", "small"]),
    ({"tol": None}, ["tol", "None"]),
    ({"method": "simplex"}, ["'simplex'", "sinkhorn"]),
    ({"method": None}, ["None", "sinkhorn"]),
    ({"network": "path", "step": 1}, ["sinkhorn", "no step"]),
    ({"method": "a2dwb"}, ["'a2dwb'", "network="]),
    ({"duration": 3}, ["duration", "network"]),
    ({"network": "path", "method": "a2dwb", "duration": -1}, ["duration is -1", "positive"]),
    ({"network": "path", "method": "a2dwb", "record_every": 0}, ["record_every is 0"]),
    ({"network": "path", "method": "a2dwb", "delays": "slow"}, ["'slow'", "categorical"]),
    ({"network": "path", "method": "a2dwb", "delays": "constant:second=1"}, ["'second'", "seconds"]),
    ({"network": "path", "method": "a2dwb", "delays": "constant:seconds=-1"}, ["-1"]),
    ({"network": "path", "method": "a2dwb", "delays": 3}, ["3", "categorical"]),
    ({"network": "path", "method": "a2dwb", "schedule": "poisson:rate=0"}, ["rate", "0"]),
    ({"network": "path", "method": "a2dwb", "faults": ["loss:probability=2"]}, ["probability", "2"]),
    ({"network": "path", "method": "a2dwb", "faults": ["loss"]}, ["probability"]),
    ({"network": "path", "method": "a2dwb", "step": -1}, ["step is -1", "theory"]),
    ({"network": "path", "method": "a2dwb", "batch": 0}, ["batch is 0"]),
    ({"network": "path", "method": "a2dwb", "batch": "growing"}, ["epsilon"]),
    ({"network": "path", "method": "a2dwb", "reference": [1.0]}, ["reference", "sum"]),
    ({"network": "path", "method": "a2dwb", "resume": True}, ["checkpoint="]),
    ({"seed": "a"}, ["seed", "a"]),
    ({"seed": 1.5}, ["seed", "1.5"]),
    ({"seed": None}, ["seed", "None"]),
    ({"start": 3}, ["start"]),
]


@pytest.mark.parametrize(("options", "words"), BAD_OPTIONS, ids=[str(options) for options, _ in BAD_OPTIONS])
def test_bad_options(options, words):
    measures = [PAIR[0], lambda size, rng: rng.normal(size=size)]
    refused(OptionError, words, measures, LINE, reg=1, **options)


def test_a_start_from_another_problem():
    start = bm.barycenter(PAIR, LINE[:10], reg=1)
    refused(OptionError, ["start=", "(2, 10)", "(2, 20)"], PAIR, LINE, reg=1, start=start)


@pytest.mark.parametrize(
    ("measures", "support", "cost", "error", "words"),
    [
        (PAIR, LINE, "miles", CostError, ["'miles'", "sqeuclidean", "scipy.spatial.distance"]),
        (np.ones((2, 3)), None, np.ones(3), CostError, ["(3,)", "matrix"]),
        (np.ones((2, 3)), None, [[1, 2, -3]], CostError, ["-3.0", "row 0", "column 2"]),
        (np.ones((2, 3)), LINE, np.ones((2, 3)), CostError, ["(2, 3)", "(20, 3)"]),
        (np.ones((2, 4)), None, np.ones((2, 3)), MeasureError, ["Measure 0", "4 entries", "3 columns"]),
        (PAIR, None, np.ones((2, 3)), MeasureError, ["Measure 0", "histograms", "Gaussian"]),
        ([bm.Histogram([1, 2], [0, 1])], None, np.ones((2, 2)), MeasureError, ["Measure 0", "columns"]),
        (PAIR, LINE, lambda z, y: np.ones(3), CostError, ["(3,)", "must return"]),
        (PAIR, LINE, lambda z, y: -cdist(z, y), CostError, ["row", "column", "not negative"]),
    ],
)
def test_bad_cost(measures, support, cost, error, words):
    refused(error, words, measures, support, reg=1, cost=cost)


# memory


@pytest.fixture
def little_memory(monkeypatch):
    """A machine with a megabyte to spare."""
    monkeypatch.setattr(memory, "available_bytes", lambda: 2**20)
    monkeypatch.setattr(memory, "LITTLE", 2**20)


def peak_of(action):
    """The most memory held at once while ``action`` runs into its NotEnoughMemoryError, and what that says."""
    tracemalloc.start()
    try:
        with pytest.raises(NotEnoughMemoryError) as caught:
            action()
        return tracemalloc.get_traced_memory()[1], str(caught.value)
    finally:
        tracemalloc.stop()


def test_too_many_support_points_are_refused_before_anything_is_allocated(little_memory):
    support = bm.Support.regular((100, 100))
    measures = [bm.Gaussian([0, 0], 1)] * 10
    peak, message = peak_of(lambda: bm.barycenter(measures, support, reg=1))
    assert peak < 2**20
    for word in ("10 measures", "10000 support points", "GiB", "coarser support", "fewer measures"):
        assert word in message


def test_a_cost_matrix_that_is_too_large_is_refused_before_it_is_computed(little_memory, rng):
    support, cloud = rng.normal(size=(2, 600, 2))
    peak, message = peak_of(lambda: bm.barycenter([cloud], support, reg=1, cost="euclidean"))
    assert peak < 2**20
    for word in ("600 support points", "600 atoms", "squared Euclidean"):
        assert word in message


def test_too_many_samples_are_refused_before_they_are_drawn(little_memory):
    """A million draws are eight megabytes, whatever the support."""
    asked = []

    def sampler(size, rng):
        asked.append(size)
        return rng.normal(size=size)

    with pytest.raises(NotEnoughMemoryError, match="samples"):
        bm.barycenter([sampler], np.linspace(0, 1, 5), reg=1, samples=10**6, max_iter=1)
    assert max(asked) < 10**6


def test_a_grid_that_is_too_large_is_refused_before_its_points_are_listed(little_memory):
    """60 x 60 x 60 points in space are five megabytes; a thousand a side, and numpy fails with an error of its own."""
    measures = [bm.Gaussian([0, 0, 0], 1)]
    peak, message = peak_of(lambda: bm.barycenter(measures, bm.Support.regular((60, 60, 60)), reg=1))
    assert peak < 2**20
    assert "support" in message


def test_plenty_of_memory_or_no_word_about_it_is_fine(monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: None)
    assert bm.Problem.create(PAIR, LINE, reg=1).support.size == 20


def test_the_machine_tells_its_memory():
    free = memory.available_bytes()
    assert free is None or free > 2**20


def test_what_just_fits_is_allowed(monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: 1000)
    monkeypatch.setattr(memory, "LITTLE", 0)
    memory.require(1000, "This", "Do less.")
    with pytest.raises(NotEnoughMemoryError, match=r"This needs .* GiB .* Do less\."):
        memory.require(1001, "This", "Do less.")
    assert issubclass(NotEnoughMemoryError, MemoryError)


# what a problem completes


def test_a_support_is_chosen_with_a_reason():
    problem = bm.Problem.create(PAIR, reg=0.1)
    assert problem.support.reason
    assert problem.support.grid is not None
    assert bm.Problem.create(PAIR, LINE, reg=0.1).support.reason == ""


def test_every_measure_has_atoms(rng):
    measures = [PAIR[0], stats.norm(0, 1), rng.normal(size=(4, 1)), bm.Histogram(np.ones(20)), lambda n, r: r.random(n)]
    problem = bm.Problem.create(measures, LINE, reg=0.1, samples=30)
    for atoms in problem.atoms:
        assert (atoms.weights > 0).all()
        assert atoms.weights.sum() == pytest.approx(1.0, abs=1e-12)
        assert atoms.points.shape == (atoms.weights.size, 1)
    assert problem.atoms is problem.atoms
    assert problem.atoms[4].weights.size == 30


def test_draws_depend_on_seed_and_position_alone(rng):
    """Not on the other measures, nor on how often one asks."""

    def sampler(size, rng):
        return rng.normal(size=size)

    alone = bm.Problem.create([sampler, sampler], LINE, reg=0.1, seed=5, samples=9).atoms
    among = bm.Problem.create([stats.norm(0, 1), sampler], LINE, reg=0.7, seed=5, samples=9).atoms
    np.testing.assert_array_equal(alone[1].points, among[1].points)
    other = bm.Problem.create([sampler, sampler], LINE, reg=0.1, seed=6, samples=9).atoms
    assert not np.array_equal(alone[1].points, other[1].points)


# names of the coordinates


def cloud(*names, d=2):
    return bm.Empirical(np.arange(3 * d).reshape(3, d), names=names or None)


@pytest.mark.parametrize("support", [None, "auto", bm.Support.regular((4, 4), 0, 5)])
@pytest.mark.parametrize(
    ("measures", "names"),
    [
        ([cloud("height", "age"), cloud("height", "age")], ("height", "age")),
        ([cloud("height", "age"), bm.Gaussian([0, 0], 1)], ("height", "age")),
        ([cloud("height", "age"), cloud("height", "weight")], None),
        ([cloud(), cloud()], None),
    ],
)
def test_the_support_has_the_names_on_which_all_measures_agree(support, measures, names):
    assert bm.Problem.create(measures, support, reg=1.0).support.names == names


def test_names_that_were_given_to_the_support_are_kept():
    support = bm.Support.regular((4, 4), 0, 5).named(["a", "b"])
    assert bm.Problem.create([cloud("height", "age")], support, reg=1.0).support is support


def test_the_same_coordinates_in_another_order_are_refused():
    measures = [bm.Gaussian([0, 0], 1), cloud("height", "age"), cloud("age", "height")]
    words = ["Measure 2", "measure 1", "age, height", "height, age", "another order", "columns="]
    refused(MeasureError, words, measures, reg=1.0)


def test_names_must_be_as_many_as_coordinates():
    with pytest.raises(MeasureError, match="2 dimensions and 1 names"):
        cloud("height")


# arithmetic in float32


@pytest.mark.parametrize("cost", ["sqeuclidean", "euclidean"])
@pytest.mark.parametrize("width", [1e-3, 1e-2, 0.05])
def test_masses_that_underflow_in_float32_do_no_harm(cost, width):
    """Narrow bells have masses down to 1e-300."""
    support = np.linspace(-5, 5, 100)
    bells = np.maximum(np.exp(-((support - np.array([[-2.0], [0.0], [2.0]])) ** 2) / width), 1e-300)
    single, double = (
        bm.barycenter(bells, support, reg=0.05, cost=cost, precision=precision, tol=1e-5)
        for precision in ("float32", "float64")
    )
    for array in (single.weights, single.duals, single.node_weights):
        assert np.isfinite(array).all()
    assert 0.5 * np.abs(single.weights - double.weights).sum() < 1e-4
    assert np.isfinite(single.gap)


def test_masses_of_samples_that_underflow_in_float32_do_no_harm(rng):
    clouds = [bm.Empirical(rng.normal(size=(50, 2)), 10.0 ** -np.arange(0, 100, 2)) for _ in range(3)]
    support = bm.Support.regular((9, 9), -3, 3)
    single = bm.barycenter(clouds, support, reg=0.6, precision="float32", tol=1e-5)
    for array in (single.weights, single.duals, single.gap):
        assert np.isfinite(array).all()


def test_in_float64_no_mass_is_left_out():
    masses = np.array([1.0, 1e-35, 1e-200])
    assert bm.Problem.create(masses[None], [0.0, 1.0, 2.0], reg=1.0).atoms[0].weights.size == 3
    assert bm.Problem.create(masses[None], [0.0, 1.0, 2.0], reg=1.0, precision="float32").atoms[0].weights.size == 1


def test_one_except_catches_them_all():
    own = [kind for kind in vars(errors).values() if getattr(kind, "__module__", "") == errors.__name__]
    named = [kind for kind in own if isinstance(kind, type) and not issubclass(kind, Warning)]
    assert len(named) > 10
    assert all(issubclass(error, bm.BarymeshError) for error in named)


def test_one_measure_of_many_that_the_support_misses_is_named(rng):
    measures = [rng.uniform(20, 30, (50, 1)) for _ in range(20)]
    measures[7] = rng.uniform(1, 3, (50, 1))
    with pytest.warns(errors.AccuracyWarning, match="100% of the mass of measure 7 lies outside"):
        bm.Problem.create(measures, np.linspace(20, 30, 101), reg=0.1)


def test_a_spacing_whose_square_overflows_is_warned_of():
    with pytest.warns(errors.AccuracyWarning, match="from inf on"):
        bm.Problem.create([bm.Empirical([-1e200, 1e200]), bm.Empirical([0.0, 1e200])], reg=0.1)
