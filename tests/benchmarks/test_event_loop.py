"""The event loop that the simulator is timed against computes what the simulator computes."""

import numpy as np
import pytest

from barymesh.network import as_network
from benchmarks import event_loop
from benchmarks.event_loop_reference import softmax_mean
from benchmarks.problems import gaussians
from benchmarks.simulation import simulation_of

SECONDS = 6.0


@pytest.fixture(scope="module")
def problem():
    return gaussians(12, points=25)


def loop_duals(problem, topology):
    acting = list(event_loop.activations(problem, SECONDS))
    return event_loop.loop(problem, as_network(topology, 12), acting, event_loop.most_messages(acting))


@pytest.mark.parametrize("topology", ["erdos_renyi", "cycle", "star", "complete"])
def test_the_event_loop_gives_the_simulators_numbers(problem, topology):
    duals = loop_duals(problem, topology)
    simulation = simulation_of(problem, topology)
    simulation.run(SECONDS)
    assert np.abs(duals).max() > 1e-4
    np.testing.assert_allclose(duals, simulation.view().duals, rtol=0, atol=1e-9 * np.abs(duals).max())


def test_other_delays_give_other_numbers(problem):
    duals = loop_duals(problem, "cycle")
    simulation = simulation_of(problem, "cycle", slowness=2.0)
    simulation.run(SECONDS)
    assert np.abs(duals - simulation.view().duals).max() > 1e-6 * np.abs(duals).max()


def test_the_gradient_of_the_event_loop_is_the_softmax_averaged_over_the_samples():
    support, samples, lam, reg = np.array([0.0, 1.0, 3.0]), np.array([0.2, 2.5]), np.array([0.1, -0.3, 0.7]), 0.5
    expected = np.zeros(3)
    for y in samples:
        terms = [np.exp((lam[k] - (support[k] - y) ** 2) / reg) for k in range(3)]
        expected += np.array(terms) / sum(terms) / 2
    np.testing.assert_allclose(softmax_mean(lam, samples, support, reg), expected, rtol=1e-13)


def test_only_activations_before_the_end_are_handed_out(problem):
    handed = list(event_loop.activations(problem, 0.5))
    assert [when for when, _ in handed] == sorted(when for when, _ in handed)
    assert all(when < 0.5 for when, _ in handed)
    # two whole windows and half of one
    assert len(handed) == 2 * 12 + 6
