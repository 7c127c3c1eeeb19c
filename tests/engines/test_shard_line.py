"""The line to a shard: calls in their order, errors as they were raised, and nothing for strangers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from barymesh.engines.shard_line import CallerEnd, ShardEnd
from barymesh.errors import BarymeshError, MeasureError
from barymesh.transport.keys import KeyPair


class LostError(Exception):
    """The shard is gone."""


def lost():
    raise LostError


@pytest.fixture
def shard():
    seen = []

    def call(number, numbers):
        seen.append(number)
        if number == 7:
            raise MeasureError("Measure 7 is wrong.")
        if number == 8:
            raise KeyError("of a bug")
        return 2 * numbers

    end = ShardEnd(call, "127.0.0.1")
    return end, seen


@pytest.fixture
def caller(shard):
    end = CallerEnd(shard[0].contact)
    yield end
    end.close()


def test_answers_come_in_the_order_of_the_calls(shard, caller):
    for k in range(5):
        caller.send(k, np.full(100_000, k))
    for k in range(5):
        np.testing.assert_array_equal(caller.answer(lost), np.full(100_000, 2 * k))
    assert shard[1] == list(range(5))


def test_errors_are_raised_where_the_answer_is_awaited(caller):
    caller.send(7, np.zeros(1))
    with pytest.raises(MeasureError, match="Measure 7 is wrong"):
        caller.answer(lost)
    caller.send(8, np.zeros(1))
    with pytest.raises(RuntimeError, match="KeyError: 'of a bug'") as raised:
        caller.answer(lost)
    assert not isinstance(raised.value, BarymeshError)
    caller.send(1, np.ones(1))
    assert caller.answer(lost) == 2


@pytest.mark.parametrize("wrong", [{"token": b"guessed"}, {"public_key": KeyPair.create().public}])
def test_a_stranger_is_not_answered(shard, wrong):
    """Whoever does not know the token, or the key of the shard: the wait goes on until it is seen to be useless."""
    end, seen = shard
    stranger = CallerEnd(replace(end.contact, **wrong))
    stranger.send(1, np.ones(1))
    with pytest.raises(LostError):
        stranger.answer(lost)
    assert not seen
    stranger.close()


def test_the_token_shows_nowhere(shard):
    assert str(shard[0].contact.token) not in repr(shard[0].contact)
