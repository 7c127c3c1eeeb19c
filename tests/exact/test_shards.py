"""The exact solver on shards: the iteration of one place, for two waits each."""

from __future__ import annotations

import numpy as np
import pytest

import barymesh as bm
from barymesh.exact.rows import Rows
from barymesh.exact.shards import Shard, Shards
from barymesh.exact.solver import solve

GRID = bm.Support.regular((12, 12), 0, 1)


class Counted(Shard):
    """Nodes in this process, with the calls that the solver waits for."""

    def __init__(self, rows: Rows) -> None:
        self.rows, self.count, self.waited = rows, rows.count, []

    def submit(self, method, *arguments):
        found = getattr(self.rows, method)(*arguments)

        def wait():
            self.waited.append(method)
            return found

        return wait


def problem(count=12):
    images = np.random.default_rng(5).random((count, 12, 12)) ** 6
    return bm.Problem.create(images, GRID, reg=0.005)


@pytest.mark.parametrize("tol", [1e-5, 1e-12])
def test_one_shard_is_one_place_to_the_last_bit_and_an_iteration_waits_twice(tol):
    """Three times at most in the last digits, where a step that lowers the dual by rounding only may be undone."""
    whole = problem()
    alone = solve(Rows.of(whole), max_iter=400, tol=tol)
    shard = Counted(Rows.of(problem()))
    found = solve(Shards([shard], GRID.size, whole.reg), max_iter=400, tol=tol)
    assert found.iterations == alone.iterations > 10
    np.testing.assert_array_equal(found.p, alone.p)
    np.testing.assert_array_equal(found.duals, alone.duals)
    methods = [name for name in shard.waited if name in ("evaluate", "residual", "residual_ahead", "gram")]
    assert len(methods) <= (2 if tol == 1e-5 else 3) * found.iterations
    assert methods.count("residual_ahead") > (0.8 if tol == 1e-5 else 0.3) * found.iterations


def test_two_shards_find_the_same_barycenter():
    whole = problem()
    alone = solve(Rows.of(whole), max_iter=400, tol=1e-9)
    parts = [Counted(Rows.of(whole.part_of(part), whole.weights[part], 12)) for part in (slice(0, 5), slice(5, 12))]
    found = solve(Shards(parts, GRID.size, whole.reg), max_iter=400, tol=1e-9)
    assert found.error <= 1e-9
    np.testing.assert_allclose(found.p, alone.p, rtol=0, atol=1e-9)
    assert parts[0].waited == parts[1].waited


def test_the_last_evaluation_allowed_follows_a_plain_step():
    """Nothing is computed ahead for it."""
    shard = Counted(Rows.of(problem()))
    found = solve(Shards([shard], GRID.size, 0.005), max_iter=9, tol=0.0)
    assert found.iterations == 9
    assert shard.waited[-3:] == ["residual", "evaluate", "residual"]
