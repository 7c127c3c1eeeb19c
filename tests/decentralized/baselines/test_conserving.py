"""Conserving A2DWB: feasible duals whatever happens, and so the right measure."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import barymesh as bm
from barymesh.decentralized.algorithm import Batch, Nodes
from barymesh.decentralized.baselines.a2dwb import A2DWB
from barymesh.decentralized.baselines.conserving import PATIENCE, ConservingA2DWB
from barymesh.decentralized.build import smoothness
from barymesh.engines.recorder import Recorder
from barymesh.engines.simulation import AsynchronousSimulation
from barymesh.errors import NetworkError, OptionError
from barymesh.exact.reference import exact_reference
from barymesh.gradients.plain import ExactGradients, Gradients, SampledGradients
from barymesh.metrics import total_variation
from barymesh.network import Network, as_network
from barymesh.problem import Problem
from barymesh.scenario.delays import Categorical, LogNormal, Uniform
from barymesh.scenario.faults import Crash, Loss, fault_table
from barymesh.scenario.schedules import Periodic, Poisson, Windowed
from tests.engines import every_fault, one_at_a_time

FAULTS = {
    **every_fault.FAULTS,
    "crash for good": (Crash(0, 0.5),),
    "amnesia of all": tuple(Crash(k, 1.0, 1.1, memory=False) for k in range(3)),
}


def small_problem(size, weights=None, seed=0):
    rng = np.random.default_rng(seed)
    kinds = [bm.Gaussian(rng.normal(), 0.3), bm.Empirical(rng.normal(size=(7, 1))), bm.Gaussian(rng.normal(), 0.1)]
    return Problem.create(
        [kinds[k % 3] for k in range(size)], np.linspace(-2, 2, 11), reg=0.2, weights=weights, seed=seed
    )


def gaussians(size, points):
    """Measures as in the paper's experiment."""
    rng = np.random.default_rng(0)
    pairs = zip(rng.uniform(-4, 4, size), rng.uniform(0.1, 0.6, size), strict=True)
    return Problem.create([bm.Gaussian(*pair) for pair in pairs], np.linspace(-5, 5, points), reg=0.1)


def gradients(problem, batch):
    if batch == "exact":
        return ExactGradients(problem)
    return SampledGradients(problem, lambda steps: np.full(steps.size, batch, dtype=np.int64))


def build(problem, network, batch="exact", factor=1.0, kind=ConservingA2DWB, **options):
    """The algorithm with ``factor`` times the step 1/L."""
    nodes, step = Nodes.all_of(network, problem.weights), factor / smoothness(problem, network)
    return kind(problem.support.size, nodes, gradients(problem, batch), step, **options)


def simulation(algorithm, problem, network, *, faults=(), record_every=1e6, reference=None, seed=0, **options):
    return AsynchronousSimulation(
        algorithm, Recorder(problem, network, reference=reference), faults=fault_table(faults, network), seed=seed,
        record_every=record_every, until=1e3, **{"delays": Categorical(), "schedule": Windowed(), **options},
    )  # fmt: skip


def assert_same(first, second):
    for name, value in first.saved().items():
        np.testing.assert_array_equal(second.saved()[name], value, err_msg=name)


class Summed:
    """An inbox whose sums are known."""

    def __init__(self, totals):
        self.sum = lambda: (totals, None)


class TestRecursion:
    """200 nodes on a cycle, which all act once in every window, in the order of their numbers, on the messages of the
    window before."""

    size, points, reg = 200, 3, 0.5

    class NoisySoftmax(Gradients):
        """The oracle of measures that sit in one point each, and noise: in whatever precision lam has."""

        def __init__(self, costs, reg):
            self.costs, self.reg = costs, reg

        def at(self, lam, rows, activations, steps):
            exponent = (lam - self.costs[rows]) / self.reg
            terms = np.exp(exponent - exponent.max(axis=1, keepdims=True))
            noise = np.random.default_rng(int(activations[0])).normal(size=lam.shape)
            return terms / terms.sum(axis=1, keepdims=True) + 0.1 * (noise - noise.mean(axis=1, keepdims=True))

    def thetas(self, count):
        inverse = np.full(count + 2, self.size, dtype=np.longdouble)
        for k in range(2, count + 2):
            inverse[k] = (1 + np.sqrt(1 + 4 * inverse[k - 1] ** 2)) / 2
        return 1 / inverse

    def both(self, windows, step, full_steps):
        """The duals of the algorithm; those of its formulas in long double; and their u."""

        def around(values):
            return np.roll(values, 1, axis=0) + np.roll(values, -1, axis=0)

        size, real = self.size, np.longdouble
        costs = np.random.default_rng(0).random((size, self.points))
        oracle = self.NoisySoftmax(costs, self.reg)
        nodes = Nodes.all_of(as_network("cycle", size), np.full(size, 1 / size))
        algorithm = ConservingA2DWB(self.points, nodes, oracle, step, full_steps)
        state = algorithm.start()
        sent = algorithm.first_messages(state)

        oracle = self.NoisySoftmax(costs.astype(real), self.reg)
        u, v = np.zeros((2, size, self.points), real)
        theta, rows = self.thetas(windows * size), np.arange(size)
        for window in range(windows):
            steps = window * size + rows
            sent = algorithm.activate(state, Batch(rows, np.full(size, window), steps), Summed(around(sent)))
            now = theta[steps + 1][:, None]
            omega = 2 * (u + now**2 * v) - around(u) - now**2 * around(v)
            g = oracle.at(omega, rows, np.full(size, window + 1), None)
            gamma = real(step) / np.sqrt(1 + steps[:, None] / real(size * full_steps))
            delta = gamma / (size * now) * (g - 1 / real(self.points))
            u, v = u - delta, v + (1 - size * now) / now**2 * delta
        last = u + theta[windows * size] ** 2 * v
        return algorithm.duals(state, windows * size), 2 * last - around(last), u

    @pytest.mark.parametrize("full_steps", [8.0, np.inf])
    def test_it_is_the_recursion_it_says(self, full_steps):
        ours, formula, _ = self.both(30, 0.02, full_steps)
        np.testing.assert_allclose(ours, formula.astype(float), atol=1e-12)
        assert np.abs(ours).max() > 0.01

    def test_a_million_activations_lose_next_to_nothing(self):
        """5,000 windows of 200 nodes; with a constant step, which makes the largest numbers."""
        ours, formula, u = self.both(5000, 0.05, np.inf)
        scale = float(np.abs(formula).max())
        assert float(np.abs(u).max()) > 1e3 * scale, "nothing cancels here, so this test shows nothing"
        assert np.abs(ours - formula.astype(float)).max() < 1e-9 * scale


@pytest.mark.parametrize("faults", sorted(FAULTS))
def test_the_duals_are_feasible_at_any_time_whatever_happens(faults):
    problem, network = small_problem(5, [1, 2, 3, 2, 4]), as_network("complete", 5)
    run = simulation(
        build(problem, network, 2), problem, network, faults=FAULTS[faults], record_every=0.25, delays=Uniform(0.0, 0.7)
    )
    largest = []

    def check(_):
        duals = run.view().duals
        largest.append(np.abs(duals).max())
        # zero itself, not only up to a constant
        assert np.abs(problem.weights @ duals).max() <= 1e-14 * max(1.0, largest[-1])

    run.run(5.0, check)
    assert len(largest) == 21
    assert largest[-1] > 0.1


def test_the_duals_are_the_laplacian_of_the_sums(rng):
    problem, network = small_problem(7, np.arange(1, 8)), as_network("erdos_renyi:p=0.5", 7)
    algorithm = build(problem, network)
    state = algorithm.start()
    state.u[:], state.v[:] = rng.normal(size=(2, 7, 11))
    theta = algorithm.thetas.at(40)
    held = network.laplacian @ (state.u + theta**2 * state.v) / (7 * problem.weights[:, None])
    np.testing.assert_allclose(algorithm.duals(state, 40), held, atol=1e-12)


@given(
    size=st.integers(3, 7),
    network=st.sampled_from(["complete", "cycle", "path", "erdos_renyi:p=0.6", "star"]),
    delays=st.sampled_from([Categorical(), Uniform(0.0, 0.7), LogNormal(0.3, 1.0)]),
    schedule=st.sampled_from([Windowed(), Poisson(6.0, slow_share=0.4), Periodic(0.25, 0.3)]),
    faults=st.sampled_from(sorted(FAULTS)),
    batch=st.sampled_from([2, "exact"]),
    seed=st.integers(0, 1000),
)
@settings(max_examples=30)
def test_batched_is_one_at_a_time(size, network, delays, schedule, faults, batch, seed):
    problem = small_problem(size, seed=seed)
    graph = as_network(network, size, seed)
    if graph.neighbours[graph.offsets[0] : graph.offsets[1]][0] != 1 and "link" in repr(FAULTS[faults]).lower():
        faults = "loss"
    options = {"delays": delays, "schedule": schedule, "seed": seed}
    batched = simulation(build(problem, graph, batch), problem, graph, faults=FAULTS[faults], **options)
    # in two parts, so that slabs are cut in odd places
    batched.run(1.37)
    batched.run(3.1)
    state, traffic = one_at_a_time.run(
        build(problem, graph, batch), graph, duration=3.1, faults=fault_table(FAULTS[faults], graph), **options
    )
    assert_same(state, batched.state)
    assert batched.traffic == traffic


def test_saved_and_restored_goes_on_as_if_nothing_had_been(tmp_path):
    problem, network = small_problem(5), as_network("complete", 5)
    options = {"faults": [Loss(0.2), Crash(2, 1.0, 2.0, memory=False)], "record_every": 0.5, "delays": Uniform(0, 2)}
    whole, part, later = (simulation(build(problem, network, 2), problem, network, **options) for _ in range(3))
    whole.run(5.0)
    part.run(2.01)
    assert part.state.waiting[2] > 0, "to be saved while a node is without memory"
    part.save(tmp_path / "run.npz")
    later.restore(tmp_path / "run.npz")
    later.run(5.0)
    assert_same(whole.state, later.state)
    for name, column in whole.recorder.history.columns.items():
        np.testing.assert_array_equal(later.recorder.history[name], column)


def test_without_memory_a_node_starts_where_its_neighbours_are():
    """And not at zero, from where it would have the whole way to go again."""

    class FromZero(ConservingA2DWB):
        def reset(self, state, row):
            super().reset(state, row)
            state.waiting[row] = 0

    problem = small_problem(6)
    network, reference = as_network("complete", 6), exact_reference(problem)
    tv = {}
    for kind in (ConservingA2DWB, FromZero):
        run = simulation(
            build(problem, network, kind=kind), problem, network, record_every=5.0, reference=reference,
            faults=[Crash(3, 60.0, 61.0, memory=False)],
        )  # fmt: skip
        run.run(100.0)
        tv[kind] = run.recorder.history["tv"]
    assert tv[ConservingA2DWB][-1] < 0.05
    assert tv[FromZero][-1] > 0.2


class TestWithoutMemory:
    """Node 1 of a path of four has crashed."""

    @pytest.fixture
    def crashed(self, rng):
        problem, network = small_problem(4), as_network("path", 4)
        algorithm = build(problem, network)
        state = algorithm.start()
        state.u[:], state.v[:] = rng.normal(size=(2, 4, 11))
        algorithm.reset(state, 1)
        return algorithm, state

    @staticmethod
    def act(algorithm, state, totals):
        return algorithm.activate(state, Batch(np.array([1]), np.array([9]), np.array([39])), Summed(totals[None]))[0]

    def test_it_counts_as_absent(self, crashed):
        algorithm, state = crashed
        sums = state.u + algorithm.thetas.at(40) ** 2 * state.v
        expected = np.array([np.zeros(11), np.zeros(11), sums[2] - sums[3], sums[3] - sums[2]])
        np.testing.assert_allclose(algorithm.duals(state, 40), expected, atol=1e-14)
        message = self.act(algorithm, state, np.zeros(algorithm.width))
        assert not message.any()
        assert not state.u[1].any()

    def test_it_joins_at_the_mean_of_those_it_hears(self, crashed):
        algorithm, state = crashed
        received = algorithm.first_messages(state)[[0, 2]]
        at_zero = algorithm.gradients.at(np.zeros((1, 11)), np.array([1]), np.array([10]), np.array([39]))[0]
        message = self.act(algorithm, state, received.sum(axis=0))
        share = 4 * algorithm.thetas.at(40)
        step = algorithm.step / np.sqrt(1 + 39 / (4 * algorithm.full_steps)) / share
        np.testing.assert_allclose(state.u[1], received[:, :11].mean(axis=0) - step * (at_zero - 1 / 11), atol=1e-14)
        np.testing.assert_array_equal(message, np.concatenate([state.u[1], state.v[1], [1.0]]))

    def test_it_does_not_wait_for_ever(self, crashed):
        algorithm, state = crashed
        silence = np.zeros(algorithm.width)
        messages = [self.act(algorithm, state, silence) for _ in range(PATIENCE)]
        assert not np.array(messages[:-1]).any()
        assert messages[-1][-1] == 1
        assert state.u[1].any()


def test_when_all_forget_everything_they_begin_again():
    problem, network = small_problem(5), as_network("cycle", 5)
    reference = exact_reference(problem)
    run = simulation(
        build(problem, network), problem, network, record_every=10.0, reference=reference,
        faults=[Crash(k, 10.0, 12.0, memory=False) for k in range(5)],
    )  # fmt: skip
    run.run(100.0)
    tv = run.recorder.history["tv"]
    assert tv[2] == pytest.approx(tv[0])
    assert tv[-1] < 0.2 * tv[0]


def test_it_ends_far_closer_to_the_barycenter_than_a2dwb():
    problem = gaussians(12, 30)
    network, reference = as_network("erdos_renyi", 12, 0), exact_reference(problem)
    histories = {}
    for kind in (A2DWB, ConservingA2DWB):
        run = simulation(
            build(problem, network, 50, 2.0, kind), problem, network, record_every=50.0, reference=reference
        )
        run.run(150.0)
        histories[kind] = run.recorder.history
    ours, theirs = histories[ConservingA2DWB], histories[A2DWB]
    assert ours["tv"][-1] < 0.2 * theirs["tv"][-1]
    assert ours["tv"][-1] < 0.05
    assert ours["feasibility"].max() < 1e-13
    assert theirs["feasibility"][-1] > 0.1


def test_damping_takes_away_the_floor():
    """A barycenter on few points, so that gradients are steep, and a cycle, where delays do most harm."""
    rng = np.random.default_rng(1)
    pairs = zip(rng.uniform(-1, 1, 20), rng.uniform(0.05, 0.2, 20), strict=True)
    problem = Problem.create([bm.Gaussian(*pair) for pair in pairs], np.linspace(-2, 2, 11), reg=0.05)
    network, reference = as_network("cycle", 20), exact_reference(problem)
    tv = {}
    for full_steps in (32.0, np.inf):
        algorithm = build(problem, network, full_steps=full_steps)
        run = simulation(algorithm, problem, network, record_every=10.0, reference=reference)
        run.run(100.0)
        tv[full_steps] = run.recorder.history["tv"]
    assert tv[32.0][-3:].max() < 0.05
    assert tv[np.inf][-3:].min() > 0.15


def test_weights_of_the_nodes_are_kept():
    weights = [1, 8, 1, 1, 4]
    problem, network = small_problem(5, weights), as_network("cycle", 5)
    run = simulation(build(problem, network), problem, network)
    run.run(200.0)
    estimates = run.view().estimates
    true, uniform = (exact_reference(small_problem(5, chosen)).weights for chosen in (weights, None))
    assert total_variation(estimates, true) < 0.02
    assert total_variation(uniform, true) > 0.1


def test_what_it_refuses():
    problem = small_problem(3)
    with pytest.raises(NetworkError, match="a2dwb_conserving works on networks without weights"):
        build(problem, Network(3, [(0, 1), (1, 2)], [1.0, 2.0]))
    for bad in (0.0, -1.0, np.nan):
        with pytest.raises(OptionError, match="full_steps"):
            build(problem, as_network("path", 3), full_steps=bad)
