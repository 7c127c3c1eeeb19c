"""Large shards in pieces, of which little is in memory: the same barycenter."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import barymesh as bm
from barymesh.errors import MeasureError
from barymesh.exact import pieces
from barymesh.exact.rows import Rows
from barymesh.exact.run import solve_nodes
from barymesh.measures.stack import ImageStack, stacked

GRID = bm.Support.regular((18, 16), 0, 1)


def pixels(count=60, kind=np.uint8):
    rng = np.random.default_rng(3)
    return (255 * rng.random((count, 18, 16)) ** 6).astype(kind)


def problems(**options):
    """The same measures one by one, and as a stack."""
    problem = bm.Problem.create(pixels(), GRID, reg=0.02, **options)
    return problem, replace(problem, measures=ImageStack(pixels(), GRID.grid))


def test_a_stack_has_the_measures_one_by_one():
    one_by_one, stack = problems()
    assert len(stack.measures) == 60
    np.testing.assert_array_equal(stack.measures[7].pixels, one_by_one.measures[7].pixels)
    for first, second in zip(one_by_one.atoms, stack.atoms, strict=True):
        np.testing.assert_array_equal(first.index, second.index)
        np.testing.assert_allclose(first.weights, second.weights, rtol=1e-14)


def test_images_without_mass_and_with_impossible_mass_are_named():
    empty, negative = pixels(), pixels(kind=np.float64)
    empty[4], negative[9, 0, 0] = 0, -1
    for wrong, number in ((empty, 4), (negative, 9)):
        with pytest.raises(MeasureError, match=f"Measure {number}:"):
            ImageStack(wrong, GRID.grid).atoms()
    assert stacked(pixels().reshape(60, -1), GRID.grid) is not None
    assert stacked(pixels()[:, :5], GRID.grid) is None
    assert stacked(list(pixels()), GRID.grid) is None


@pytest.mark.parametrize(("options", "tol", "close"), [({}, 1e-8, 1e-10), ({"precision": "float32"}, 1e-4, 1e-4)])
def test_it_is_the_same_barycenter(options, tol, close, tmp_path, monkeypatch):
    monkeypatch.setattr(pieces, "PIECE", 25 * GRID.size)
    # with history in 16 bits, as large shards have it
    monkeypatch.setattr("barymesh.exact.anderson.LARGE", 0)
    one_by_one, stack = problems(**options)
    truth = solve_nodes(Rows.of(one_by_one), GRID, one_by_one, max_iter=500, tol=tol)
    nodes = pieces.in_pieces(stack, stack.weights, 60, tmp_path)
    assert [piece.count for piece in nodes.shards] == [25, 25, 10]
    found = solve_nodes(nodes, GRID, stack, max_iter=500, tol=tol)
    assert found.success
    assert truth.success
    np.testing.assert_allclose(found.weights, truth.weights, rtol=0, atol=close)
    assert found.iterations <= truth.iterations + 3
    assert found.value - found.gap <= truth.value
    # all files are gone from the folder, though not from memory
    assert not list(tmp_path.iterdir())


def test_a_step_that_is_undone_is_found_again(tmp_path, monkeypatch):
    """From the history, to its precision."""
    monkeypatch.setattr(pieces, "PIECE", 25 * GRID.size)
    _, stack = problems()
    nodes = pieces.in_pieces(stack, stack.weights, 60, tmp_path)
    nodes.begin_history(2, True)
    sums = nodes.evaluate()
    nodes.residual(sums.mean, np.exp(sums.mean))
    residuals = sums.mean - nodes.log_estimates(np.arange(60))
    nodes.move(np.zeros(GRID.size), np.zeros(0), 1.5, 0)
    np.testing.assert_allclose(nodes.potentials(), 1.5 * residuals, rtol=1e-12)
    nodes.undo(0)
    np.testing.assert_allclose(nodes.potentials(), residuals, rtol=0, atol=0.02 * np.abs(residuals).max())
