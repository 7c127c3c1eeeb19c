"""Anderson acceleration for the Sinkhorn map ``x -> x + r(x)`` on all nodes at once.

After each step the caller calls ``keep`` with whether the step was good enough; a bad accelerated step is undone, and
the plain step taken in its place. The next point minimises the linear prediction of the residual over the last
``depth`` steps, in the norm

    |r|^2 = sum_i w_i sum_l p_l r_i(l)^2

which is the one that counts where the barycenter p has mass. The nodes keep the history, and all that is needed of it
here are products, which add up over the nodes. It is kept in float32, or in 16 bits a number where it is large: it only
shapes directions, whose size shrinks with the residual, so its rounding never limits the accuracy reached.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from barymesh.core import kernels
from barymesh.exact.nodes import Ahead, NodeGroup

Floats = NDArray[np.float64]

DEPTH = 5
# the plain part of each step is stretched: the map's Jacobian has its spectrum in [0, 1]
RELAXATION = 1.5
# relative to the largest history vector; keeps nearly parallel differences from blowing up the coefficients
RIDGE = 1e-10
# from so many numbers on, those of the history have 16 bits: they no longer fit the caches, and take most of the memory
LARGE = 2**18
# plain steps between two tries of an acceleration that keeps failing, so that it costs at most one step in nine
LONGEST_WAIT = 8


class Anderson:
    """The acceleration of some nodes."""

    def __init__(self, nodes: NodeGroup, depth: int = DEPTH, relaxation: float = RELAXATION) -> None:
        self.nodes, self.depth, self.relaxation = nodes, depth, relaxation
        nodes.begin_history(max(depth, 1), nodes.count * nodes.size >= LARGE)
        self.open_slot = -1
        self.count = 0
        self.patience = self.waiting = 0
        self.accelerated = False

    def ahead(self) -> Ahead | None:
        """What the next step will ask of the nodes, if the last one is kept and it accelerates."""
        if self.open_slot < 0 or self.waiting > 0:
            return None
        return Ahead(self.open_slot, self.relaxation, min(self.count + 1, self.depth))

    def step(self, drift: Floats, p: Floats, *, plain: bool = False) -> None:
        """Move the potentials, given their residuals; ``drift (n,)``, their sum, is subtracted. ``plain``: do not
        accelerate."""
        if self.open_slot >= 0:
            self.nodes.close_slot(self.open_slot, self.relaxation)
            self.count = min(self.count + 1, self.depth)
        coefficients = np.zeros(0)
        if self.count > 0 and self.waiting == 0 and not plain:
            found = np.empty(self.count)
            # residuals may be too large to be squared: the plain step can do without
            if kernels.least_squares(self.nodes.gram(self.count, p), RIDGE, found):
                coefficients = found
        self.accelerated = coefficients.size > 0
        self.waiting = max(0, self.waiting - 1)
        slot = (self.open_slot + 1) % max(self.depth, 1)
        self.nodes.move(drift, coefficients, self.relaxation if self.accelerated else 1.0, slot)
        self.open_slot = slot if self.depth else -1

    def keep(self, good: bool) -> bool:
        """Whether the last step is kept: a plain one always is, an accelerated one if it was ``good``.

        Otherwise the nodes take the plain step in its place, and the caller must evaluate again. After a rejection the
        acceleration waits longer for its next try, after a good step less.
        """
        if not self.accelerated:
            return True
        self.accelerated = False
        if good:
            self.patience //= 2
            return True
        self.nodes.undo(self.open_slot)
        self.patience = min(self.patience + 1, LONGEST_WAIT)
        self.waiting = self.patience
        return False
