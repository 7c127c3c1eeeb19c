"""What a rival leaves behind: its estimate of the barycenter over virtual time, and what it has sent by then."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# the delays of a message in the experiments of the A2DWB paper, in seconds
DELAYS = np.array([0.2, 0.4, 0.6, 0.8, 1.0])
# bytes of a number, and of the header of a message
NUMBER, HEADER = 8, 32


@dataclass
class Curve:
    """``times (k,)`` in virtual seconds, ``sent (k,)`` in bytes, ``estimates (k, n)``: the mean of the nodes' own."""

    times: list[float] = field(default_factory=list)
    sent: list[float] = field(default_factory=list)
    estimates: list[Floats] = field(default_factory=list)

    def record(self, time: float, sent: float, estimate: Floats) -> None:
        """Add a row."""
        self.times.append(time)
        self.sent.append(sent)
        self.estimates.append(np.array(estimate))


def slowest(messages: int, rng: np.random.Generator) -> float:
    """Virtual seconds until the last of some messages has arrived, which were all sent at once."""
    return float(rng.choice(DELAYS, messages).max())
