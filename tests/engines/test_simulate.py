"""Runs on a network through the one call: options, references, continuing, and networks that are hardly any."""

from __future__ import annotations

import contextlib
import warnings

import numpy as np
import pytest

import barymesh as bm
from barymesh.core import tree
from barymesh.decentralized.build import choose_step, smoothness
from barymesh.errors import DriftWarning, FileError, NetworkError, NumericalError
from barymesh.gradients.batch_size import GrowingBatch
from barymesh.methods.orders import Order
from barymesh.methods.rounds import Rounds
from barymesh.network import Network, as_network
from barymesh.problem import Problem
from barymesh.scenario import Constant, Crash, Loss, Periodic, Poisson
from barymesh.scenario.faults import Duplication, Reordering
from barymesh.transport import wire

MEASURES = [bm.Gaussian(mean, 0.3) for mean in (-1.0, -0.2, 0.5, 0.9, 1.4)]
SUPPORT = np.linspace(-2, 2, 12)


def run(method="dcwb", measures=MEASURES, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DriftWarning)
        return bm.barycenter(
            measures,
            SUPPORT,
            reg=0.2,
            method=method,
            **{"network": "cycle", "duration": 5, "batch": "exact", **options},
        )


def test_the_history_has_the_promised_columns():
    with_reference = run(reference=True, record_every=0.5).history
    assert list(with_reference.columns) == [
        "time", "dual_objective", "consensus", "consensus_distance", "feasibility", "tv", "dual_error", "activations",
        "messages", "bytes",
    ]  # fmt: skip
    np.testing.assert_allclose(with_reference["time"], np.arange(11) * 0.5)
    np.testing.assert_array_equal(with_reference["bytes"], with_reference["messages"] * wire.frame_bytes(12))
    without = run(record_every=0.5).history
    assert "tv" not in without.columns
    assert "dual_error" not in without.columns
    np.testing.assert_array_equal(without["consensus"], with_reference["consensus"])


def test_the_consensus_distance_is_the_papers():
    result = run("a2dwb")
    laplacian = as_network("cycle", 5).laplacian.toarray()
    expected = np.trace(result.node_weights.T @ laplacian @ result.node_weights)
    np.testing.assert_allclose(result.history["consensus_distance"][-1], expected)


@pytest.mark.parametrize(
    "wrong", [{"step": -1}, {"faults": ["loss:probability=2"]}, {"checkpoint": "none.npz", "resume": True}]
)
def test_errors_come_before_the_reference_is_computed(monkeypatch, wrong):
    def never(_):
        raise AssertionError("it takes long")

    monkeypatch.setattr("barymesh.exact.reference.exact_reference", never)
    with pytest.raises(bm.BarymeshError):
        run("a2dwb", reference=True, **wrong)


def test_a_reference_given_as_weights():
    problem = Problem.create(MEASURES, SUPPORT, reg=0.2)
    true = bm.barycenter(MEASURES, SUPPORT, reg=0.2, tol=1e-11).weights
    computed, given = (run(reference=reference).history for reference in (True, true))
    np.testing.assert_allclose(given["tv"], computed["tv"], atol=1e-7)
    np.testing.assert_allclose(given["dual_error"], computed["dual_error"], atol=1e-7)
    assert problem.support.size == true.size


def test_the_certificate_holds_for_infeasible_duals():
    best = bm.barycenter(MEASURES, SUPPORT, reg=0.2, tol=1e-10)
    drifted = run("a2dwb", duration=60)
    assert drifted.feasibility > 1e-3
    assert drifted.value >= best.value - best.gap - 1e-9
    assert drifted.value - drifted.gap <= best.value + 1e-9


@pytest.mark.parametrize("method", ["dcwb", "a2dwb"])
@pytest.mark.parametrize("batch", [3, "exact", "growing:epsilon=0.5", GrowingBatch(0.5)])
def test_batch_sizes(method, batch):
    first, second = (run(method, batch=batch, duration=2) for _ in range(2))
    np.testing.assert_array_equal(first.duals, second.duals)
    assert np.abs(first.duals).max() > 0


def test_more_samples_are_closer_to_the_exact_gradient():
    exact, few, many = (run("a2dwb", batch=batch, duration=10).duals for batch in ("exact", 2, 500))
    assert np.abs(many - exact).max() < 0.3 * np.abs(few - exact).max()


def test_steps():
    problem, network = Problem.create(MEASURES, SUPPORT, reg=0.2), as_network("cycle", 5)
    assert choose_step(None, problem, network, 0) == pytest.approx(0.2 / network.lambda_max)
    assert choose_step(0.3, problem, network, 0) == 0.3
    theory, tau = choose_step("theory", problem, network, 7), 7
    constant = smoothness(problem, network)
    assert 3 * constant * theory * (1 + 4 * ((tau**2 + tau) / 5 + 2 * tau) ** 2) == pytest.approx(1)
    assert np.abs(run("a2dwb", step="theory").duals).max() < np.abs(run("a2dwb").duals).max()


def test_a_step_far_too_large_ends_in_an_error_not_in_nan():
    with pytest.raises(NumericalError, match="step"):
        run("a2dwb", step=1e306, duration=400)


@pytest.mark.parametrize("method", ["dcwb", "a2dwb"])
def test_stop_and_go_on(tmp_path, method):
    path = tmp_path / "run.npz"
    options = {
        "faults": [Loss(0.2), Crash(1, 2.0, 3.0, memory=False)],
        "batch": 4,
        "reference": True,
        "snapshots": True,
    }
    whole = run(method, duration=8, **options)
    run(method, duration=3.3, checkpoint=path, **options)
    rest = run(method, duration=8, checkpoint=path, resume=True, **options)
    np.testing.assert_array_equal(rest.duals, whole.duals)
    np.testing.assert_array_equal(rest.snapshots, whole.snapshots)
    for name, column in whole.history.columns.items():
        np.testing.assert_array_equal(rest.history[name], column, err_msg=name)
    assert rest.messages == whole.messages
    with pytest.raises(FileError, match="another run"):
        run(method, duration=9, checkpoint=path, resume=True, **{**options, "batch": 5})
    with pytest.raises(FileError, match="no saved run"):
        run(method, checkpoint=tmp_path / "nothing.npz", resume=True, **options)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(FileError, match="damaged"):
        run(method, duration=9, checkpoint=path, resume=True, **options)


def test_the_callback_can_stop_the_run():
    result = run("a2dwb", callback=lambda record: record.time >= 2.0, duration=50)
    assert result.status is bm.Status.STOPPED
    assert result.history["time"][-1] == 2.0
    assert not result.success


@pytest.mark.parametrize("method", ["dcwb", "a2dwb", "a2dwb_naive"])
@pytest.mark.parametrize("size", [1, 2])
def test_hardly_any_network(method, size):
    result = run(method, MEASURES[:size], network="complete", schedule=Poisson(3.0))
    assert np.isfinite(result.duals).all()
    np.testing.assert_allclose(result.weights.sum(), 1)
    if size == 1:
        assert result.messages == 0
        np.testing.assert_allclose(result.duals, 0)


def test_networks_of_every_form():
    import networkx

    adjacency = networkx.to_numpy_array(networkx.cycle_graph(5))
    duals = [
        run("a2dwb", network=network).duals
        for network in ("cycle", networkx.cycle_graph(5), adjacency, as_network("cycle", 5))
    ]
    for other in duals[1:]:
        np.testing.assert_array_equal(other, duals[0])
    heavy = Network(3, [(0, 1), (1, 2)], [1.0, 2.0])
    with pytest.raises(NetworkError, match="a2dwb"):
        run("a2dwb", MEASURES[:3], network=heavy)
    with pytest.raises(NetworkError, match="4"):
        run("a2dwb", network=networkx.cycle_graph(4))


def test_unequal_weights_move_a2dwb_too():
    even, uneven = (run("a2dwb", weights=weights, duration=30).weights for weights in (None, [1, 1, 1, 1, 6]))
    assert (uneven * SUPPORT).sum() > (even * SUPPORT).sum() + 0.05


def test_a_run_with_a_reference_tells_when_it_came_close():
    result = bm.barycenter(
        [bm.Gaussian(k, 0.5) for k in range(5)], np.linspace(-2, 6, 20), reg=0.5, network="cycle", reference=True,
        duration=200, record_every=0.5, progress=False,
    )  # fmt: skip
    until = result.summary()["until"]
    times = [until[level]["time"] for level in ("0.1", "0.01", "0.001")]
    assert times == sorted(times)
    tv = result.history["tv"]
    first = np.argmax(tv <= 0.01)
    assert until["0.01"] == {name: result.history[name][first] for name in ("time", "messages", "bytes")}
    short = bm.barycenter(
        [bm.Gaussian(k, 0.5) for k in range(5)], np.linspace(-2, 6, 20), reg=0.5, network="cycle", reference=True,
        duration=0.5, progress=False,
    )  # fmt: skip
    assert short.summary()["until"]["0.001"] is None


def test_a_run_out_of_time_is_no_success():
    """Success is the tolerance, and nothing else."""
    measures = [bm.Gaussian(mean, 0.5) for mean in (-2.0, -0.5, 1.0, 2.0)]
    options = {"reg": 0.1, "network": "cycle", "reference": True, "progress": False}
    early = bm.barycenter(measures, np.linspace(-4, 4, 40), duration=1, **options)
    assert early.status is bm.Status.OUT_OF_TIME
    assert not early.success
    assert early.summary()["success"] is False
    assert early.history["tv"][-1] > 0.05
    late = bm.barycenter(measures, np.linspace(-4, 4, 40), duration=2000, **options)
    assert late.status is bm.Status.CONVERGED
    assert late.success
    assert late.history["tv"][-1] < 1e-6
    assert late.history["time"][-1] < 2000


@pytest.mark.parametrize("method", ["dcwb", "a2dwb", "a2dwb_naive", "a2dwb_conserving", "gossip_sinkhorn"])
def test_methods_that_cannot_tell_end_out_of_time(method):
    result = run(method, batch=None)
    assert result.status is bm.Status.OUT_OF_TIME
    assert not result.success


def test_max_iter_is_refused_on_a_network():
    with pytest.raises(bm.BarymeshError, match="max_iter"):
        run("sinkhorn", max_iter=100)


# messages and bytes are those that the wire would carry


def test_three_messages_an_activation_on_a_complete_graph_of_four():
    """Three of the four nodes send their sums to the fourth, the root, besides."""
    result = bm.barycenter(
        MEASURES[:4], SUPPORT, reg=0.2, network="complete", duration=10, tol=0, schedule=Periodic(0.5, 0.0),
        delays=Constant(0.0), progress=False,
    )  # fmt: skip
    n = SUPPORT.size
    assert result.activations == 4 * 20
    assert result.messages == 3 * result.activations
    with_sums = result.activations * 3 // 4
    public = wire.frame_bytes(tree.HEADER + n + len(Order))
    private = public + 8 * (2 * n + Rounds.SCALARS)
    assert result.bytes == (result.messages - with_sums) * public + with_sums * private
    history = result.history
    np.testing.assert_array_equal(history["messages"], 3 * history["activations"])
    assert (history["messages"][0], history["bytes"][0]) == (0, 0)
    assert (history["messages"][-1], history["bytes"][-1]) == (result.messages, result.bytes)


def test_the_leaves_of_a_star_send_their_sums_to_the_hub():
    result = bm.barycenter(
        MEASURES, SUPPORT, reg=0.2, network="star", duration=2.0, tol=0, schedule=Periodic(0.5, 0.0),
        delays=Constant(0.0), progress=False,
    )  # fmt: skip
    times, n = result.activations // 5, SUPPORT.size
    assert result.messages == times * 8
    public = wire.frame_bytes(tree.HEADER + n + len(Order))
    assert result.bytes == times * (8 * public + 4 * 8 * (2 * n + Rounds.SCALARS))


@pytest.mark.parametrize(("method", "numbers"), [("a2dwb", 12), ("a2dwb_conserving", 25)])
def test_methods_without_private_columns_send_one_frame_over_every_link(method, numbers):
    result = run(method, network="complete")
    assert result.activations > 0
    assert result.messages == 4 * result.activations
    assert result.bytes == result.messages * wire.frame_bytes(numbers)


def test_a_round_that_is_under_way_has_been_sent():
    result = run("dcwb", delays=Constant(0.4), duration=5)
    assert result.activations == 12 * 5
    assert result.messages == 13 * 10
    assert result.bytes == result.messages * wire.frame_bytes(12)


@pytest.mark.parametrize("fault", [Duplication(0.5), Loss(0.5), Reordering(0.5, 1.0)])
def test_only_what_nodes_send_is_counted(fault):
    """Not the copies that a network makes; and what it loses was sent."""
    options = {"network": "cycle", "tol": 0, "duration": 20, "schedule": Periodic(0.2, 0.0), "batch": "exact"}
    plain, faulty = (run("sinkhorn", faults=faults, **options) for faults in ([], [fault]))
    assert faulty.activations == plain.activations
    assert faulty.messages == plain.messages == 2 * plain.activations


def test_nodes_that_are_down_send_nothing():
    options = {"network": "cycle", "tol": 0, "duration": 20, "schedule": Periodic(0.5, 0.0)}
    result = run("sinkhorn", faults=[Crash(1, 5.0, 15.0)], **options)
    assert result.activations == 5 * 40 - 20
    assert result.messages == 2 * result.activations


# the last row of the history is that of the Result


@pytest.mark.parametrize("method", ["sinkhorn", "dcwb", "a2dwb"])
@pytest.mark.parametrize("duration", [0.3, 1.5, 4.0])
def test_the_history_ends_where_the_run_ends(method, duration):
    seen = []
    result = run(method, duration=duration, tol=0, reference=True, callback=seen.append)
    history, network = result.history, as_network("cycle", 5)
    assert history["time"][-1] == duration == seen[-1].time
    assert len(seen) == len(history) == np.ceil(duration) + 1
    for name in ("activations", "messages", "bytes"):
        assert history[name][-1] == getattr(result, name)
    for name in ("consensus", "feasibility"):
        assert history[name][-1] == pytest.approx(getattr(result, name), rel=1e-9, abs=1e-12)
    truth = bm.barycenter(MEASURES, SUPPORT, reg=0.2, tol=1e-10)
    tv = 0.5 * np.abs(result.node_weights - truth.weights).sum(axis=1).mean()
    assert history["tv"][-1] == pytest.approx(tv, abs=1e-8)
    apart = np.diff(result.node_weights[network.edges], axis=1)
    assert history["consensus_distance"][-1] == pytest.approx((apart**2).sum(), rel=1e-6)


def test_an_interrupted_run_ends_with_a_record_and_goes_on_as_if_it_had_not_been(tmp_path, monkeypatch):
    path, options = tmp_path / "run.npz", {"tol": 0, "duration": 6, "record_every": 2.5}
    whole = run("sinkhorn", **options)
    looks = iter(range(10**6))

    @contextlib.contextmanager
    def interrupted_soon():
        yield lambda: next(looks) >= 3

    with monkeypatch.context() as patched:
        patched.setattr("barymesh.engines.simulation.interruptible", interrupted_soon)
        patched.setattr("barymesh.engines.simulation.SLAB_ACTIVATIONS", 5)
        part = run("sinkhorn", checkpoint=path, **options)
    assert part.status is bm.Status.INTERRUPTED
    assert not part.success
    assert part.history["activations"][-1] == part.activations > 0
    assert part.history["messages"][-1] == part.messages
    rest = run("sinkhorn", checkpoint=path, resume=True, **options)
    assert rest.status is bm.Status.OUT_OF_TIME
    for name, column in whole.history.columns.items():
        np.testing.assert_array_equal(rest.history[name], column, err_msg=name)


def test_a_callback_cannot_take_away_how_a_run_ended():
    """As without a network and in processes: at the end there is nothing left to stop."""
    late = run("sinkhorn", tol=0, callback=lambda record: record.time >= 5)
    assert late.status is bm.Status.OUT_OF_TIME
    options = {"duration": 400, "record_every": 0.05}
    converged = run("sinkhorn", callback=lambda record: set(record.details.states) == {"converged"}, **options)
    assert converged.status is bm.Status.CONVERGED
