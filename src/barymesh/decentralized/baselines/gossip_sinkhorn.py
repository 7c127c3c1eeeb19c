"""Gossip Sinkhorn, the synchronous baseline in the log domain (Baheri, Millard, Vahid, arXiv 2509.14521).

Sinkhorn's iteration needs one quantity of all nodes: the mean of the log-messages, the logarithm of their geometric
mean. Here the nodes look for it by gossip, in phases of K rounds. In units of reg, ``x = lam / reg``, each phase is

    phi_i = log p_i(x_i) - x_i                             the local update: its log-message
    y_i   = w_i phi_i,   s_i = w_i                         what is averaged, and its weight
    K times:   y_i = sum_j P_ij y_j,   s_i = sum_j P_ij s_j
    x_i   = y_i / s_i - phi_i                              as if y_i / s_i were the logarithm of the barycenter

Were ``y_i / s_i`` the true mean ``sum_j w_j phi_j``, this would be Sinkhorn. But K is fixed, so it is off by some share
``rho^K`` of the disagreement of the phi, which does not vanish at the solution: the nodes converge to a neighbourhood
of the barycenter only, the smaller the larger K. The paper's event triggers and its quantisation save bytes and widen
that neighbourhood; they are left out.

**The averaging.** P is symmetric, with rows of sum 1. A node gets only the sum of its neighbours' messages, so the
usual weights of an edge, ``1 / (1 + max(deg_i, deg_j))``, are out of reach. A product of one factor for each end is
not: node j sends ``f_j y_j``, and

    y_i += c f_i sum_{j in N(i)} f_j (y_j - y_i),          f_i = 1 / sqrt(1 + deg_i)

with c as large as ``P_ii >= c f_i^2`` allows: one number, which the nodes agree on beforehand. On a regular graph this
is the usual P, on a complete one a single round gives the mean.

**Feasibility.** P keeps ``sum_i y_i``. With equal weights s never changes, so ``sum_i w_i x_i = 0`` after every phase,
and what is wrong in the end is the consensus alone. With unequal weights feasibility too is only as good as the
averaging.

**Odd K.** A negative eigenvalue of P is one of ``P^K`` too if K is odd. The averages then lie beyond the mean, x
overshoots, and on networks that are nearly bipartite the nodes end farther apart than they began. So the first round of
an odd phase is lazy, ``(1 + P)/2``; with it the phase as a whole has no negative eigenvalue.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from barymesh.checks import whole_number
from barymesh.decentralized.algorithm import Floats, Indices, Nodes, SynchronousAlgorithm
from barymesh.decentralized.inbox import Inbox
from barymesh.gradients.logarithmic import LogGradients
from barymesh.measures import Atoms
from barymesh.network.topology import Network, adjacency, require_unweighted
from barymesh.state import State

# the share of the disagreement that a phase leaves by default
TOLERANCE = 1e-3


@dataclass
class GossipSinkhornState(State):
    """``x (m, n)``: the duals in units of reg, as the last phase left them; ``phi (m, n)``: the log-messages they gave;
    ``mixed (m, n + 1)``: y and s, as far as this phase has averaged them; ``rounds``: how many there were."""

    x: Floats
    phi: Floats
    mixed: Floats
    rounds: NDArray[np.int64]


class GossipSinkhorn(SynchronousAlgorithm[GossipSinkhornState]):
    """Sinkhorn with the mean replaced by ``rounds_per_phase`` rounds of averaging.

    By default a phase has as many rounds as it takes to leave a thousandth of the disagreement. That comes from the
    spectrum of P, and so, like the step of DCWB, from knowledge of the whole network.

    Conserves the sum of the duals if the nodes have equal weights. What a reset breaks of it is whole again after the
    next full phase, because x is made anew in each.
    """

    name = "gossip_sinkhorn"

    def __init__(self, nodes: Nodes, log_gradients: LogGradients, rounds_per_phase: int | None = None) -> None:
        network, problem = nodes.network, log_gradients.problem
        require_unweighted(network, self.name)
        self.nodes, self.size, self.width = nodes, nodes.size, problem.support.size + 1
        self.reg, self.weights, self.log_gradients = problem.reg, problem.weights[: nodes.size, None], log_gradients
        self.conserves = bool((self.weights == self.weights[0]).all())
        if rounds_per_phase is None:
            rounds_per_phase = agreeing_rounds(network, TOLERANCE)
        self.rounds_per_phase = whole_number("rounds_per_phase", rounds_per_phase, 1)
        factors, reach, c = averaging(network)
        self.factors, self.reach = factors[:, None], reach[:, None]
        self.gains = c * self.factors

    def start(self) -> GossipSinkhornState:
        x = np.zeros((self.size, self.width - 1))
        state = GossipSinkhornState(
            x, np.empty_like(x), np.empty((self.size, self.width)), np.zeros((), dtype=np.int64)
        )
        self._begin_phase(state, np.arange(self.size))
        return state

    def _begin_phase(self, state: GossipSinkhornState, nodes: Indices) -> None:
        x = state.x[nodes]
        state.phi[nodes] = self.log_gradients.at(x, nodes, self._phases(state, nodes)) - x
        state.mixed[nodes] = self.weights[nodes] * np.column_stack([state.phi[nodes], np.ones(nodes.size)])

    def _phases(self, state: GossipSinkhornState, nodes: Indices) -> NDArray[np.int64]:
        """``(b,)``: how many phases the nodes have completed."""
        return np.full(nodes.size, state.rounds // self.rounds_per_phase)

    def messages(self, state: GossipSinkhornState) -> Floats:
        return self.factors * state.mixed

    def update(self, state: GossipSinkhornState, sent: Floats, totals: Floats) -> None:
        lazy = self.rounds_per_phase % 2 == 1 and state.rounds % self.rounds_per_phase == 0
        state.mixed += (0.5 if lazy else 1.0) * self.gains * (totals - self.reach * state.mixed)
        state.rounds += 1
        if state.rounds % self.rounds_per_phase == 0:
            x = state.mixed[:, :-1] / state.mixed[:, -1:] - state.phi
            # p does not see a constant; left in, it would grow with every phase
            state.x[:] = x - x.mean(axis=1, keepdims=True)
            self._begin_phase(state, np.arange(self.size))

    def reset(self, state: GossipSinkhornState, row: int) -> None:
        state.x[row] = 0.0
        self._begin_phase(state, np.array([row]))

    def duals(self, state: GossipSinkhornState, steps: int, received: Inbox | None = None) -> Floats:
        return self.reg * state.x

    def known_atoms(self, state: GossipSinkhornState, rows: Indices) -> list[Atoms] | None:
        return None if self.log_gradients.final else self.log_gradients.known_atoms(rows, self._phases(state, rows))


def averaging(network: Network) -> tuple[Floats, Floats, float]:
    """The factors ``f (m,)``, their sums over the neighbours ``(m,)``, and ``c``; see the module's text."""
    factors = 1.0 / np.sqrt(1.0 + network.degrees)
    reach = adjacency(network.size, network.edges) @ factors
    return factors, reach, 1.0 / float((factors * (factors + reach)).max())


def agreeing_rounds(network: Network, tolerance: float) -> int:
    """The least even number of rounds that brings every disagreement down to ``tolerance`` of what it was."""
    factors, _, c = averaging(network)
    first, second = network.edges.T
    # P = 1 - W for the Laplacian W of the network with these weights
    mixing = Network(network.size, network.edges, c * factors[first] * factors[second])
    # two rounds are the least there can be, also where one is enough
    rho = max(1.0 - mixing.spectral_gap, mixing.lambda_max - 1.0, tolerance)
    return 2 * int(np.ceil(np.log(tolerance) / np.log(rho) / 2))
