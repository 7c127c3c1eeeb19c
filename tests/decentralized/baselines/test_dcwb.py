"""DCWB is the published algorithm, keeps the sum of the duals, and waits for the slowest message."""

from __future__ import annotations

import numpy as np
import pytest

import barymesh as bm
from barymesh.engines.simulate import build_simulation
from barymesh.exact.reference import exact_reference
from barymesh.network import as_network
from barymesh.options import RunOptions
from barymesh.oracle import build_oracle
from barymesh.problem import Problem
from barymesh.scenario import Constant, Crash, LinkDown, Loss, Sleep, Uniform

MEASURES = [bm.Gaussian(mean, 0.3) for mean in (-1.0, -0.2, 0.5, 0.9, 1.4)]
SUPPORT = np.linspace(-2, 2, 12)


def run(duration, **options):
    return bm.barycenter(
        MEASURES, SUPPORT, reg=0.2, network="cycle", method="dcwb", duration=duration,
        **{"delays": Constant(0.5), "batch": "exact", **options},
    )  # fmt: skip


def test_it_is_algorithm_3_of_dvurechensky():
    problem = Problem.create(MEASURES, SUPPORT, reg=0.2)
    network = as_network("cycle", 5)
    oracle = build_oracle(problem.atoms, problem.support, problem.cost, problem.reg)
    laplacian = network.laplacian.toarray()
    smoothness = network.lambda_max / 0.2
    zeta = eta = estimate = np.zeros((5, 12))
    total = 0.0
    for _ in range(40):
        alpha = max(np.roots([2 * smoothness, -1, -total]))
        lam = (alpha * zeta + total * eta) / (total + alpha)
        p = oracle.value_and_gradient(lam)[1]
        zeta = zeta - alpha * laplacian @ p
        eta = (alpha * zeta + total * eta) / (total + alpha)
        estimate = (alpha * p + total * estimate) / (total + alpha)
        total += alpha
    options = RunOptions(method="dcwb", delays=Constant(0.5), batch="exact", duration=20.0)
    simulation = build_simulation(problem, network, options)
    simulation.run(20.0)
    np.testing.assert_allclose(simulation.state.estimate, estimate, atol=1e-12)
    result = run(20.0)
    assert result.activations == 40 * 5
    np.testing.assert_allclose(result.duals, eta, atol=1e-12)
    assert result.feasibility < 1e-13


def test_it_converges_to_the_barycenter():
    problem = Problem.create(MEASURES, SUPPORT, reg=0.2)
    true = exact_reference(problem).weights
    result = run(1500.0, record_every=500.0, reference=True)
    assert 0.5 * np.abs(result.weights - true).sum() < 2e-3
    tv = result.history["tv"]
    assert (np.diff(tv) < 0).all()
    assert tv[-1] < 0.01
    assert 0 <= result.history["dual_error"][-1] < 1e-3


def test_weights_of_the_nodes_are_kept():
    weights = [1, 2, 3, 2, 4]
    problem = Problem.create(MEASURES, SUPPORT, reg=0.2, weights=weights)
    result = run(1500.0, record_every=500.0, weights=weights)
    assert 0.5 * np.abs(result.weights - exact_reference(problem).weights).sum() < 5e-3
    assert result.feasibility < 1e-12


def test_a_round_takes_as_long_as_its_slowest_message():
    result = run(30.0, delays=Uniform(0.1, 1.0), record_every=0.01)
    activations, times = result.history["activations"], result.history["time"]
    ends = times[1:][np.diff(activations) > 0]
    rounds = np.diff(ends)
    # the largest of ten uniform delays is 0.1 + 0.9 * 10/11 on average
    assert abs(rounds.mean() - 0.918) < 0.06
    assert rounds.max() < 1.02


@pytest.mark.parametrize(
    ("fault", "fewer_than"),
    [(Loss(0.5), 21), (Sleep(2, 5.0, 10.0), 31), (Crash(1, 5.0, 10.0), 31), (LinkDown(0, 1, 5.0, 10.0), 31)],
)
def test_everybody_waits_for_whatever_is_late(fault, fewer_than):
    result = run(20.0, faults=[fault])
    assert 2 <= result.activations / 5 <= fewer_than
    assert result.feasibility < 1e-13
    if isinstance(fault, Loss):
        assert result.messages > 10 * result.activations / 5 * 1.5


def test_a_node_that_never_returns_stops_everybody():
    result = run(20.0, faults=[Crash(3, 5.1)])
    # the eleventh round, begun at 5.0, never ends
    assert result.activations == 10 * 5
    assert result.status is bm.Status.OUT_OF_TIME
