"""Delays come from their address alone and have the distribution they say."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from barymesh.errors import OptionError
from barymesh.network import as_network
from barymesh.scenario import Categorical, Constant, LogNormal, PerEdge, Trace, Uniform
from barymesh.scenario.faults import fault_table
from tests.engines.one_at_a_time import Arrivals

NETWORK = as_network("complete", 6)


def drawn(delay, network=NETWORK, count=400, seed=0):
    """``(edges, count)``: the delays of the first messages on every directed edge."""
    table = delay.table(network)
    arrivals = Arrivals(network, table, fault_table([], network), seed)
    receiver = np.repeat(np.arange(network.size), np.diff(network.offsets))
    edges = np.arange(receiver.size)
    values = np.stack([arrivals(number, 0.0, edges, receiver) for number in range(count)], axis=1)
    assert values.min() >= table.shortest * (1 - 1e-12)
    assert values.max() <= table.longest * (1 + 1e-12)
    return values


def test_the_papers_delays_are_uniform_on_five_values():
    values = drawn(Categorical())
    kinds, counts = np.unique(values, return_counts=True)
    np.testing.assert_allclose(kinds, [0.2, 0.4, 0.6, 0.8, 1.0], atol=1e-6)
    assert stats.chisquare(counts).pvalue > 1e-3


def test_given_probabilities_are_kept():
    values = drawn(Categorical((0.1, 0.5, 2.0), (0.7, 0.0, 0.3)))
    kinds, counts = np.unique(values, return_counts=True)
    np.testing.assert_allclose(kinds, [0.1, 2.0], atol=1e-6)
    assert stats.chisquare(counts, values.size * np.array([0.7, 0.3])).pvalue > 1e-3


@pytest.mark.parametrize(
    ("delay", "law"),
    [(Uniform(0.1, 0.7), stats.uniform(0.1, 0.6)), (LogNormal(0.4, 0.5), stats.lognorm(0.5, scale=0.4))],
)
def test_continuous_delays_have_their_law(delay, law):
    assert stats.kstest(drawn(delay).ravel(), law.cdf).pvalue > 1e-3


def test_edges_and_messages_are_independent():
    values = drawn(Uniform())
    assert np.abs(np.corrcoef(values) - np.eye(len(values))).max() < 0.25
    assert abs(np.corrcoef(values[:, :-1].ravel(), values[:, 1:].ravel())[0, 1]) < 0.05


def test_seeds_differ_and_repeat():
    first, again, other = (drawn(Uniform(), count=5, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).all()


def test_constant():
    np.testing.assert_allclose(drawn(Constant(0.3), count=3), 0.3, atol=1e-6)


def test_per_edge_from_pairs_and_from_a_matrix():
    network = as_network("path", 3)
    values = drawn(PerEdge({(0, 1): 0.5, (2, 1): 0.7}, default=0.1), network, 2)
    # receivers 0, 1, 1, 2 from senders 1, 0, 2, 1
    np.testing.assert_allclose(values[:, 0], [0.5, 0.5, 0.7, 0.7], atol=1e-6)
    matrix = np.arange(9.0).reshape(3, 3)
    np.testing.assert_allclose(drawn(PerEdge(matrix), network, 2)[:, 1], [3, 1, 7, 5])
    jittered = drawn(PerEdge(matrix, jitter=Uniform(0, 0.5)), network, 50)
    assert (np.ptp(jittered, axis=1) > 0.3).all()
    assert (np.floor(jittered) == [[3], [1], [7], [5]]).all()


def test_traces_are_played_in_turn(tmp_path):
    values = drawn(Trace([0.1, 0.2, 0.3]), count=9)
    np.testing.assert_allclose(np.sort(values[:, :3], axis=1), [[0.1, 0.2, 0.3]] * len(values), atol=1e-6)
    np.testing.assert_array_equal(values[:, :3], values[:, 3:6])
    assert len(np.unique(values[:, 0])) == 3, "all edges begin at the same place"
    (tmp_path / "trace.csv").write_text("0.1\n0.2\n0.3\n")
    np.testing.assert_array_equal(drawn(Trace(tmp_path / "trace.csv"), count=9), values)
    own = drawn(Trace({(0, 1): [0.5], (1, 0): [0.7, 0.9]}), as_network("path", 2), 4)
    np.testing.assert_allclose(own[1], 0.5, atol=1e-6)
    np.testing.assert_allclose(np.sort(own[0]), [0.7, 0.7, 0.9, 0.9], atol=1e-6)


@pytest.mark.parametrize(
    ("delay", "words"),
    [
        (Constant(-1), "-1"),
        (Constant(np.nan), "nan"),
        (Uniform(2, 1), "low=2"),
        (Categorical(()), "at least one"),
        (Categorical((1.0,), (0.5,)), "sum 1"),
        (LogNormal(np.inf), "inf"),
        (PerEdge({(0, 9): 1.0}), r"\(0, 9\)"),
        (PerEdge({1: 0.2}), "given for 1; name an edge by its two nodes"),
        (Trace({1: [0.2]}), "given for 1; name an edge by its two nodes"),
        (PerEdge(np.ones((2, 2))), r"\(2, 2\)"),
        (Trace([]), "at least one"),
        (Trace({(0, 1): [1.0]}), "no recorded delay"),
        (Trace("nowhere.csv"), "nowhere.csv"),
    ],
)
def test_bad_delays_are_refused(delay, words):
    with pytest.raises(OptionError, match=words):
        delay.table(NETWORK)
