"""Messages are stored in their rows, and added up in the order of their lists, whatever is computed with them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from barymesh.core import kernels
from barymesh.core.aligned import aligned
from barymesh.decentralized.transport import padded

NO_MESSAGE = 0


def pool_of(rng, rows, width):
    """Messages of very different sizes, so that the order of a sum matters. What is in the padding does not."""
    pool = aligned((rows + 1, padded(width)), float)
    pool[:] = rng.normal(size=pool.shape) * 10.0 ** rng.integers(-9, 9, (rows + 1, 1))
    pool[NO_MESSAGE] = 0.0
    return pool


def plain_sums(pool, width, lists):
    totals = np.zeros((len(lists), width))
    for total, rows in zip(totals, lists, strict=True):
        for row in rows:
            total += pool[row, :width]
    return totals, np.array([np.count_nonzero(rows != NO_MESSAGE) for rows in lists], dtype=np.intp)


def check_sums(pool, width, lists, rng):
    # the lists are anywhere in a longer array
    gaps = rng.integers(0, 3, len(lists))
    sizes = np.array([rows.size for rows in lists], dtype=np.intp)
    last = np.cumsum(gaps + sizes)
    slots = np.full(last[-1] if last.size else 0, -1, dtype=np.int32)
    for rows, end in zip(lists, last, strict=True):
        slots[end - rows.size : end] = rows
    totals, counts = np.empty((len(lists), width)), np.empty(len(lists), dtype=np.intp)
    kernels.sum_messages(last - sizes, last, slots, pool, NO_MESSAGE, totals, counts)
    expected = plain_sums(pool, width, lists)
    np.testing.assert_array_equal(totals, expected[0])
    np.testing.assert_array_equal(counts, expected[1])


@given(st.integers(0, 2**32), st.integers(1, 70), st.integers(0, 9), st.integers(1, 90))
def test_sums_of_lists(seed, width, count, most):
    rng = np.random.default_rng(seed)
    pool = pool_of(rng, 20, width)
    check_sums(pool, width, [rng.integers(0, 21, rng.integers(0, most)) for _ in range(count)], rng)


@given(st.integers(0, 2**32), st.integers(65, 200), st.integers(30, 60))
def test_sums_of_long_lists_that_share_messages(seed, width, count):
    """Enough of them, and a pool large enough, for the kernel to add them up together; a few are short."""
    rng = np.random.default_rng(seed)
    pool = pool_of(rng, 2**17 // padded(width) + 1, width)
    lengths = rng.integers(65, 200, count)
    lengths[rng.random(count) < 0.1] = 3
    check_sums(pool, width, [rng.integers(0, len(pool), length) for length in lengths], rng)


def test_more_lists_than_are_added_up_together():
    rng = np.random.default_rng(0)
    pool = pool_of(rng, 2000, 70)
    check_sums(pool, 70, [rng.integers(0, len(pool), 66) for _ in range(1100)], rng)


@given(st.integers(0, 2**32), st.integers(1, 70), st.integers(0, 20))
def test_messages_are_stored_in_their_rows(seed, width, count):
    rng = np.random.default_rng(seed)
    pool = pool_of(rng, 30, width)
    slots, messages = rng.permutation(30)[:count].astype(np.int32), rng.normal(size=(count, width))
    expected = pool.copy()
    expected[slots, :width] = messages
    kernels.store_messages(slots, messages, pool)
    np.testing.assert_array_equal(pool, expected)
