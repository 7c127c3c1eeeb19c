"""Readers of the options of runs on a network, which make the objects that texts describe; see readers.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from barymesh.checks import whole_number
from barymesh.errors import NetworkError, OptionError
from barymesh.specification import build_from_spec

if TYPE_CHECKING:
    from barymesh.gradients.batch_size import BatchSize
    from barymesh.result import Result
    from barymesh.scenario import Delay, Event, Fault, Schedule


def network(name: str, value: Any) -> Any:
    """Anything that ``as_network`` takes. Only names and arguments are checked here: the rest needs the number
    of measures."""
    from barymesh.network.edge_file import SUFFIXES
    from barymesh.network.parsing import network_arguments

    if isinstance(value, bool | int | float):
        raise NetworkError(f"{name} is {value!r}; give a name such as 'cycle', a graph, a matrix or a file of edges.")
    if isinstance(value, str) and not value.lower().endswith(SUFFIXES):
        try:
            network_arguments(value)
        except NetworkError as error:
            raise NetworkError(f"{error} Or give a file of edges ({', '.join(SUFFIXES)}).") from error
    return value


def result(name: str, value: Any) -> Result:
    """The Result of an earlier run."""
    from barymesh.result import Result

    # one whose arrays are those of another library has it too
    value = getattr(value, "numpy", value)
    if not isinstance(value, Result):
        raise OptionError(f"{name} is {value!r}; it must be a Result of an earlier run.")
    return value


def batch(name: str, value: Any) -> BatchSize:
    """Samples for each gradient."""
    from barymesh.gradients.batch_size import GrowingBatch

    if isinstance(value, GrowingBatch) or (isinstance(value, str) and value == "exact"):
        return value
    if isinstance(value, str):
        found: GrowingBatch = build_from_spec(value, {"growing": GrowingBatch}, "batch rule", OptionError)
        return found
    return whole_number(name, value, 1)


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

    return tuple(_object(one, FAULTS, tuple(FAULTS.values()), "fault") for one in _as_list(value))


def events(name: str, value: Any) -> tuple[Event, ...]:
    """Events, or their texts or tables."""
    from barymesh.scenario.events import EVENTS, NewData

    return tuple(_object(one, EVENTS, (*EVENTS.values(), NewData), "event") for one in _as_list(value))


def _object(value: Any, known: Mapping[str, Any], kinds: tuple[type, ...], what: str) -> Any:
    if isinstance(value, dict):
        value = _as_text(value, known, what)
    if isinstance(value, str):
        return build_from_spec(value, known, what, OptionError)
    if not isinstance(value, kinds):
        raise OptionError(f"{value!r} is no {what}; give one of {', '.join(known)}, by name or as an object.")
    return value


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _as_text(table: dict[str, Any], known: Mapping[str, Any], what: str) -> str:
    """``{kind = "crash", node = 3, start = 10}`` means the same as ``"crash:node=3,start=10"``."""
    if "kind" not in table:
        raise OptionError(f"The {what} {table} has no kind; give one of {', '.join(known)}.")
    arguments = ",".join(f"{key}={value}" for key, value in table.items() if key != "kind")
    return f"{table['kind']}:{arguments}" if arguments else str(table["kind"])
