"""Parallel streaming barycenters (Staib et al. 2017, arXiv 1705.07443): stochastic subgradients with a server, without
regularisation. The paper on A2DWB names it as the centralised rival.

The dual of the barycenter on fixed points is concave in the workers' potentials ``v_j (n,)``:

    max_v   min_l sum_j v_j(l) / m  +  sum_j E_{y ~ mu_j} min_l (c(z_l, y) - v_j(l)) / m

A worker draws y and finds ``l_W``, the place of the least ``c(z_l, y) - v_j(l)``; the server knows ``s = sum_j v_j``,
and with it ``l_M``, the place of its least entry. The step is

    v_j(l_M) += step,    v_j(l_W) -= step

Only the two places are sent. The barycenter is the share of the time that ``l_M`` spends at each point.

Workers act every 0.2 virtual seconds, on ``batch`` samples each time, with the last ``l_M`` that has reached them;
what they have found reaches the server later too. Nobody waits. The step shrinks with the square root of the time, as
subgradients need it to, and the estimate is the average over the last half of the time.
"""

from __future__ import annotations

import numpy as np

from benchmarks.rivals.curve import DELAYS, HEADER, Curve, Floats

TURN = 0.2
# bytes of the number of a point
PLACE = 4


def server_stochastic(
    costs: Floats, measures: Floats, seconds: float, *, step: float, batch: int = 10, seed: int = 0
) -> Curve:
    """``costs (n, N)`` between the points and the atoms, ``measures (m, N)``; ``step``: the first one, in units of the
    largest cost."""
    rng, curve = np.random.default_rng(seed), Curve()
    count, size = len(measures), len(costs)
    turns, late = int(seconds / TURN), int(DELAYS[-1] / TURN)
    v, nodes = np.zeros((count, size)), np.arange(count)
    cumulated = measures.cumsum(axis=1)
    # the server's sum and its least place, by turn; a message of a turn is used `late` turns later at most
    arriving = np.zeros((turns + late + 2, size))
    total, least = np.zeros(size), np.zeros(turns, dtype=np.intp)
    visits = np.zeros((turns + 1, size))
    first = step * float(costs.max())
    for turn in range(turns):
        total += arriving[turn]
        least[turn] = int(total.argmin())
        visits[turn + 1] = visits[turn]
        visits[turn + 1, least[turn]] += 1
        length = first / np.sqrt(1.0 + turn) / batch
        known = least[np.maximum(turn - _turns_late(rng, count), 0)]
        arrival = turn + _turns_late(rng, count)
        for _ in range(batch):
            atoms = (cumulated > rng.random(count)[:, None] * cumulated[:, -1:]).argmax(axis=1)
            found = (costs[:, atoms].T - v).argmin(axis=1)
            v[nodes, known] += length
            v[nodes, found] -= length
            np.add.at(arriving, (arrival, known), length)
            np.add.at(arriving, (arrival, found), -length)
        half = visits[turn + 1] - visits[(turn + 1) // 2]
        sent = 2 * count * (turn + 1) * (HEADER + batch * PLACE)
        curve.record((turn + 1) * TURN, float(sent), half / half.sum())
    return curve


def _turns_late(rng: np.random.Generator, count: int) -> np.ndarray:
    return np.rint(rng.choice(DELAYS, count) / TURN).astype(np.intp)
