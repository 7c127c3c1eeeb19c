"""The start from coarser points: the same barycenter, in fewer iterations."""

import os
import signal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import barymesh as bm
from barymesh.exact.coarse import coarse_start
from barymesh.exact.coarser import coarser_problem, coarser_support, extended
from barymesh.exact.rows import Rows
from barymesh.exact.solver import solve
from barymesh.oracle.grid import GridOracle
from barymesh.status import Status


def bumps(rng, points, count):
    """Smooth histograms on some points, one of them narrow."""
    centres = points.min(axis=0) + np.ptp(points, axis=0) * rng.uniform(0.2, 0.8, (count, points.shape[1]))
    widths = rng.uniform(0.03, 0.3, count)
    rows = np.exp(-np.square(points - centres[:, None]).sum(axis=2) / widths[:, None] ** 2)
    return rows / rows.sum(axis=1, keepdims=True)


def random_problem(rng, kind, reg):
    if kind == "samples":
        clouds = [rng.normal(rng.uniform(-1, 1, 2), rng.uniform(0.1, 0.5), (rng.integers(1, 400), 2)) for _ in range(5)]
        return bm.Problem.create(clouds, bm.Support.regular((60, 61), -3, 3), reg=20 * reg, weights=rng.random(5) + 0.1)
    if kind == "scattered":
        points = rng.random((1500, 2)) ** rng.uniform(0.5, 3)
    else:
        sides = {"line": (4000,), "image": (64, 48), "volume": (20, 17, 18)}[kind]
        points = bm.Support.regular(sides, 0, 1).points
    count = int(rng.integers(11, 16)) if kind == "scattered" else 6
    return bm.Problem.create(bumps(rng, points, count), points, reg=reg, weights=rng.random(count) + 0.05)


@pytest.mark.parametrize("kind", ["line", "image", "volume", "scattered", "samples"])
@given(seed=st.integers(0, 2**32), log_reg=st.floats(-2.2, -1))
@settings(max_examples=4)
def test_it_leads_to_the_same_barycenter_sooner(kind, seed, log_reg):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, kind, 10**log_reg)
    nodes = Rows.of(problem)
    assert not coarse_start(nodes, problem.support, problem.cost, tol=1e-6, max_iter=2000)
    start = nodes.potentials().copy()
    if not start.any():
        assert kind == "volume"
        return
    np.testing.assert_allclose(problem.weights @ start, 0.0, atol=1e-9 * (1 + np.abs(start).max()))
    with_it = solve(nodes, max_iter=2000, tol=1e-6)
    without = solve(Rows(problem.oracle, problem.weights), max_iter=2000, tol=1e-6)
    assert with_it.status is without.status is Status.CONVERGED
    assert np.abs(with_it.p - without.p).sum() < 2e-5
    assert with_it.iterations <= without.iterations + 2
    assert with_it.errors[0] < without.errors[0]


@pytest.mark.parametrize("kind", ["line", "image", "volume", "scattered", "samples"])
def test_coarser_measures_have_the_same_mass_and_mean(kind, rng):
    problem = random_problem(rng, kind, 0.05)
    coarser = coarser_problem(problem, coarser_support(problem.support, problem.cost, problem.reg))
    assert coarser.support.size < 0.7 * problem.support.size
    for fine, coarse in zip(problem.atoms, coarser.atoms, strict=True):
        assert coarse.weights.sum() == pytest.approx(1)
        assert coarse.weights.min() > 0
        # points of a cell that several measures share have one place for all of them
        apart = 0.1 if kind == "scattered" else 0.02 if kind == "samples" else 1e-9
        np.testing.assert_allclose(coarse.weights @ coarse.points, fine.weights @ fine.points, atol=apart)


@pytest.mark.parametrize("kind", ["line", "image", "volume", "scattered", "samples"])
def test_a_solution_extends_to_itself(kind, rng):
    """On the points where it was found, the extension is one more Sinkhorn step."""
    problem = random_problem(rng, kind, 0.02)
    found = solve(Rows(problem.oracle, problem.weights), max_iter=2000, tol=1e-9)
    sums = extended(problem, found.x, problem.support)
    difference = problem.weights @ sums - sums - found.x
    difference -= difference @ found.p[:, None]
    # where there is no mass the last steps are still on their way
    assert np.abs(found.p * difference).sum(axis=1).max() < 1e-7


def test_pictures_take_half_as_many_iterations():
    points = bm.Support.regular((128, 128), 0, 1)
    rng = np.random.default_rng(0)
    rows = bumps(rng, points.points, 5)
    result = bm.barycenter(rows, points, reg=0.004, tol=1e-5)
    plain = solve(Rows(bm.Problem.create(rows, points, reg=0.004).oracle, np.full(5, 0.2)), max_iter=500, tol=1e-5)
    assert result.success
    assert result.iterations <= plain.iterations / 2
    assert np.abs(result.weights - plain.p).sum() < 1e-4


def test_reg_below_the_spacing_asks_for_all_points():
    points = np.linspace(0, 1, 4000)[:, None]
    problem = bm.Problem.create(bumps(np.random.default_rng(0), points, 6), points, reg=1e-7)
    assert coarser_support(problem.support, problem.cost, problem.reg) is None


def test_ctrl_c_on_the_way_returns_what_there_is(monkeypatch):
    evaluate, calls = GridOracle.evaluate, []

    def interrupted(self, *arguments, **options):
        if not calls:
            os.kill(os.getpid(), signal.SIGINT)
        calls.append(self.size)
        return evaluate(self, *arguments, **options)

    monkeypatch.setattr(GridOracle, "evaluate", interrupted)
    points = bm.Support.regular((64, 64), 0, 1)
    result = bm.barycenter(bumps(np.random.default_rng(0), points.points, 5), points, reg=0.01)
    assert result.status is Status.INTERRUPTED
    assert not result.success
    assert calls[0] < points.size
    assert result.iterations == 1
