"""Measures in the middle of the support, and what is added to what is computed with them there."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import barymesh as bm
from barymesh.methods.centring import SHARE, Centring, around_support
from barymesh.methods.entropic import WITHIN_LIMITS, potential_limit
from barymesh.problem import Problem

SEEDS = st.integers(0, 10**6)


def problem_of(rng, kind, dimension):
    support = bm.Support.regular((9,) * dimension, 1.0, 4.0)
    if kind == "records":
        measures = [rng.normal(rng.uniform(0, 5), 1.0, (int(rng.integers(1, 9)), dimension)) for _ in range(3)]
    elif kind == "images":
        measures = [bm.Histogram(rng.integers(0, 2, 9**dimension) + np.eye(9**dimension)[k]) for k in range(3)]
    else:
        measures = [bm.Gaussian(rng.uniform(0, 5, dimension), 0.5) for _ in range(3)]
    return Problem.create(measures, support, reg=float(rng.uniform(0.2, 3.0)), seed=0)


@given(seed=SEEDS, kind=st.sampled_from(["records", "images", "gaussians"]), dimension=st.sampled_from([1, 2]))
@settings(max_examples=30)
def test_estimates_are_those_of_the_measures_at_the_potentials_that_are_added_to(seed, kind, dimension):
    rng = np.random.default_rng(seed)
    problem = problem_of(rng, kind, dimension)
    centring, points, each = around_support(problem), problem.support.points, np.arange(3)
    moved = rng.normal(size=(3, problem.support.size))
    true = moved + centring.potentials(each, points) / problem.reg
    value, h = problem.oracle.evaluate(true)
    moved_value, moved_h = centring.problem.oracle.evaluate(moved)
    np.testing.assert_allclose(h, moved_h, atol=1e-9)
    np.testing.assert_allclose(problem.reg * value, problem.reg * moved_value - centring.constants(each), atol=1e-9)
    # and what the root adds to the average is the average of that
    weights = rng.dirichlet(np.ones(3))
    average = weights @ centring.columns(each)
    np.testing.assert_allclose(centring.added(average, points), weights @ (true - moved), atol=1e-9)
    np.testing.assert_allclose(centring.shift(average), weights @ centring.shifts, atol=1e-12)


@pytest.mark.parametrize(
    ("records", "shift"),
    [
        ([61.0, 64.0, 77.0], 5.0), ([0.1, 0.2, 0.7], 0.3), ([1.123456789, 1.2], 0.000000001),
        ([1.7e9, 1.7e9 + 86400], 3600.0), ([5.0], 0.25), ([0.5, 20.25], 1000.0),
    ],
)  # fmt: skip
def test_records_of_one_shape_become_the_same_numbers(records, shift):
    support = np.linspace(min(records) - 1, max(records) + 2, 12)
    first = np.array(records)[:, None]
    # as a file has it, and as a program computes it
    for other in (np.round(first + shift, 9), first + shift):
        one, two = (
            around_support(Problem.create([some], support, reg=10.0)).problem.atoms[0].points for some in (first, other)
        )
        np.testing.assert_array_equal(one, two)


def test_other_records_are_hardly_moved():
    rng = np.random.default_rng(0)
    problem = Problem.create([rng.normal(size=(1000, 3))], bm.Support(rng.normal(size=(40, 3))), reg=1.0)
    centring = around_support(problem)
    back = centring.problem.atoms[0].points + centring.shifts[0]
    assert np.abs(back - problem.atoms[0].points).max() <= 1e-12
    low, high = problem.support.ends
    box = centring.problem.atoms[0].points
    np.testing.assert_allclose((box.min(axis=0) + box.max(axis=0)) / 2, (low + high) / 2, atol=1e-9)


@given(seed=SEEDS, dimension=st.integers(1, 3))
@settings(max_examples=30)
def test_shifts_are_within_their_limits_as_far_out_as_records_may_be(seed, dimension):
    rng = np.random.default_rng(seed)
    support = bm.Support(rng.normal(size=(int(rng.integers(2, 9)), dimension)))
    farthest = np.zeros((1, dimension))
    direction = rng.normal(size=dimension)
    largest = Problem.create([support.points], support, reg=1.0).largest_cost()
    for step in np.linspace(0, 20, 400) * np.sqrt(largest) / np.linalg.norm(direction):
        one = Problem.create([(step * direction)[None]], support, reg=1e-3)
        if one.largest_cost() <= WITHIN_LIMITS * largest:
            farthest = (step * direction)[None]
    problem = Problem.create([farthest], support, reg=float(10 ** rng.uniform(-3, 1)))
    centring = around_support(problem)
    assert (np.abs(centring.columns(np.zeros(1, dtype=int))) <= centring.limits(potential_limit(problem))).all()
    assert centring.limits(1.0) == pytest.approx(np.full(dimension, SHARE))


def test_other_costs_move_nothing():
    problem = Problem.create([np.zeros((2, 1))], np.linspace(0, 1, 4), reg=1.0, cost="euclidean")
    centring = around_support(problem)
    assert centring.size == 0
    assert centring.problem is problem
    assert centring.columns(np.zeros(1, dtype=int)).shape == (1, 0)
    assert not centring.added(np.empty(0), problem.support.points).any()
    assert not centring.potentials(np.zeros(1, dtype=int), problem.support.points).any()
    assert not Centring(problem, np.empty(0), 1.0).constants(np.zeros(1, dtype=int)).any()
