"""The weights theta_1, theta_2, ... of the accelerated methods.

    theta_1 = 1/m,      theta_{k+1} = (sqrt(theta_k^4 + 4 theta_k^2) - theta_k^2) / 2

so that ``(1 - theta_{k+1}) / theta_{k+1}^2 = 1 / theta_k^2`` and ``1/(k-1+2m) <= theta_k <= 2/(k-1+2m)``.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from barymesh.checks import whole_number
from barymesh.core import kernels
from barymesh.errors import OptionError

Floats = NDArray[np.float64]
# values computed at a time; one number is kept for each such block already passed, and the last few blocks
BLOCK = 2**16
BLOCKS_HELD = 32


class ThetaSequence:
    """The sequence for ``m`` blocks or nodes, at any places, in memory that hardly grows with them.

    The formula above loses digits by cancellation. The inverse ``s = 1/theta`` obeys ``s' = (1 + sqrt(1 + 4 s^2))/2``,
    which is just over ``s + 1/2``. Only the excess r is added up, so that no digits are lost at large k either:

        s_k = (k-1)/2 + m + r_k,        r_1 = 0,        r_{k+1} = r_k + 1 / (2 sqrt(1 + 4 s_k^2) + 4 s_k)
    """

    def __init__(self, m: int) -> None:
        self.m = whole_number("The number of blocks m", m, 1)
        self._excess_at_starts: list[float] = [0.0]
        self._held: dict[int, Floats] = {}

    def at(self, steps: ArrayLike) -> Floats:
        """``theta_k`` for every k in ``steps``, whole numbers from 1 on, in any order; an array of the same shape.

        The value at k does not depend on earlier calls. Places near those of the last call are cheapest.
        """
        places = _checked_places(steps)
        return np.asarray(1.0 / (0.5 * (places - 1) + self.m + self._excess(places)))

    def excess(self, steps: ArrayLike) -> Floats:
        """``r_k = 1/theta_k - (k-1)/2 - m`` for every k in ``steps``: a number from 0 to log(1 + k/m)/4, with digits
        that theta_k itself has no room for. See ``square_change``."""
        return self._excess(_checked_places(steps))

    def __iter__(self) -> Iterator[float]:
        """``r_1, r_2, ...`` without end."""
        for block in count():
            yield from self._block(block).tolist()

    def _excess(self, places: NDArray[np.int64]) -> Floats:
        blocks, inside = np.divmod(places.ravel() - 1, BLOCK)
        if blocks.size and blocks.min() == blocks.max():
            return np.asarray(self._block(int(blocks[0]))[inside].reshape(places.shape))
        order = np.argsort(blocks, kind="stable")
        out = np.empty(places.size)
        for same_block in np.split(order, np.flatnonzero(np.diff(blocks[order])) + 1):
            if same_block.size:
                out[same_block] = self._block(int(blocks[same_block[0]]))[inside[same_block]]
        return out.reshape(places.shape)

    def _block(self, block: int) -> Floats:
        """The values from ``block * BLOCK + 1`` on."""
        if block not in self._held:
            if len(self._held) >= BLOCKS_HELD:
                self._held.pop(min(self._held))
            starts, values = self._excess_at_starts, np.empty(BLOCK)
            for current in range(min(block, len(starts) - 1), block + 1):
                following = kernels.theta_excesses(starts[current], current * BLOCK, self.m, values)
                if current + 1 == len(starts):
                    starts.append(following)
            self._held[block] = values
        return self._held[block]


def square_change(k: Any, excess: Any, last: Any, last_excess: Any, m: int) -> Any:
    """``(theta_k / theta_last)^2 - 1`` for indices ``k >= last`` with their excesses; numbers or arrays.

    It is about ``2 (last - k)/k``, so computing it from two rounded thetas would lose as many digits as k has. Computed
    from indices and excesses it is exact to rounding:

        s = (k-1)/2 + m + r,        (theta_k / theta_last)^2 - 1 = -(s - s_last)(s + s_last) / s^2
        s - s_last = (k - last)/2 + (r - r_last)
    """
    inverse, last_inverse = 0.5 * (k - 1) + m + excess, 0.5 * (last - 1) + m + last_excess
    return -(0.5 * (k - last) + (excess - last_excess)) * (inverse + last_inverse) / (inverse * inverse)


def _checked_places(steps: Any) -> NDArray[np.int64]:
    try:
        places = np.asarray(steps)
    except ValueError as cause:
        raise OptionError(f"The places in the sequence are {type(steps).__name__}, not an array ({cause}).") from cause
    if places.size == 0:
        return np.zeros(places.shape, dtype=np.int64)
    if places.dtype.kind not in "iu":
        raise OptionError(f"The places in the sequence have type {places.dtype}; they must be whole numbers from 1 on.")
    if places.min() < 1:
        raise OptionError(f"Place {places.min()} of the sequence does not exist; the first one is 1.")
    return places.astype(np.int64)
