"""The network of a decentralised algorithm: who talks to whom, how long messages take, when nodes act, what fails."""

from __future__ import annotations

from barymesh.network.delays import Categorical, Constant, Delay, LogNormal, PerEdge, Trace, Uniform
from barymesh.network.events import Event, Join, Leave, NewData
from barymesh.network.faults import Crash, Duplication, Fault, LinkDown, Loss, Reordering, Sleep
from barymesh.network.reading import GENERATORS, as_network
from barymesh.network.schedules import Periodic, Poisson, Schedule, Windowed
from barymesh.network.topology import Network, require_unweighted

__all__ = [
    "GENERATORS",
    "Categorical",
    "Constant",
    "Crash",
    "Delay",
    "Duplication",
    "Event",
    "Fault",
    "Join",
    "Leave",
    "LinkDown",
    "LogNormal",
    "Loss",
    "Network",
    "NewData",
    "PerEdge",
    "Periodic",
    "Poisson",
    "Reordering",
    "Schedule",
    "Sleep",
    "Trace",
    "Uniform",
    "Windowed",
    "as_network",
    "require_unweighted",
]
