"""Things named in text, with arguments: ``"erdos_renyi:p=0.05"``, ``"uniform:low=0.1,high=0.5"``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from barymesh.errors import BarymeshError


def parse_spec(text: str) -> tuple[str, dict[str, Any]]:
    """The name and the arguments in ``name:key=value,key=value``; numbers, true and false become such."""
    name, *rest = text.replace(",", ":").split(":")
    arguments = {}
    for part in filter(None, rest):
        key, _, value = part.partition("=")
        arguments[key.strip()] = _value(value.strip())
    return name.strip(), arguments


def build_from_spec(text: str, known: Mapping[str, Callable[..., Any]], what: str, error: type[BarymeshError]) -> Any:
    """Call ``known[name]`` with the arguments in the text; errors list the names, or the arguments, that there are."""
    name, arguments = parse_spec(text)
    if name not in known:
        raise error(f"Unknown {what} {name!r}; there are {', '.join(known)}.")
    accepted = [key for key in inspect.signature(known[name]).parameters if key != "self"]
    strangers = [key for key in arguments if key not in accepted]
    if strangers:
        raise error(f"The {what} {name!r} has no argument {strangers[0]!r}; it takes {', '.join(accepted) or 'none'}.")
    missing = [
        key
        for key, parameter in inspect.signature(known[name]).parameters.items()
        if parameter.default is parameter.empty and key not in arguments
    ]
    if missing:
        raise error(f"The {what} {name!r} needs {missing[0]!r}, as in {name}:{missing[0]}=...")
    return known[name](**arguments)


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text.lower(), text)
