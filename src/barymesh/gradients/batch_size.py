"""How many samples a gradient uses."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GrowingBatch:
    """The paper's growing mini-batches.

    Parameters
    ----------
    epsilon : float
        The accuracy wanted of the dual objective (of the sum over the nodes).
    """

    epsilon: float


# a number, "exact" for all of a measure, or a rule
BatchSize = int | str | GrowingBatch
