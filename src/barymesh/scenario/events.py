"""Planned events of a run: nodes that leave or join, and new data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barymesh.checks import real_number, whole_number
from barymesh.errors import OptionError
from barymesh.network.topology import Network, parts


@dataclass(frozen=True)
class Leave:
    """A node leaves, with a message to its neighbours; its measure does not count any more.

    As text: ``"leave:node=3,at=20"``.

    Parameters
    ----------
    node : int
        Which.
    at : float
        When, in virtual seconds.
    """

    node: int
    at: float


@dataclass(frozen=True)
class Join:
    """A node takes part from now on, and not before, unless it was there and left. As text: ``"join:node=4,at=30"``.

    Parameters
    ----------
    node : int
        Which.
    at : float
        When, in virtual seconds.
    """

    node: int
    at: float


@dataclass(frozen=True)
class NewData:
    """From now on the node has another measure in place of the one it had.

    Parameters
    ----------
    node : int
        Which.
    at : float
        When, in virtual seconds.
    measure : Measure, array or function
        What it has from then on.
    """

    node: int
    at: float
    measure: Any


Event = Leave | Join | NewData
# what a text can name; new data come as objects
EVENTS: dict[str, Any] = {"leave": Leave, "join": Join}


@dataclass(frozen=True)
class Plan:
    """Events in the order of time; ``measures``: those of NewData, numbered on from the nodes' first ones."""

    events: tuple[Event, ...]
    measures: tuple[Any, ...]
    size: int

    def before(self, until: float) -> int:
        """How many events happen in a run that ends at ``until``."""
        return sum(event.at < until for event in self.events)

    def at_start(self) -> NDArray[np.bool_]:
        """``(m,)``: the nodes that take part at time 0."""
        present = np.ones(self.size, dtype=bool)
        for event in reversed(self.events):
            if isinstance(event, Leave | Join):
                present[event.node] = isinstance(event, Leave)
        return present

    def after(self, count: int) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """``(m,)`` twice, after so many events: the nodes that take part, and the number of each node's measure."""
        present, measure, new = self.at_start(), np.arange(self.size), self.size
        for event in self.events[:count]:
            if isinstance(event, NewData):
                measure[event.node], new = new, new + 1
            else:
                present[event.node] = isinstance(event, Join)
        return present, measure


def plan(events: Iterable[Any], network: Network) -> Plan:
    """Check the events against the network and put them in order."""
    listed = list(events)
    for event in listed:
        if not isinstance(event, Leave | Join | NewData):
            raise OptionError(f"{event!r} is not an event; there are Leave, Join and NewData.")
        node = whole_number(f"The node of {event}", event.node)
        if not 0 <= node < network.size:
            raise OptionError(f"{event}: the network has the nodes 0 to {network.size - 1}.")
        at = real_number(event.at)
        if at is None or at < 0:
            raise OptionError(f"{event}: at must be a number of virtual seconds, 0 or more.")
    ordered = tuple(sorted(listed, key=lambda event: (event.at, event.node)))
    found = Plan(ordered, tuple(event.measure for event in ordered if isinstance(event, NewData)), network.size)
    present = found.at_start()
    for event in ordered:
        if isinstance(event, Leave | Join):
            if present[event.node] == isinstance(event, Join):
                there = "there already" if present[event.node] else "not there"
                raise OptionError(f"{event}: the node is {there} at that time. Leave it out, or change its time.")
            present[event.node] = isinstance(event, Join)
            _require_connected(network, present, f"After {event}")
    _require_connected(network, found.at_start(), "At the start")
    return found


def _require_connected(network: Network, present: NDArray[np.bool_], when: str) -> None:
    if not present.any():
        raise OptionError(f"{when} no node would be there. Let one be there all the time.")
    nodes, part = np.flatnonzero(present), network.among(present)
    pieces = parts(part.size, part.edges)
    if len(pieces) > 1:
        shown = ", ".join(str(nodes[place]) for place in sorted(pieces[-1])[:10])
        raise OptionError(
            f"{when} the nodes that are there fall into {len(pieces)} parts; one of them: {shown}. "
            "Let other nodes leave or join, or add edges between these parts."
        )
