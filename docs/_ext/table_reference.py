"""Tables written from the program itself: the keys of configuration files where a page says ``<!-- configuration -->``,
the engines and their options where it says ``<!-- engines -->``, the networks that have a name where it says
``<!-- networks -->``."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import Field
from typing import Any

from barymesh.cli.config import RUN, SIMULATE, CommandOptions, Gaussians
from barymesh.cli.config_file import known_keys
from barymesh.network import GENERATORS
from barymesh.options import ENGINES, Options
from barymesh.options.model import documentation, first_sentence, is_needed

ALL_ENGINES = "all"


def networks() -> str:
    """Every network that has a name, with its arguments and what it is."""
    lines = ["| name | what it is | arguments |", "|---|---|---|"]
    for name, make in GENERATORS.items():
        own = [one for one in inspect.signature(make).parameters.values() if one.name not in ("m", "seed")]
        arguments = ", ".join(f"`{one.name}`" + (f" ({one.default})" if one.default is not None else "") for one in own)
        lines.append(f"| `{name}` | {' '.join((make.__doc__ or '').split())} | {arguments} |")
    return "\n".join([*lines, ""])


def engines() -> str:
    """Every engine, and the options that it takes beyond those of the problem."""
    what = {
        "simulation": "in virtual time, in this process, repeatable to the last bit",
        "processes": "processes of this machine, through sockets",
        "ray": "actors on the machines of a Ray cluster, through encrypted links",
    }
    lines = ["| `engine=` | where the network runs | options |", "|---|---|---|"]
    for engine in ENGINES:
        taken = [name for name, one in Options.fields().items() if engine in one.metadata["places"]]
        options = ", ".join(f"`{name}`" for name in taken if name not in ("network", "engine"))
        lines.append(f'| `"{engine}"` | {what[engine]} | {options} |')
    return "\n".join([*lines, ""])


def configuration() -> str:
    """A section for the keys that all files share, and one for each kind of file with the others."""
    exact, network = known_keys(RUN), known_keys(SIMULATE)
    shared = [one for name, one in exact.items() if name in network]
    own = [one for name, one in exact.items() if name not in network]
    more = [one for name, one in network.items() if name not in exact]
    return "\n".join(
        [
            _table("For every command", shared),
            _table("For barymesh run", own),
            _table("For barymesh simulate and compare", more, engines=True),
            _table("The key gaussians", Gaussians.fields().values(), documentation(Gaussians)),
        ]
    )


def _table(
    title: str, keys: Iterable[Field[Any]], texts: dict[str, str] | None = None, *, engines: bool = False
) -> str:
    described = {**documentation(Options), **documentation(CommandOptions), **(texts or {})}
    heads = ["key", "what it holds", "default", *(["engines"] if engines else [])]
    lines = [f"## {title}\n", f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for one in keys:
        cells = [f"`{one.name}`", first_sentence(described[one.name]).replace("|", "/"), _default(one)]
        lines.append(f"| {' | '.join([*cells, *([_engines(one)] if engines else [])])} |")
    return "\n".join([*lines, ""])


def _engines(one: Field[Any]) -> str:
    if one.name == "animation":
        return "simulation"
    places = [engine for engine in ENGINES if engine in one.metadata["places"]]
    return ", ".join(places) if places and len(places) < len(ENGINES) else ALL_ENGINES


def _default(one: Field[Any]) -> str:
    """A default as TOML has it; nothing for what is left out."""
    if is_needed(one):
        return "*needed*"
    if one.default is None or one.default == ():
        return ""
    if isinstance(one.default, bool | int | float):
        return f"`{str(one.default).lower()}`"
    return f'`"{one.default}"`'


PLACES = {"<!-- configuration -->": configuration, "<!-- engines -->": engines, "<!-- networks -->": networks}


def _fill(_app: Any, _page: str, source: list[str]) -> None:
    for place, table in PLACES.items():
        if place in source[0]:
            source[0] = source[0].replace(place, table())


def setup(sphinx: Any) -> dict[str, bool]:
    """What Sphinx calls."""
    sphinx.connect("source-read", _fill)
    return {"parallel_read_safe": True}
