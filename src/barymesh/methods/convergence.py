"""How far an iteration still has to go, from how fast it has come closer."""

from __future__ import annotations

from barymesh.methods.base import UNKNOWN_ERROR

# how fast a slow rate of convergence is forgotten, and the slowest that is assumed
FORGETTING, SLOWEST, TINY = 0.9, 1.0 - 1e-3, 1e-300


def remaining_distance(left: float, before: float, rate: float) -> tuple[float, float]:
    """The rate, and the distance that remains, in L1: it was ``before`` one step ago, and has shrunk to ``left``. If it
    keeps shrinking at this rate, all steps to come add up to ``left / (1 - rate)``. Where the iteration crawls,
    ``left`` alone is far too little. ``rate``: that of the step before."""
    rate = min(max(left / max(before, TINY), FORGETTING * rate), SLOWEST)
    return rate, min(left / (1.0 - rate), UNKNOWN_ERROR)
