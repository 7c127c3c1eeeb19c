"""Readers of option values: each checks what a user gave under a name, or makes the object that a text describes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from barymesh.checks import real_number, whole_number
from barymesh.errors import OptionError
from barymesh.specification import build_from_spec

if TYPE_CHECKING:
    from barymesh.decentralized.build import Batch
    from barymesh.scenario import Delay, Event, Fault, Schedule

Reader = Callable[[str, Any], Any]


def positive(name: str, value: Any) -> float:
    """A positive finite number."""
    number = real_number(value)
    if number is None or number <= 0:
        raise OptionError(f"{name} is {value!r}; it must be a positive finite number.")
    return number


def not_negative(name: str, value: Any) -> float:
    """A finite number, 0 or larger."""
    number = real_number(value)
    if number is None or number < 0:
        raise OptionError(f"{name} is {value!r}; it must be a finite number, 0 or larger.")
    return number


def count(name: str, value: Any) -> int:
    """A whole number, at least 1."""
    return whole_number(name, value, 1)


def boolean(name: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise OptionError(f"{name} is {value!r}; it must be true or false.")
    return bool(value)


def path(name: str, value: Any) -> Path:
    """The path of a file or folder."""
    if not isinstance(value, str | Path):
        raise OptionError(f"{name} is {value!r}; give the path of a file or folder.")
    return Path(value)


def one_of(*names: str) -> Reader:
    """One of these names."""

    def read(name: str, value: Any) -> str:
        if not isinstance(value, str) or value not in names:
            raise OptionError(f"Unknown {name} {value!r}; choose one of {', '.join(names)}.")
        return value

    return read


def method(name: str, value: Any) -> str:
    """The name of a method."""
    from barymesh.decentralized import NETWORK_METHODS

    return str(one_of(*NETWORK_METHODS)(name, value))


def step(name: str, value: Any) -> float | str:
    """A step size, or "theory"."""
    number = real_number(value)
    if value == "theory":
        return "theory"
    if number is None or number <= 0:
        raise OptionError(f'{name} is {value!r}; give a positive number, "theory", or leave it out for the default.')
    return number


def batch(name: str, value: Any) -> Batch:
    """Samples for each gradient."""
    from barymesh.decentralized.build import GrowingBatch

    if isinstance(value, GrowingBatch) or (isinstance(value, str) and value == "exact"):
        return value
    if isinstance(value, str):
        found: GrowingBatch = build_from_spec(value, {"growing": GrowingBatch}, "batch rule", OptionError)
        return found
    return whole_number(name, value, 1)


def interval(name: str, value: Any) -> float:
    """Seconds between two activations."""
    number = real_number(value)
    if number is None or not 0 <= number <= 3600:
        raise OptionError(f"{name} is {value!r}; it must be 0 to 3600 seconds.")
    return number


def delays(name: str, value: Any) -> Delay:
    """A Delay, or its text."""
    from barymesh.scenario.delays import DELAYS, Delay

    found: Delay = _object(value, DELAYS, (Delay,), "delay")
    return found


def schedule(name: str, value: Any) -> Schedule:
    """A Schedule, or its text."""
    from barymesh.scenario.schedules import SCHEDULES, Schedule

    found: Schedule = _object(value, SCHEDULES, (Schedule,), "schedule")
    return found


def faults(name: str, value: Any) -> tuple[Fault, ...]:
    """Faults, or their texts or tables."""
    from barymesh.scenario.faults import FAULTS

    return tuple(_object(_as_text(one, FAULTS), FAULTS, tuple(FAULTS.values()), "fault") for one in _listed(value))


def events(name: str, value: Any) -> tuple[Event, ...]:
    """Events, or their texts or tables."""
    from barymesh.scenario.events import EVENTS, NewData

    kinds = (*EVENTS.values(), NewData)
    return tuple(_object(_as_text(one, EVENTS), EVENTS, kinds, "event") for one in _listed(value))


def _object(value: Any, known: Mapping[str, Any], kinds: tuple[type, ...], what: str) -> Any:
    if isinstance(value, str):
        return build_from_spec(value, known, what, OptionError)
    if not isinstance(value, kinds):
        raise OptionError(f"{value!r} is no {what}; give one of {', '.join(known)}, by name or as an object.")
    return value


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _as_text(value: Any, known: Mapping[str, Any]) -> Any:
    """``{kind = "crash", node = 3, start = 10}`` means the same as ``"crash:node=3,start=10"``."""
    if not isinstance(value, dict):
        return value
    if "kind" not in value:
        raise OptionError(f"{value} has no kind; give one of {', '.join(known)}.")
    arguments = ",".join(f"{key}={given}" for key, given in value.items() if key != "kind")
    return f"{value['kind']}:{arguments}" if arguments else str(value["kind"])
