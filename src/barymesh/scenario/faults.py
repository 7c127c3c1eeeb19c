"""What goes wrong: messages lost, doubled or held up; nodes that sleep or crash; links that go down."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barymesh.checks import real_number, whole_number
from barymesh.core.kernels import FOREVER
from barymesh.errors import OptionError
from barymesh.network.topology import Network

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True)
class Loss:
    """Messages are lost. As text: ``"loss:probability=0.2"``.

    Parameters
    ----------
    probability : float
        Of each message.
    """

    probability: float


@dataclass(frozen=True)
class Duplication:
    """Messages are sent twice; the copy takes its own time. As text: ``"duplication:probability=0.1"``.

    Parameters
    ----------
    probability : float
        Of each message.
    """

    probability: float


@dataclass(frozen=True)
class Reordering:
    """Messages are held up, so that later ones overtake. As text: ``"reordering:probability=0.1,extra=1"``.

    Parameters
    ----------
    probability : float
        Of each message.
    extra : float, default=1
        By as many seconds at most.
    """

    probability: float
    extra: float = 1.0


@dataclass(frozen=True)
class Sleep:
    """The node does nothing for a while; its messages wait for it. As text: ``"sleep:node=3,start=10,stop=20"``.

    Parameters
    ----------
    node : int
        Which.
    start, stop : float
        Virtual seconds; without ``stop`` it never ends.
    """

    node: int
    start: float
    stop: float = np.inf


@dataclass(frozen=True)
class Crash:
    """The node is dead for a while, and messages that reach it then are lost.

    As text: ``"crash:node=3,start=10,stop=20,memory=false"``.

    Parameters
    ----------
    node : int
        Which.
    start, stop : float
        Virtual seconds; without ``stop`` it never ends.
    memory : bool, default=True
        Whether it continues from its state; otherwise it begins anew, without any message of its neighbours.
    """

    node: int
    start: float
    stop: float = np.inf
    memory: bool = True


@dataclass(frozen=True)
class LinkDown:
    """Messages sent over a link are lost for a while, both ways.

    As text: ``"link_down:first=0,second=1,start=5,stop=9"``.

    Parameters
    ----------
    first, second : int
        The nodes that it joins.
    start, stop : float
        Virtual seconds; without ``stop`` it never ends.
    """

    first: int
    second: int
    start: float
    stop: float = np.inf


Fault = Loss | Duplication | Reordering | Sleep | Crash | LinkDown

FAULTS: dict[str, type[Fault]] = {
    "loss": Loss,
    "duplication": Duplication,
    "reordering": Reordering,
    "sleep": Sleep,
    "crash": Crash,
    "link_down": LinkDown,
}


@dataclass(frozen=True)
class FaultTable:
    """All faults in the form the compiled code reads.

    ``rates``: probabilities of loss, copy, hold-up, and the longest hold-up in seconds. Times at which node i does not
    act: ``idle[idle_first[i]:idle_first[i+1]] (start, stop)``; does not receive: ``crashed``; times at which edge e
    carries nothing: ``cut``. Each list is sorted and free of overlaps. ``resets``: (time, node) of returns without
    memory.
    """

    rates: Floats
    idle: Floats
    idle_first: Indices
    crashed: Floats
    crashed_first: Indices
    cut: Floats
    cut_first: Indices
    resets: list[tuple[float, int]]

    @property
    def touches_messages(self) -> bool:
        return bool(self.rates.any() or self.crashed.size or self.cut.size)

    def lost(self, now: float, until: float) -> NDArray[np.bool_]:
        """``(m,)``: the nodes that do not act at ``now``, nor at any time from then to ``until``."""
        return self._within(self.idle, self.idle_first, now, until)

    def asleep(self, now: float) -> NDArray[np.bool_]:
        """``(m,)``: the nodes that do not act at ``now``."""
        return self._within(self.idle, self.idle_first, now, now)

    def down(self, now: float) -> NDArray[np.bool_]:
        """``(m,)``: the nodes that have crashed, and are not back at ``now``."""
        return self._within(self.crashed, self.crashed_first, now, now)

    def _within(self, spans: Floats, first: Indices, now: float, until: float) -> NDArray[np.bool_]:
        """The nodes one of whose spans holds ``now`` and does not end before ``until``."""
        found = np.zeros(first.size - 1, dtype=bool)
        if spans.size:
            owners = np.repeat(np.arange(first.size - 1), np.diff(first))
            found[owners[(spans[:, 0] <= now) & (now < spans[:, 1]) & (until <= spans[:, 1])]] = True
        return found


def fault_table(faults: Iterable[Fault], network: Network) -> FaultTable:
    """Check the faults against the network and put them into a table."""
    rates = np.zeros(4)
    idle: dict[int, list[tuple[float, float]]] = {}
    crashed: dict[int, list[tuple[float, float]]] = {}
    cut: dict[int, list[tuple[float, float]]] = {}
    resets: list[tuple[float, int]] = []
    for fault in faults:
        match fault:
            case Loss(probability):
                rates[0] = 1 - (1 - rates[0]) * (1 - _share(fault, probability))
            case Duplication(probability):
                rates[1] = 1 - (1 - rates[1]) * (1 - _share(fault, probability))
            case Reordering(probability, extra):
                length = real_number(extra)
                if length is None or length < 0:
                    raise OptionError(f"{fault}: extra must be a finite number of seconds, 0 or more.")
                rates[2] = 1 - (1 - rates[2]) * (1 - _share(fault, probability))
                rates[3] = max(rates[3], length)
            case Sleep(node, start, stop):
                idle.setdefault(_node(fault, node, network), []).append(_span(fault, start, stop))
            case Crash(node, start, stop, memory):
                span = _span(fault, start, stop)
                if not isinstance(memory, bool):
                    raise OptionError(f"{fault}: memory is {memory!r}; it must be true or false.")
                idle.setdefault(_node(fault, node, network), []).append(span)
                crashed.setdefault(node, []).append(span)
                if not memory and span[1] < FOREVER:
                    resets.append((span[1], node))
            case LinkDown(first, second, start, stop):
                for receiver, sender in ((first, second), (second, first)):
                    cut.setdefault(_edge(fault, receiver, sender, network), []).append(_span(fault, start, stop))
            case _:
                raise OptionError(
                    f"{fault!r} is not a fault; there are {', '.join(k.__name__ for k in FAULTS.values())}."
                )
    if rates[0] >= 1:
        raise OptionError("Every message would be lost: the probability of a loss must be below 1.")
    idle_times, idle_first = _lists(idle, network.size)
    crashed_times, crashed_first = _lists(crashed, network.size)
    cut_times, cut_first = _lists(cut, network.neighbours.size)
    return FaultTable(rates, idle_times, idle_first, crashed_times, crashed_first, cut_times, cut_first, sorted(resets))


def _lists(spans: dict[int, list[tuple[float, float]]], count: int) -> tuple[Floats, Indices]:
    """Overlapping spans joined, all in one array ``(spans, 2)``, and where each item's begin."""
    joined: list[tuple[float, float]] = []
    sizes = np.zeros(count, dtype=np.intp)
    for item in sorted(spans):
        own: list[tuple[float, float]] = []
        for start, stop in sorted(spans[item]):
            if own and start <= own[-1][1]:
                own[-1] = (own[-1][0], max(own[-1][1], stop))
            else:
                own.append((start, stop))
        sizes[item] = len(own)
        joined += own
    return np.array(joined, dtype=float).reshape(-1, 2), np.concatenate([[0], np.cumsum(sizes)])


def _share(fault: Any, value: float) -> float:
    share = real_number(value)
    if share is None or not 0 <= share <= 1:
        raise OptionError(f"{fault}: the probability must be between 0 and 1.")
    return share


def _span(fault: Any, start: float, stop: float) -> tuple[float, float]:
    begin = real_number(start)
    end = FOREVER if stop == np.inf else real_number(stop)
    if begin is None or end is None or not 0 <= begin < end:
        raise OptionError(f"{fault}: it must start at 0 or later, and stop after it started.")
    return begin, end


def _node(fault: Any, node: int, network: Network) -> int:
    number = whole_number(f"The node of {fault}", node)
    if not 0 <= number < network.size:
        raise OptionError(f"{fault}: the network has the nodes 0 to {network.size - 1}.")
    return number


def _edge(fault: Any, receiver: int, sender: int, network: Network) -> int:
    receiver, sender = _node(fault, receiver, network), _node(fault, sender, network)
    own = network.neighbours[network.offsets[receiver] : network.offsets[receiver + 1]]
    place = int(np.searchsorted(own, sender))
    if place == own.size or own[place] != sender:
        raise OptionError(f"{fault}: there is no link between nodes {sender} and {receiver}. Name two neighbours.")
    return int(network.offsets[receiver]) + place
