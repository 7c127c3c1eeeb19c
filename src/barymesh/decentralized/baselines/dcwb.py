"""DCWB, the synchronous baseline (Dvurechensky et al. 2018, Algorithm 3): accelerated gradient descent on the dual.

With ``L = lambda_max(W)/reg`` and everything zero at the start, in each round:

    alpha = the larger root of C + alpha = 2 L alpha^2,   C' = C + alpha
    lam_i = (alpha zeta_i + C eta_i) / C'
    g_i   = estimate of p_i(lam_i), sent to the neighbours; wait for the slowest message
    zeta_i -= alpha sum_j W_ij g_j,   eta_i = (alpha zeta_i + C eta_i) / C'

``step`` takes the place of ``1/L``.
The primal estimate is ``phat_i = (alpha g_i + C phat_i) / C'``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from barymesh.decentralized.algorithm import Floats, Nodes, SynchronousAlgorithm
from barymesh.decentralized.inbox import Inbox
from barymesh.gradients.plain import Gradients
from barymesh.network.topology import require_unweighted
from barymesh.state import State


@dataclass
class DCWBState(State):
    """``zeta, eta (m, n)``; ``estimate (m, n)`` is phat, for callbacks that want the published primal estimate;
    ``total`` is C and ``rounds`` their number."""

    zeta: Floats
    eta: Floats
    estimate: Floats
    total: Floats
    rounds: NDArray[np.int64]


class DCWB(SynchronousAlgorithm[DCWBState]):
    """Synchronous accelerated gradient descent on the dual. Conserves the sum of the duals."""

    name = "dcwb"
    conserves = True

    def __init__(self, points: int, nodes: Nodes, gradients: Gradients, step: float) -> None:
        require_unweighted(nodes.network, self.name)
        self.nodes, self.size, self.width = nodes, nodes.size, points
        self.gradients, self.step = gradients, step
        self.degrees = nodes.degrees
        self.scale = (1.0 / nodes.weights)[:, None]

    def start(self) -> DCWBState:
        zeros = np.zeros((self.size, self.width))
        return DCWBState(zeros, zeros.copy(), zeros.copy(), np.zeros(()), np.zeros((), dtype=np.int64))

    def _alpha(self, state: DCWBState) -> float:
        half = self.step / 2
        return float(half + np.sqrt(half**2 + 4 * half * state.total)) / 2

    def messages(self, state: DCWBState) -> Floats:
        alpha = self._alpha(state)
        share = alpha / (float(state.total) + alpha)
        lam = share * state.zeta + (1 - share) * state.eta
        activations = np.full(self.size, state.rounds)
        return self.gradients.at(lam * self.scale, np.arange(self.size), activations, activations * self.size)

    def update(self, state: DCWBState, sent: Floats, totals: Floats) -> None:
        alpha = self._alpha(state)
        share = alpha / (float(state.total) + alpha)
        state.zeta -= alpha * (self.degrees[:, None] * sent - totals)
        state.eta += share * (state.zeta - state.eta)
        state.estimate += share * (sent - state.estimate)
        state.total += alpha
        state.rounds += 1

    def reset(self, state: DCWBState, row: int) -> None:
        state.zeta[row], state.eta[row], state.estimate[row] = 0.0, 0.0, 0.0

    def duals(self, state: DCWBState, steps: int, received: Inbox | None = None) -> Floats:
        return state.eta * self.scale
