"""What may happen to a network: how long messages take, when nodes act, what fails, which nodes join and leave."""

from __future__ import annotations

from barymesh.scenario.delays import Categorical, Constant, Delay, LogNormal, PerEdge, Trace, Uniform
from barymesh.scenario.events import Event, Join, Leave, NewData
from barymesh.scenario.faults import Crash, Duplication, Fault, LinkDown, Loss, Reordering, Sleep
from barymesh.scenario.schedules import Periodic, Poisson, Schedule, Windowed

__all__ = [
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
]
