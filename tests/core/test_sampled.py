"""Draws and mini-batch gradients equal their formulas in plain NumPy, with the same random numbers."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

from barymesh.core import kernels
from tests.core.plain_random import CHOICES, NORMALS, normals, random_stream, units

SEEDS = st.integers(0, 2**64 - 1)
EXPONENTS = st.sampled_from([0.1, 3.0, 100.0, 5000.0])


class Batch:
    """Measures of a few nodes in d dimensions, of a typical size, and a batch of their activations."""

    def __init__(self, d, size, seed):
        self.rng, self.seed = np.random.default_rng(seed), seed
        counts = self.rng.integers(0, 6, 4)
        # one node at least has components
        counts[0] += 1
        self.last = np.cumsum(counts)
        self.first = self.last - counts
        total = self.last[-1]
        self.cumulative = np.concatenate([np.cumsum(self.rng.uniform(0.01, 1, count)) for count in counts])
        self.centres, self.root = size * self.rng.normal(size=(total, d)), self.rng.integers(-1, 3, total)
        self.roots = size * np.tril(self.rng.normal(size=(3, d, d)))
        self.components = self.first, self.last, self.cumulative, self.centres, self.root, self.roots
        rows = int(self.rng.integers(0, 6))
        self.activations, draws = self.rng.integers(0, 2**40, rows), self.rng.integers(1, 60, rows)
        self.starts = np.concatenate([[0], np.cumsum(draws)])
        self.nodes = self.rng.choice(np.flatnonzero(counts), rows)
        self.draws = np.empty((self.starts[-1], d))
        for row in range(rows):
            self.draws[self.starts[row] : self.starts[row + 1]] = self.plain_draws(row)

    def plain_draws(self, row):
        count, d = self.starts[row + 1] - self.starts[row], self.centres.shape[1]
        address = int(self.nodes[row]), int(self.activations[row])
        own = slice(self.first[address[0]], self.last[address[0]])
        z = normals(random_stream(self.seed, NORMALS, *address), count * d).reshape(count, d)
        levels = units(random_stream(self.seed, CHOICES, *address), count) * self.cumulative[own][-1]
        chosen = own.start + np.searchsorted(self.cumulative[own], levels)
        moved = np.einsum("kab,kb->ka", self.roots[self.root[chosen]], z)
        return self.centres[chosen] + np.where(self.root[chosen, None] >= 0, moved, 0)

    def mean_softmax(self, x, costs):
        """The gradients at ``x (b, n)`` for the costs ``(draws, n)`` over reg."""
        return np.array(
            [
                softmax(x[row] - costs[self.starts[row] : self.starts[row + 1]], axis=1).mean(axis=0)
                for row in range(x.shape[0])
            ]
        ).reshape(x.shape)


def squared_costs(support_t, points):
    return ((support_t.T[None] - points[:, None]) ** 2).sum(axis=2)


def close(found, expected, x, costs):
    """Equal but for the rounding of the exponents, which is a relative error of their exponentials."""
    largest = np.abs(x).max(initial=1) + costs.max(initial=1)
    np.testing.assert_allclose(found, expected, rtol=1e-14 * (100 + largest), atol=1e-270)


@given(st.integers(1, 5), SEEDS)
def test_draw_points(d, seed):
    batch = Batch(d, 2.0, seed)
    found = np.empty_like(batch.draws)
    kernels.draw_points(seed, batch.nodes, batch.activations, batch.starts, *batch.components, found)
    np.testing.assert_allclose(found, batch.draws, rtol=1e-12, atol=1e-12)


def test_nodes_without_components_are_left_as_they_are():
    batch = Batch(2, 1.0, 5)
    empty = int(np.flatnonzero(batch.first == batch.last)[0])
    points = np.full((7, 2), 0.25)
    kernels.draw_points(5, np.array([empty]), np.array([3]), np.array([0, 7]), *batch.components, points)
    assert (points == 0.25).all()


@given(st.integers(1, 4), st.integers(1, 70), st.booleans(), EXPONENTS, SEEDS)
def test_mean_softmax(d, n, squared, exponents, seed):
    batch = Batch(d, np.sqrt(exponents), seed)
    lam, p = exponents * batch.rng.normal(size=(batch.nodes.size, n)), np.empty((batch.nodes.size, n))
    support_t = np.sqrt(exponents) * batch.rng.normal(size=(d, n))
    given_costs = np.empty((0, n)) if squared else exponents * batch.rng.random((batch.starts[-1], n))
    costs = squared_costs(support_t, batch.draws) if squared else given_costs
    kernels.mean_softmax(lam, 1.5, support_t, batch.draws, given_costs, batch.starts, p)
    close(p, batch.mean_softmax(1.5 * lam, costs), 1.5 * lam, costs)


@given(st.integers(1, 4), st.integers(1, 70), EXPONENTS, SEEDS)
def test_sampled_gradients(d, n, exponents, seed):
    batch = Batch(d, np.sqrt(exponents), seed)
    lam, p = exponents * batch.rng.normal(size=(batch.nodes.size, n)), np.empty((batch.nodes.size, n))
    support_t = np.sqrt(exponents) * batch.rng.normal(size=(d, n))
    costs = squared_costs(support_t, batch.draws)
    kernels.sampled_gradients(
        lam, 1.5, support_t, seed, batch.nodes, batch.activations, batch.starts, *batch.components, p
    )
    close(p, batch.mean_softmax(1.5 * lam, costs), 1.5 * lam, costs)


@given(st.lists(st.integers(1, 9), min_size=2, max_size=4), EXPONENTS, EXPONENTS, SEEDS)
def test_sampled_grid_gradients(shape, exponents, costs_over_reg, seed):
    """Also where all of a draw's mass is at points whose potential is far below the largest."""
    size = np.sqrt(costs_over_reg)
    batch = Batch(len(shape), size, seed)
    axes = tuple(size * np.linspace(-1, batch.rng.uniform(-0.5, 2), count) for count in shape)
    support_t = np.array([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")])
    lam = exponents * batch.rng.normal(size=(batch.nodes.size, support_t.shape[1]))
    p = np.empty_like(lam)
    kernels.sampled_grid_gradients(
        lam, 1.5, support_t, axes, seed, batch.nodes, batch.activations, batch.starts, *batch.components, p
    )
    costs = squared_costs(support_t, batch.draws)
    largest = np.abs(1.5 * lam).max(initial=1) + costs.max(initial=1)
    expected = batch.mean_softmax(1.5 * lam, costs)
    # exponentials below 1e-308 are lost in products over the axes, with sums as small as 1e-280
    np.testing.assert_allclose(p, expected, rtol=1e-14 * (1000 + largest), atol=1e-25)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)
