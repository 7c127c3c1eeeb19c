"""A2DWB the way one would first write it: a queue of events, one at a time, and NumPy for the numbers of one node.

Nothing of the simulator is used. What is random (clocks, delays, samples) is given, so that the two can be compared
number by number.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ARRIVAL, ACTIVATION = 0, 1


def softmax_mean(lam: Floats, samples: Floats, support: Floats, reg: float) -> Floats:
    """The mean over the samples y ``(M,)`` of softmax((lam - (z - y)^2) / reg) over the support z, ``(n,)``."""
    scores = (lam - (support - samples[:, None]) ** 2) / reg
    scores -= scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=1, keepdims=True)
    return np.asarray(scores.mean(axis=0))


def a2dwb(
    neighbours: list[list[int]],
    support: Floats,
    *,
    reg: float,
    step: float,
    activations: Iterable[tuple[float, int]],
    delays: Callable[[int, int], list[float]],
    samples: Callable[[int, int], Floats],
) -> Floats:
    """The duals ``(m, n)`` after the ``activations``, pairs of a time and a node.

    ``delays(node, k)``: how long the node's k-th message takes to each of its neighbours; ``samples(node, k)``: what it
    draws for that message ``(M,)``. Before its first activation, with k = -1, it has sent one, which all have.
    """
    size, width = len(neighbours), support.size
    u, v = np.zeros((size, width)), np.zeros((size, width))
    inverse_theta = float(size)
    first = [softmax_mean(u[i], samples(i, -1), support, reg) for i in range(size)]
    received = [np.array([first[j] for j in nearby]) for nearby in neighbours]
    newest = [[-1] * len(nearby) for nearby in neighbours]
    # where a node stands in the list of each of its neighbours
    place = [[neighbours[j].index(i) for j in nearby] for i, nearby in enumerate(neighbours)]
    sent = [0] * size

    coming = iter(activations)
    events: list[tuple[float, int, int, int, int, int, Floats]] = []
    serial = 0

    def schedule_next() -> None:
        following = next(coming, None)
        if following is not None:
            heapq.heappush(events, (following[0], ACTIVATION, serial, following[1], 0, 0, support))

    schedule_next()
    theta = 1.0 / inverse_theta
    while events:
        now, kind, _, node, slot, number, message = heapq.heappop(events)
        if kind == ARRIVAL:
            if number > newest[node][slot]:
                newest[node][slot] = number
                received[node][slot] = message
            continue
        theta = 1.0 / inverse_theta
        inverse_theta = (1.0 + math.sqrt(1.0 + 4.0 * inverse_theta**2)) / 2.0
        g = softmax_mean(u[node] + theta**2 * v[node], samples(node, sent[node]), support, reg)
        nearby = neighbours[node]
        delta = step / (size * theta) * (len(nearby) * g - received[node].sum(axis=0))
        u[node] -= delta
        v[node] += (1.0 - size * theta) / theta**2 * delta
        number = sent[node]
        sent[node] += 1
        for receiver, slot, delay in zip(nearby, place[node], delays(node, number), strict=True):
            serial += 1
            heapq.heappush(events, (now + delay, ARRIVAL, serial, receiver, slot, number, g))
        schedule_next()
    return u + theta**2 * v
