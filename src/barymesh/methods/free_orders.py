"""What the root orders where the points of the support move, and what all nodes remember."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from barymesh.methods.base import Floats
from barymesh.state import State


class FreeOrder(IntEnum):
    """The numbers after the points and the logarithms of the weights in a target.

    ACCURACY of the nodes' transports. START: the number of the start. RESET: nodes forget their potentials first.
    CERTIFY: the points are final, and an upper bound is wanted. GAP: the certificate, once there is one.
    """

    ACCURACY = 0
    START = 1
    RESET = 2
    CERTIFY = 3
    GAP = 4


@dataclass
class FreeSupportState(State):
    """Of every node: ``x`` and ``h = log p(x)``, each ``(k, n)``; ``points`` that it has, and its ``projections`` of
    them, each ``(k, n d)``; ``(k,)`` each: ``value`` of its dual function at x, ``upper``, the bound, both in units of
    reg; ``error``, ``measure``; ``valid``, whether all this belongs to the present x and measure.

    Of a root: ``best (k,)``, the lowest objective of the starts before this one, ``best_points (k, n d)`` and
    ``best_weights (k, n)``, logarithms; ``tried (k,)``, how many starts these were; ``last_places (k, n d)``, the
    average of the last projections but one, and ``moves (k,)``, for how many moves the points have gathered momentum;
    ``last_objective (k,)``, ``last_weights (k, n)``, logarithms, and the ``length (k,)`` of steps of the weights.
    """

    x: Floats
    h: Floats
    points: Floats
    projections: Floats
    value: Floats
    upper: Floats
    error: Floats
    measure: NDArray[np.int64]
    valid: NDArray[np.bool_]
    best: Floats
    best_points: Floats
    best_weights: Floats
    tried: NDArray[np.int64]
    last_places: Floats
    moves: NDArray[np.int64]
    last_objective: Floats
    last_weights: Floats
    length: Floats


@dataclass(frozen=True)
class FreeTarget:
    """A target in parts: ``points (n, d)``, ``log_weights (n,)`` and the ``order``, see ``FreeOrder``."""

    points: Floats
    log_weights: Floats
    order: Floats

    @property
    def as_array(self) -> Floats:
        return np.concatenate([self.points.ravel(), self.log_weights, self.order])
