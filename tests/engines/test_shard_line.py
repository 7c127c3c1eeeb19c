"""The line to a shard: calls in their order, errors as they were raised, and nothing for strangers."""

from __future__ import annotations

import socket
from contextlib import suppress
from dataclasses import replace
from threading import Event, Thread

import numpy as np
import pytest

from barymesh.engines import shard_line
from barymesh.engines.shard_line import CallerEnd, LineError, ShardEnd
from barymesh.errors import BarymeshError, MeasureError, NetworkError
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
        if number == 9:
            return lambda: "of a kind that cannot be sent"
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
    caller.send(9, np.zeros(1))
    with pytest.raises(RuntimeError, match="pickle"):
        caller.answer(lost)
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


def test_a_line_that_does_not_open_is_named(shard, monkeypatch):
    """As behind a firewall: the shard is there, but not for this caller."""
    monkeypatch.setattr(shard_line, "OPENING", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        caller = CallerEnd(replace(shard[0].contact, endpoint=f"tcp://127.0.0.1:{silent.getsockname()[1]}"))
        caller.send(1, np.ones(1))
        with pytest.raises(NetworkError, match="cannot be reached there"):
            caller.answer(lambda: None)
        caller.close()


def test_a_line_that_is_cut_is_noticed():
    """The call is carried out, but its answer is lost."""
    called, cut = Event(), Event()

    def call():
        called.set()
        cut.wait()

    end = ShardEnd(call, "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as between:
        caller = CallerEnd(replace(end.contact, endpoint=f"tcp://127.0.0.1:{between.getsockname()[1]}"))
        caller.send()
        near, _ = between.accept()
        far = socket.create_connection(("127.0.0.1", int(end.contact.endpoint.rpartition(":")[2])))
        for one, other in ((near, far), (far, near)):
            Thread(target=pass_on, args=(one, other), daemon=True).start()
        assert called.wait(60)
        for one in (near, far):
            one.shutdown(socket.SHUT_RDWR)
            one.close()
        with pytest.raises(LineError):
            caller.answer(lambda: None)
        cut.set()
        caller.close()


def pass_on(one, other):
    with suppress(OSError):
        while some := one.recv(2**16):
            other.sendall(some)
