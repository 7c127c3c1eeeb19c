"""When nodes act. A schedule is a function of its seed: every node's times can be drawn without running anything."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from barymesh.checks import as_floats, positive_number, real_number
from barymesh.core import kernels
from barymesh.core.times import TICK, whole_ticks
from barymesh.errors import OptionError
from barymesh.random import addressed_generator

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

# the address of a generator, beyond any node's number
SPEEDS = 2**62


@dataclass(frozen=True)
class Slab:
    """Activations in the order of time: ``nodes (b,)`` at ``times (b,)``. The next slab begins at time ``end``."""

    nodes: Indices
    times: Floats
    end: float


class Clock(ABC):
    """A schedule that runs on a network: it yields activations slab by slab. ``state`` is all it needs to continue,
    ``rate`` the activations a second of all nodes together."""

    state: dict[str, NDArray[Any]]
    rate: float

    @abstractmethod
    def next_slab(self, length: float) -> Slab:
        """The activations of about the next ``length`` seconds: the same ones however the slabs are cut."""


class Schedule(ABC):
    """When nodes act."""

    @abstractmethod
    def clock(self, size: int, seed: int) -> Clock:
        """The schedule at time 0, for nodes 0 to size - 1."""


@dataclass(frozen=True)
class Windowed(Schedule):
    """The paper's schedule: in every window all nodes act one by one, in a fresh random order. As text: ``"windowed"``.

    The node of rank r in window w acts at ``period * (w + r/m)``.

    Parameters
    ----------
    period : float, default=0.2
        Seconds of a window.
    """

    period: float = 0.2

    def clock(self, size: int, seed: int) -> Clock:
        return _WindowClock(positive_number("The period of a schedule", self.period), size, seed)


class _WindowClock(Clock):
    def __init__(self, period: float, size: int, seed: int) -> None:
        self.period, self.size, self.seed = period, size, seed % 2**64
        self.rate, self.ranks = size / period, np.arange(size) / size
        self.state = {"window": np.zeros((), dtype=np.int64)}

    def next_slab(self, length: float) -> Slab:
        window = int(self.state["window"])
        nodes = np.empty(self.size, dtype=np.intp)
        kernels.permutation(self.seed, window, nodes)
        self.state["window"] = np.array(window + 1)
        times = whole_ticks(self.period * (window + self.ranks))
        return Slab(nodes, times, float(whole_ticks(self.period * (window + 1))))


@dataclass(frozen=True)
class Poisson(Schedule):
    """Every node acts on its own clock, at random. As text: ``"poisson:rate=5"``.

    Parameters
    ----------
    rate : float, default=5
        How often a second on average, for a node of speed 1.
    speeds : array (m,), optional
        The speed of each node; all 1 by default.
    slow_share : float, default=0
        The share of nodes, drawn from the seed, that are slower than the rest.
    slowdown : float, default=10
        How many times slower they are.
    """

    rate: float = 5.0
    speeds: ArrayLike | None = None
    slow_share: float = 0.0
    slowdown: float = 10.0

    def clock(self, size: int, seed: int) -> Clock:
        rate = positive_number("The rate of a schedule", self.rate)
        intervals = 1.0 / (rate * _speeds(self.speeds, self.slow_share, self.slowdown, size, seed))
        return _RenewalClock(intervals, None, seed)


@dataclass(frozen=True)
class Periodic(Schedule):
    """Every node acts on its own clock, at even times from a random start.

    As text: ``"periodic:period=0.2,jitter=0.1"``.

    Parameters
    ----------
    period : float, default=0.2
        Seconds between two activations, for a node of speed 1.
    jitter : float, default=0.1
        Each time is off by up to this share of the period.
    speeds : array (m,), optional
        The speed of each node; all 1 by default.
    slow_share : float, default=0
        The share of nodes, drawn from the seed, that are slower than the rest.
    slowdown : float, default=10
        How many times slower they are.
    """

    period: float = 0.2
    jitter: float = 0.1
    speeds: ArrayLike | None = None
    slow_share: float = 0.0
    slowdown: float = 10.0

    def clock(self, size: int, seed: int) -> Clock:
        jitter = real_number(self.jitter)
        if jitter is None or not 0 <= jitter < 1:
            raise OptionError(f"The jitter of a schedule is {self.jitter!r}; it must be at least 0 and below 1.")
        period = positive_number("The period of a schedule", self.period)
        return _RenewalClock(
            period / _speeds(self.speeds, self.slow_share, self.slowdown, size, seed), jitter, seed
        )  # fmt: skip


class _RenewalClock(Clock):
    """Independent clocks: node i's k-th wait is ``intervals[i]`` times a draw addressed by (seed, i, k)."""

    def __init__(self, intervals: Floats, jitter: float | None, seed: int) -> None:
        self.intervals, self.jitter, self.seed = intervals, jitter, seed % 2**64
        size = intervals.size
        self.rate = float((1 / intervals).sum())
        self.state = {"time": np.zeros(()), "next": np.zeros(size), "count": np.zeros(size, dtype=np.int64)}
        self._wait(np.arange(size))

    def _wait(self, nodes: Indices) -> None:
        drawn, jitter = np.empty(nodes.size), -1.0 if self.jitter is None else self.jitter
        kernels.waiting_times(self.seed, nodes, self.state["count"][nodes], jitter, drawn)
        self.state["next"][nodes] += self.intervals[nodes] * drawn
        self.state["count"][nodes] += 1

    def next_slab(self, length: float) -> Slab:
        end = float(whole_ticks(float(self.state["time"]) + max(length, TICK)))
        chosen: list[Indices] = []
        times: list[Floats] = []
        while (due := np.flatnonzero(self.state["next"] < end)).size:
            chosen.append(due)
            times.append(self.state["next"][due])
            self._wait(due)
        self.state["time"] = np.array(end)
        nodes = np.concatenate(chosen or [np.empty(0, dtype=np.intp)])
        when = whole_ticks(np.concatenate(times or [np.empty(0)]))
        order = np.lexsort((nodes, when))
        return Slab(nodes[order], when[order], end)


SCHEDULES: dict[str, type[Schedule]] = {"windowed": Windowed, "poisson": Poisson, "periodic": Periodic}


def _speeds(speeds: ArrayLike | None, slow_share: float, slowdown: float, size: int, seed: int) -> Floats:
    given = np.ones(size) if speeds is None else as_floats(speeds, "The speeds of a schedule", OptionError)
    if given.shape != (size,) or not (np.isfinite(given) & (given > 0)).all():
        raise OptionError(
            f"The speeds of a schedule have shape {given.shape} and a least value of {given.min(initial=np.inf):g}; "
            f"give {size} positive finite numbers, one for each node."
        )
    share = real_number(slow_share)
    if share is None or not 0 <= share <= 1:
        raise OptionError(f"slow_share is {slow_share!r}; it must be between 0 and 1.")
    slow = addressed_generator(seed, SPEEDS).permutation(size)[: round(share * size)]
    given = given.copy()
    given[slow] /= positive_number("The slowdown of a schedule", slowdown)
    return given
