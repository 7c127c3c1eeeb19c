"""The asynchronous decentralised Sinkhorn: the right barycenter on every network, whatever goes wrong, untuned."""

from __future__ import annotations

import numpy as np
import pytest
from barymesh.decentralized.sinkhorn import Sinkhorn
from hypothesis import given, settings
from hypothesis import strategies as st

import barymesh as bm
from barymesh.cli.config import Gaussians
from barymesh.core import tree
from barymesh.engines.recorder import Recorder
from barymesh.engines.simulation import AsynchronousSimulation
from barymesh.errors import OptionError
from barymesh.gradients.logarithmic import ExactLogGradients
from barymesh.network import GENERATORS, Network, as_network
from barymesh.problem import Problem
from barymesh.scenario import Crash, Join, Leave, LinkDown, NewData
from barymesh.scenario.delays import Categorical, Constant, LogNormal, Uniform
from barymesh.scenario.faults import Duplication, Loss, Reordering, Sleep, fault_table
from barymesh.scenario.schedules import Periodic, Poisson, Windowed

POINTS = np.linspace(-5, 5, 24)
# long enough for the slowest network here; runs stop by themselves long before
DURATION = 3000


def gaussians(count, seed=0):
    return Gaussians(count=count, mean=[-4, 4], std=[0.3, 0.9], seed=seed).draw()


def run(count=12, measures=None, points=POINTS, **options):
    options = {"network": "erdos_renyi", "duration": DURATION, "reference": True, "record_every": 5.0, **options}
    return bm.barycenter(measures or gaussians(count), points, reg=0.3, progress=False, **options)


def assert_right(result, tol=1e-6):
    assert result.status is bm.Status.CONVERGED
    assert result.history["tv"][-1] < tol
    assert result.feasibility < tol * 10
    assert result.consensus < tol


@pytest.mark.parametrize("network", sorted(GENERATORS))
def test_every_topology_ends_at_the_barycenter(network):
    """Nobody tunes anything, every node stops by itself, and none before it is right."""
    assert_right(run(16, network=network))


FAULTS = {
    "loss": [Loss(0.2)],
    "duplication and reordering": [Duplication(0.3), Reordering(0.3, 2.0)],
    "crash with memory": [Crash(0, 3.0, 9.0), Crash(5, 4.0, 8.0)],
    "crash without memory": [Crash(0, 3.0, 9.0, memory=False), Crash(5, 4.0, 8.0, memory=False)],
    "sleep": [Sleep(2, 2.0, 8.0)],
    "everything": [Loss(0.2), Duplication(0.2), Reordering(0.2, 1.0), Crash(1, 2.0, 6.0), Crash(3, 5.0, 9.0)],
}


@pytest.mark.parametrize("faults", sorted(FAULTS))
@pytest.mark.parametrize("network", ["cycle", "star"])
def test_faults_only_make_it_later(network, faults):
    assert_right(run(10, network=network, faults=FAULTS[faults]))


@pytest.mark.parametrize(
    "schedule",
    [Poisson(5.0), Poisson(5.0, slow_share=0.3, slowdown=10), Periodic(0.2, 0.1, slow_share=0.2, slowdown=10)],
)
def test_stragglers_and_free_running_clocks(schedule):
    assert_right(run(12, schedule=schedule))


@pytest.mark.parametrize("delays", [Constant(0.0), Constant(2.0), Uniform(0.0, 3.0), LogNormal(0.3, 1.2)])
def test_any_delays(delays):
    assert_right(run(8, network="cycle", delays=delays))


def test_a_link_that_never_comes_back_is_gone_round():
    """The tree mends itself: the other way round the cycle is twice as long, but it is there."""
    assert_right(run(10, network="cycle", faults=[LinkDown(0, 1, 4.0), LinkDown(0, 9, 4.0, 60.0)]))


@pytest.mark.parametrize(
    ("network", "node"), [("complete", 0), ("complete", 5), ("star", 3), ("barbell", 0), ("grid", 8), ("cycle", 1)]
)
def test_nodes_that_never_come_back_are_done_without(network, node):
    """Root, leaf or in between: the others reach the barycenter of those that are left, and since they cannot know that
    it has left for good, nobody stops."""
    measures = gaussians(9)
    gone = run(measures=measures, network=network, faults=[Crash(node, 5.0)], duration=300)
    others = np.delete(np.arange(9), node)
    left = bm.barycenter([measures[k] for k in others], POINTS, reg=0.3, tol=1e-9)
    np.testing.assert_allclose(gone.node_weights[others], np.tile(left.weights, (8, 1)), atol=1e-5)
    assert gone.status is bm.Status.OUT_OF_TIME


@pytest.mark.parametrize("fault", [Crash(1, 3.0, 100.0), Sleep(1, 3.0, 100.0), Crash(1, 3.0, 100.0, memory=False)])
def test_a_node_that_was_out_for_long_is_counted_again(fault):
    assert_right(run(10, network="cycle", faults=[fault]))


@pytest.mark.parametrize(
    ("schedule", "delays"),
    [
        (Poisson(500.0), Categorical()), (Poisson(200.0), Constant(0.6)), (Windowed(), Constant(25.0)),
        (Poisson(5.0, slow_share=0.3, slowdown=100), Categorical()),
    ],
)  # fmt: skip
def test_clocks_may_be_far_faster_than_messages_or_far_slower(schedule, delays):
    """What is late by the clock of a fast node is not lost."""
    assert_right(run(6, network="cycle", schedule=schedule, delays=delays, record_every=50.0))


COARSE = [(6, 0.003), (10, 0.001), (12, 0.003), (16, 0.001), (16, 0.01), (30, 0.001)]


@pytest.mark.parametrize(("points", "reg"), COARSE)
def test_supports_too_coarse_for_mass_to_move_on(points, reg):
    """Where exp(-spacing^2/reg) is next to nothing, the barycenter's transport to itself says nothing about the drift;
    that must be put right all the same."""
    result = bm.barycenter(
        gaussians(10), np.linspace(-5, 5, points), reg=reg, relative_reg=True, network="cycle", duration=1500,
        reference=True, record_every=50.0, progress=False,
    )  # fmt: skip
    assert result.history["tv"][-1] < 1e-6


@pytest.mark.parametrize("reg", [1.0, 3.0])
def test_clusters_that_hardly_exchange_mass(reg):
    points = np.array([0.0, 0.5, 1.0, 10.0, 10.5, 11.0])
    measures = [bm.Histogram(np.array([a / 3] * 3 + [(1 - a) / 3] * 3)) for a in (0.1, 0.3, 0.6, 0.9)]
    result = bm.barycenter(
        measures, points, reg=reg, network="complete", duration=DURATION, reference=True, progress=False
    )
    assert result.status is bm.Status.CONVERGED
    assert result.history["tv"][-1] < 1e-6


@given(
    size=st.integers(2, 24), network=st.sampled_from(sorted(GENERATORS)), log_reg=st.floats(-3, 0),
    delays=st.sampled_from([Categorical(), Constant(0.5), Uniform(0.0, 1.5), LogNormal(0.3, 1.0)]),
    schedule=st.sampled_from([Windowed(), Poisson(5.0), Poisson(5.0, slow_share=0.2, slowdown=10)]),
    spread=st.floats(0.02, 2.0), seed=st.integers(0, 2**20),
)  # fmt: skip
@settings(max_examples=25)
def test_it_never_ends_worse_than_it_began(size, network, log_reg, delays, schedule, spread, seed):
    """No step to choose, whatever the network, the delays and the sharpness: reg is 1e-3 to 1 of the median cost. The
    smallest take a minute to begin to fall."""
    rng = np.random.default_rng(seed)
    measures = [bm.Gaussian(rng.uniform(-2, 2), spread * 10 ** rng.uniform(-1, 0)) for _ in range(size)]
    never_worse(measures, network, log_reg, delays, schedule, seed, points=30, duration=150)


@given(
    log_size=st.floats(5, 11), network=st.sampled_from(sorted(GENERATORS)), log_reg=st.floats(-3, 0),
    delays=st.sampled_from([Categorical(), Uniform(0.0, 1.5)]), spread=st.floats(0.1, 2.0), seed=st.integers(0, 2**20),
)  # fmt: skip
@settings(max_examples=6)
def test_it_never_ends_worse_on_large_networks(log_size, network, log_reg, delays, spread, seed):
    """Up to 2,000 nodes, few points and not for long, so that it takes seconds."""
    size = min(round(2**log_size), 2000)
    if network == "complete":
        size = min(size, 300)
    rng = np.random.default_rng(seed)
    measures = [bm.Empirical(rng.uniform(-2, 2) + spread * rng.normal(size=(4, 1))) for _ in range(size)]
    never_worse(measures, network, log_reg, delays, Windowed(), seed, points=10, duration=8)


def never_worse(measures, network, log_reg, delays, schedule, seed, points, duration):
    size = len(measures)
    try:
        graph = as_network(network, size, seed % 1000)
    except bm.BarymeshError:
        # there is no hypercube of eleven nodes
        graph = as_network("cycle", size)
    result = bm.barycenter(
        measures, np.linspace(-3, 3, points), reg=10**log_reg, relative_reg=True, network=graph, delays=delays,
        schedule=schedule, duration=duration, reference=True, seed=seed, record_every=10.0, progress=False, tol=1e-5,
    )  # fmt: skip
    tv = result.history["tv"]
    assert tv[-1] <= tv[0] + 1e-9
    if result.status is bm.Status.CONVERGED:
        assert tv[-1] <= 1e-4


@pytest.mark.parametrize("network", ["star", "grid"])
def test_two_thousand_nodes(network):
    result = run(2000, network=network, duration=20, tol=0, record_every=20.0)
    assert result.history["tv"][-1] < 0.8 * result.history["tv"][0]


def test_weights_that_only_the_node_knows():
    weights = np.random.default_rng(0).uniform(0.2, 3.0, 12)
    result = run(12, weights=weights)
    assert_right(result)
    exact = bm.barycenter(gaussians(12), POINTS, reg=0.3, weights=weights, tol=1e-9)
    np.testing.assert_allclose(result.weights, exact.weights, atol=1e-6)
    equal = run(12)
    assert np.abs(result.weights - equal.weights).sum() > 1e-3


@pytest.mark.parametrize("size", [1, 2, 3])
def test_tiny_networks(size):
    assert_right(run(size, network="complete"))


def test_looser_tolerances_stop_sooner_and_still_hold():
    loose, tight = run(20, tol=1e-3), run(20, tol=1e-8)
    assert loose.history["time"][-1] < tight.history["time"][-1]
    assert loose.consensus <= 1e-3
    assert tight.consensus <= 1e-8


@given(
    seed=st.integers(0, 1000), network=st.sampled_from(["cycle", "star", "erdos_renyi", "path"]),
    faults=st.sampled_from(
        [[Loss(0.3)], [Sleep(2, 5.0, 60.0)], [Crash(0, 4.0, 50.0)], [Crash(3, 4.0, 9.0, memory=False)]]
    ),
)  # fmt: skip
@settings(max_examples=12)
def test_nobody_stops_early(seed, network, faults):
    """At the moment a node stops, all nodes are within the tolerance of the true barycenter."""
    problem = Problem.create(gaussians(9, seed), POINTS, reg=0.3)
    graph = as_network(network, 9, seed)
    truth = bm.barycenter(gaussians(9, seed), POINTS, reg=0.3, tol=1e-10).weights
    tol = 1e-3
    algorithm = Sinkhorn(problem, graph, ExactLogGradients(problem), tol)
    simulation = AsynchronousSimulation(
        algorithm, graph, Recorder(problem, graph, None, False), schedule=Poisson(5.0), seed=seed,
        delays=Uniform(0.0, 1.0), faults=fault_table(faults, graph), record_every=1e9,
    )  # fmt: skip
    oracle = simulation.recorder.oracle
    stopped_at = None
    for k in range(10_000):
        simulation.run(0.2 * (k + 1))
        stopped = algorithm.stopped(simulation.state)
        if stopped.any():
            p = oracle.value_and_gradient(simulation.duals())[1]
            assert np.abs(p - truth).sum(axis=1).max() < tol
            stopped_at = simulation.now if stopped_at is None else stopped_at
        if stopped.all():
            break
    assert stopped_at is not None


@given(
    seed=st.integers(0, 1000), network=st.sampled_from(["cycle", "star", "erdos_renyi", "path"]), end=st.floats(5, 60)
)
@settings(max_examples=20)
def test_nodes_know_how_far_they_are(seed, network, end):
    """From what they and their neighbours know; while there is no telling, they say so."""
    measures = gaussians(9, seed)
    result = run(measures=measures, network=network, seed=seed, duration=end, reference=False)
    truth = bm.barycenter(measures, POINTS, reg=0.3, tol=1e-10).weights
    error = np.abs(result.node_weights - truth).sum(axis=1)
    assert (error <= result.node_errors).all()
    assert (result.node_errors <= 2.0).all()


# nodes that come, go and change


@pytest.mark.parametrize("network", ["cycle", "complete"])
def test_what_happens_after_all_have_stopped_is_taken_in(network):
    """A goodbye, a return, and new data, long after."""
    measures = gaussians(10)
    without = [measure for k, measure in enumerate(measures) if k != 3]
    result = run(measures=measures, network=network, events=[Leave(3, 150.0)])
    assert_right(result)
    assert result.history["time"][-1] > 150
    np.testing.assert_allclose(result.weights, bm.barycenter(without, POINTS, reg=0.3, tol=1e-9).weights, atol=1e-6)
    back = run(measures=measures, network=network, events=[Leave(3, 150.0), Join(3, 300.0)])
    assert_right(back)
    np.testing.assert_allclose(back.weights, bm.barycenter(measures, POINTS, reg=0.3, tol=1e-9).weights, atol=1e-6)


@given(at=st.floats(45.0, 58.0), node=st.sampled_from([0, 4, 9]))
@settings(max_examples=10)
def test_new_data_while_the_others_are_told_to_stop(at, node):
    """The word goes down a path of ten from about 50 s to 55 s: a measure that changes then was not in the decision."""
    later = bm.Gaussian(4.0, 0.5)
    measures = gaussians(10)
    result = run(measures=measures, network="path", events=[NewData(node, at, later)], tol=1e-4, record_every=20.0)
    measures[node] = later
    truth = bm.barycenter(measures, POINTS, reg=0.3, tol=1e-9).weights
    assert result.status is bm.Status.CONVERGED
    assert np.abs(result.node_weights - truth).sum(axis=1).max() < 1e-4


def test_who_has_left_stays_away_even_without_memory():
    measures = gaussians(10)
    result = run(measures=measures, events=[Leave(3, 5.0)], faults=[Crash(3, 2.0, 8.0, memory=False)])
    assert_right(result)
    left = [measure for k, measure in enumerate(measures) if k != 3]
    np.testing.assert_allclose(result.weights, bm.barycenter(left, POINTS, reg=0.3, tol=1e-9).weights, atol=1e-6)


def test_those_who_remain_find_their_own_barycenter():
    measures = gaussians(14)
    result = run(measures=measures, events=[Leave(3, 6.0), Leave(8, 20.0)])
    assert_right(result)
    left = [measure for k, measure in enumerate(measures) if k not in (3, 8)]
    np.testing.assert_allclose(result.weights, bm.barycenter(left, POINTS, reg=0.3, tol=1e-9).weights, atol=1e-6)
    assert result.network.size == len(result.node_weights) == 12


@pytest.mark.parametrize("node", [0, 5])
def test_the_hub_may_leave_as_well_as_any_other(node):
    """Node 0 is the root of this network, whose neighbours go on in a ring."""
    edges = [(0, k) for k in range(1, 8)] + [(k, k % 7 + 1) for k in range(1, 8)]
    network = Network(8, edges)
    assert_right(run(8, network=network, events=[Leave(node, 8.0)]))


def test_those_who_join_are_counted_and_hardly_disturb():
    measures = gaussians(14)
    result = run(
        measures=measures, events=["join:node=3,at=30", "leave:node=5,at=8", "join:node=5,at=60"], record_every=1.0
    )
    assert_right(result)
    np.testing.assert_allclose(result.weights, bm.barycenter(measures, POINTS, reg=0.3, tol=1e-9).weights, atol=1e-6)
    times, tv = result.history["time"], result.history["tv"]
    assert tv[(times > 61)].max() < 0.25


def test_new_data_are_followed_without_a_restart():
    measures = gaussians(12)
    later = bm.Gaussian(4.0, 0.5)
    result = run(measures=measures, events=[NewData(2, 40.0, later)], record_every=1.0)
    assert_right(result)
    measures[2] = later
    np.testing.assert_allclose(result.weights, bm.barycenter(measures, POINTS, reg=0.3, tol=1e-9).weights, atol=1e-6)


def test_ten_changes_one_after_the_other():
    """Every 10 s another node's measure moves."""
    measures = gaussians(10)
    drift = [NewData(k, 30.0 + 10 * k, bm.Gaussian(k - 5, 0.6)) for k in range(10)]
    result = run(measures=measures, network="complete", events=drift)
    assert_right(result)
    ends = [bm.Gaussian(k - 5, 0.6) for k in range(10)]
    np.testing.assert_allclose(result.weights, bm.barycenter(ends, POINTS, reg=0.3, tol=1e-9).weights, atol=1e-6)


@pytest.mark.parametrize(
    ("events", "said"),
    [
        (["leave:node=99,at=1"], "nodes 0 to 11"), ([Leave(3, -1.0)], "0 or more"), (["vanish:node=1"], "vanish"),
        ([Join(3, 2.0), Join(3, 4.0)], "there already"), ([Leave(3, 2.0), Leave(3, 4.0)], "not there"), ([42], "42"),
    ],
)  # fmt: skip
def test_bad_events_are_named(events, said):
    with pytest.raises(OptionError, match=said):
        run(12, network="complete", events=events)


def test_nobody_may_cut_the_network_in_two():
    with pytest.raises(OptionError, match="2 parts"):
        run(5, network="path", events=[Leave(2, 5.0)])


@pytest.mark.parametrize("method", ["a2dwb", "dcwb"])
def test_other_methods_cannot_let_nodes_go(method):
    with pytest.raises(OptionError, match="sinkhorn can"):
        run(5, network="cycle", method=method, events=[Leave(2, 5.0)])


def test_there_is_no_step_to_choose():
    with pytest.raises(OptionError, match="no step"):
        run(5, step=0.1)


# the tree


@given(
    size=st.integers(2, 12), seed=st.integers(0, 1000), network=st.sampled_from(["cycle", "erdos_renyi", "tree"]),
    faults=st.sampled_from([*sorted(FAULTS), "amnesia", "amnesia"]),
)  # fmt: skip
@settings(max_examples=25)
def test_parents_never_form_a_ring(size, seed, network, faults):
    """At no time, also while nodes come back without memory; and in the end there is one root."""
    problem = Problem.create([bm.Empirical([[float(k % 3)]]) for k in range(size)], np.arange(3.0), reg=1.0)
    graph = as_network(network, size, seed)
    rng = np.random.default_rng(seed)
    forgetful = [
        Crash(int(k), t, t + rng.uniform(0.05, 1.0), memory=False) for k, t in enumerate(rng.uniform(1, 12, size))
    ]
    listed = forgetful if faults == "amnesia" else [f for f in FAULTS[faults] if getattr(f, "node", 0) < size]
    algorithm = Sinkhorn(problem, graph, ExactLogGradients(problem))
    simulation = AsynchronousSimulation(
        algorithm, graph, Recorder(problem, graph, None, False), schedule=Poisson(5.0), seed=seed,
        delays=Uniform(0.0, 3.0), faults=fault_table(listed, graph), record_every=1e9,
    )  # fmt: skip
    state = simulation.state
    for k in range(250):
        simulation.run(0.2 * (k + 1))
        for node in range(size):
            seen, at = 0, node
            while state.parent[at] != at and state.epoch[state.parent[at]] == state.epoch[at]:
                at = state.parent[at]
                seen += 1
                assert seen < size
    assert len(set(state.root)) == 1
    assert (state.parent == np.arange(size)).sum() == 1


def test_the_hub_of_a_star_is_its_root():
    problem = Problem.create([bm.Empirical([[float(k)]]) for k in range(6)], np.arange(3.0), reg=1.0)
    edges = [(4, k) for k in (0, 1, 2, 3, 5)]
    graph = Network(6, edges)
    simulation = AsynchronousSimulation(
        Sinkhorn(problem, graph, ExactLogGradients(problem)), graph, Recorder(problem, graph, None, False),
        schedule=Windowed(), seed=0, delays=Categorical(), faults=fault_table([], graph), record_every=1e9,
    )  # fmt: skip
    simulation.run(3.0)
    assert (simulation.state.parent == 4).all()


def test_a_message_holds_a_header_and_three_vectors():
    problem = Problem.create(gaussians(4), POINTS, reg=0.3)
    graph = as_network("cycle", 4)
    algorithm = Sinkhorn(problem, graph, ExactLogGradients(problem))
    assert algorithm.width == tree.HEADER + 3 * POINTS.size
    assert algorithm.first_messages(algorithm.start()).shape == (4, algorithm.width)


@pytest.mark.parametrize(("network", "size"), [("path", 3), ("star", 10), ("star", 40), ("complete", 10)])
def test_nodes_in_step_with_one_another_stay_at_the_barycenter(network, size):
    """All act at once, and hear of everything equally late: what over-relaxation adds up to then must not grow."""
    result = run(
        size, network=network, schedule=Periodic(0.01, jitter=0.0), delays=Constant(0.0), duration=25, tol=0,
        record_every=5.0,
    )  # fmt: skip
    assert (result.history["tv"][1:] < 1e-10).all()


# samples


def test_a_growing_sample_keeps_getting_closer():
    """Fresh samples would stop at a floor; these do not."""
    early, late = (run(20, network="star", batch=50, duration=duration).history["tv"][-1] for duration in (5, 80))
    assert late < early / 2
    assert late < 0.02


def test_measures_that_can_only_be_drawn_from_grow_by_themselves():
    measures = [*gaussians(6), lambda size, rng: rng.normal(1.0, 0.5, (size, 1))]
    result = run(measures=measures, network="complete", duration=60, reference=False)
    assert result.status is bm.Status.OUT_OF_TIME
    known = bm.barycenter([*gaussians(6), bm.Gaussian(1.0, 0.5)], POINTS, reg=0.3, tol=1e-9)
    assert 0.5 * np.abs(result.node_weights[:6] - known.weights).sum(axis=1).max() < 0.02


@pytest.mark.parametrize("batch", ["growing:epsilon=0.1", 0])
def test_a_batch_it_cannot_use_is_named(batch):
    with pytest.raises(OptionError, match="batch"):
        run(5, batch=batch)


# sending less


@pytest.mark.parametrize("network", ["erdos_renyi", "cycle", "complete"])
def test_the_frugal_send_far_less_and_get_there(network):
    """To the accuracy of float32; on more points, since the headers are sent all the same."""
    points = np.linspace(-5, 5, 100)
    usual, frugal = (run(20, network=network, frugal=frugal, tol=1e-4, points=points) for frugal in (False, True))
    assert_right(frugal, 1e-4)
    assert frugal.bytes < 0.6 * usual.bytes


def test_the_frugal_survive_changes():
    result = run(14, frugal=True, tol=1e-4, faults=[Crash(1, 3.0, 6.0)], events=[Leave(3, 8.0), Join(5, 12.0)])
    assert_right(result, 1e-4)


def test_bytes_are_those_of_what_neighbours_need():
    """Everybody gets the header and the target, the parent the two sums besides: in a star of six, from the first
    activation on, five sums for ten messages."""
    result = run(6, network="star", duration=2.0, tol=0, schedule=Periodic(0.5, 0.0), delays=Constant(0.0))
    n, header, rounds = POINTS.size, tree.HEADER, result.iterations // 6
    assert result.bytes == 8 * ((rounds + 1) * 10 * (header + n) + rounds * 5 * 2 * n)


def test_copies_made_by_the_network_count():
    plain, doubled = (run(5, network="cycle", tol=0, duration=20, faults=faults) for faults in ([], [Duplication(0.5)]))
    assert doubled.messages > 1.3 * plain.messages
    assert doubled.bytes / doubled.messages == pytest.approx(plain.bytes / plain.messages, rel=1e-6)


def test_only_sinkhorn_can_be_frugal():
    with pytest.raises(OptionError, match="sinkhorn can"):
        run(5, method="dcwb", frugal=True)


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
    with pytest.raises(bm.BarymeshError, match="come later"):
        bm.barycenter(
            list(map(bm.Histogram, masses)),
            network="cycle",
            events=[NewData(2, 1.0, bm.Histogram([0.5, 0.5]))],
            **options,
        )
