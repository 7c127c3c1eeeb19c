"""A2DWB that keeps the sum of the duals: nodes send cumulative sums, not gradients.

At activation k of node i, with ``theta = theta_{k+1}`` and the newest received ``(u_j, v_j)`` of its neighbours:

    omega_i = deg(i) (u_i + theta^2 v_i) - sum_j (u_j + theta^2 v_j)
    g_i     = estimate of p_i(omega_i)
    delta   = gamma_k / (m theta) * (g_i - 1/n)
    u_i    -= delta,    v_i += (1 - m theta) / theta^2 * delta,    (u_i, v_i) sent to the neighbours

The 1/n moves lam_i by a constant over the support, which changes no measure; it keeps the numbers small. The degree
counts only neighbours from which a message has arrived.

**What the network holds** is ``lam = W (u + theta^2 v)``, with the Laplacian W. Its rows add up to zero whatever u and
v are, so the duals are feasible to rounding at any time: no delay, loss, copy, sleep or crash can change that. The
point at which a node evaluates its oracle differs from lam by the messages in transit. A newer sum replaces an older
one, so a lost message is made up for by the next; and a stale one is taken at the *present* theta, as PASBCDS wants it
and A2DWB does not.

**Damped growth.** In A2DWB steps go along differences of gradients and vanish once the nodes agree. Here each node's
own gradient stays, and only the Laplacian takes it out: u and v move on together for ever, and a node that knows a
neighbour as it was ``a`` activations ago is off by about ``gamma a (1 + a/2) p``. With the published constant gamma
that is a floor, or, where gamma is large for the delays, an oscillation that grows. So the step shrinks slowly,

    gamma_k = gamma / sqrt(1 + k / (m full_steps))

and takes the floor down with it; ``gamma_k / (m theta)`` still grows, like sqrt(k).

For the same reason a node that sleeps or is cut off for long, and so no longer moves with the others, pulls its
neighbours away from the barycenter, though never from feasibility; they recover after its return.

**Accuracy.** All nodes move on together much further than apart, so the digits that lam loses are those of this common
way, whether u and v are stored or, as in A2DWB, ``u + theta^2 v``. A million activations cost about 1e-11.

**A crash without memory** leaves a node at zero, far behind the others. That would be feasible too, but the way back
would be as long as the run so far. So the node waits for its neighbours' sums and starts at their mean, where
``lam_i = 0`` as at the beginning. Until then it counts as absent: lam is that of the network without it, and it sends
zeros, also for the last number of a message, which is 1 from all other nodes and thus counts the neighbours that take
part. If it receives nothing for PATIENCE activations (all may have crashed), it begins at zero.

With node weights w_i the oracle is evaluated at ``lam_i = omega_i / (m w_i)``; feasible means ``sum_i w_i lam_i = 0``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from barymesh.decentralized.algorithm import AsynchronousAlgorithm, Batch, Floats, Nodes
from barymesh.decentralized.baselines.theta import ThetaSequence
from barymesh.decentralized.inbox import Inbox
from barymesh.errors import OptionError
from barymesh.gradients.plain import Gradients
from barymesh.network.topology import adjacency, require_unweighted
from barymesh.state import State

# activations for which a node without memory waits for the sums of its neighbours
PATIENCE = 50


@dataclass
class ConservingState(State):
    """``u, v (m, n)``; ``waiting (m,)``: activations for which a node without memory still waits for its neighbours'
    sums, 0 for all that take part."""

    u: Floats
    v: Floats
    waiting: NDArray[np.int64]


class ConservingA2DWB(AsynchronousAlgorithm[ConservingState]):
    """Asynchronous accelerated dual descent whose duals are feasible at any time.

    ``full_steps``: activations per node after which the step begins to shrink; infinite for a constant step.
    """

    name = "a2dwb_conserving"
    conserves = True

    def __init__(self, points: int, nodes: Nodes, gradients: Gradients, step: float, full_steps: float = 32.0) -> None:
        require_unweighted(nodes.network, self.name)
        if not full_steps > 0:
            raise OptionError(f"full_steps is {full_steps!r}; it must be a positive number of activations per node.")
        self.nodes, self.points = nodes, points
        self.width = 2 * points + 1
        self.gradients, self.step, self.full_steps = gradients, step, full_steps
        self.scale = (1.0 / nodes.weights)[:, None]
        self.thetas = ThetaSequence(nodes.size)

    def start(self) -> ConservingState:
        zeros = np.zeros((self.nodes.count, self.points))
        return ConservingState(zeros, zeros.copy(), np.zeros(self.nodes.count, dtype=np.int64))

    def first_messages(self, state: ConservingState) -> Floats:
        return np.hstack([state.u, state.v, np.ones((self.nodes.count, 1))])

    def activate(self, state: ConservingState, batch: Batch, inbox: Inbox) -> Floats:
        rows, theta = batch.rows, self.thetas.at(batch.steps + 1)[:, None]
        around_u, around_v, present = self._split(inbox)
        u, v = state.u[rows], state.v[rows]

        found = (state.waiting[rows] > 0) & (present[:, 0] > 0)
        u[found], v[found] = around_u[found] / present[found], around_v[found] / present[found]
        state.waiting[rows] = np.where(found, 0, np.maximum(state.waiting[rows] - 1, 0))
        takes_part = (state.waiting[rows] == 0)[:, None]

        omega = present * (u + theta**2 * v) - (around_u + theta**2 * around_v)
        g = self.gradients.at(omega * self.scale[rows], rows, batch.counts + 1, batch.steps)
        damping = np.sqrt(1.0 + batch.steps / (self.nodes.size * self.full_steps))[:, None]
        share = self.nodes.size * theta
        delta = takes_part * (self.step / (damping * share)) * (g - 1.0 / self.points)
        u -= delta
        v += (1.0 - share) / theta**2 * delta
        state.u[rows], state.v[rows] = u, v
        return np.hstack([u, v, takes_part])

    def _split(self, inbox: Inbox) -> tuple[Floats, Floats, Floats]:
        """The sums of the neighbours' u and v, and how many of them take part."""
        u, v, present = np.split(inbox.sum()[0], [self.points, 2 * self.points], axis=1)
        return u, v, present

    def reset(self, state: ConservingState, row: int) -> None:
        state.u[row], state.v[row], state.waiting[row] = 0.0, 0.0, PATIENCE

    def duals(self, state: ConservingState, steps: int, received: Inbox | None = None) -> Floats:
        present = (state.waiting == 0)[:, None].astype(float)
        if received is not None:
            square = self.thetas.at(max(steps, 1)) ** 2
            around_u, around_v, others = self._split(received)
            omega = others * (state.u + square * state.v) - (around_u + square * around_v)
            return np.asarray(present * omega * self.scale)
        sums = present * (state.u + self.thetas.at(max(steps, 1)) ** 2 * state.v)
        # W takes out what is common to all; without it, less is left to rounding
        sums -= present * (sums.sum(axis=0) / max(present.sum(), 1.0))
        around = adjacency(self.nodes.size, self.nodes.network.edges)
        laplacian = (around @ present) * sums - around @ sums
        return np.asarray(present * laplacian * self.scale)
