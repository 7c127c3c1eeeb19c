"""The compiled checks of messages find what the rules in plain Python find."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from barymesh.core import kernels, tree
from barymesh.decentralized.tree.checks import WHOLE_FIELDS

SEEDS = st.integers(0, 2**32)


@given(st.integers(0, 4), st.integers(1, 70), st.sampled_from([None, np.nan, np.inf, -np.inf, 1.5, -1.5]), SEEDS)
def test_all_within(rows, n, wrong, seed):
    rng = np.random.default_rng(seed)
    lower, upper = -rng.random(n), rng.random(n)
    values = rng.uniform(lower, upper, (rows, n))
    # a bound is within
    values[rng.random((rows, n)) < 0.1] = 0.0
    lower[rng.random(n) < 0.1] = 0.0
    values = np.maximum(values, lower)
    if wrong is not None and rows:
        values[rng.integers(rows), rng.integers(n)] = wrong
    expected = ((values >= lower) & (values <= upper)).all()
    assert expected == (wrong is None or not rows)
    assert kernels.all_within(values, lower, upper) == expected


def plain_is_possible(message, sender, key, declared, around, hops, lower, upper):
    """The rules, one after the other."""
    header = message[: tree.HEADER].tolist()
    root, distance, parent = header[tree.ROOT], header[tree.DISTANCE], header[tree.PARENT]
    children, weight, stamp = header[tree.CHILDREN], header[tree.WEIGHT], header[tree.STAMP]
    sums = message[tree.HEADER : tree.HEADER + lower.size]
    place = (distance, parent) == (0.0, sender) if root == key else parent in around and distance >= hops
    return bool(
        all(header[field].is_integer() for field in WHOLE_FIELDS)
        and header[tree.SENDER] == sender
        and root <= key
        and place
        and children <= len(around)
        and (declared < 0 or children > 0 or weight in (0.0, declared))
        and header[tree.OLDEST] <= stamp
        and header[tree.DONE] <= stamp + 1
        and ((sums >= weight * lower) & (sums <= weight * upper)).all()
    )


@given(st.integers(0, 40), st.integers(0, 2), SEEDS)
def test_is_possible(up, changes, seed):
    """A message that is possible, with some fields changed."""
    rng = np.random.default_rng(seed)
    sender, key, around = 3, -4.0, rng.permutation(9)[: rng.integers(1, 5)].astype(float)
    declared, hops = float(rng.choice([-1.0, 0.7])), float(rng.integers(1, 4))
    lower, upper = -rng.random(up), rng.random(up)
    message = np.zeros(tree.HEADER + up + 5)
    for field, value in (
        (tree.SENDER, sender), (tree.EPOCH, 1.7), (tree.ROOT, -6.0), (tree.DISTANCE, hops), (tree.PARENT, around[0]),
        (tree.STAMP, 7.0), (tree.DONE, 8.0), (tree.OLDEST, 7.0), (tree.WEIGHT, 0.7), (tree.CHECK, 0.3),
    ):  # fmt: skip
        message[field] = value
    if rng.random() < 0.3:
        message[[tree.ROOT, tree.DISTANCE, tree.PARENT]] = key, 0.0, sender
    message[tree.HEADER : tree.HEADER + up] = 0.7 * rng.uniform(lower, upper)
    facts = sender, key, declared, around, hops, lower, upper
    assert kernels.is_possible(message, *facts)
    for column in rng.integers(tree.HEADER + up, size=changes):
        message[column] = rng.choice([0.0, 0.5, 1.0, 2.0, 3.0, 7.0, 9.0, -1.0, -4.0, -6.0, np.nan])
    assert kernels.is_possible(message, *facts) == plain_is_possible(message, *facts)
