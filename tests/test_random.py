"""Draws depend on (seed, node, activation) and on nothing else."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from barymesh.random import addressed_generator

addresses = st.tuples(st.integers(0, 2**70), st.integers(0, 2**40), st.integers(0, 2**40))


@given(addresses)
def test_same_address_same_draws(address):
    np.testing.assert_array_equal(addressed_generator(*address).random(5), addressed_generator(*address).random(5))


@given(addresses, addresses)
def test_different_addresses_differ(one, other):
    same = np.array_equal(addressed_generator(*one).random(4), addressed_generator(*other).random(4))
    assert same == (one == other)


def test_neighbouring_addresses_look_independent():
    draws = np.array([addressed_generator(0, node, k).standard_normal(50) for node in range(20) for k in range(20)])
    correlations = np.corrcoef(draws)[np.triu_indices(400, 1)]
    assert abs(correlations.mean()) < 0.01
    assert abs(correlations).max() < 0.75
