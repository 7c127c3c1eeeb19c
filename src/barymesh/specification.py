"""Objects described by a text: a name and arguments, as in ``"uniform:low=0.1,high=0.5"``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any

from barymesh.errors import BarymeshError


def parse_spec(text: str) -> tuple[str, dict[str, Any]]:
    """The name and the arguments in ``name:key=value,key=value``; numbers, true and false are converted."""
    name, *rest = text.replace(",", ":").split(":")
    arguments = {}
    for part in filter(None, rest):
        key, _, value = part.partition("=")
        arguments[key.strip()] = _value(value.strip())
    return name.strip(), arguments


def checked_spec(
    text: str,
    known: Mapping[str, Callable[..., Any]],
    what: str,
    error: type[BarymeshError],
    supplied: Collection[str] = (),
) -> tuple[str, dict[str, Any]]:
    """The name and the arguments in a text, if ``known[name]`` takes them. Arguments that the program has ``supplied``
    cannot be written. Errors list the known names or arguments."""
    name, arguments = parse_spec(text)
    if name not in known:
        raise error(f"Unknown {what} {name!r}; there are {', '.join(known)}.")
    parameters = inspect.signature(known[name]).parameters
    accepted = {key: one for key, one in parameters.items() if key not in supplied}
    for key in arguments:
        if key not in accepted:
            raise error(f"The {what} {name!r} has no argument {key!r}; it takes {', '.join(accepted) or 'none'}.")
    for key, parameter in accepted.items():
        if parameter.default is parameter.empty and key not in arguments:
            raise error(f"The {what} {name!r} needs {key!r}; write {name}:{key}=<value>.")
    return name, arguments


def build_from_spec(text: str, known: Mapping[str, Callable[..., Any]], what: str, error: type[BarymeshError]) -> Any:
    """What ``known[name]`` makes of the arguments in the text, which are checked first."""
    name, arguments = checked_spec(text, known, what, error)
    return known[name](**arguments)


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text.lower(), text)
