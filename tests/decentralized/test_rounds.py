"""Rounds on networks: right where asynchronous work fails, through every fault, with few messages, certified."""

from __future__ import annotations

import warnings
from unittest import mock

import numpy as np
import pytest

import barymesh as bm
from barymesh.decentralized.algorithm import Nodes
from barymesh.decentralized.build import build_algorithm
from barymesh.decentralized.host import Host
from barymesh.decentralized.transport import MemoryTransport
from barymesh.errors import AccuracyWarning, NumericalError, OptionError
from barymesh.methods import rounds
from barymesh.methods.rounds import Rounds
from barymesh.network import Network, as_network
from barymesh.problem import Problem
from barymesh.scenario import Constant, Crash, Join, Leave, Loss, NewData, Periodic, Poisson
from barymesh.scenario.faults import Duplication, LinkDown, Reordering, Sleep

POINTS = np.linspace(-5, 5, 60)
MEASURES = [bm.Gaussian(mean, 0.3 + 0.1 * k) for k, mean in enumerate((-3, -1, 0, 2, 3))]
TOL = 1e-6


def run(measures=MEASURES, support=POINTS, **options):
    given = {"reg": 0.1, "network": "cycle", "method": "rounds", "duration": 400.0, "tol": TOL, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        return bm.barycenter(measures, support, reference=True, progress=False, **given)


def assert_right(result, within=10 * TOL):
    """It says that it has converged, and it has; and the certificates of its nodes hold."""
    assert result.status is bm.Status.CONVERGED, result.status
    assert result.history["tv"][-1] <= within
    assert np.ptp(result.node_gaps) == 0
    assert (result.node_tv_bounds >= result.history["tv"][-1] - 1e-9).all()


# where asynchronous work fails: section by section of what was measured


@pytest.mark.parametrize(
    ("method", "reg", "seconds"),
    # where it is not foreseen, it takes some time to notice that nothing is found
    [("rounds", 0.005, 60), ("sinkhorn", 0.005, 60), ("rounds", 0.02, 60), ("sinkhorn", 0.02, 300)],
)
def test_one_heavy_node_on_a_path(method, reg, seconds):
    measures = [bm.Gaussian(mean, 0.3) for mean in (-3, -1, 0, 2, 3)]
    result = run(
        measures, np.linspace(-5, 5, 100), reg=reg, weights=[20, 1, 1, 1, 1], network="path", method=method,
        duration=float(seconds),
    )  # fmt: skip
    assert_right(result, within=1e-6)


def test_a_heavy_leaf_with_even_clocks():
    """The duals of an earlier version reached 5e99 here, and it said that it had finished."""
    tree = Network(5, np.array([[0, 2], [0, 3], [0, 4], [1, 4]]))
    result = run(
        support=np.linspace(-5, 5, 40), reg=0.01, weights=[1, 17, 1, 1, 1], network=tree, method="sinkhorn",
        schedule=Periodic(0.2, 0.1), delays=Constant(0.1),
    )  # fmt: skip
    assert_right(result)
    assert np.abs(result.duals).max() < 200


@pytest.mark.parametrize(("share", "seconds"), [(1e-3, 80), (3e-4, 200), (1e-4, 400)])
def test_digits_at_small_reg(share, seconds):
    """Virtual seconds to a total variation of 0.01, on eight by eight pixels, where reg is a share of the largest
    cost."""
    from sklearn.datasets import load_digits

    images = load_digits().images[:20]
    result = run(
        images / images.sum(axis=(1, 2), keepdims=True), None, reg=2 * share, network="erdos_renyi", method="sinkhorn",
        duration=float(seconds), record_every=1.0,
    )  # fmt: skip
    assert (result.history["tv"] <= 0.01).any()


@pytest.mark.parametrize(("share", "seconds"), [(1e-2, 80), (1e-3, 160)])
def test_two_clusters_on_a_line(share, seconds):
    support = np.concatenate([np.linspace(0, 0.2, 25), np.linspace(0.8, 1, 25)])
    masses = np.random.default_rng(3).dirichlet(np.full(50, 0.5), 10)
    result = run(masses, support[:, None], reg=share, network="erdos_renyi", duration=float(seconds), record_every=1.0)
    assert (result.history["tv"] <= 0.01).any()


def test_asynchronous_work_that_finds_nothing_turns_to_rounds():
    """With the rule that foresees this switched off, the nodes notice it themselves."""
    measures = [bm.Gaussian(mean, 0.3) for mean in (-3, -1, 0, 2, 3)]
    with mock.patch("barymesh.decentralized.build.needs_rounds", return_value=False):
        result = run(
            measures, np.linspace(-5, 5, 60), reg=0.01, weights=[20, 1, 1, 1, 1], network="path", method="sinkhorn",
            duration=600.0,
        )  # fmt: skip
    assert_right(result)


def test_growth_without_bound_is_an_error():
    """Also of numbers that are still finite."""
    from barymesh.engines.recorder import Recorder

    problem, graph = Problem.create(MEASURES, POINTS, reg=0.1), as_network("cycle", 5)
    algorithm = build_algorithm("sinkhorn", problem, Nodes.all_of(graph, problem.weights))
    host = Host(algorithm, MemoryTransport(graph, algorithm.width, algorithm.private), problem)
    host.state.own.x[2, 0] = 1e13
    recorder = Recorder(problem, graph)
    with pytest.raises(NumericalError, match=r"node 2 range over .* grow without bound"):
        recorder.record(1.0, host.view(0), np.ones(5, dtype=bool), 1, host.traffic, lambda: None)


# faults


FAULTS = {
    "none": (),
    "loss": (Loss(0.3),),
    "duplication": (Duplication(0.5),),
    "reordering": (Reordering(0.5, 3.0),),
    "sleep": (Sleep(1, 3.0, 20.0),),
    "crash": (Crash(0, 4.0, 12.0), Crash(2, 5.0, 9.0)),
    "amnesia": (Crash(1, 4.0, 9.0, memory=False), Crash(3, 20.0, 22.0, memory=False)),
    "link down": (LinkDown(0, 1, 3.0, 30.0),),
}


@pytest.mark.parametrize("newton", [True, False])
@pytest.mark.parametrize("faults", FAULTS.values(), ids=FAULTS)
def test_they_survive(faults, newton):
    with mock.patch.object(rounds, "MATRIX_POINTS", 128 if newton else 0):
        assert_right(run(faults=faults, duration=1000.0))


@pytest.mark.parametrize("slowdown", [10.0, 60.0])
def test_stragglers_are_waited_for(slowdown):
    """However slow they are: others give up on them a few times, and then wait longer."""
    schedule = Poisson(rate=5.0, slow_share=0.2, slowdown=slowdown)
    assert_right(run(schedule=schedule, duration=4000.0))


def test_the_root_is_lost_for_a_while():
    root = int(as_network("path", 5).by_centrality[0])
    assert_right(run(network="path", faults=(Crash(root, 4.0, 40.0, memory=False),), duration=1000.0))


def test_nodes_leave_join_and_change_their_data():
    events = [Leave(4, at=6.0), NewData(1, at=12.0, measure=bm.Gaussian(-2.0, 0.4)), Join(4, at=40.0)]
    result = run(network="complete", events=events, duration=1000.0)
    assert_right(result)
    expected = [MEASURES[0], bm.Gaussian(-2.0, 0.4), *MEASURES[2:]]
    truth = bm.barycenter(expected, POINTS, reg=0.1, tol=1e-10)
    assert 0.5 * np.abs(result.weights - truth.weights).sum() < 10 * TOL


def test_those_that_are_left_find_the_barycenter_of_the_rest():
    """A node that dies for good: the others go on without it, and nobody says that all is well."""
    result = run(network="complete", faults=(Crash(2, 6.0),), duration=200.0)
    assert result.status is bm.Status.OUT_OF_TIME
    assert result.history["tv"][-1] < 1e-6
    assert result.node_gaps is None


def test_nothing_stops_without_a_tolerance():
    result = run(tol=0, duration=60.0)
    assert result.status is bm.Status.OUT_OF_TIME
    assert result.history["tv"][-1] < 1e-9


def test_a_run_that_is_too_short_says_so():
    result = run(reg=0.005, weights=[20, 1, 1, 1, 1], duration=4.0)
    assert result.status is bm.Status.OUT_OF_TIME
    assert not result.success


def test_one_and_two_nodes():
    for count in (1, 2):
        assert_right(run(MEASURES[:count], network=Network(count, np.array([[0, 1]][: count - 1]).reshape(-1, 2))))


def test_they_repeat_to_the_last_bit():
    options = {"faults": (Loss(0.2), Crash(1, 4.0, 9.0, memory=False)), "schedule": Poisson(5.0), "duration": 100.0}
    first, second = run(**options), run(**options)
    np.testing.assert_array_equal(first.duals, second.duals)
    assert first.messages == second.messages


# messages


def test_few_messages_are_sent_and_only_along_the_tree():
    """Once the tree stands, a round takes two messages for each of its links."""
    size = 20
    measures = [bm.Gaussian(mean, 0.5) for mean in np.linspace(-3, 3, size)]
    asynchronous = run(measures, network="complete", method="sinkhorn", tol=1e-6)
    result = run(measures, network="complete")
    assert result.messages < asynchronous.messages / 5
    until = np.flatnonzero(result.history["tv"] <= 1e-6)[0]
    assert result.history["messages"][until] / size < 3 * size


def test_a_node_without_news_is_silent():
    problem, graph = Problem.create(MEASURES, POINTS, reg=0.1), as_network("star", 5)
    algorithm = build_algorithm("rounds", problem, Nodes.all_of(graph, problem.weights))
    host = Host(algorithm, MemoryTransport(graph, algorithm.width, algorithm.private), problem)
    # the hub alone acts: once its news is out it has nothing more to say for a while
    counts = []
    for k in range(12):
        before = host.traffic.messages
        batch = host.batch(k)
        host.act(type(batch)(batch.rows[:1], batch.counts[:1], batch.steps[:1]))
        counts.append(host.traffic.messages - before)
    assert counts[0] == 4
    assert sum(counts[1:6]) == 0


def test_the_root_is_in_the_centre():
    problem, graph = Problem.create([bm.Gaussian(0, 1)] * 9, POINTS, reg=0.1), as_network("path", 9)
    algorithm = build_algorithm("sinkhorn", problem, Nodes.all_of(graph, problem.weights))
    assert int(np.argmin(algorithm.keys)) == 4


def test_sampled_measures_take_the_draws_of_the_problem():
    """Rounds use what is known from the start; the certificate is of these draws."""
    measures = [lambda size, rng, mean=mean: rng.normal(mean, 0.5, (size, 1)) for mean in (-1.0, 0.0, 1.5)]
    result = run(measures, network="path", samples=300)
    assert_right(result)


def test_a_number_of_samples_is_refused():
    with pytest.raises(OptionError, match="leave batch=100 out"):
        run(batch=100)


def test_what_is_sent_has_bounds_that_hold():
    problem, graph = Problem.create(MEASURES, POINTS, reg=0.002), as_network("cycle", 5)
    for method in ("rounds", "sinkhorn"):
        algorithm = build_algorithm(method, problem, Nodes.all_of(graph, problem.weights), tol=1e-6)
        lower, upper = algorithm.bounds()
        host = Host(algorithm, MemoryTransport(graph, algorithm.width, algorithm.private), problem)
        for k in range(300):
            batch = host.batch(k)
            outgoing = host.activate(batch)
            assert (outgoing.messages >= lower).all()
            assert (outgoing.messages <= upper).all()
            host.send(batch, outgoing)
        assert host.stopped.all()
        assert isinstance(algorithm.method, Rounds)


@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("method", ["rounds", "sinkhorn"])
@pytest.mark.parametrize("seed", range(4))
def test_the_bounds_hold_for_what_every_single_node_has(seed, method, tol):
    """However early they stop; and no bound is exactly 0, which nobody can know."""
    rng = np.random.default_rng(seed)
    masses = rng.dirichlet(np.ones(8), int(rng.integers(2, 5)))
    support = np.linspace(0, 1, 8)
    result = run(masses, support, reg=0.3, network="complete", method=method, tol=tol)
    truth = bm.barycenter(masses, support, reg=0.3, tol=1e-13)
    assert result.success
    distance = 0.5 * np.abs(result.node_weights - truth.weights).sum(axis=1)
    assert (distance <= result.node_tv_bounds).all()
    assert (result.node_gaps > 0).all()
    assert 0.5 * np.abs(result.weights - truth.weights).sum() <= result.tv_bound


def test_single_precision():
    result = run(support=np.linspace(-5, 5, 40), reg=0.05, precision="float32")
    truth = bm.barycenter(MEASURES, np.linspace(-5, 5, 40), reg=0.05, tol=1e-12)
    assert result.success
    assert (0.5 * np.abs(result.node_weights - truth.weights).sum(axis=1) <= result.node_tv_bounds).all()


def test_a_random_cost_matrix():
    """A support so coarse that nothing moves is known by its costs too."""
    rng = np.random.default_rng(0)
    costs, masses = rng.random((8, 8)), rng.dirichlet(np.ones(8), 4)
    result = run(masses, None, cost=costs, reg=0.01, network="path", method="sinkhorn", duration=300.0)
    assert_right(result)
