"""One meaning for every word: each field of a Result, and each column of its history, computed again from its
definition, on every engine."""

from __future__ import annotations

import dataclasses
import time

import numpy as np
import pytest
from scipy.special import logsumexp, softmax

import barymesh as bm
from barymesh.core import tree
from barymesh.methods.orders import Order
from barymesh.methods.rounds import Rounds
from barymesh.network import as_network
from barymesh.problem import Problem
from barymesh.transport import wire

POINTS = np.linspace(-3, 3, 25)
MEASURES = [bm.Gaussian(mean, 0.4 + 0.1 * k) for k, mean in enumerate((-1.5, -0.5, 0.5, 1.5))]
WEIGHTS = np.array([0.1, 0.2, 0.3, 0.4])
REG, TOL = 0.3, 1e-6
GRAPH = as_network("complete", 4)
# the options of each place where a barycenter is computed
PLACES = {
    "exact": {},
    "simulation": {"network": GRAPH, "duration": 100.0, "reference": True},
    "processes": {"network": GRAPH, "engine": "processes", "workers": 2, "duration": 60.0, "reference": True},
    "ray": {"network": GRAPH, "engine": "ray", "workers": 2, "duration": 60.0, "reference": True},
}


@pytest.fixture(scope="module", params=PLACES)
def place(request):
    """The name of a place, its Result, and what a callback saw: records, with the estimates of all nodes."""
    if request.param == "ray":
        pytest.importorskip("ray")
    return request.param, *compute(**PLACES[request.param])


def compute(**options):
    """A Result, and what a callback saw."""
    seen = []

    def see(record):
        seen.append((record, record.estimates(np.arange(4)).copy()))

    began = time.perf_counter()
    result = bm.barycenter(MEASURES, POINTS, reg=REG, weights=WEIGHTS, **{"tol": TOL, "callback": see, **options})
    assert result.seconds <= time.perf_counter() - began
    return result, seen


@pytest.fixture(scope="module")
def truth():
    return bm.barycenter(MEASURES, POINTS, reg=REG, weights=WEIGHTS, tol=1e-11)


def dual_functions(duals):
    """``W*_i(lam_i)`` and its gradient for every node, in plain NumPy."""
    values, gradients = [], []
    atoms = Problem.create(MEASURES, POINTS, reg=REG).atoms
    for lam, own in zip(duals, atoms, strict=True):
        exponents = (lam[:, None] - (POINTS[:, None] - own.points[:, 0]) ** 2) / REG
        values.append(REG * own.weights @ logsumexp(exponents, axis=0))
        gradients.append(softmax(exponents, axis=0) @ own.weights)
    return np.array(values), np.array(gradients)


def test_every_field_has_a_test_here(place):
    _, result, _ = place
    tested = {
        "weights", "support", "node_weights", "duals", "value", "gap", "consensus", "feasibility", "reg", "method",
        "status", "seconds", "iterations", "activations", "history", "messages", "bytes", "recording_seconds",
        "network", "snapshots", "node_errors", "node_gaps", "problem",
        "objective", "measures",
    }  # fmt: skip
    assert {field.name for field in dataclasses.fields(result)} == tested


def test_the_barycenter_and_the_estimates(place, truth):
    _, result, _ = place
    _, gradients = dual_functions(result.duals)
    np.testing.assert_allclose(result.node_weights, gradients, atol=1e-12)
    np.testing.assert_allclose(result.node_weights.sum(axis=1), 1)
    np.testing.assert_allclose(result.weights.sum(), 1)
    np.testing.assert_allclose(result.weights, truth.weights, atol=TOL)
    assert result.support.points.shape == (25, 1)
    assert result.reg == REG
    assert result.method == "sinkhorn"
    assert result.objective == "entropic"
    assert result.measures is None


def test_the_problem_has_measures_and_weights_for_plans(place, truth):
    _, result, _ = place
    np.testing.assert_allclose(result.problem.weights, WEIGHTS / np.sum(WEIGHTS))
    for i in range(4):
        np.testing.assert_allclose(result.plan(i), truth.plan(i), atol=10 * TOL)
        np.testing.assert_allclose(result.plan(i).sum(axis=1), result.node_weights[i], atol=1e-12)


def test_the_certificate_bounds_the_objective(place, truth):
    _, result, _ = place
    values, _ = dual_functions(truth.duals)
    optimum = -WEIGHTS @ values
    assert result.value - result.gap <= optimum + 1e-12 <= result.value + 2e-12
    assert 0 <= result.gap < 1e-3
    assert result.tv_bound == min(1, np.sqrt(result.gap / (2 * REG)))
    assert 0.5 * np.abs(result.weights - truth.weights).sum() <= result.tv_bound


def test_every_node_has_a_certificate_of_its_own(place, truth):
    """Of the barycenter that the nodes agreed on, made by themselves: its objective, computed from the definition."""
    name, result, _ = place
    if name == "exact":
        assert result.node_gaps is None
        assert result.node_tv_bounds is None
        return
    assert result.node_gaps.shape == (4,)
    assert np.ptp(result.node_gaps) == 0
    assert 0 <= result.node_gaps[0] < 1e-6
    np.testing.assert_allclose(result.node_tv_bounds, np.sqrt(result.node_gaps / (2 * REG)))
    distance = 0.5 * np.abs(result.node_weights - truth.weights).sum(axis=1)
    assert (distance <= result.node_tv_bounds + 1e-9).all()


def test_consensus_and_feasibility(place):
    _, result, _ = place
    apart = np.abs(result.node_weights - result.weights).sum(axis=1)
    assert result.consensus == pytest.approx(WEIGHTS @ apart, rel=1e-9, abs=1e-14)
    total = WEIGHTS @ result.duals
    assert result.feasibility == pytest.approx(np.abs(total - total.mean()).max(), rel=1e-9, abs=1e-12)


def test_how_it_ended(place):
    name, result, _ = place
    assert result.status is bm.Status.CONVERGED
    assert result.success
    assert result.message == result.status.value
    assert 0 <= result.recording_seconds <= result.seconds
    assert (result.recording_seconds == 0) == (name == "exact")
    if name == "exact":
        assert result.network is None
    else:
        np.testing.assert_array_equal(result.network.edges, GRAPH.edges)
        assert result.network.size == 4
    assert result.snapshots is None


def test_steps_are_iterations_or_activations(place):
    name, result, seen = place
    assert (result.iterations > 0) == (name == "exact")
    assert (result.activations > 0) == (name != "exact")
    assert seen[-1][0].step == (result.iterations if name == "exact" else result.activations)


def test_messages_and_bytes_are_those_sent_over_every_link(place):
    name, result, _ = place
    if name == "exact":
        assert (result.messages, result.bytes) == (0, 0)
        return
    # to three neighbours each, and at the end, in rounds, only if there is news
    assert 0 < result.messages <= 3 * result.activations
    public, sums = tree.HEADER + POINTS.size + len(Order), 2 * POINTS.size + Rounds.SCALARS
    extra = result.bytes - result.messages * wire.frame_bytes(public)
    # at most one neighbour gets the sums, and the root sends them to none
    assert extra % (8 * sums) == 0
    assert 0 < extra // (8 * sums) < result.activations


def test_the_history_tells_of_the_result(place, truth):
    name, result, _ = place
    history = result.history
    expected = ["iterations", "consensus", "dual_objective"] if name == "exact" else [
        "time", "dual_objective", "consensus", "consensus_distance", "feasibility", "tv", "dual_error", "activations",
        "messages", "bytes",
    ]  # fmt: skip
    assert list(history.columns) == expected
    last = {column: history[column][-1] for column in history.columns}
    values, _ = dual_functions(result.duals)
    assert last["dual_objective"] == pytest.approx(WEIGHTS @ values, abs=1e-9)
    assert last["consensus"] == pytest.approx(result.consensus, abs=1e-9)
    if name == "exact":
        assert last["iterations"] == result.iterations
        return
    first, second = GRAPH.edges.T
    apart = ((result.node_weights[first] - result.node_weights[second]) ** 2).sum()
    assert last["consensus_distance"] == pytest.approx(apart, rel=1e-6, abs=1e-20)
    assert last["feasibility"] == pytest.approx(result.feasibility, abs=1e-12)
    tv = 0.5 * np.abs(result.node_weights - truth.weights).sum(axis=1).mean()
    assert last["tv"] == pytest.approx(tv, abs=1e-8)
    optimum = WEIGHTS @ dual_functions(truth.duals)[0]
    assert last["dual_error"] == pytest.approx(last["dual_objective"] - optimum, abs=1e-8)
    assert [last[column] for column in ("activations", "messages", "bytes")] == [
        result.activations, result.messages, result.bytes,
    ]  # fmt: skip
    assert (np.diff(history["time"]) > 0).all()
    if name == "simulation":
        np.testing.assert_array_equal(history["time"][:-1], np.arange(len(history) - 1))
    else:
        assert history["time"][-1] <= result.seconds


def test_callbacks_see_the_rows_of_the_history(place):
    name, result, seen = place
    assert len(seen) == len(result.history) or name == "exact"
    for row, (record, _) in enumerate(seen):
        step = record.step - 1 if name == "exact" else row
        known = {column: values[step] for column, values in result.history.columns.items()}
        assert dict(record.figures) == known
        assert record.size == 4
        assert (record.network is None) == (name == "exact")
        assert record.virtual == (name == "simulation")
        assert record.step == known["iterations" if name == "exact" else "activations"]
        assert name == "exact" or record.time == known["time"]
    np.testing.assert_allclose(seen[-1][0].weights, result.weights, atol=1e-14)
    np.testing.assert_allclose(seen[-1][1], result.node_weights, atol=1e-14)


def test_every_row_follows_from_the_estimates_of_the_nodes(place, truth):
    """In the first rows the nodes are far apart: there, no figure is right by being small. (Real processes may have
    agreed before their first record.)"""
    name, _, seen = place
    first, second = GRAPH.edges.T
    assert seen[0][0].figures["consensus"] > 0.01 or name not in ("exact", "simulation")
    for record, estimates in seen:
        mean = np.exp(WEIGHTS @ np.log(estimates)) if name == "exact" else WEIGHTS @ estimates
        np.testing.assert_allclose(record.weights, mean / mean.sum(), atol=1e-12)
        figures = record.figures
        apart = WEIGHTS @ np.abs(estimates - record.weights).sum(axis=1)
        assert figures["consensus"] == pytest.approx(apart, rel=1e-6, abs=1e-12)
        if name == "exact":
            continue
        distance = ((estimates[first] - estimates[second]) ** 2).sum()
        assert figures["consensus_distance"] == pytest.approx(distance, rel=1e-6, abs=1e-15)
        tv = 0.5 * np.abs(estimates - truth.weights).sum(axis=1).mean()
        assert figures["tv"] == pytest.approx(tv, rel=1e-6, abs=1e-8)
        optimum = WEIGHTS @ dual_functions(truth.duals)[0]
        assert figures["dual_error"] == pytest.approx(figures["dual_objective"] - optimum, abs=1e-8)
        assert figures["messages"] <= 3 * figures["activations"]


@pytest.mark.parametrize("engine", ["simulation", "processes"])
@pytest.mark.filterwarnings("ignore::barymesh.errors.DriftWarning")
def test_a_run_that_drifts_and_does_not_converge(engine, truth):
    """The same meanings where no figure is small, and the duals do not sum to zero."""
    options = {} if engine == "simulation" else {"workers": 2, "interval": 0.02}
    result, seen = compute(
        network=GRAPH, engine=engine, method="a2dwb_naive", batch="exact", duration=2.5, reference=True, **options
    )
    assert (result.status, result.success) == (bm.Status.OUT_OF_TIME, False)
    values, gradients = dual_functions(result.duals)
    np.testing.assert_allclose(result.node_weights, gradients, atol=1e-12)
    total = WEIGHTS @ result.duals
    assert result.feasibility == pytest.approx(np.abs(total - total.mean()).max(), rel=1e-9)
    assert result.feasibility > 1e-6
    assert result.consensus > 1e-3
    assert result.node_errors is None
    optimum = -WEIGHTS @ dual_functions(truth.duals)[0]
    assert result.value - result.gap <= optimum <= result.value
    assert 0.5 * np.abs(result.weights - truth.weights).sum() <= result.tv_bound
    last = {column: values[-1] for column, values in result.history.columns.items()}
    assert last["time"] == 2.5
    assert last["dual_objective"] == pytest.approx(WEIGHTS @ values, rel=1e-9)
    for name in ("consensus", "feasibility", "activations", "messages", "bytes"):
        assert last[name] == pytest.approx(getattr(result, name), rel=1e-9)
    assert result.bytes == result.messages * wire.frame_bytes(POINTS.size)
    assert dict(seen[-1][0].figures) == last


def test_nodes_know_their_errors(place, truth):
    name, result, _ = place
    if name == "exact":
        assert result.node_errors is None
        return
    assert result.node_errors.shape == (4,)
    assert (np.abs(result.node_weights - truth.weights).sum(axis=1) <= result.node_errors + 1e-9).all()
    assert (result.node_errors <= 2 * TOL).all()
