"""Decentralised mirror-prox for the barycenter without regularisation (Rogozin et al., arXiv 2102.07758).

Transport costs are written as a game, and so is the agreement of the nodes, with the Laplacian W of the network:

    min over p_i, X_i in simplices    max over y_i in [-1, 1]^(n + N), z
        sum_i  <C, X_i> + 2 |C| (<y_i, A X_i> - <y_i, (p_i, mu_i)>)   +   gamma sum_i <z_i, (W p)_i>

``A X`` are the two marginals of a plan, ``|C|`` is the largest cost. Mirror-prox takes a gradient step to a point half
way, and then the step from the old point with the gradient of that one: multiplicative in X and p, which stay in their
simplices, and Euclidean in y and z. Each of the two needs the neighbours' p and z, and so a round of messages of 2 n
numbers, which lasts as long as its slowest. The answer is the average of the points half way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from barymesh.network.topology import Network, adjacency
from benchmarks.rivals.curve import HEADER, NUMBER, Curve, Floats, slowest


@dataclass
class Point:
    """``plans (m, n, N)``, ``p (m, n)``, ``y (m, n + N)``, ``z (m, n)``."""

    plans: Floats
    p: Floats
    y: Floats
    z: Floats


@dataclass(frozen=True)
class Game:
    """The game of some ``measures (m, N)`` with ``costs (n, N)``, scaled so that the largest cost is 1; ``gamma``: the
    weight of the agreement."""

    costs: Floats
    measures: Floats
    network: Network
    gamma: float

    def start(self) -> Point:
        """Uniform plans, and multipliers of zero."""
        count, (size, atoms) = len(self.measures), self.costs.shape
        plans = np.full((count, size, atoms), 1.0 / (size * atoms))
        return Point(
            plans, np.full((count, size), 1.0 / size), np.zeros((count, size + atoms)), np.zeros((count, size))
        )

    def laplacian(self, values: Floats) -> Floats:
        """``W values (m, n)``: what a round of messages gives."""
        around = adjacency(self.network.size, self.network.edges) @ values
        return np.asarray(self.network.degrees[:, None] * values - around)

    def step(self, base: Point, at: Point, length: float) -> Point:
        """From ``base``, along the gradients of ``at``."""
        size = self.costs.shape[0]
        first, second = at.y[:, :size], at.y[:, size:]
        plans = base.plans * np.exp(-length * (self.costs + 2.0 * (first[:, :, None] + second[:, None, :])))
        p = base.p * np.exp(-length * (self.gamma * self.laplacian(at.z) - 2.0 * first))
        marginals = np.concatenate([at.plans.sum(axis=2) - at.p, at.plans.sum(axis=1) - self.measures], axis=1)
        return Point(
            plans / plans.sum(axis=(1, 2), keepdims=True),
            p / p.sum(axis=1, keepdims=True),
            np.clip(base.y + 2.0 * length * marginals, -1.0, 1.0),
            base.z + length * self.gamma * self.laplacian(at.p),
        )


def mirror_prox(
    costs: Floats, measures: Floats, network: Network, seconds: float, *, step: float, gamma: float = 1.0, seed: int = 0
) -> Curve:
    """``costs (n, N)``, ``measures (m, N)``; ``step``: the length of a step, where costs are in units of the largest;
    ``gamma``: in units of ``1 / lambda_max(W)``."""
    rng, curve = np.random.default_rng(seed), Curve()
    game = Game(costs / costs.max(), measures, network, gamma / network.lambda_max)
    point, total = game.start(), np.zeros(costs.shape[0])
    edges = 2 * len(network.edges)
    time = sent = 0.0
    steps = 0
    while time <= seconds and np.isfinite(total).all():
        # too long a step diverges, which the curve shows
        with np.errstate(over="ignore", invalid="ignore"):
            half = game.step(point, point, step)
            point = game.step(point, half, step)
        steps += 1
        total += half.p.mean(axis=0)
        time += slowest(edges, rng) + slowest(edges, rng)
        sent += 2 * edges * (2 * NUMBER * costs.shape[0] + HEADER)
        curve.record(time, sent, total / steps)
    return curve
