"""Nodes that come, go, change their data, or never return: the others find the barycenter of those that are there."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import barymesh as bm
from barymesh.errors import OptionError
from barymesh.network import Network
from barymesh.scenario import Crash, Join, Leave, NewData
from barymesh.scenario.faults import Sleep
from tests.decentralized.networks import DURATION, POINTS, assert_right, exact, gaussians, run


@pytest.mark.parametrize(
    ("network", "node"), [("complete", 0), ("complete", 5), ("star", 3), ("barbell", 0), ("grid", 8), ("cycle", 1)]
)
def test_nodes_that_never_come_back_are_done_without(network, node):
    """Root, leaf or in between: the others reach the barycenter of those that are left, and since they cannot know that
    it is gone for good, no node stops."""
    measures = gaussians(9)
    gone = run(measures=measures, network=network, faults=[Crash(node, 5.0)], duration=200)
    left = exact([measure for k, measure in enumerate(measures) if k != node])
    np.testing.assert_allclose(gone.node_weights, np.tile(left.weights, (8, 1)), atol=1e-5)
    assert gone.status is bm.Status.OUT_OF_TIME


MANY, LOST = 12, (1, 4, 6, 9)
STAYED = [k for k in range(MANY) if k not in LOST]
END = 250.0
# ways to be gone from 5 s on until the end of the run
GONE = {
    "crash for good": [Crash(k, 5.0) for k in LOST],
    "crash without memory for good": [Crash(k, 5.0, memory=False) for k in LOST],
    "crash that would end later": [Crash(k, 5.0, END + k) for k in LOST],
    "sleep for good": [Sleep(k, 5.0) for k in LOST],
    "one after the other": [Crash(k, 5.0 + 3 * k) for k in LOST],
    "back in between": [fault for k in LOST for fault in (Crash(k, 5.0, 30.0), Crash(k, 60.0))],
}


def assert_of_the_survivors(result, measures, weights=None, tv=1e-9):
    """All of the Result speaks of the nodes that are there at the end, and of no other."""
    relative = None if weights is None else np.array(weights)[STAYED]
    truth = exact([measures[k] for k in STAYED], weights=relative)
    count = len(STAYED)
    assert 0.5 * np.abs(result.weights - truth.weights).sum() < tv
    assert result.history["tv"][-1] < tv
    assert result.node_weights.shape == result.duals.shape == (count, POINTS.size)
    assert 0.5 * np.abs(result.node_weights - truth.weights).sum(axis=1).max() < tv
    assert result.network.size == count
    assert result.node_errors is None or result.node_errors.shape == (count,)
    # the bounds are those of the survivors' objective
    assert result.value - result.gap - 1e-12 <= truth.value
    assert truth.value - truth.gap - 1e-12 <= result.value
    assert result.gap < 1e-7
    assert result.consensus < 2 * tv
    assert result.feasibility < 1e-7
    assert result.history["consensus"][-1] < 2 * tv
    assert abs(result.history["dual_error"][-1]) < 1e-7


@pytest.mark.parametrize("how", sorted(GONE))
def test_the_result_is_that_of_the_nodes_alive_at_the_end(how):
    """A third of the nodes is gone for good."""
    measures = gaussians(MANY)
    result = run(measures=measures, network="complete", faults=GONE[how], duration=END, record_every=20.0, tol=0)
    assert_of_the_survivors(result, measures)
    assert result.status is bm.Status.OUT_OF_TIME


def test_the_weights_of_the_survivors_are_their_own():
    measures, weights = gaussians(MANY), np.arange(1, MANY + 1)
    result = run(
        measures=measures, network="complete", faults=GONE["crash for good"], duration=END, record_every=20.0, tol=0,
        weights=weights,
    )  # fmt: skip
    assert_of_the_survivors(result, measures, weights)


def test_the_result_after_nodes_have_left_is_that_of_the_others():
    """To the tolerance, since here the nodes know, and stop."""
    measures = gaussians(MANY)
    result = run(
        measures=measures, network="complete", events=[Leave(k, 5.0) for k in LOST], duration=400, tol=1e-10,
        record_every=20.0,
    )  # fmt: skip
    assert_of_the_survivors(result, measures)
    assert result.status is bm.Status.CONVERGED


def test_when_a_crash_would_have_ended_after_the_run_makes_no_difference():
    measures = gaussians(MANY)
    options = {"measures": measures, "network": "cycle", "duration": 60}
    for_good, later = (run(faults=[Crash(3, 5.0, stop)], **options) for stop in (np.inf, 61.0))
    for name in ("weights", "node_weights", "duals", "node_errors"):
        np.testing.assert_array_equal(getattr(later, name), getattr(for_good, name))
    assert (later.gap, later.value, later.network.size) == (for_good.gap, for_good.value, MANY - 1)
    back = run(faults=[Crash(3, 5.0, 59.0)], **options)
    assert back.network.size == len(back.node_weights) == MANY


def test_survivors_that_fall_apart_are_certified_together():
    """The middle of a path is gone: each side finds the barycenter of its own nodes. The Result is their average, and
    its certificate admits that this is not the barycenter of all survivors."""
    measures = gaussians(9)
    result = run(measures=measures, network="path", faults=[Crash(4, 5.0)], duration=400, record_every=20.0)
    sides = [exact(measures[:4]).weights, exact(measures[5:]).weights]
    np.testing.assert_allclose(result.node_weights, np.repeat(sides, 4, axis=0), atol=1e-8)
    np.testing.assert_allclose(result.weights, np.mean(sides, axis=0), atol=1e-8)
    assert result.network.size == 8
    assert len(result.network.edges) == 6
    truth = exact(measures[:4] + measures[5:])
    apart = 0.5 * np.abs(result.weights - truth.weights).sum()
    assert result.history["tv"][-1] > 0.05
    assert result.consensus > 0.1
    assert result.value - result.gap - 1e-12 <= truth.value <= result.value + 1e-12
    assert apart <= result.tv_bound
    assert not result.success


def test_a_network_without_survivors_is_refused():
    with pytest.raises(OptionError, match="at least one node"):
        run(3, network="path", faults=[Crash(0, 1.0), Sleep(1, 2.0), Crash(2, 3.0, 99.0)], duration=50)


@pytest.mark.parametrize("network", ["cycle", "complete"])
def test_changes_after_all_have_stopped_are_taken_in(network):
    """A node leaves, and returns, long after."""
    measures = gaussians(10)
    without = [measure for k, measure in enumerate(measures) if k != 3]
    result = run(measures=measures, network=network, events=[Leave(3, 150.0)])
    assert_right(result)
    assert result.history["time"][-1] > 150
    np.testing.assert_allclose(result.weights, exact(without).weights, atol=1e-6)
    back = run(measures=measures, network=network, events=[Leave(3, 150.0), Join(3, 300.0)])
    assert_right(back)
    np.testing.assert_allclose(back.weights, exact(measures).weights, atol=1e-6)


@given(at=st.floats(45.0, 58.0), node=st.sampled_from([0, 4, 9]))
@settings(max_examples=6)
def test_new_data_while_the_others_stop(at, node):
    """The decision goes down a path of ten from about 50 s to 55 s: a measure that changes then was not part of it."""
    later = bm.Gaussian(4.0, 0.5)
    measures = gaussians(10)
    result = run(measures=measures, network="path", events=[NewData(node, at, later)], tol=1e-4, record_every=20.0)
    measures[node] = later
    truth = exact(measures).weights
    assert result.status is bm.Status.CONVERGED
    assert np.abs(result.node_weights - truth).sum(axis=1).max() < 1e-4


def test_a_node_that_has_left_stays_away_even_without_memory():
    measures = gaussians(10)
    result = run(measures=measures, events=[Leave(3, 5.0)], faults=[Crash(3, 2.0, 8.0, memory=False)])
    assert_right(result)
    left = [measure for k, measure in enumerate(measures) if k != 3]
    np.testing.assert_allclose(result.weights, exact(left).weights, atol=1e-6)


def test_the_nodes_that_remain_find_their_own_barycenter():
    measures = gaussians(14)
    result = run(measures=measures, events=[Leave(3, 6.0), Leave(8, 20.0)])
    assert_right(result)
    left = [measure for k, measure in enumerate(measures) if k not in (3, 8)]
    np.testing.assert_allclose(result.weights, exact(left).weights, atol=1e-6)
    assert result.network.size == len(result.node_weights) == 12


@pytest.mark.parametrize("node", [0, 5])
def test_the_hub_may_leave_as_well_as_any_other(node):
    """Node 0 is the root of this network, whose neighbours continue in a ring."""
    edges = [(0, k) for k in range(1, 8)] + [(k, k % 7 + 1) for k in range(1, 8)]
    network = Network(8, edges)
    assert_right(run(8, network=network, events=[Leave(node, 8.0)]))


def test_nodes_that_join_are_counted_and_hardly_disturb():
    measures = gaussians(14)
    result = run(
        measures=measures, events=["join:node=3,at=30", "leave:node=5,at=8", "join:node=5,at=60"], record_every=1.0
    )
    assert_right(result)
    np.testing.assert_allclose(result.weights, exact(measures).weights, atol=1e-6)
    times, tv = result.history["time"], result.history["tv"]
    assert tv[(times > 61)].max() < 0.25


def test_new_data_are_followed_without_a_restart():
    measures = gaussians(12)
    later = bm.Gaussian(4.0, 0.5)
    result = run(measures=measures, events=[NewData(2, 40.0, later)], record_every=1.0)
    assert_right(result)
    measures[2] = later
    np.testing.assert_allclose(result.weights, exact(measures).weights, atol=1e-6)


def test_ten_changes_one_after_the_other():
    """Every 10 s another node's measure moves."""
    measures = gaussians(10)
    drift = [NewData(k, 30.0 + 10 * k, bm.Gaussian(k - 5, 0.6)) for k in range(10)]
    result = run(measures=measures, network="complete", events=drift)
    assert_right(result)
    ends = [bm.Gaussian(k - 5, 0.6) for k in range(10)]
    np.testing.assert_allclose(result.weights, exact(ends).weights, atol=1e-6)


@pytest.mark.parametrize(
    ("events", "message"),
    [
        (["leave:node=99,at=1"], "nodes 0 to 11"), ([Leave(3, -1.0)], "0 or more"), (["vanish:node=1"], "vanish"),
        ([Join(3, 2.0), Join(3, 4.0)], "there already"), ([Leave(3, 2.0), Leave(3, 4.0)], "not there"), ([42], "42"),
    ],
)  # fmt: skip
def test_bad_events_are_named(events, message):
    with pytest.raises(OptionError, match=message):
        run(12, network="complete", events=events)


def test_no_node_may_cut_the_network_in_two():
    with pytest.raises(OptionError, match="2 parts"):
        run(5, network="path", events=[Leave(2, 5.0)])


@pytest.mark.parametrize("method", ["a2dwb", "dcwb"])
def test_other_methods_cannot_let_nodes_go(method):
    with pytest.raises(OptionError, match="sinkhorn and rounds can"):
        run(5, network="cycle", method=method, events=[Leave(2, 5.0)])


def test_new_data_with_a_cost_matrix_that_is_not_square():
    rng = np.random.default_rng(0)
    cost, masses = rng.random((12, 9)), rng.dirichlet(np.ones(9), 5)
    later = bm.Histogram(rng.dirichlet(np.ones(9)))
    options = {"reg": 0.2, "cost": cost, "progress": False}
    result = bm.barycenter(
        list(map(bm.Histogram, masses)), network="cycle", duration=DURATION, events=[NewData(2, 10.0, later)], **options
    )
    after = [later if k == 2 else bm.Histogram(one) for k, one in enumerate(masses)]
    assert result.status is bm.Status.CONVERGED
    np.testing.assert_allclose(result.weights, bm.barycenter(after, tol=1e-9, **options).weights, atol=1e-6)
    with pytest.raises(bm.BarymeshError, match="measures of events"):
        bm.barycenter(
            list(map(bm.Histogram, masses)),
            network="cycle",
            events=[NewData(2, 1.0, bm.Histogram([0.5, 0.5]))],
            **options,
        )


@pytest.mark.parametrize("event", [Leave(2, 50.0), Join(2, 50.0), NewData(2, 50.0, bm.Gaussian(3.0, 0.2))])
def test_events_after_the_end_of_the_run_play_no_part(event):
    """The reference and the members are those of the end, and a run does not wait for what is to come after it."""
    measures = gaussians(6)
    result = run(measures=measures, network="complete", events=[event], duration=50.0, record_every=10.0, tol=1e-4)
    there = [k for k in range(6) if k != 2 or not isinstance(event, Join)]
    truth = exact([measures[k] for k in there])
    assert len(result.node_weights) == len(there)
    assert 0.5 * np.abs(result.weights - truth.weights).sum() < 1e-4
    assert result.history["tv"][-1] < 1e-4
    assert result.status is bm.Status.CONVERGED


@pytest.mark.parametrize("memory", [True, False])
def test_nodes_lost_after_the_others_have_stopped_leave_no_success(memory):
    """The others have stopped at a barycenter that is not that of the members at the end."""
    measures = [bm.Gaussian(mean, 0.4) for mean in (-3.0, 0.0, 3.0)]
    agreed = run(measures=measures, network="complete", duration=100.0)
    assert agreed.status is bm.Status.CONVERGED
    late = agreed.history["time"][-1] + 5.0
    result = run(measures=measures, network="complete", duration=100.0, faults=[Crash(0, late, memory=memory)])
    truth = exact(measures[1:])
    assert len(result.node_weights) == 2
    assert 0.5 * np.abs(result.weights - truth.weights).sum() > 0.1
    assert not result.success
    assert result.status is bm.Status.OUT_OF_TIME
    assert result.tv_bound > 0.1
    # what the nodes have certified is the barycenter of all three
    assert agreed.node_gaps is not None
    assert result.node_gaps is None
