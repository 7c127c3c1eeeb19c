"""Masks cancel in the sum over all members to the last bit, and hide every sum over fewer."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.sparse.csgraph import connected_components

from barymesh.decentralized.masks import round as rounds
from barymesh.decentralized.masks.fixed_point import FixedPoint
from barymesh.decentralized.masks.round import COLLUDING, SAFETY, TRIALS, Round, partner_count
from barymesh.decentralized.masks.streams import Masks
from barymesh.errors import NumericalError, OptionError

SIZES = (1, 1, 30)


def a_round(masks, members, stamp=3.0, target=(0.5, -1.0)):
    roll = np.zeros(masks.size)
    for node in members:
        roll[node] = masks.number(node, 2.5, 7)
    return Round(2.5, -4.0, stamp, np.array(target), roll)


@given(seed=st.integers(0, 10**6), nodes=st.integers(2, 60), data=st.data())
@settings(max_examples=25)
def test_masks_cancel_for_any_members(seed, nodes, data):
    masks = Masks.of_one_owner(nodes, seed, "rounds", min_members=2)
    members = data.draw(st.sets(st.integers(0, nodes - 1), min_size=2))
    moment = a_round(masks, members)
    total = sum(masks.mask(node, moment, SIZES) for node in members)
    assert not total.any()


@given(seed=st.integers(0, 10**6), nodes=st.integers(3, 50), data=st.data())
@settings(max_examples=20)
def test_without_some_member_the_sum_is_random(seed, nodes, data):
    masks = Masks.of_one_owner(nodes, seed, "rounds")
    present = data.draw(st.sets(st.integers(0, nodes - 1), min_size=1, max_size=nodes - 1))
    moment, sizes = a_round(masks, range(nodes)), (4000,)
    total = sum(masks.mask(node, moment, sizes) for node in present)
    ones = int(np.unpackbits(total.view(np.uint8)).sum())
    assert stats.binomtest(ones, 64 * sizes[0]).pvalue > 1e-9
    assert stats.kstest(total / 2.0**64, "uniform").pvalue > 1e-9


def test_rounds_that_differ_in_anything_have_other_masks():
    masks = Masks.of_one_owner(4, 0, "rounds")
    moment = a_round(masks, range(4))
    other_roll = moment.roll.copy()
    other_roll[3] += 1
    others = [
        Round(3.5, moment.root, moment.stamp, moment.target, moment.roll),
        Round(moment.epoch, -3.0, moment.stamp, moment.target, moment.roll),
        Round(moment.epoch, moment.root, 4.0, moment.target, moment.roll),
        Round(moment.epoch, moment.root, moment.stamp, moment.target + 1e-15, moment.roll),
        Round(moment.epoch, moment.root, moment.stamp, moment.target, other_roll),
    ]
    found = [masks.mask(0, one, SIZES) for one in (moment, *others)]
    found += [
        Masks.of_one_owner(4, 0, "another").mask(0, moment, SIZES),
        Masks.of_one_owner(4, 1, "rounds").mask(0, moment, SIZES),
    ]
    assert not any((one == other).any() for k, one in enumerate(found) for other in found[:k])
    assert (masks.mask(0, moment, SIZES) == found[0]).all()


def test_fields_have_streams_of_their_own():
    masks = Masks.of_one_owner(3, 0, "rounds")
    mask = masks.mask(0, a_round(masks, range(3)), (8, 8))
    assert not (mask[:8] == mask[8:]).any()


@given(members=st.integers(2, 3000))
def test_partner_count(members):
    count = partner_count(members)
    assert 1 <= count < members
    if count < members - 1:
        assert count % 2 == 0
        assert 2.0**TRIALS * members**2 / 2 * COLLUDING**count <= 2.0**-SAFETY


def test_partners_are_mutual_and_each_node_has_as_many():
    masks = Masks.of_one_owner(120, 0, "rounds")
    members = [node for node in range(120) if node % 7]
    moment = a_round(masks, members)
    around = {node: moment.partners(node) for node in members}
    count = partner_count(len(members))
    assert count < len(members) - 1
    for node, found in around.items():
        assert len(set(found)) == len(found) == count
        assert all(node in around[other] for other in found)


@given(roll=st.lists(st.integers(1, 2**52), min_size=8, max_size=14), data=st.data())
def test_only_two_runs_of_colluders_on_the_ring_split_the_others(roll, data):
    """What the bound on collusion counts, with four partners each."""
    size, run = len(roll), 2
    colluders = data.draw(st.sets(st.integers(0, size - 1), max_size=size - 2))
    moment = Round(2.5, -4.0, 3.0, np.zeros(1), np.array(roll, dtype=float))
    with mock.patch.object(rounds, "partner_count", return_value=2 * run):
        linked = np.array([np.isin(range(size), moment.partners(node)) for node in range(size)])
    honest = [node for node in range(size) if node not in colluders]
    groups = connected_components(linked[np.ix_(honest, honest)], directed=False)[0]
    # the gaps between honest members, all around
    places = np.flatnonzero([node not in colluders for node in moment.ring])
    gaps = np.diff([*places, places[0] + size]) - 1
    assert (groups > 1) == (np.count_nonzero(gaps >= run) >= 2)


def test_the_ring_follows_from_the_numbers_of_the_roll():
    """So nobody knows it before the last member has drawn its own."""
    rings = set()
    for number in range(1, 51):
        rings.add(tuple(Round(2.5, -4.0, 3.0, np.zeros(1), np.array([*range(1, 20), number], dtype=float)).ring))
    assert len(rings) == 50


@given(seed=st.integers(0, 10**6), nodes=st.integers(1, 300), size=st.floats(1e-3, 1e8), data=st.data())
@settings(max_examples=50)
def test_fixed_point_neither_overflows_nor_is_coarse(seed, nodes, size, data):
    """Also if every node is at its limit, and beyond it."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(nodes, data.draw(st.sampled_from([0.1, 10.0])))) * nodes
    limits = size * np.array([1.0, 1e-3, 7.0])
    fixed = FixedPoint.create(limits, float(weights.sum()) * (1 + 1e-9), nodes)
    values = weights[:, None] * limits * rng.uniform(-1.1, 1.1, (nodes, 3)).round(data.draw(st.integers(0, 3)))
    bits = rng.integers(0, 2**64, (nodes, 3), dtype=np.uint64)
    words = sum(fixed.words(*one) for one in zip(values, weights, bits, strict=True))
    most = weights[:, None] * limits
    exact = np.clip(values, -most, most).sum(axis=0)
    assert (np.abs(fixed.numbers(words) - exact) <= 1.5 * nodes / fixed.scale + 1e-12 * nodes * limits).all()
    # at least 61 bits of the words are used
    assert (limits * weights.sum() * fixed.scale >= 2.0**60).all()


@given(seed=st.integers(0, 10**6), excess=st.integers(0, 40))
@settings(max_examples=50)
def test_sums_of_too_large_weights_are_right_modulo_the_size_of_words(seed, excess):
    """They are linear in the weights, whatever total was claimed: no kink tells what a node weighs."""
    rng = np.random.default_rng(seed)
    fixed, none = FixedPoint.create(np.array([1.0, 50.0]), 3.0, 3), np.zeros(2, dtype=np.uint64)
    values = rng.uniform(-1, 1, 2) * fixed.limits
    weight = float(rng.integers(1, 4) << excess)
    exact = [int(value) for value in np.rint(weight * values * fixed.scale)]
    found = fixed.words(weight * values, weight, none)
    assert found.tolist() == [value % 2**64 for value in exact]


@given(seed=st.integers(0, 10**6), size=st.floats(1e-12, 1.0))
@settings(max_examples=50)
def test_words_have_no_zeros_where_doubles_end(seed, size):
    rng = np.random.default_rng(seed)
    fixed = FixedPoint.create(np.ones(400), 1.0, 1)
    # numbers drawn from 1/2 to 1 have more zeros in their last digit than ones; products have not
    values = size * rng.uniform(0.5, 1.0, 400) * rng.uniform(0.9, 1.0, 400)
    words = fixed.words(values, 1.0, rng.integers(0, 2**64, 400, dtype=np.uint64))
    # in each of the last nine bits about half of the words have a one
    ones = [int(np.count_nonzero(words >> np.uint64(bit) & np.uint64(1))) for bit in range(9)]
    assert 130 < min(ones) <= max(ones) < 270
    assert (np.abs(fixed.numbers(words) - values) <= 1.5 / fixed.scale + 2.0**-52 * values).all()


@given(seed=st.integers(0, 10**6), exponent=st.sampled_from([0, 10, 44, 49, 51]))
@settings(max_examples=10)
def test_rounding_is_random_and_shows_no_fractions(seed, exponent):
    """Neither in the mean nor in the variance of many words: what a sum is, it is because of the sum of the numbers."""
    rng = np.random.default_rng(seed)
    fixed = FixedPoint(np.full(20, 2.0**60), np.ones(20))
    values = rng.choice([-1.0, 1.0], 20) * rng.uniform(1.0, 2.0, 20) * 2.0**exponent
    bits = rng.integers(1, 2**64, (20_000, 20), dtype=np.uint64)
    words = np.array([fixed.words(values, 1.0, one) for one in bits]).view(np.int64)
    below = np.floor(values)
    words = (words - below.astype(np.int64)).astype(float)
    # the variance of the sum of two uniform numbers and of the rounding: three times 1/12
    assert np.abs(words.mean(axis=0) - (values - below)).max() <= 5 * 0.5 / np.sqrt(20_000)
    assert np.abs(words.var(axis=0) - 0.25).max() <= 0.02


def test_what_has_no_fixed_point():
    fixed = FixedPoint.create(np.ones(2), 3.0, 3)
    with pytest.raises(NumericalError, match="not finite"):
        fixed.words(np.array([0.0, np.nan]), 1.0, np.zeros(2, dtype=np.uint64))
    with pytest.raises(ValueError, match="positive"):
        FixedPoint.create(np.array([1.0, np.inf]), 3.0, 3)


def test_a_sum_over_one_member_hides_nothing():
    with pytest.raises(OptionError, match="min_members is 1"):
        Masks.of_one_owner(3, 0, "rounds", min_members=1)
