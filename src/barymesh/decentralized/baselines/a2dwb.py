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

With node weights w_i the oracle is asked at ``lam_i = omega_i / (m w_i)``, so that feasible means
``sum_i w_i lam_i = 0``; with equal weights that is omega itself.

The sum of the duals is **not** conserved, so this algorithm agrees on a wrong measure: see docs/explanation/errata.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from barymesh.core import accelerated as kernels
from barymesh.decentralized.algorithm import Algorithm, Batch, Floats, State
from barymesh.decentralized.baselines.gradients import Gradients
from barymesh.decentralized.baselines.theta import ThetaSequence, square_change
from barymesh.decentralized.inbox import Inbox
from barymesh.network.topology import Network, require_unweighted
from barymesh.problem import Problem


@dataclass
class A2DWBState(State):
    """``omega, momentum (m, n)`` at the theta of each node's last activation, which is number ``place (m,)`` of the
    sequence, with its ``excess (m,)``; see ThetaSequence."""

    omega: Floats
    momentum: Floats
    place: NDArray[np.int64]
    excess: Floats


class A2DWB(Algorithm[A2DWBState]):
    """Asynchronous accelerated dual block descent, as printed but for its errata; ``naive=True`` is A2DWBN."""

    conserves = False

    def __init__(
        self, problem: Problem, network: Network, gradients: Gradients, step: float, naive: bool = False
    ) -> None:
        self.name = "a2dwb_naive" if naive else "a2dwb"
        require_unweighted(network, self.name)
        self.size, self.width = network.size, problem.support.size
        self.gradients, self.step, self.naive = gradients, step, naive
        self.scale = 1.0 / (network.size * problem.weights)
        self.thetas = ThetaSequence(network.size)

    def start(self) -> A2DWBState:
        zeros = np.zeros((self.size, self.width))
        return A2DWBState(zeros, zeros.copy(), np.ones(self.size, dtype=np.int64), np.zeros(self.size))

    def first_messages(self, state: A2DWBState) -> Floats:
        nodes, none = np.arange(self.size), np.zeros(self.size, dtype=np.int64)
        return self.gradients.at(state.omega * self.scale[:, None], nodes, none, none)

    def activate(self, state: A2DWBState, batch: Batch, inbox: Inbox) -> Floats:
        nodes, place = batch.nodes, batch.steps + 1
        excess = self.thetas.excess(place)
        lam, share = np.empty((nodes.size, self.width)), np.empty(nodes.size)
        kernels.advance(
            state.omega, state.momentum, state.place, state.excess, nodes, place, excess, self.scale, self.naive,
            lam, share,
        )  # fmt: skip
        g = self.gradients.at(lam, nodes, batch.numbers + 1, batch.steps)
        totals, heard = inbox.sum()
        kernels.descend(state.omega, state.momentum, nodes, self.step, share, g, totals, heard)
        return g

    def bounds(self) -> tuple[Floats, Floats]:
        # messages are measures
        return np.zeros(self.width), np.ones(self.width) + 1e-9

    def reset(self, state: A2DWBState, node: int) -> None:
        state.omega[node], state.momentum[node], state.place[node], state.excess[node] = 0.0, 0.0, 1, 0.0

    def duals(self, state: A2DWBState, steps: int) -> Floats:
        lam = state.omega.copy()
        if not self.naive:
            now = max(steps, 1)
            rise = square_change(now, self.thetas.excess(now), state.place, state.excess, self.size)
            lam += rise[:, None] * state.momentum
        return lam * self.scale[:, None]
