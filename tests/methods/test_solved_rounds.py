"""Rounds of solved transports: what nodes tell is the objective and its derivatives, and its minimum is found."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import barymesh as bm
from barymesh.exact.run import solve_problem
from barymesh.methods.base import UNKNOWN_ERROR
from barymesh.methods.chosen_rounds import DebiasedSolvedRounds, DebiasedSolvedStartRounds, chosen_rounds
from barymesh.methods.orders import Order
from barymesh.methods.rounds import Rounds
from barymesh.methods.solved_rounds import SolvedRounds, SolvedStartRounds
from barymesh.methods.stages import has_smooth_objective
from barymesh.problem import Problem, support_cost
from tests.methods.test_rounds import SEEDS, random_problem


def log_normalised(t):
    t = t - t.max()
    return t - np.log(np.exp(t).sum())


def random_logs(rng, n, size):
    return log_normalised(size * rng.normal(size=n))


class Rounded:
    """The rounds of all nodes of a problem, as a masked network has them: the root sees averages. ``lie``: changes
    these."""

    def __init__(self, problem, lie=lambda average: average):
        self.problem, self.lie = problem, lie
        self.method = chosen_rounds(problem, len(problem.measures), masked=True)
        self.count = len(problem.measures)
        self.state = self.method.start(self.count)
        self.root = self.method.start(1)

    def ask(self, target):
        """The average of the contributions to a target, and the sum of the errors."""
        everybody = np.ones(self.count, dtype=bool)
        targets = np.tile(target, (self.count, 1))
        found = self.method.respond(self.state, np.arange(self.count), targets, everybody, everybody)
        return np.concatenate([self.problem.weights @ part for part in found.parts]), float(found.errors.sum())

    def at(self, logs, **order):
        """The same, for a measure with these logarithms, at the last reg."""
        names = {Order.STAGE: float(self.method.last_stage), **{Order[k.upper()]: v for k, v in order.items()}}
        return self.ask(self.method._answer(logs, names).target)

    def objective(self, logs):
        """F, its gradient and the report, at a measure with these logarithms."""
        average, error = self.at(logs)
        assert error < 1e-6
        target = self.method._answer(logs, {Order.STAGE: float(self.method.last_stage)}).target
        report = self.method.report(average, 0.0, target)
        return float(np.exp(report.mean) @ report.drift) - report.merit, report.drift, report

    def solve(self, tol=1e-7, most=150):
        """The last target, its gap, and the number of rounds; None if these were not enough."""
        answer = self.method.begin(self.root, 0, np.zeros(self.method.down), 0.0, close=False)
        for number in range(most):
            average, error = self.ask(answer.target)
            answer = self.method.order(
                self.root, 0, self.lie(average), answer.target, 1.0, error, lambda left: left <= tol
            )
            assert np.isfinite(answer.target).all()
            if answer.finished:
                return np.exp(answer.target[: self.method.points]), self.method.gaps(answer.target[None])[0], number
        return None


@pytest.fixture
def hospitals():
    rng = np.random.default_rng(4)
    data = [bm.Empirical(rng.normal(shift, 0.5, (size, 1))) for shift, size in ((-1, 7), (0, 20), (1.5, 12))]
    return Problem.create(data, np.linspace(-3, 3, 40), reg=0.1, weights=[1, 5, 2])


# what nodes tell


@given(seed=SEEDS, size=st.sampled_from([1.0, 10.0, 100.0]), rounds=st.integers(0, 4))
def test_a_contribution_depends_on_the_last_target_only(seed, size, rounds):
    """Whatever was asked before, and whatever else the target says: a root that asks in another order, with other
    lengths or dampings, learns nothing more."""
    problem, rng = random_problem(seed, low=0.01), np.random.default_rng(seed)
    assume(has_smooth_objective(problem))
    asked, fresh = Rounded(problem), Rounded(problem)
    n = asked.method.points
    for _ in range(rounds):
        order = {"length": rng.random(), "plain": 1.0, "damping": 10 * rng.random(), "accepted": 1.0, "certify": 1.0}
        asked.at(random_logs(rng, n, size), **order)
    logs = random_logs(rng, n, size)
    (one, error), (other, _) = asked.at(logs, damping=3.0, length=0.1), fresh.at(logs)
    assume(error < UNKNOWN_ERROR)
    np.testing.assert_array_equal(one, other)


@given(seed=SEEDS)
def test_what_is_told_is_the_gradient_of_the_objective(seed):
    problem, rng = random_problem(seed, low=0.05), np.random.default_rng(seed)
    assume(has_smooth_objective(problem))
    one = Rounded(problem)
    logs, step = random_logs(rng, one.method.points, 1.0), 1e-4 * rng.normal(size=one.method.points)
    value, gradient, _ = one.objective(logs)
    (up, up_gradient, _), (down, down_gradient, _) = (one.objective(logs + sign * step) for sign in (1, -1))
    moved = np.exp(log_normalised(logs + step)) - np.exp(log_normalised(logs - step))
    assert up - down == pytest.approx(gradient @ moved, abs=1e-9 * (1 + abs(value)))
    # the objective is convex
    assert (up_gradient - down_gradient) @ moved >= -1e-12
    # and the values are those of the transports: those of plans, which cost more than any potentials say
    average, _ = one.at(logs)
    n = one.method.points
    lower = float(np.exp(log_normalised(logs)) @ average[:n]) - average[n]
    assert lower <= average[n + 1] + 1e-9 * (1 + abs(lower))
    assert average[n + 1] == pytest.approx(lower, abs=1e-7 * (1 + abs(lower)))


@given(seed=SEEDS)
def test_what_is_told_is_the_curvature_of_the_objective(seed):
    """The average of the matrices is how the gradient answers to log p."""
    problem, rng = random_problem(seed, low=0.05), np.random.default_rng(seed)
    assume(has_smooth_objective(problem))
    one = Rounded(problem)
    n = one.method.points
    logs, step = random_logs(rng, n, 1.0), rng.normal(size=n)
    p = np.exp(logs)
    step -= p @ step
    _, _, report = one.objective(logs)
    foreseen = report.matrix @ step
    (_, up, _), (_, down, _) = (one.objective(logs + sign * 1e-4 * step) for sign in (1, -1))
    found = (up - down) / 2e-4
    assert foreseen - p @ foreseen == pytest.approx(found - p @ found, abs=1e-4 * (1 + np.abs(found).max()))


def test_a_node_that_cannot_solve_its_transport_tells_nothing(hospitals):
    one = Rounded(hospitals)
    logs = np.zeros(one.method.points)
    logs[3] = -1.01 * one.method.lowest
    average, error = one.at(logs)
    assert not average.any()
    assert error == UNKNOWN_ERROR * 3
    # and goes on as if nothing had been asked
    again, error = one.at(np.zeros(one.method.points))
    assert again.any()
    assert error < 1e-6


@pytest.mark.parametrize("reg", [0.005, 1.0])
def test_nothing_is_ever_cut(reg):
    """What is cut would show how large the number of one node is. Targets at the edge of what is allowed, and records
    as far away as they may be."""
    points = np.linspace(0, 1, 20)
    measures = [bm.Empirical(np.array([[far]])) for far in (-2.9, 0.5, 3.9)]
    problem = Problem.create(measures, points, reg=reg)
    one = Rounded(problem)
    limits = one.method.limits()
    for place in (0, 10, 19):
        logs = np.full(20, -0.99 * one.method.lowest)
        logs[place] = 0.0
        average, error = one.at(logs)
        assert (np.abs(one.state.x) <= limits[:20]).all()
        assert error < UNKNOWN_ERROR or not average.any()


# the mathematics of the proof


@given(seed=SEEDS, size=st.sampled_from([0.1, 1.0, 5.0]))
def test_the_curvature_is_at_least_that_of_the_entropy_and_bounded(seed, size):
    """``KL <= F(q) - F(p) - <grad F(p), q - p> <= L KL``."""
    problem, rng = random_problem(seed, low=0.05), np.random.default_rng(seed)
    assume(has_smooth_objective(problem))
    one = Rounded(problem)
    p, q = (random_logs(rng, one.method.points, size) for _ in range(2))
    (value, gradient, _), (other, _, _) = one.objective(p), one.objective(q)
    divergence = float(np.exp(q) @ (q - p))
    excess = other - value - gradient @ (np.exp(q) - np.exp(p))
    assert excess >= divergence - 1e-9 * (1 + abs(value))
    exponent = 4.0 * support_cost(problem) / problem.reg
    assert excess <= np.exp(min(exponent, 100.0)) * divergence + 1e-9 * (1 + abs(value))


@given(seed=SEEDS, size=st.sampled_from([0.1, 1.0, 5.0]))
def test_the_gap_bounds_the_distance_to_the_optimum(seed, size):
    problem, rng = random_problem(seed, low=0.05), np.random.default_rng(seed)
    assume(has_smooth_objective(problem))
    one = Rounded(problem)
    best, _, _ = one.objective(np.log(np.maximum(solve_problem(problem, max_iter=20_000, tol=1e-10).weights, 1e-300)))
    value, gradient, report = one.objective(random_logs(rng, one.method.points, size))
    p = np.exp(report.mean)
    gap = np.log(p @ np.exp(p @ gradient - gradient))
    assert value - best <= gap + 1e-9 * (1 + abs(value))
    assert gap == pytest.approx(value + report.merit - report.spread, abs=1e-9 * (1 + abs(report.merit)))


@given(seed=SEEDS, length=st.sampled_from([1.0, 0.3, 0.01]))
def test_a_plain_step_that_passes_comes_closer(seed, length):
    """The objective falls by ``KL(p | p') / length``, and ``KL(p* | p') <= (1 - length) KL(p* | p)``."""
    problem, rng = random_problem(seed, low=0.05), np.random.default_rng(seed)
    assume(has_smooth_objective(problem))
    one = Rounded(problem)
    best = solve_problem(problem, max_iter=20_000, tol=1e-11).weights
    logs = random_logs(rng, one.method.points, 1.0)
    value, gradient, _ = one.objective(logs)
    new = log_normalised(logs - length * gradient)
    lower, _, _ = one.objective(new)
    p, q = np.exp(logs), np.exp(new)
    assume(lower <= value + gradient @ (q - p) + float(q @ (new - logs)) / length)
    assert lower <= value - float(p @ (logs - new)) / length + 1e-9 * (1 + abs(value))
    before, after = (float(best @ (np.log(np.maximum(best, 1e-300)) - these)) for these in (logs, new))
    assert after <= (1.0 - length) * before + 1e-7


@given(seed=SEEDS, length=st.sampled_from([1.0, 0.3, 0.01]))
def test_plain_steps_stay_where_targets_may_be(seed, length):
    """So no measure of a kept step has a mass below some number, and the limits are what the proof says."""
    problem, rng = random_problem(seed, low=0.05), np.random.default_rng(seed)
    assume(has_smooth_objective(problem))
    one = Rounded(problem)
    lowest = 0.9 * one.method.lowest
    logs = rng.uniform(-lowest, 0.0, one.method.points)
    average, error = one.at(logs)
    assume(error < UNKNOWN_ERROR)
    new = logs - length * average[: one.method.points]
    assert new.max() - new.min() <= lowest * (1 + 1e-9)


# the whole


@given(seed=SEEDS)
@settings(max_examples=30)
def test_the_minimum_is_found_and_certified(seed):
    problem = random_problem(seed)
    assume(has_smooth_objective(problem))
    found = Rounded(problem).solve()
    assert found is not None
    p, gap, _ = found
    truth = solve_problem(problem, max_iter=50_000, tol=1e-11)
    distance = 0.5 * np.abs(p / p.sum() - truth.weights).sum()
    assert distance <= 1e-6
    assert distance <= np.sqrt(0.5 * gap / problem.reg) + 1e-9


@pytest.mark.parametrize("points", [60, 200], ids=["matrices", "no matrices"])
@pytest.mark.parametrize("debias", [False, True])
def test_ordinary_problems_take_few_rounds(points, debias):
    rng = np.random.default_rng(0)
    measures = [bm.Gaussian(rng.uniform(-3, 3), rng.uniform(0.3, 1)) for _ in range(6)]
    problem = Problem.create(measures, np.linspace(-5, 5, points), reg=0.2, debias=debias)
    p, gap, rounds = Rounded(problem).solve(tol=1e-6, most=400)
    assert rounds <= (100 if debias else 20)
    truth = bm.barycenter(measures, np.linspace(-5, 5, points), reg=0.2, debias=debias, tol=1e-10)
    assert 0.5 * np.abs(p / p.sum() - truth.weights).sum() <= (1e-3 if debias else 1e-6)
    assert 0 <= gap < 1e-3


@pytest.mark.parametrize("debias", [False, True])
def test_the_kind_of_rounds_follows_from_what_is_public(debias):
    measures = [bm.Gaussian(mean, 0.5) for mean in (-1, 0, 1)]
    kinds = {}
    for reg in (0.2, 0.005):
        problem = Problem.create(measures, np.linspace(-3, 3, 60), reg=reg, debias=debias)
        kinds[reg] = type(chosen_rounds(problem, 3, masked=True))
        assert not issubclass(type(chosen_rounds(problem, 3)), SolvedRounds | SolvedStartRounds)
    expected = (DebiasedSolvedRounds, DebiasedSolvedStartRounds) if debias else (SolvedRounds, SolvedStartRounds)
    assert tuple(kinds.values()) == expected


def test_small_regs_are_found_from_solved_starts():
    """Where steps on the objective would crawl: kinks, and one heavy node."""
    measures = [bm.Gaussian(mean, 0.3) for mean in (-3, -1, 0, 2, 3)]
    problem = Problem.create(measures, np.linspace(-5, 5, 100), reg=0.005, weights=[20, 1, 1, 1, 1])
    one = Rounded(problem)
    assert type(one.method) is SolvedStartRounds
    p, _, rounds = one.solve(tol=1e-6)
    truth = solve_problem(problem, max_iter=50_000, tol=1e-10)
    assert 0.5 * np.abs(p / p.sum() - truth.weights).sum() <= 1e-5
    assert rounds < 60


def test_new_data_begin_from_a_solved_transport():
    """The potential of the old ones would tell where the new ones are from there."""
    measures = [bm.Gaussian(mean, 0.3) for mean in (-1, 0, 1, 2)]
    problem = Problem.create(measures, np.linspace(-5, 5, 60), reg=0.01)
    method = chosen_rounds(problem, 3, masked=True)
    state, rows = method.start(3), np.arange(3)
    method.first(state)
    nobody = np.zeros(3, dtype=bool)
    method.change(state, 1, 3)
    method.respond(state, rows, np.zeros((3, method.down)), nobody, nobody)
    fresh = method.start(3)
    fresh.measure[1] = 3
    method.first(fresh)
    np.testing.assert_allclose(state.x[1], fresh.x[1], atol=1e-8 * np.abs(fresh.x[1]).max())


# lies


@given(seed=SEEDS, size=st.sampled_from([0.1, 1.0]))
@settings(max_examples=8)
def test_false_matrices_cost_rounds_and_not_the_barycenter(seed, size):
    """They propose a step, which is judged by the objective."""
    problem, rng = random_problem(seed, low=0.02, high=0.3), np.random.default_rng(seed)
    assume(has_smooth_objective(problem))

    def lie(average):
        head = problem.support.size + 2
        return np.concatenate([average[:head], size * rng.normal(size=average.size - head)])

    found = Rounded(problem, lie).solve(tol=1e-4, most=3000)
    assert found is not None
    truth = solve_problem(problem, max_iter=20_000, tol=1e-9).weights
    assert 0.5 * np.abs(found[0] / found[0].sum() - truth).sum() <= 1e-3


def test_false_values_never_lead_beyond_the_bounds(hospitals):
    """A liar can make the sum what it likes, with masks; then nothing is found, and nothing grows."""
    rng = np.random.default_rng(1)
    one = Rounded(hospitals, lambda average: average + 1e6 * rng.normal(size=average.size))
    one.solve(most=60)
    assert np.isfinite(one.state.x).all()
    assert np.abs(one.state.x).max() <= 2 * one.method.limits().max()


def test_rounds_without_masks_are_the_others(hospitals):
    assert type(chosen_rounds(hospitals, 3)) is Rounds
