"""Plain iterative Bregman projections with a server (Kroshnin et al. 2019, arXiv 1901.08686): what the unaccelerated
iteration takes when everybody is one hop away.

In units of reg, an iteration is

    worker i:   h_i = log p_i(x_i)                        sent to the server
    server:     a = sum_i h_i / m                         sent to all
    worker i:   x_i += a - h_i

and lasts as long as the slowest message to the server and the slowest one back.
"""

from __future__ import annotations

import numpy as np

from barymesh.oracle.base import Oracle
from benchmarks.rivals.curve import HEADER, NUMBER, Curve, slowest


def server_sinkhorn(oracle: Oracle, seconds: float, seed: int = 0) -> Curve:
    """Iterate for so many virtual seconds."""
    rng, curve = np.random.default_rng(seed), Curve()
    count, size = oracle.count, oracle.size
    x = np.zeros((count, size))
    time = sent = 0.0
    while time <= seconds:
        _, log_p = oracle.evaluate(x)
        mean = log_p.mean(axis=0)
        estimate = np.exp(mean - mean.max())
        curve.record(time, sent, estimate / estimate.sum())
        x += mean - log_p
        time += slowest(count, rng) + slowest(count, rng)
        sent += 2 * count * (NUMBER * size + HEADER)
    return curve
