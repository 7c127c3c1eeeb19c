"""Waiting times and orders equal those of the plain generator."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from barymesh.core import kernels
from tests.core.plain_random import CLOCKS, ORDERS, random_stream, units

SEEDS = st.integers(0, 2**64 - 1)
ADDRESSES = st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 2**40)), max_size=70)


@given(SEEDS, ADDRESSES, st.sampled_from([-1.0, 0.0, 0.1, 0.9]))
def test_waiting_times(seed, addresses, jitter):
    # every other one is a node's first
    addresses = [(node, count * (k % 2)) for k, (node, count) in enumerate(addresses)]
    nodes, counts = np.array(addresses, dtype=np.intp).reshape(-1, 2).T.copy()
    found = np.empty(nodes.size)
    kernels.waiting_times(seed, nodes, counts, jitter, found)
    for k, (node, count) in enumerate(addresses):
        level = units(random_stream(seed, CLOCKS, node, count), 1)[0]
        spread = level if count == 0 else 1 + jitter * (2 * level - 1)
        np.testing.assert_allclose(found[k], -np.log(level) if jitter < 0 else spread, rtol=1e-14)


@given(SEEDS, st.integers(0, 2**40), st.integers(0, 70))
def test_permutation(seed, window, size):
    order, levels = list(range(size)), units(random_stream(seed, ORDERS, window, size), size)
    for k in range(size - 1, 0, -1):
        chosen = int(levels[k] * (k + 1))
        order[k], order[chosen] = order[chosen], order[k]
    found = np.empty(size, dtype=np.intp)
    kernels.permutation(seed, window, found)
    assert found.tolist() == order
    assert sorted(order) == list(range(size))
