"""Compiled parts of the theta sequence; see decentralized/baselines/theta.py for what the numbers mean."""

from __future__ import annotations

import math
from typing import Any

from barymesh.core.compiling import compiled


def square_change(k: Any, excess: Any, last: Any, last_excess: Any, m: int) -> Any:
    """``(theta_k / theta_last)^2 - 1`` for indices ``k >= last`` with their excesses; numbers or arrays.

    It is about ``2 (last - k)/k``, so computing it from two rounded thetas would lose as many digits as k has. Computed
    from indices and excesses it is exact to rounding:

        s = (k-1)/2 + m + r,        (theta_k / theta_last)^2 - 1 = -(s - s_last)(s + s_last) / s^2
        s - s_last = (k - last)/2 + (r - r_last)
    """
    inverse, last_inverse = 0.5 * (k - 1) + m + excess, 0.5 * (last - 1) + m + last_excess
    return -(0.5 * (k - last) + (excess - last_excess)) * (inverse + last_inverse) / (inverse * inverse)


@compiled
def fill_excesses(excess, start, m, out):
    """``out[i] = r_{start + 1 + i}``, given ``excess = r_{start + 1}``; returns r for the next block."""
    for i in range(out.size):
        out[i] = excess
        inverse = 0.5 * (start + i) + m + excess
        excess += 0.5 / (math.sqrt(1.0 + 4.0 * inverse * inverse) + 2.0 * inverse)
    return excess
