"""Rounds: the steps of the proof in docs/explanation/rounds.md as properties, and what they come to."""

from __future__ import annotations

from itertools import pairwise
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

import barymesh as bm
from barymesh.exact.certificate import certify
from barymesh.exact.rows import Rows
from barymesh.exact.run import solve_problem
from barymesh.exact.small_reg import solve_small_reg
from barymesh.exact.solver import solve
from barymesh.exact.transport import transport_costs
from barymesh.gradients.logarithmic import ExactLogGradients
from barymesh.methods import rounds
from barymesh.methods.orders import Order, Phase
from barymesh.methods.rounds import Rounds
from barymesh.methods.stages import needs_rounds, stages
from barymesh.problem import Problem, support_cost

SEEDS = st.integers(0, 10**6)
FIRST_ORDER = mock.patch.object(rounds, "MATRIX_POINTS", 0)


def random_problem(seed, low=1e-3, high=1.0):
    """Unequal weights up to 1000:1, coarse and fine supports, clusters, reg from ``low`` of the largest cost."""
    rng = np.random.default_rng(seed)
    m, n = int(rng.integers(2, 7)), int(rng.integers(3, 25))
    support = np.sort(rng.random(n)) if rng.random() < 0.5 else np.linspace(0, 1, n)
    if rng.random() < 0.3:
        support = np.where(support > 0.5, support + 1.0, support)
    measures = rng.dirichlet(np.full(n, rng.choice([0.2, 1.0])), m) + 1e-9
    weights = np.exp(rng.uniform(0, np.log(1000), m))
    reg = np.ptp(support) ** 2 * np.exp(rng.uniform(np.log(low), np.log(high)))
    return Problem.create(measures / measures.sum(axis=1, keepdims=True), support[:, None], reg=reg, weights=weights)


def method_for(problem, **options):
    return Rounds(problem, ExactLogGradients(problem), len(problem.measures), from_start=True, **options)


class Loop:
    """Rounds of all nodes in a loop, as the tree would do them. ``lie``: changes what is contributed."""

    def __init__(self, problem, lie=lambda loop: None, **options):
        self.problem, self.method, self.lie = problem, method_for(problem, **options), lie
        self.count = len(problem.measures)
        self.state = self.method.start(self.count)
        self.contribution = self.method.first(self.state)
        self.target, self.finished = None, False
        self.reports = []

    @property
    def average(self):
        return np.concatenate([self.problem.weights @ part for part in self.contribution.parts])

    def round(self, tol=0.0):
        errors = self.contribution.errors.max() if self.target is not None else 2.0
        self.reports.append(self.method.report(self.average))
        answer = self.method.order(
            self.state, 0, self.average, self.target, 1.0, float(errors), lambda left: left <= tol
        )
        self.target, self.finished = answer.target, answer.finished
        everybody = np.ones(self.count, dtype=bool)
        targets = np.tile(self.target, (self.count, 1))
        self.contribution = self.method.respond(self.state, np.arange(self.count), targets, everybody, everybody)
        self.lie(self)
        return Phase(int(self.state.phase[0]))

    @property
    def order(self):
        return self.target[self.method.points :]


def dual(problem, x):
    """``sum_i w_i W*_i(x_i) / reg``."""
    return problem.weights @ problem.oracle.evaluate(x)[0]


# the steps of the proof


@given(seed=SEEDS, feasible=st.booleans(), size=st.sampled_from([0.1, 3.0, 30.0]))
def test_the_plain_step_lowers_the_dual_by_the_spread_at_least(seed, feasible, size):
    """From any potentials, also those that do not sum to zero; and after it they do."""
    problem = random_problem(seed)
    rng = np.random.default_rng(seed)
    x = size * rng.normal(size=(len(problem.measures), problem.support.size))
    if feasible:
        x -= problem.weights @ x
    loop = Loop(problem)
    loop.state.x[:], loop.state.stage[:], loop.state.valid[:] = x, loop.method.last_stage, False
    targets, rows = np.zeros((len(x), loop.method.down)), np.arange(len(x))
    nobody = np.zeros(len(x), dtype=bool)
    loop.contribution = loop.method.respond(loop.state, rows, targets, nobody, nobody)
    report = loop.method.report(loop.average)
    _, h = problem.oracle.evaluate(x)
    mean, drift = problem.weights @ h, problem.weights @ x
    # merit and spread are what they are defined to be
    q = np.exp(mean - drift - logsumexp(mean - drift))
    divergences = (q * (np.log(q) - h)).sum(axis=1)
    assert report.spread == pytest.approx(problem.weights @ divergences, rel=1e-9, abs=1e-12)
    assert report.merit == pytest.approx(dual(problem, x) - q @ drift, rel=1e-9, abs=1e-9)
    stepped = x + mean - drift - h
    assert np.abs(problem.weights @ stepped).max() <= 1e-9 * (1 + np.abs(x).max())
    after = dual(problem, stepped - problem.weights @ stepped)
    assert after <= report.merit - report.spread + 1e-9 * (1 + abs(after))


@given(seed=SEEDS)
def test_the_spread_vanishes_at_the_barycenter_and_nowhere_else(seed):
    problem = random_problem(seed, low=0.05)
    found = solve(Rows(problem.oracle, problem.weights), max_iter=20_000, tol=1e-10)
    x = found.x
    for shift, zero in ((0.0, True), (0.3, False)):
        moved = x.copy()
        moved[0, 0] += shift
        _, h = problem.oracle.evaluate(moved)
        log_q = problem.weights @ (h - moved)
        log_q -= logsumexp(log_q)
        spread = np.exp(log_q) @ (log_q - problem.weights @ h)
        assert (spread < 1e-14) == zero


@given(seed=SEEDS, size=st.sampled_from([0.0, 0.1, 3.0]))
def test_the_bound_is_above_the_optimum_by_the_divergence_of_q_at_least(seed, size):
    """From any potentials, also those that do not sum to zero."""
    problem = random_problem(seed, low=0.05)
    best = solve(Rows(problem.oracle, problem.weights), max_iter=20_000, tol=1e-10)
    x = size * np.random.default_rng(seed).normal(size=(len(problem.measures), problem.support.size))
    _, h = problem.oracle.evaluate(x)
    log_q = problem.weights @ (h - x)
    bound = dual(problem, x) + logsumexp(log_q)
    divergence = best.p @ (np.log(best.p) - log_q + logsumexp(log_q))
    assert bound - best.dual >= divergence - 1e-8 * (1 + abs(bound))


@given(seed=SEEDS)
@settings(max_examples=50)
def test_newtons_target_makes_the_potentials_sum_to_zero(seed):
    loop = Loop(random_problem(seed), local_steps=1)
    for _ in range(6):
        loop.round()
        full = loop.order[Order.LENGTH] == 1.0
        x = loop.state.x
        total = loop.problem.weights @ (x - x.mean(axis=1, keepdims=True))
        if full:
            assert np.abs(total).max() <= 1e-7 * (1 + np.abs(x).max())


@pytest.mark.parametrize("by_newton", [True, False])
@given(seed=SEEDS)
@settings(max_examples=30)
def test_what_is_kept_lowers_the_merit(by_newton, seed):
    """By a share of the spread, with every kind of step, as long as reg stays what it is."""
    with mock.patch.object(rounds, "MATRIX_POINTS", 128 if by_newton else 0):
        loop = Loop(random_problem(seed))
        assert loop.method.newton == by_newton
        kept = []
        for _ in range(40):
            phase = loop.round()
            if loop.order[Order.ACCEPTED] > 0:
                report = loop.reports[-1]
                kept.append((report.stage, report.merit, report.spread))
            assert phase is not Phase.NONE
    for (stage, merit, spread), (next_stage, next_merit, next_spread) in pairwise(kept):
        if stage == next_stage:
            before, after = merit - spread, next_merit - next_spread
            assert after <= before - 0.25 * min(spread, next_spread) + 1e-9 * (1 + abs(before))


@given(seed=SEEDS)
@settings(max_examples=25)
def test_they_converge_to_the_barycenter(seed):
    """At any reg, with any weights: to the last digits, and in few rounds."""
    problem = random_problem(seed, low=1e-4)
    found = solve_small_reg(Rows.of(problem), problem, max_iter=500, tol=1e-9, callback=None, before=0)
    assert found.status is bm.Status.CONVERGED
    bounds = certify(
        problem.oracle, problem.weights, found.x, found.nodes.log_estimates(), found.p, problem.product_costs
    )
    assert bounds.gap <= 1e-6 * support_cost(problem)


@given(seed=SEEDS)
@settings(max_examples=15)
def test_they_converge_without_matrices_too(seed):
    problem = random_problem(seed, low=0.02)
    with FIRST_ORDER:
        loop = Loop(problem)
        for _ in range(300):
            loop.round()
            if loop.reports[-1].spread < 1e-13 and loop.reports[-1].stage == loop.method.last_stage:
                break
    truth = solve(Rows(problem.oracle, problem.weights), max_iter=20_000, tol=1e-10)
    # clusters far apart are slow this way
    assert 0.5 * np.abs(np.exp(loop.reports[-1].log_q) - truth.p).sum() < 5e-3


def false_columns(kind, seed):
    """A node that sends others than its matrix and its vector: numbers of any size, what makes the root order no move
    at all, or a step far in the wrong direction."""
    rng = np.random.default_rng(seed)

    def lie(loop):
        move, matrix = loop.contribution.parts[-2:]
        n = loop.method.points
        if kind == "still":
            others = (loop.problem.weights[1:] @ matrix[1:], loop.problem.weights[1:] @ move[1:])
            wanted = loop.contribution.parts[0].T @ loop.problem.weights - loop.target[:n]
            whole = others[0].reshape(n, n) + loop.problem.weights[0] * matrix[0].reshape(n, n)
            move[0] = (whole @ wanted - others[1]) / loop.problem.weights[0]
        elif kind == "backwards":
            move[0] *= -1e3
        else:
            matrix[0] = rng.normal(size=n * n) * 10.0 ** rng.uniform(-3, 8)
            move[0] = rng.normal(size=n) * 10.0 ** rng.uniform(-3, 11)

    return lie


@pytest.mark.parametrize("kind", ["still", "backwards", "anything"])
@given(seed=SEEDS)
@settings(max_examples=8)
def test_false_columns_of_newton_cannot_keep_them_from_the_barycenter(kind, seed):
    """They only propose steps. With false ones throughout, the rounds are those of plain steps at worst."""
    problem = random_problem(seed, low=0.3)
    loop = Loop(problem, false_columns(kind, seed))
    for _ in range(600):
        loop.round()
        if loop.reports[-1].spread < 1e-13:
            break
    truth = solve_problem(problem, max_iter=20_000, tol=1e-10).weights
    assert 0.5 * np.abs(np.exp(loop.reports[-1].log_q) - truth).sum() < 1e-4


@given(seed=SEEDS)
@settings(max_examples=8)
def test_false_values_cannot_make_potentials_grow_without_bound(seed):
    """A node that makes each step look good, and proposes wild ones, moves the others; it does so within bounds, from
    which they come back when it has left off."""
    problem, lying = random_problem(seed, low=0.3), [True]
    columns = false_columns("anything", seed)

    def lie(loop):
        if lying[0]:
            columns(loop)
            loop.contribution.parts[2][0, 0] = -1e9 * len(loop.reports)

    loop = Loop(problem, lie)
    for k in range(120):
        lying[0] = k < 30
        loop.round()
        assert np.abs(loop.state.x).max() <= rounds.REACH * (1 + problem.largest_cost() / problem.reg)
        if loop.reports[-1].spread < 1e-13 and k > 30:
            break
    # a new epoch begins without what the root believes, and its potentials may be anywhere
    loop.state.phase[0] = Phase.NONE
    for _ in range(300):
        loop.round()
        if loop.reports[-1].spread < 1e-13:
            break
    truth = solve_problem(problem, max_iter=20_000, tol=1e-10).weights
    assert 0.5 * np.abs(np.exp(loop.reports[-1].log_q) - truth).sum() < 1e-4


# the certificate


@given(seed=SEEDS, tol=st.sampled_from([1e-1, 1e-4, 1e-8]))
@settings(max_examples=40)
def test_the_certificate_holds_however_early_it_is_made(seed, tol):
    problem = random_problem(seed, low=1e-2)
    loop = Loop(problem)
    for _ in range(200):
        loop.round(tol)
        if loop.finished:
            break
    assert loop.finished
    gap = float(loop.method.gaps(loop.target[None])[0])
    p = np.exp(loop.target[: loop.method.points])
    p /= p.sum()
    truth = solve_problem(problem, max_iter=20_000, tol=1e-10)
    costs, _ = transport_costs(problem.oracle, p, max_iter=20_000, tol=1e-12)
    excess = float(problem.weights @ costs) - (truth.value - truth.gap)
    assert excess <= gap + truth.gap + 1e-9 * support_cost(problem)
    distance = 0.5 * np.abs(p - truth.weights).sum()
    assert distance <= np.sqrt(gap / (2 * problem.reg)) + truth.tv_bound + 1e-9


def test_the_certificate_is_tight():
    """The bound on the total variation is within a factor of a thousand of what it bounds, not of a million."""
    problem = Problem.create([bm.Gaussian(mean, 0.5) for mean in (-2, 0, 1)], np.linspace(-4, 4, 60), reg=0.1)
    loop = Loop(problem)
    while not loop.finished:
        loop.round(1e-6)
    gap = float(loop.method.gaps(loop.target[None])[0])
    assert np.sqrt(gap / (2 * problem.reg)) < 1e-4


# when there are rounds, and with which reg


def test_reg_is_lowered_in_steps_that_end_where_it_should():
    assert stages(1.0, 10.0) == [1.0]
    found = stages(1e-4, 1.0)
    assert found[-1] == 1e-4
    assert all(before == pytest.approx(4 * after) for before, after in pairwise(found))
    assert found[0] * 4 >= 0.02


@pytest.mark.parametrize(
    ("points", "reg", "expected"), [(100, 0.1, False), (100, 0.005, True), (10, 0.2, True), (2000, 0.02, False)]
)
def test_small_reg_and_coarse_supports_need_rounds(points, reg, expected):
    problem = Problem.create([bm.Gaussian(0, 1)], np.linspace(-5, 5, points), reg=reg)
    assert needs_rounds(problem) == expected


@pytest.mark.parametrize("cost", ["sqeuclidean", "euclidean"])
@pytest.mark.parametrize(("centres", "expected"), [((0,), False), ((0, 2), True)])
def test_clusters_need_rounds_and_outliers_do_not(cost, centres, expected):
    support = np.concatenate([*(centre + np.linspace(0, 1, 51) for centre in centres), [4.0]])[:, None]
    measures = np.full((2, support.size), 1 / support.size)
    assert needs_rounds(Problem.create(measures, support, reg=0.01, cost=cost)) == expected


def test_large_networks_and_supports_send_no_matrices():
    problem = Problem.create(np.full((3, 100), 0.01), np.linspace(0, 1, 100), reg=0.1)
    assert Rounds(problem, ExactLogGradients(problem), 400, from_start=True).newton
    assert not Rounds(problem, ExactLogGradients(problem), 401, from_start=True).newton
    assert not Rounds(problem, ExactLogGradients(problem), 3).newton
