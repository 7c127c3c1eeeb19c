"""Tables written from the program itself: the keys of configuration files where a page says ``<!-- configuration -->``,
the networks that have a name where it says ``<!-- networks -->``."""

from __future__ import annotations

import inspect
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from barymesh.cli.config import Gaussians, ProblemConfig, RunConfig, SimulateConfig
from barymesh.network import GENERATORS


def networks() -> str:
    """Every network that has a name, with its arguments and what it is."""
    lines = ["| name | what it is | arguments |", "|---|---|---|"]
    for name, make in GENERATORS.items():
        own = [one for one in inspect.signature(make).parameters.values() if one.name not in ("m", "seed")]
        arguments = ", ".join(f"`{one.name}`" + (f" ({one.default})" if one.default is not None else "") for one in own)
        lines.append(f"| `{name}` | {' '.join((make.__doc__ or '').split())} | {arguments} |")
    return "\n".join([*lines, ""])


def configuration() -> str:
    """A section for what all files share, and one for each kind with what it adds."""
    shared = set(ProblemConfig.model_fields)
    return "\n".join(
        [
            _table("For every command", ProblemConfig, set()),
            _table("For barymesh run", RunConfig, shared - {"data"}),
            _table("For barymesh simulate and compare", SimulateConfig, shared),
            _table("The key gaussians", Gaussians, set()),
        ]
    )


def _table(title: str, kind: type[BaseModel], left_out: set[str]) -> str:
    lines = [f"## {title}\n", "| key | what it holds | default |", "|---|---|---|"]
    for name, field in kind.model_fields.items():
        if name not in left_out:
            default = "*needed*" if field.is_required() else _written(field.get_default(call_default_factory=False))
            lines.append(f"| `{name}` | {(field.description or '').replace('|', '/')} | {default} |")
    return "\n".join([*lines, ""])


def _written(value: Any) -> str:
    """A default as TOML has it; nothing for what is left out."""
    if value is None or value is PydanticUndefined:
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else repr(value)}`".replace("'", '"')


PLACES = {"<!-- configuration -->": configuration, "<!-- networks -->": networks}


def _fill(_app: Any, _page: str, source: list[str]) -> None:
    for place, table in PLACES.items():
        if place in source[0]:
            source[0] = source[0].replace(place, table())


def setup(sphinx: Any) -> dict[str, bool]:
    """What Sphinx calls."""
    sphinx.connect("source-read", _fill)
    return {"parallel_read_safe": True}
