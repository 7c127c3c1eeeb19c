"""The theta sequence and the sizes of steps and batches."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import barymesh as bm
from barymesh.decentralized.baselines.steps import growing_batch, practical_step, theoretical_step
from barymesh.decentralized.baselines.theta import BLOCK, ThetaSequence, square_change
from barymesh.errors import OptionError

sizes = st.integers(1, 10**6)


def printed_sequence(m, count):
    """The recursion as it is printed, in 60 digits."""
    with localcontext() as context:
        context.prec = 60
        theta = 1 / Decimal(m)
        values = [theta]
        for _ in range(count - 1):
            square = theta * theta
            theta = ((square * square + 4 * square).sqrt() - square) / 2
            values.append(theta)
    return values


@pytest.mark.parametrize("m", [1, 2, 7, 500, 10**6])
def test_it_is_the_printed_recursion(m):
    exact = printed_sequence(m, 3000)
    np.testing.assert_allclose(ThetaSequence(m).at(np.arange(1, 3001)), np.array(exact, dtype=float), rtol=5e-16)


@given(m=sizes)
def test_it_starts_at_one_over_m(m):
    assert ThetaSequence(m).at([1])[0] == 1 / m


def test_no_digits_are_lost_after_many_steps():
    """The simple recursion for 1/theta in extended precision, over 300 000 steps."""
    if np.finfo(np.longdouble).eps > 1e-18:
        pytest.skip("this machine has no extended precision")
    inverse, one, four = np.longdouble(3), np.longdouble(1), np.longdouble(4)
    for _ in range(300_000 - 1):
        inverse = (one + np.sqrt(one + four * inverse * inverse)) / 2
    assert abs(np.longdouble(ThetaSequence(3).at([300_000])[0]) * inverse - 1) < 3e-16


@given(
    m=st.integers(1, 1000),
    places=st.lists(st.integers(1, 3 * BLOCK), min_size=1, max_size=20),
    before=st.lists(st.integers(1, 5 * BLOCK), max_size=4),
)
@settings(max_examples=30)
def test_a_value_depends_on_its_place_alone(m, places, before):
    """Not on the order of the places, nor on what was asked before: to the last bit."""
    used = ThetaSequence(m)
    for place in before:
        used.at([place])
    alone = [ThetaSequence(m).at([place])[0] for place in places[:3]]
    together = used.at(places)
    np.testing.assert_array_equal(together[:3], alone)
    order = np.argsort(places)
    np.testing.assert_array_equal(ThetaSequence(m).at(np.array(places)[order]), together[order])


def test_the_shape_of_the_places_is_kept():
    sequence = ThetaSequence(4)
    assert sequence.at(7).shape == ()
    assert sequence.at(np.arange(1, 13).reshape(3, 4)).shape == (3, 4)
    assert sequence.at([]).shape == (0,)
    np.testing.assert_array_equal(
        sequence.at(np.arange(1, 13).reshape(3, 4)).ravel(), sequence.at(np.arange(1, 13, dtype=np.uint8))
    )


def test_values_given_out_do_not_change_later():
    sequence = ThetaSequence(4)
    given_out = sequence.at([1, 2])
    kept = given_out.copy()
    sequence.at([4 * BLOCK])
    np.testing.assert_array_equal(given_out, kept)


def test_far_places_are_reached_without_storing_the_way():
    sequence = ThetaSequence(500)
    k = 10**8
    theta = sequence.at([k, k + 1])
    assert 1 / (k - 1 + 1000) <= theta[0] <= 2 / (k - 1 + 1000)
    assert 0 < theta[0] - theta[1] < theta[0] ** 2
    stored = sum(part.nbytes for part in vars(sequence).values() if isinstance(part, np.ndarray))
    assert stored + 64 * len(sequence._excess_at_starts) < 2**20


@given(m=sizes, k=st.integers(1, 2 * BLOCK))
@settings(max_examples=30)
def test_the_excess_is_what_the_inverse_has_over_half_the_place(m, k):
    sequence = ThetaSequence(m)
    excess = sequence.excess([k])[0]
    assert 0 <= excess <= math.log(1 + k / m) / 4
    assert 1 / sequence.at([k])[0] == pytest.approx((k - 1) / 2 + m + excess, rel=1e-15)


def test_iterating_goes_through_the_excesses():
    sequence = ThetaSequence(3)
    np.testing.assert_array_equal(list(islice(sequence, BLOCK + 5)), sequence.excess(np.arange(1, BLOCK + 6)))


@given(m=st.integers(1, 1000), last=st.integers(1, 2000), gap=st.integers(0, 900))
@settings(max_examples=40)
def test_the_change_of_the_square_keeps_its_digits(m, last, gap):
    exact = printed_sequence(m, last + gap)
    with localcontext() as context:
        context.prec = 60
        truth = float((exact[-1] / exact[last - 1]) ** 2 - 1)
    places = np.array([last + gap, last])
    now, then = ThetaSequence(m).excess(places)
    assert square_change(last + gap, now, last, then, m) == pytest.approx(truth, rel=3e-15)


def test_one_step_changes_the_square_by_theta():
    """``theta_{k+1}^2 / theta_k^2 - 1 = -theta_{k+1}``, also where theta has lost the digits to tell."""
    k = np.array([10, 10**4, 10**7])
    sequence = ThetaSequence(5)
    change = square_change(k + 1, sequence.excess(k + 1), k, sequence.excess(k), 5)
    np.testing.assert_allclose(change, -sequence.at(k + 1), rtol=1e-14)
    rounded = (sequence.at(k + 1) / sequence.at(k)) ** 2 - 1
    assert abs(rounded[-1] / change[-1] - 1) > 1e-11


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ThetaSequence(0), ["m is 0", "at least 1"]),
        (lambda: ThetaSequence(2.5), ["2.5", "whole number"]),
        (lambda: ThetaSequence(3).at([0]), ["Place 0", "first one is 1"]),
        (lambda: ThetaSequence(3).at([5, -2]), ["Place -2"]),
        (lambda: ThetaSequence(3).at([1.0]), ["float64", "whole numbers"]),
        (lambda: ThetaSequence(3).at([[1, 2], [3]]), ["list", "array"]),
        (lambda: theoretical_step(0.0, 1, 5), ["smoothness L is 0.0", "positive"]),
        (lambda: theoretical_step(math.inf, 1, 5), ["inf", "finite"]),
        (lambda: theoretical_step(1.0, -1, 5), ["staleness is -1", "at least 0"]),
        (lambda: theoretical_step(1.0, 1, 0), ["blocks is 0", "at least 1"]),
        (lambda: practical_step(-0.1, 2.0), ["reg is -0.1", "positive"]),
        (lambda: practical_step(0.1, 0.0), ["lambda_max is 0.0"]),
        (lambda: batch([0.0]), ["theta contains 0.0"]),
        (lambda: batch([0.5], epsilon=0), ["epsilon is 0"]),
        (lambda: batch([0.5], epsilon=1e-300), ["1e-300", "larger epsilon"]),
        (lambda: batch([0.5], variance=-1), ["variance is -1"]),
        (lambda: batch([0.5], smoothness="big"), ["smoothness L is 'big'"]),
        (lambda: batch([0.5], blocks=0), ["blocks is 0"]),
    ],
)
def test_what_means_nothing_is_refused_with_a_reason(make, words):
    with pytest.raises(OptionError) as caught:
        make()
    assert isinstance(caught.value, bm.BarymeshError)
    for word in words:
        assert word in str(caught.value)


# steps


@given(smoothness=st.floats(1e-3, 1e6), tau=st.integers(0, 1000), m=sizes)
def test_the_theoretical_step_is_the_largest_the_theorem_allows(smoothness, tau, m):
    """Put into the condition with exact fractions."""

    def condition(gamma):
        delay = Fraction(tau * tau + tau, m) + 2 * tau
        return 3 * Fraction(smoothness) * gamma + 12 * Fraction(smoothness) * gamma * delay**2

    gamma = Fraction(theoretical_step(smoothness, tau, m))
    assert float(condition(gamma)) == pytest.approx(1, rel=1e-14)
    assert condition(gamma * Fraction(1001, 1000)) > 1


def test_without_staleness_the_theoretical_step_is_a_third_of_the_inverse_smoothness():
    assert theoretical_step(2.0, 0, 9) == pytest.approx(1 / 6)


def test_the_practical_step_is_the_inverse_smoothness_of_the_networks_dual():
    assert practical_step(0.1, 4.0) == pytest.approx(0.025)


# batches


def batch(theta, epsilon=0.1, variance=3.0, smoothness=7.0, blocks=5):
    return growing_batch(theta, epsilon=epsilon, variance=variance, smoothness=smoothness, blocks=blocks)


@given(
    m=st.integers(1, 1000),
    k=st.integers(0, 10**5),
    variance=st.floats(1e-3, 1e3),
    smoothness=st.floats(1e-2, 1e3),
    epsilon=st.floats(1e-3, 1e3),
)
@settings(max_examples=50)
def test_the_growing_batch_brings_the_variance_below_what_the_theorem_asks(m, k, variance, smoothness, epsilon):
    """And is the smallest that does; bounded as the paper bounds it."""
    theta = ThetaSequence(m).at([k + 1])
    size = int(batch(theta, epsilon, variance, smoothness, m)[0])
    allowed = m * smoothness * theta[0] * epsilon / 8
    assert variance / size <= allowed * (1 + 1e-12)
    assert size == 1 or variance / (size - 1) >= allowed * (1 - 1e-12)
    assert size <= 1 + 8 * variance * (k + 2 * m) / (m * smoothness * epsilon)


def test_the_growing_batch_grows_like_the_steps():
    theta = ThetaSequence(5).at([[1, 10], [10**4, 2 * 10**4]])
    sizes = batch(theta)
    assert sizes.shape == theta.shape
    assert sizes.dtype.kind == "i"
    assert sizes[0, 0] == math.ceil(8 * 3 / (7 * 0.1))
    assert sizes[1, 1] / sizes[1, 0] == pytest.approx(2, rel=0.01)
    assert batch(theta, epsilon=1e9).tolist() == [[1, 1], [1, 1]]
