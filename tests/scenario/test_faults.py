"""Faults are checked against the network, and do what they say to messages."""

from __future__ import annotations

import numpy as np
import pytest

from barymesh.core import kernels
from barymesh.errors import OptionError
from barymesh.network import as_network
from barymesh.scenario import Constant, Crash, Duplication, LinkDown, Loss, Reordering, Sleep, Uniform
from barymesh.scenario.faults import FAULTS, FOREVER, fault_table
from barymesh.specification import build_from_spec
from tests.engines.one_at_a_time import Arrivals

PATH = as_network("path", 3)


def arrivals(faults, delay, sent=0.0, count=4000, e=1):
    """When the first messages on an edge arrive, all sent at the same time."""
    arrivals = Arrivals(PATH, delay.table(PATH), fault_table(faults, PATH), seed=0)
    receiver = np.repeat(np.arange(3), np.diff(PATH.offsets))
    return np.concatenate([arrivals(number, sent, np.array([e]), receiver[[e]]) for number in range(count)])


def test_losses():
    lost = (arrivals([Loss(0.2)], Constant(0.1)) == FOREVER).mean()
    assert abs(lost - 0.2) < 0.03
    both = (arrivals([Loss(0.2), Loss(0.5)], Constant(0.1)) == FOREVER).mean()
    assert abs(both - 0.6) < 0.03


def test_a_copy_may_be_faster():
    alone, copied = arrivals([], Uniform()), arrivals([Duplication(1.0)], Uniform())
    assert (copied <= alone).all()
    assert abs(copied.mean() - 1 / 3) < 0.02


def test_reordering_holds_some_messages_up():
    times = arrivals([Reordering(0.3, 5.0)], Constant(0.1))
    assert abs((times > 0.1).mean() - 0.3) < 0.03
    assert 4.5 < times.max() <= 5.1


def test_a_dead_node_receives_nothing_and_a_cut_link_carries_nothing():
    # edge 1 leads from node 0 to node 1
    crash = [Crash(1, 1.0, 2.0)]
    assert (arrivals(crash, Constant(0.5), sent=0.25, count=3) == 0.75).all()
    assert (arrivals(crash, Constant(0.5), sent=0.6, count=3) == FOREVER).all()
    assert (arrivals(crash, Constant(0.5), sent=1.75, count=3) == 2.25).all()
    down = [LinkDown(1, 0, 1.0, 2.0)]
    assert (arrivals(down, Constant(0.5), sent=0.75, count=3) == 1.25).all()
    assert (arrivals(down, Constant(0.5), sent=1.9, count=3) == FOREVER).all()
    assert (arrivals(down, Constant(0.5), sent=1.9, count=3, e=2) < FOREVER).all(), "the other link is not cut"


def test_spans_are_joined_and_resets_sorted():
    table = fault_table([Sleep(0, 3, 5), Crash(0, 4, 6, memory=False), Sleep(0, 1, 2), Crash(2, 0, 1, False)], PATH)
    np.testing.assert_allclose(table.idle, [[1, 2], [3, 6], [0, 1]])
    np.testing.assert_array_equal(table.idle_first, [0, 2, 2, 3])
    np.testing.assert_allclose(table.crashed, [[4, 6], [0, 1]])
    assert table.resets == [(1.0, 2), (6.0, 0)]
    idle = np.empty(4, dtype=bool)
    times = np.array([1.5, 2.5, 5.9, 1.5])
    kernels.idle_activations(np.array([0, 0, 0, 1]), times, (table.idle, table.idle_first), idle)
    assert idle.tolist() == [True, False, True, False]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Loss(1.5), "between 0 and 1"),
        (Loss(1.0), "below 1"),
        (Duplication(-0.1), "between 0 and 1"),
        (Reordering(0.5, -1), "extra"),
        (Sleep(9, 0, 1), "0 to 2"),
        (Sleep(0, 2, 1), "stop after"),
        (Crash(0, -1, 1), "0 or later"),
        (LinkDown(0, 2, 0, 1), "no link"),
        ("loss", "not a fault"),
    ],
)
def test_bad_faults_are_refused(fault, words):
    with pytest.raises(OptionError, match=words):
        fault_table([fault], PATH)


def test_a_memory_that_is_neither_true_nor_false_is_refused():
    """Any word would do for true."""
    fault = build_from_spec("crash:node=1,start=1,stop=2,memory=no", FAULTS, "fault", OptionError)
    with pytest.raises(OptionError, match="memory is 'no'; it must be true or false"):
        fault_table([fault], as_network("cycle", 4))
