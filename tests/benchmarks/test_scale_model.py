"""The counts by which large networks are planned are those of runs."""

import pytest

from barymesh.engines.simulate import simulate
from barymesh.network import as_network
from barymesh.options import RunOptions
from benchmarks.problems import gaussians
from benchmarks.scale import PERIOD, NetworkCost

NODES, SECONDS = 200, 12.0


@pytest.fixture(scope="module")
def histories():
    """Runs at two degrees: (degree, history)."""
    options = RunOptions(method="sinkhorn", batch="exact", duration=SECONDS, record_every=SECONDS / 2, tol=0.0)
    problem, found = gaussians(NODES, order=32), []
    for degree in (4, 10):
        network = as_network(f"random_regular:degree={degree}", NODES)
        found.append((degree, simulate(problem, network, options).history))
    return found


def test_messages_are_counted_exactly(histories):
    for degree, history in histories:
        for activations, messages in zip(history["activations"], history["messages"], strict=True):
            assert messages == NetworkCost(NODES, activations / NODES * PERIOD, degree).messages


def test_nodes_act_once_in_a_period(histories):
    for _, history in histories:
        for when, activations in zip(history["time"], history["activations"], strict=True):
            # times are cut to whole ticks, so the first of the next window may just have acted
            assert abs(activations - NODES * when / PERIOD) <= 1


def test_bytes_are_counted_but_for_nodes_without_a_parent(histories):
    for degree, history in histories:
        model = NetworkCost(NODES, history["activations"][-1] / NODES * PERIOD, degree).bytes
        # the root has none, and nobody has before the tree is found
        assert 0.97 * model < history["bytes"][-1] < model


def test_more_workers_share_memory_work_and_traffic():
    few, many = (NetworkCost(10**6, 20.0).worker_traffic(workers) for workers in (10, 100))
    assert 9 < few / many < 10
    assert NetworkCost(10**6, 20.0).worker_traffic(1) == 0
    assert NetworkCost(10**6, 20.0).worker_load(100) == pytest.approx(NetworkCost(10**6, 20.0).worker_load(10) / 10)
    assert NetworkCost(10**6, 20.0).worker_bytes(1) < NetworkCost(10**6, 20.0).simulator_bytes
