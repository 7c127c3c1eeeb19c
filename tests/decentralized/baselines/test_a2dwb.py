"""A2DWB and A2DWBN are the published recursions, without their cancellation."""

from __future__ import annotations

import numpy as np
import pytest

from barymesh.decentralized.algorithm import Batch, Nodes
from barymesh.decentralized.baselines.a2dwb import A2DWB
from barymesh.gradients.plain import Gradients
from barymesh.network import as_network

NODES, POINTS, REG = 200, 3, 0.5


class Summed:
    """An inbox whose sums are known."""

    def __init__(self, totals, received):
        self.sum = lambda: (totals, received)


class NoisySoftmax(Gradients):
    """The oracle of measures that sit in one point each, and noise: in whatever precision lam has."""

    def __init__(self, costs):
        self.costs = costs

    def at(self, lam, rows, activations, steps):
        exponent = (lam - self.costs[rows]) / REG
        terms = np.exp(exponent - exponent.max(axis=1, keepdims=True))
        noise = np.random.default_rng(int(activations[0])).normal(size=lam.shape)
        return terms / terms.sum(axis=1, keepdims=True) + 0.1 * (noise - noise.mean(axis=1, keepdims=True))


def thetas(count):
    values = np.empty(count + 2, dtype=np.longdouble)
    values[1] = np.longdouble(1) / NODES
    s = np.longdouble(NODES)
    for k in range(2, count + 2):
        s = (1 + np.sqrt(1 + 4 * s * s)) / 2
        values[k] = 1 / s
    return values


def both(windows, step, naive, real=np.longdouble):
    """The algorithm, and the textbook recursion in u and v in the precision ``real``: all nodes act once in every
    window, in the order of their numbers, on the messages of the window before."""
    rng = np.random.default_rng(0)
    costs = rng.random((NODES, POINTS))
    nodes = Nodes.all_of(as_network("cycle", NODES), np.full(NODES, 1 / NODES))
    algorithm = A2DWB(POINTS, nodes, NoisySoftmax(costs), step, naive)
    state = algorithm.start()
    sent = algorithm.first_messages(state)
    rows, received = np.arange(NODES), np.full(NODES, 2)

    oracle = NoisySoftmax(costs.astype(real))
    u, v = np.zeros((NODES, POINTS), real), np.zeros((NODES, POINTS), real)
    theta = thetas(windows * NODES).astype(real)
    before = oracle.at(u, rows, np.zeros(NODES), None)
    own = np.full(NODES, theta[1])
    for window in range(windows):
        steps = window * NODES + rows
        inbox = Summed(np.roll(sent, 1, axis=0) + np.roll(sent, -1, axis=0), received)
        sent = algorithm.activate(state, Batch(rows, np.full(NODES, window), steps), inbox)
        now = theta[steps + 1][:, None]
        used = own[:, None] if naive else now
        g = oracle.at(u + used**2 * v, rows, np.full(NODES, window + 1), None)
        delta = real(step) / (NODES * now) * (2 * g - np.roll(before, 1, axis=0) - np.roll(before, -1, axis=0))
        u, v = u - delta, v + (1 - NODES * now) / now**2 * delta
        before, own = g, now[:, 0]
    last = own[:, None] if naive else theta[windows * NODES]
    return algorithm.duals(state, windows * NODES), u + last**2 * v, u


@pytest.mark.parametrize("naive", [False, True])
def test_it_is_the_textbook_recursion(naive):
    ours, textbook, _ = both(30, 0.02, naive)
    np.testing.assert_allclose(ours, textbook.astype(float), atol=1e-12)
    assert np.abs(ours).max() > 0.01


def test_a_million_activations_lose_nothing():
    """5,000 windows of 200 nodes. The promise is 1e-8; it is kept with much to spare."""
    ours, textbook, u = both(5000, 0.05, False)
    scale = float(np.abs(textbook).max())
    assert float(np.abs(u).max()) > 1e2 * scale, "nothing cancels here, so this test shows nothing"
    assert np.abs(ours - textbook.astype(float)).max() < 1e-11 * scale
