"""The one record that callbacks see: the same fields, meaning the same, from the solver and from a network."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import barymesh as bm
from barymesh.method_names import NETWORK_METHODS
from barymesh.record import NodeState, Record
from barymesh.scenario import Crash, Leave
from barymesh.scenario.faults import Sleep

MEASURES = [bm.Gaussian(mean, 0.4) for mean in (-1.0, 0.0, 1.5, 0.7)]
SUPPORT = np.linspace(-3, 3, 30)
NETWORK = {"network": "cycle", "duration": 10, "record_every": 0.5}


def recorded(**options):
    """The Result, and for every call of the callback the record and the estimates of two nodes at the time."""
    seen = []
    result = bm.barycenter(
        MEASURES, SUPPORT, reg=0.1, progress=False, **options,
        callback=lambda record: seen.append((record, record.estimates(np.array([2, 0])).copy())),
    )  # fmt: skip
    return result, seen


RUNS = {
    "solver": {}, "solver in float32": {"precision": "float32"}, "solver with few iterations": {"max_iter": 4},
    **{method: {**NETWORK, "method": method} for method in NETWORK_METHODS},
    "with a reference": {**NETWORK, "reference": True}, "with a crash": {**NETWORK, "faults": [Crash(3, 2.0)]},
    "converged": {**NETWORK, "duration": 400, "tol": 1e-4, "record_every": 7.0},
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::barymesh.errors.DriftWarning")
@pytest.mark.parametrize("name", RUNS)
def test_a_record_is_a_row_of_the_history(name):
    result, seen = recorded(**RUNS[name])
    steps = "iterations" if result.network is None else "activations"
    rows = list(result.history.rows())
    assert seen
    if result.network is not None:
        assert len(seen) == len(result.history)
    for k, (record, _) in enumerate(seen):
        assert type(record) is Record
        # steps of the solver that were undone have rows, and no record
        row = rows[record.step - 1] if result.network is None else rows[k]
        assert dict(record.figures) == dict(zip(result.history.columns, row, strict=True))
        assert record.step == record.figures[steps]
        assert record.weights.shape == (30,)
        assert record.weights.sum() == pytest.approx(1.0, abs=1e-6)
        assert record.support.size == 30
        assert record.size == len(MEASURES)
        if result.network is not None:
            assert record.time == record.figures["time"]
    times = [record.time for record, _ in seen]
    assert times == sorted(times)


@pytest.mark.filterwarnings("ignore::barymesh.errors.DriftWarning")
@pytest.mark.parametrize("name", [name for name in RUNS if name != "solver in float32"])
def test_the_last_record_is_the_result(name):
    result, seen = recorded(**RUNS[name])
    record, estimates = seen[-1]
    np.testing.assert_allclose(record.weights, result.weights, rtol=1e-12)
    np.testing.assert_allclose(estimates, result.node_weights[[2, 0]], rtol=1e-12)
    assert record.step == (result.iterations or result.activations)
    assert record.figures["consensus"] == pytest.approx(result.consensus, rel=1e-9)
    for name, value in {"messages": result.messages, "bytes": result.bytes}.items():
        assert record.figures.get(name, 0) == value


def test_consensus_means_the_same_in_every_record():
    """The mean L1 distance of the estimates from their common one, by the formula."""
    for options in (RUNS["solver"], RUNS["sinkhorn"]):
        found = []

        def watch(record, found=found):
            estimates = record.estimates(np.arange(len(MEASURES)))
            apart = np.abs(estimates - record.weights).sum(axis=1).mean()
            found.append((record.figures["consensus"], apart))

        bm.barycenter(MEASURES, SUPPORT, reg=0.1, progress=False, callback=watch, **options)
        ours, formula = np.array(found).T
        np.testing.assert_allclose(ours, formula, rtol=1e-9, atol=1e-14)


def test_the_same_fields_from_the_solver_and_from_a_network():
    solver, network = (recorded(**RUNS[name])[1][0][0] for name in ("solver", "sinkhorn"))
    for one in dataclasses.fields(Record):
        assert hasattr(solver, one.name)
        assert hasattr(network, one.name)
    common = {"consensus", "dual_objective"}
    assert common <= set(solver.figures)
    assert common <= set(network.figures)
    assert (solver.network, solver.virtual, solver.details) == (None, False, None)
    assert network.network.size == len(MEASURES)
    assert network.virtual
    assert network.details.staleness.shape == (8,)


def test_the_dual_objective_means_the_same():
    """Both end at minus the optimal value."""
    result, seen = recorded(tol=1e-9)
    _, network = recorded(**{**RUNS["sinkhorn"], "duration": 400, "tol": 1e-9})
    for record, _ in (seen[-1], network[-1]):
        assert record.figures["dual_objective"] == pytest.approx(-result.value, abs=1e-7)


def test_details_say_what_nodes_are_doing():
    states = {}

    def watch(record):
        states[record.time] = record.details.states

    bm.barycenter(
        MEASURES, SUPPORT, reg=0.1, network="complete", duration=400, record_every=1.0, progress=False, callback=watch,
        faults=[Crash(0, 2.5, 5.5), Sleep(1, 2.5, 5.5)], events=[Leave(3, 2.5)], tol=1e-4,
    )  # fmt: skip
    assert list(states[1.0]) == [NodeState.WORKING] * 4
    assert list(states[4.0]) == [NodeState.DEAD, NodeState.ASLEEP, NodeState.WORKING, NodeState.LEFT]
    assert list(states[max(states)]) == [NodeState.CONVERGED] * 3 + [NodeState.LEFT]


def test_a_callback_stops_either():
    for options in (RUNS["solver"], RUNS["sinkhorn"]):
        result = bm.barycenter(
            MEASURES, SUPPORT, reg=0.1, progress=False, tol=0, callback=lambda record: record.step >= 3, **options
        )
        assert result.status is bm.Status.STOPPED
        assert not result.success
