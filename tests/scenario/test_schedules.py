"""Schedules are functions of their seed, whatever slabs they are handed out in, and keep the rates they say."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from barymesh.errors import OptionError
from barymesh.scenario import Periodic, Poisson, Windowed

SCHEDULES = [Windowed(0.2), Poisson(3.0), Poisson(3.0, slow_share=0.25), Periodic(0.2, 0.3), Periodic(0.5, 0.0)]


def activations(schedule, size, until, length, seed=0):
    clock = schedule.clock(size, seed)
    nodes, times, end = [], [], 0.0
    while end < until:
        slab = clock.next_slab(length)
        nodes.append(slab.nodes)
        times.append(slab.times)
        end = slab.end
        assert (slab.times < end).all()
    nodes, times = np.concatenate(nodes), np.concatenate(times)
    return nodes[times < until], times[times < until]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
def test_slabs_do_not_matter(schedule):
    first, second = (activations(schedule, 7, 10.0, length) for length in (0.05, 3.3))
    np.testing.assert_array_equal(first[0], second[0])
    np.testing.assert_array_equal(first[1], second[1])
    assert (np.diff(first[1]) >= 0).all()
    other = activations(schedule, 7, 10.0, 1.0, seed=1)
    assert other[0].size != first[0].size or (other[0] != first[0]).any()


def test_the_papers_windows():
    nodes, times = activations(Windowed(0.2), 5, 4.0, 1.0)
    np.testing.assert_allclose(times, 0.2 * np.arange(100) / 5, atol=1e-6)
    windows = nodes.reshape(-1, 5)
    np.testing.assert_array_equal(np.sort(windows, axis=1), np.tile(np.arange(5), (20, 1)))
    assert len(np.unique(windows, axis=0)) > 10, "the order must be drawn afresh in every window"


def test_poisson_clocks_wait_exponentially():
    nodes, times = activations(Poisson(2.0), 4, 800.0, 5.0)
    for node in range(4):
        waits = np.diff(times[nodes == node])
        assert stats.kstest(waits, stats.expon(scale=0.5).cdf).pvalue > 1e-3


def test_periodic_clocks_keep_their_period():
    nodes, times = activations(Periodic(0.5, 0.2), 4, 200.0, 5.0)
    starts = [times[nodes == node][0] for node in range(4)]
    assert np.ptp(starts) > 0.05
    for node in range(4):
        waits = np.diff(times[nodes == node])
        assert waits.min() >= 0.4 - 1e-6
        assert waits.max() <= 0.6 + 1e-6
        assert abs(waits.mean() - 0.5) < 0.02


def test_stragglers_are_as_slow_as_asked():
    nodes, _ = activations(Poisson(5.0, slow_share=0.3, slowdown=10), 20, 200.0, 1.0)
    counts = np.sort(np.bincount(nodes, minlength=20))
    assert (counts[:6] < 180).all()
    assert (counts[6:] > 800).all()
    given = np.bincount(activations(Periodic(1.0, 0.0, speeds=[1, 2, 4]), 3, 100.0, 1.0)[0])
    np.testing.assert_allclose(given, [100, 200, 400], atol=1)


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        (Windowed(0), "period"),
        (Poisson(-1), "rate"),
        (Poisson(speeds=[1, 2]), "3 positive"),
        (Poisson(slow_share=2), "slow_share"),
        (Poisson(slow_share=0.5, slowdown=0), "slowdown"),
        (Periodic(jitter=1.0), "jitter"),
        (Periodic(speeds=[1, 0, 1]), "positive"),
    ],
)
def test_bad_schedules_are_refused(schedule, words):
    with pytest.raises(OptionError, match=words):
        schedule.clock(3, 0)
