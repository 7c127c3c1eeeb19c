"""What the root orders in rounds, what it learns from the nodes' reports, and what all of them remember."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from barymesh.methods.base import Floats
from barymesh.methods.entropic import EntropicState


class Order(IntEnum):
    """The numbers after the logarithms in a target.

    ACCEPTED: the step before was good, and the next begins where it ended; otherwise where it began. LENGTH of the
    step: 0 for none. PLAIN: it is the plain step. DAMPING and STAGE of the regularisation after the step. CERTIFY: it
    leads to the barycenter, and an upper bound is wanted. GAP: the certificate, once there is one.
    """

    ACCEPTED = 0
    LENGTH = 1
    PLAIN = 2
    DAMPING = 3
    STAGE = 4
    CERTIFY = 5
    GAP = 6


class Phase(IntEnum):
    """What the root waits for: nothing yet, the outcome of a step of full length, of a shorter one, of one that is kept
    whatever comes of it, the certificate, or a first report of nodes that are close and need only that."""

    NONE = 0
    FULL = 1
    SHORT = 2
    SURE = 3
    CERTIFICATE = 4
    CLOSE = 5


@dataclass
class RoundsState(EntropicState):
    """Of every node, each ``(k, n)``: ``h``, its log-gradient at x; ``base`` and ``base_h``, where its last step began;
    ``origin``, the target that it has; ``move``, ``G (h - origin) - x``, and ``matrix (k, n, n)``, G, where they are
    sent. Each ``(k,)``: ``value`` of its dual function at x and ``upper``, the bound; ``damping`` of the matrix and
    ``stage`` of the regularisation, and those of the base; ``valid``, whether all this belongs to the present x and
    measure. ``certified (k, n)``: the target of its last certificate, NaN before the first.

    Of a root: ``phase``; of the last step that was kept, ``base_merit``, ``base_spread``, ``base_mean (k, n)`` and
    ``base_drift (k, n)``, averages of h and x; ``counted``, the weight of the nodes then; ``kept``, how many were.
    """

    h: Floats = field(kw_only=True)
    base: Floats = field(kw_only=True)
    base_h: Floats = field(kw_only=True)
    origin: Floats = field(kw_only=True)
    move: Floats = field(kw_only=True)
    matrix: Floats = field(kw_only=True)
    value: Floats = field(kw_only=True)
    upper: Floats = field(kw_only=True)
    damping: Floats = field(kw_only=True)
    base_damping: Floats = field(kw_only=True)
    stage: NDArray[np.int64] = field(kw_only=True)
    valid: NDArray[np.bool_] = field(kw_only=True)
    phase: NDArray[np.int64] = field(kw_only=True)
    base_merit: Floats = field(kw_only=True)
    base_spread: Floats = field(kw_only=True)
    base_mean: Floats = field(kw_only=True)
    base_drift: Floats = field(kw_only=True)
    counted: Floats = field(kw_only=True)
    kept: NDArray[np.int64] = field(kw_only=True)
    base_stage: NDArray[np.int64] = field(kw_only=True)
    certified: Floats = field(kw_only=True)


@dataclass(frozen=True)
class Report:
    """The averages over all nodes: of h, ``mean (n,)``, and of x, ``drift (n,)``, less its mean under q; ``upper``
    bound on the cost, ``stage``; ``move (n,)`` and ``matrix (n, n)``, if they are sent; and what follows from these:
    ``log_q (n,)``, ``spread`` and ``merit``, see above."""

    mean: Floats
    drift: Floats
    upper: float
    stage: int
    move: Floats
    matrix: Floats
    log_q: Floats
    spread: float
    merit: float

    @property
    def infeasibility(self) -> float:
        """The mean size of the drift under q."""
        return float(np.exp(self.log_q) @ np.abs(self.drift))
