"""The nodes of a barycenter as the exact solver sees them, wherever they are: all that it learns of them are sums.

The potentials x of the nodes stay where the nodes are, and so does the history of the acceleration. An iteration needs
the sum of n numbers over all nodes, and the acceleration a sum of a few; so the solver is the same for nodes in this
process (rows.py) and for shards of them in several places, whose sums it adds up (shards.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from barymesh.exact.certificate import NodeBounds
from barymesh.support.points import Support

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True)
class Evaluation:
    """What nodes add to an iteration, weighted: the ``value`` of their dual functions, in units of reg, and ``(n,)``
    each: ``mean`` of the logarithms of their estimates, and ``drift`` of their potentials x."""

    value: float
    mean: Floats
    drift: Floats

    def __add__(self, other: Evaluation) -> Evaluation:
        return Evaluation(self.value + other.value, self.mean + other.mean, self.drift + other.drift)


@dataclass(frozen=True)
class Ahead:
    """The calls that follow ``residual`` unless the iteration ends there: ``close_slot(slot, relaxation)`` and ``gram``
    with this ``count``."""

    slot: int
    relaxation: float
    count: int


@dataclass(frozen=True)
class ResidualSums:
    """What nodes add to ``residual`` and to the ``gram`` that follows it."""

    error: float
    gram: Floats

    def __add__(self, other: ResidualSums) -> ResidualSums:
        return ResidualSums(self.error + other.error, self.gram + other.gram)


@dataclass(frozen=True)
class RoundSums:
    """What nodes add to a round (methods/base.py): the weighted ``average (up,)`` of their contributions. ``error``:
    the largest of theirs."""

    average: Floats
    error: float

    def __add__(self, other: RoundSums) -> RoundSums:
        return RoundSums(self.average + other.average, max(self.error, other.error))


class NodeGroup(ABC):
    """``count`` nodes on a support of ``size`` points, with their potentials ``x (count, size)`` in units of ``reg``,
    which are 0 at first. Everything that its methods return is a sum over the nodes, each times its weight, unless it
    says otherwise."""

    count: int
    size: int
    reg: float

    # the potentials

    @abstractmethod
    def total(self) -> Floats:
        """``(n,)``: the sum of the potentials."""

    @abstractmethod
    def shift(self, by: Floats) -> None:
        """Add ``by (n,)`` to the potentials of every node."""

    @abstractmethod
    def reset(self) -> None:
        """All potentials are 0 again."""

    @abstractmethod
    def save(self) -> None:
        """Remember the potentials as they are now."""

    @abstractmethod
    def restore(self) -> None:
        """Go back to the potentials that were saved last."""

    # an iteration

    @abstractmethod
    def evaluate(self) -> Evaluation:
        """Evaluate the oracle at the potentials."""

    @abstractmethod
    def residual(self, mean: Floats, p: Floats, ahead: Ahead | None = None) -> float:
        """``sum_i w_i |p_i - p|_1``, for ``p (n,)``. The residuals become ``mean - log p_i``, for ``mean (n,)``.
        ``ahead``: announces what is likely to follow, so that nodes elsewhere can do it in the same call."""

    def residual_ahead(self, mean: Floats, p: Floats, ahead: Ahead) -> ResidualSums:
        """``residual`` and what follows it."""
        error = self.residual(mean, p, ahead)
        self.close_slot(ahead.slot, ahead.relaxation)
        return ResidualSums(error, self.gram(ahead.count, p))

    @abstractmethod
    def adjust(self, by: Floats) -> None:
        """Add ``by (n,)`` to the residuals."""

    # its acceleration, see anderson.py

    @abstractmethod
    def begin_history(self, depth: int, brief: bool) -> None:
        """Make room for the history of ``depth`` steps; ``brief``: with 16 bits a number."""

    @abstractmethod
    def close_slot(self, slot: int, relaxation: float) -> None:
        """Turn the last step and the residual before it, kept in this slot of the history, into differences."""

    @abstractmethod
    def gram(self, count: int, p: Floats) -> Floats:
        """``(count, count + 1)``: the products of the first ``count`` differences of residuals with one another, of
        which the lower triangle is 0, and with the residual, in the norm with the weights ``p (n,)``."""

    @abstractmethod
    def move(self, drift: Floats, coefficients: Floats, relaxation: float, slot: int) -> None:
        """Take the step ``-drift + relaxation r - sum_q c_q (dx_q + relaxation dr_q)``, and keep it in the slot."""

    @abstractmethod
    def undo(self, slot: int) -> None:
        """Take the plain step ``-drift + r`` in place of the last one."""

    @abstractmethod
    def end_history(self) -> None:
        """Forget the history, which takes most of the memory."""

    # levels: other points, another regularisation

    @abstractmethod
    def coarsen(self, support: Support) -> None:
        """Pass to coarser measures on a coarser support, with all potentials 0."""

    @abstractmethod
    def refine(self) -> Floats:
        """Pass back to the finer ones. ``(n,)``: what is to be added to all potentials so that they sum to zero."""

    @abstractmethod
    def use(self, reg: float) -> None:
        """Pass to this regularisation, and to float64; ``reg x`` stays."""

    # rounds, see methods/base.py

    @abstractmethod
    def begin_rounds(self, chosen: bool) -> None:
        """Begin to work in rounds, from the potentials as they are. ``chosen``: as on a network, where the user has
        chosen this method; otherwise towards the entropic barycenter, with one step of a node in a round, since rounds
        cost little here."""

    @abstractmethod
    def respond(self, target: Floats | None) -> RoundSums:
        """What the nodes contribute after they have acted on the ``target (down,)``; None: before any."""

    @abstractmethod
    def end_rounds(self, points: Floats | None = None) -> None:
        """The potentials become those of the rounds; ``points (n, d)``: where the support has moved."""

    @abstractmethod
    def draw(self, shares: NDArray[np.int64], start: int) -> Floats:
        """``(sum of the shares, d)``, one node after the other: draws from the measures, ``shares (m,)`` of each."""

    # results

    @abstractmethod
    def distance(self, p: Floats) -> float:
        """``sum_i w_i |p_i - p|_1``, for ``p (n,)``; it ends an iteration."""

    @abstractmethod
    def bounds(self, p: Floats) -> NodeBounds:
        """What the nodes add to the certificate of ``p (n,)``."""

    @abstractmethod
    def log_estimates(self, numbers: Indices | None = None) -> Floats:
        """``(k, n)``, not a sum: the logarithms of the estimates of some nodes; or of all, which ends an iteration."""

    @abstractmethod
    def potentials(self) -> Floats:
        """``(m, n)``, not a sum: x of all nodes."""

    @abstractmethod
    def set_potentials(self, x: Floats) -> None:
        """Set the potentials ``x (m, n)`` of all nodes."""
