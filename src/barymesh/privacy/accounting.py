"""The noise that (epsilon, delta) requires, and the epsilon of several releases together."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from barymesh.checks import real_number
from barymesh.errors import OptionError
from barymesh.extras import needs

# beyond this an attacker may be e^20 times as sure after the release as before
LARGEST_EPSILON = 20.0


def noise_multiplier(epsilon: float, delta: float) -> float:
    """The least z for which noise of deviation z times the L2 sensitivity is (epsilon, delta)-private."""
    given = real_number(epsilon)
    if given is None or not 0 < given <= LARGEST_EPSILON:
        raise OptionError(
            f"epsilon is {epsilon!r}; it must be a number above 0 and at most {LARGEST_EPSILON:g}, such as 1. With "
            "more, the noise protects nobody: leave privacy out and say so."
        )
    chance = real_number(delta)
    if chance is None or not 0 < chance < 1:
        raise OptionError(f"delta is {delta!r}; it must be a number between 0 and 1, such as 1e-6.")
    # the root that is found may lie on either side of the true one
    return float(_library().get_sigma_gaussian(given, chance)) * (1 + 1e-9)


def composed_epsilon(multipliers: Iterable[float], delta: float) -> float:
    """The epsilon, at this delta, of releases with these noise multipliers that all hold the same records.

    Gaussian releases add up exactly: together they reveal as much as one with ``1/z^2 = sum_k 1/z_k^2``, even if each
    was chosen with knowledge of those before.
    """
    information = math.fsum(z**-2.0 for z in multipliers)
    return float(_library().get_epsilon_gaussian(information**-0.5, delta)) if information > 0 else 0.0


def _library() -> Any:
    with needs("privacy"):
        import dp_accounting

    return dp_accounting
