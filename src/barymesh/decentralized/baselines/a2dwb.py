"""The paper's algorithm, A2DWB, and its naive variant, A2DWBN.

At activation k of node i, with the newest received ``g_j`` of its neighbours and ``theta = theta_{k+1}``:

    omega_i = u_i + theta^2 v_i                      (A2DWBN: with the theta of the node's own last activation)
    g_i     = estimate of p_i(omega_i), sent to the neighbours
    delta   = gamma / (m theta) * (deg(i) g_i - sum_j g_j)
    u_i    -= delta,    v_i += (1 - m theta) / theta^2 * delta

``u`` and ``theta^2 v`` grow and cancel, so they are not what is stored. A node keeps ``omega = u + theta^2 v`` and
``momentum = theta^2 v`` at the theta of its last activation; the recursion then reads

    rho = (theta / theta_last)^2,   omega += (rho - 1) momentum,   momentum *= rho
    omega -= gamma * (deg(i) g_i - sum_j g_j),   momentum += (1 - m theta) delta

and loses nothing, if ``rho - 1`` is not the difference of two rounded numbers: see ``theta.square_change``.

With node weights w_i the oracle is evaluated at ``lam_i = omega_i / (m w_i)``, so that feasible means
``sum_i w_i lam_i = 0``; with equal weights that is omega itself.

The sum of the duals is **not** conserved, so this algorithm agrees on a wrong measure: see docs/explanation/errata.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from barymesh.core import kernels
from barymesh.decentralized.algorithm import AsynchronousAlgorithm, Batch, Floats, Nodes
from barymesh.decentralized.baselines.theta import ThetaSequence, square_change
from barymesh.decentralized.inbox import Inbox
from barymesh.gradients.plain import Gradients
from barymesh.network.topology import require_unweighted
from barymesh.state import State


@dataclass
class A2DWBState(State):
    """``omega, momentum (k, n)`` at the theta of each node's last activation, which is number ``place (k,)`` of the
    sequence, with its ``excess (k,)``; see ThetaSequence."""

    omega: Floats
    momentum: Floats
    place: NDArray[np.int64]
    excess: Floats


class A2DWB(AsynchronousAlgorithm[A2DWBState]):
    """Asynchronous accelerated dual block descent, as printed but for its errata; ``naive=True`` is A2DWBN."""

    conserves = False

    def __init__(self, points: int, nodes: Nodes, gradients: Gradients, step: float, naive: bool = False) -> None:
        self.name = "a2dwb_naive" if naive else "a2dwb"
        require_unweighted(nodes.network, self.name)
        self.nodes, self.width = nodes, points
        self.gradients, self.step, self.naive = gradients, step, naive
        self.scale = 1.0 / nodes.weights
        self.thetas = ThetaSequence(nodes.size)

    def start(self) -> A2DWBState:
        count = self.nodes.count
        zeros = np.zeros((count, self.width))
        return A2DWBState(zeros, zeros.copy(), np.ones(count, dtype=np.int64), np.zeros(count))

    def first_messages(self, state: A2DWBState) -> Floats:
        rows, none = np.arange(self.nodes.count), np.zeros(self.nodes.count, dtype=np.int64)
        return self.gradients.at(state.omega * self.scale[:, None], rows, none, none)

    def activate(self, state: A2DWBState, batch: Batch, inbox: Inbox) -> Floats:
        rows, place = batch.rows, batch.steps + 1
        excess = self.thetas.excess(place)
        lam, share = np.empty((rows.size, self.width)), np.empty(rows.size)
        kernels.accelerated_points(
            state.omega, state.momentum, state.place, state.excess, rows, place, excess, self.nodes.size, self.scale,
            self.naive, lam, share,
        )  # fmt: skip
        g = self.gradients.at(lam, rows, batch.counts + 1, batch.steps)
        totals, received = inbox.sum()
        kernels.accelerated_step(state.omega, state.momentum, rows, self.step, share, g, totals, received)
        return g

    def bounds(self) -> tuple[Floats, Floats]:
        # messages are measures
        return np.zeros(self.width), np.ones(self.width) + 1e-9

    def reset(self, state: A2DWBState, row: int) -> None:
        state.omega[row], state.momentum[row], state.place[row], state.excess[row] = 0.0, 0.0, 1, 0.0

    def duals(self, state: A2DWBState, steps: int, received: Inbox | None = None) -> Floats:
        lam = state.omega.copy()
        if not self.naive:
            now = max(steps, 1)
            rise = square_change(now, self.thetas.excess(now), state.place, state.excess, self.nodes.size)
            lam += rise[:, None] * state.momentum
        return lam * self.scale[:, None]
