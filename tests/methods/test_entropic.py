"""The entropic method by itself, as the pair of functions that it is: no network, no clock."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import barymesh as bm
from barymesh.gradients.logarithmic import BestLogGradients, ExactLogGradients, GrowingLogGradients
from barymesh.methods.base import UNKNOWN_ERROR
from barymesh.methods.entropic import LEAST_RELAXATION, RELAXATION, SMALLEST_GAIN, Entropic
from barymesh.problem import Problem
from tests.oracle.plain import node_oracle

POINTS = np.linspace(-3, 3, 15)
MEASURES = [bm.Gaussian(-1.0, 0.4), bm.Gaussian(0.3, 0.7), bm.Empirical([[1.0], [1.5], [-0.5]]), bm.Gaussian(1.2, 0.3)]
WEIGHTS = np.array([0.1, 0.4, 0.2, 0.3])


def problem_of(measures=MEASURES, weights=WEIGHTS, reg=0.3):
    return Problem.create(measures, POINTS, reg=reg, weights=weights)


def entropic(problem):
    return Entropic(problem, ExactLogGradients(problem))


def rounds(method, weights, count):
    """The method with everything in one place: all contribute, the sum goes to the root, all move."""
    state, everybody = method.start(weights.size), np.arange(weights.size)
    targets, known = np.zeros((weights.size, method.down)), np.zeros(weights.size, dtype=bool)
    for k in range(count):
        contribution = method.local(state, everybody, targets, known)
        average = weights @ np.hstack(contribution.parts)
        answer = method.root(state, 0, average, targets[0], 1.0 if k else 0.0, True)
        targets, known = np.tile(answer.target, (weights.size, 1)), np.ones(weights.size, dtype=bool)
        method.advance(state, everybody, contribution, targets, everybody)
    return state, contribution, answer


@given(
    seed=st.integers(0, 1000), count=st.integers(1, 6), log_reg=st.floats(-1, 1),
)  # fmt: skip
@settings(max_examples=25)
def test_the_pair_finds_the_barycenter_wherever_the_sum_is_taken(seed, count, log_reg):
    rng = np.random.default_rng(seed)
    measures = [bm.Gaussian(rng.uniform(-2, 2), rng.uniform(0.3, 1.0)) for _ in range(count)]
    weights = rng.uniform(0.2, 1.0, count)
    problem = problem_of(measures, weights, 10**log_reg)
    _, contribution, answer = rounds(entropic(problem), problem.weights, 400)
    truth = bm.barycenter(measures, POINTS, reg=problem.reg, weights=weights, tol=1e-12)
    np.testing.assert_allclose(np.exp(answer.target), truth.weights, atol=1e-8)
    np.testing.assert_allclose(np.exp(contribution.parts[0]), np.tile(truth.weights, (count, 1)), atol=1e-8)
    assert contribution.errors.max() < 1e-8
    assert answer.moved < 1e-8
    assert answer.remaining < 1e-7


def test_a_contribution_is_the_log_gradient_and_the_potential(rng):
    """By the plain formula, atom by atom; and the error is the distance from the target."""
    problem = problem_of()
    method = entropic(problem)
    state = method.start(4)
    state.x[:] = rng.normal(size=(4, 15))
    targets = np.log(rng.dirichlet(np.ones(15), 4))
    rows = np.array([2, 0])
    contribution = method.local(state, rows, targets, np.array([True, False]))
    for place, row in enumerate(rows):
        atoms = problem.atoms[row]
        costs = problem.cost.matrix(problem.support.points, atoms.points)
        _, log_p = node_oracle(problem.reg * state.x[row], costs.T, atoms.weights, problem.reg)
        np.testing.assert_allclose(contribution.parts[0][place], log_p, rtol=1e-10)
        np.testing.assert_array_equal(contribution.parts[1][place], state.x[row])
    apart = np.abs(np.exp(contribution.parts[0][0]) - np.exp(targets[2])).sum()
    np.testing.assert_allclose(contribution.errors, [apart, UNKNOWN_ERROR])
    np.testing.assert_array_equal(method.errors(state)[rows], contribution.errors)
    assert method.up == sum(part.shape[1] for part in contribution.parts)


def test_before_it_acts_a_node_contributes_its_smoothed_measure():
    problem = problem_of()
    method = entropic(problem)
    first = method.first(method.start(4))
    np.testing.assert_array_equal(first.parts[0], problem.oracle.evaluate(np.zeros((4, 15)))[1])
    assert not first.parts[1].any()
    assert (first.errors == UNKNOWN_ERROR).all()


def test_only_the_nodes_that_move_move(rng):
    problem = problem_of()
    method = entropic(problem)
    state, rows = method.start(4), np.array([0, 1, 3])
    targets = np.log(rng.dirichlet(np.ones(15), 4))
    contribution = method.local(state, rows, targets, np.ones(3, dtype=bool))
    before = state.x.copy()
    method.advance(state, rows, contribution, targets, np.array([0, 2]))
    np.testing.assert_array_equal(state.x[[1, 2]], before[[1, 2]])
    for place, row in ((0, 0), (2, 3)):
        step = state.relaxation[row] * (targets[row] - contribution.parts[0][place])
        moved = state.x[row] - before[row]
        # a constant makes no difference
        np.testing.assert_allclose(moved - moved.mean(), step - step.mean(), atol=1e-12)


def test_steps_shrink_where_the_error_grows_and_stay_within_their_bounds(rng):
    problem = problem_of()
    method = entropic(problem)
    state, row = method.start(4), np.array([1])
    near, far = np.log(rng.dirichlet(np.full(15, 50.0), 4)), np.log(rng.dirichlet(np.full(15, 0.1), 4))
    seen = []
    for targets in [near, far] * 30:
        method.local(state, row, targets, np.array([True]))
        seen.append(state.relaxation[1])
    assert min(seen) >= LEAST_RELAXATION
    assert max(seen) <= RELAXATION
    for _ in range(60):
        state.error[1] = 0.0
        method.local(state, row, far, np.array([True]))
    assert state.relaxation[1] == LEAST_RELAXATION
    for _ in range(60):
        method.local(state, row, far, np.array([True]))
    assert state.relaxation[1] == RELAXATION


def test_the_root_takes_the_drift_out_of_the_target(rng):
    """If the potentials sum to zero up to a constant, the target is the geometric mean itself."""
    method = entropic(problem_of())
    state = method.start(1)
    mean = np.log(rng.dirichlet(np.ones(15)))
    for constant in (0.0, 7.0):
        answer = method.root(state, 0, np.concatenate([mean, np.full(15, constant)]), mean, 5.0, False)
        np.testing.assert_allclose(answer.target - mean, 0.0, atol=1e-12)
        assert answer.remaining < 1e-12
    drifted = method.root(state, 0, np.concatenate([mean, POINTS]), mean, 5.0, False)
    assert drifted.remaining > 0.1
    assert drifted.moved > 0.0
    # where the potentials are too high, the target becomes lower, on average over the barycenter
    q = np.exp(mean)
    assert q @ ((drifted.target - mean) * (POINTS - q @ POINTS)) < -0.01


def test_a_correction_that_overshoots_makes_the_gain_smaller(rng):
    method = entropic(problem_of())
    state, mean = method.start(1), np.log(rng.dirichlet(np.full(15, 20.0)))
    for k in range(40):
        method.root(state, 0, np.concatenate([mean, (-1) ** k * POINTS]), mean, 5.0, True)
    assert state.gain[0] == SMALLEST_GAIN
    for _ in range(40):
        method.root(state, 0, np.concatenate([mean, POINTS]), mean, 5.0, True)
    assert state.gain[0] == 1.0


def test_duals_are_in_units_of_the_cost():
    problem = problem_of()
    state, _, _ = rounds(entropic(problem), problem.weights, 300)
    duals = entropic(problem).duals(state)
    p = problem.oracle.value_and_gradient(duals)[1]
    assert np.ptp(p, axis=0).max() < 1e-8
    total = problem.weights @ duals
    assert np.ptp(total) < 1e-6


def test_a_node_with_another_measure_contributes_that():
    problem = problem_of().with_further_measures([bm.Gaussian(2.0, 0.5)])
    method = entropic(problem)
    state = method.start(4)
    method.change(state, 1, 4)
    np.testing.assert_array_equal(method.measures(state), [0, 4, 2, 3])
    contribution = method.local(state, np.array([1]), np.zeros((4, 15)), np.array([False]))
    expected = problem.oracle.evaluate(np.zeros((1, 15)), np.array([4]))[1]
    np.testing.assert_array_equal(contribution.parts[0], expected)


def test_every_activation_draws_one_more_batch():
    problem = problem_of()
    method = Entropic(problem, GrowingLogGradients(problem, 20))
    assert not method.final
    state = method.start(4)
    for _ in range(3):
        method.local(state, np.array([0, 2]), np.zeros((4, 15)), np.zeros(2, dtype=bool))
    np.testing.assert_array_equal(state.drawn, [3, 0, 3, 0])
    method.change(state, 0, 1)
    assert state.drawn[0] == 0


@pytest.mark.parametrize("kind", [ExactLogGradients, lambda problem: BestLogGradients(problem, 50)])
def test_what_is_known_from_the_start_is_final(kind):
    problem = problem_of()
    assert Entropic(problem, kind(problem)).final
