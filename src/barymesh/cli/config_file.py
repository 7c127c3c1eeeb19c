"""Configuration files: TOML whose keys are the options of ``barymesh.barycenter`` and of the commands. Every mistake is
named with its line, key and value, and all of them at once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import Field
from pathlib import Path
from typing import Any

from barymesh.cli.config import COMPARE, RUN, CommandOptions, Config
from barymesh.errors import BarymeshError, ConfigError
from barymesh.io.toml import read_toml, toml_text
from barymesh.network.edge_file import SUFFIXES as EDGE_FILES
from barymesh.options import ENGINES, EXACT, Options, check_places
from barymesh.options.model import documentation, first_sentence, read_value
from barymesh.scenario.delays import Trace
from barymesh.support.text import SUFFIXES as POINT_FILES

SIMULATION = "simulation"


def read_config(path: Path, command: str, given: Mapping[str, Any] | None = None) -> Config:
    """The configuration of a command in a file, or a ConfigError that names every mistake.

    ``given``: options of ``barymesh.barycenter`` from the command line, which count before those of the file.
    """
    text = toml_text(path)
    table = read_toml(path)
    flags = {name: read_value(Options.fields()[name], value) for name, value in (given or {}).items()}
    place = EXACT if command == RUN else {**table, **flags}.get("engine", SIMULATION)
    own: dict[str, Any] = {"output": path.parent / CommandOptions().output}
    options: dict[str, Any] = {}
    mistakes: list[str] = []
    for key, value in table.items():
        try:
            one = _field(key, command, place)
            values = own if key in CommandOptions.fields() else options
            values[key] = _read(one, value, path.parent)
        except BarymeshError as error:
            mistakes.append(_located(path, text, key, str(error)))
    mistakes += [f"{path}: {missing}" for missing in _missing(table, command)]
    if mistakes:
        raise ConfigError("\n".join(mistakes))
    check_places(flags, place)
    return Config(CommandOptions(**own), {**options, **flags})


@contextmanager
def errors_with_lines(path: Path) -> Iterator[None]:
    """Errors about an option that only the work can find, such as weights of the wrong number, get the line of the
    file as well."""
    try:
        yield
    except BarymeshError as error:
        text = toml_text(path)
        if error.option is None or _line_of(error.option, text) is None:
            raise
        raise ConfigError(_located(path, text, error.option, str(error))) from error


def known_keys(command: str) -> dict[str, Field[Any]]:
    """The keys that a file for this command may have, with some engine."""
    places = {EXACT} if command == RUN else set(ENGINES)
    models = ((_text_options(), places), (CommandOptions.fields(), {command}))
    return {
        name: one
        for model, allowed in models
        for name, one in model.items()
        if not one.metadata["places"] or allowed & set(one.metadata["places"])
    }


def key_help(key: str) -> str:
    """What a key holds, in a sentence."""
    return first_sentence({**documentation(Options), **documentation(CommandOptions)}[key])


def _text_options() -> dict[str, Field[Any]]:
    return {name: one for name, one in Options.fields().items() if one.metadata["text"]}


def _field(key: str, command: str, place: str) -> Field[Any]:
    """The option of this name, or an error if there is none or it has no meaning here."""
    known = known_keys(command)
    if key not in known:
        elsewhere = CommandOptions.fields().get(key)
        if elsewhere is not None:
            commands = " and ".join(elsewhere.metadata["places"])
            raise ConfigError(f"{key} is for barymesh {commands}, not for barymesh {command}. Leave it out.")
        if key not in _text_options():
            raise ConfigError(f"unknown key {key!r}. Known keys: {', '.join(known)}.")
        if command == RUN:
            raise ConfigError(f"{key} is for runs on a network: use barymesh simulate, or leave it out.")
    if command == COMPARE and key == "engine" and place != SIMULATION:
        raise ConfigError(f"engine is {place!r}, but barymesh compare simulates. Leave it out.")
    if key == "animation" and place != SIMULATION:
        raise ConfigError(f'animation is for engine "{SIMULATION}", not for "{place}". Leave it out.')
    if key in _text_options() and place in (EXACT, *ENGINES):
        check_places([key], place)
    return known[key]


def _read(one: Field[Any], value: Any, base: Path) -> Any:
    """The value of a key. Paths are relative to the folder of the file."""
    if one.name == "data":
        value = [base / part if isinstance(part, str) else part for part in _as_list(value)]
    elif one.name == "output" and isinstance(value, str):
        value = _without_detours(base / value)
    elif one.name == "support" and isinstance(value, str) and value.lower().endswith(POINT_FILES):
        value = str(base / value)
    found = read_value(one, value)
    if one.name == "network" and isinstance(found, str) and found.lower().endswith(EDGE_FILES):
        return base / found
    if isinstance(found, Trace):
        return Trace(base / str(found.seconds))
    return found


def _without_detours(path: Path) -> Path:
    """The same path, without ``..`` where it leads into the current folder: it is shown to be copied."""
    found = path.resolve()
    inside = ".." in path.parts and found.is_relative_to(Path.cwd())
    return found.relative_to(Path.cwd()) if inside else path


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _missing(table: Mapping[str, Any], command: str) -> Iterator[str]:
    for key in ("reg",) if command == RUN else ("reg", "network"):
        if key not in table:
            yield f"the key {key!r} is missing: {key_help(key)}"
    if command == RUN and "data" not in table:
        yield f"the key 'data' is missing: {key_help('data')}"
    if command != RUN and ("data" in table) == ("gaussians" in table):
        yield "give exactly one of the keys 'data' (files) and 'gaussians' (drawn at random)."


def _located(path: Path, text: str, key: str, message: str) -> str:
    """A mistake as a sentence that begins with its place."""
    line = _line_of(key, text)
    where = f"{path}, line {line}" if line else f"{path}"
    return f"{where}: {message}" if key in message else f"{where}: {key}: {message}"


def _line_of(key: str, text: str) -> int | None:
    pattern = re.compile(rf"""^\s*(\[+\s*)?["']?{re.escape(key)}["']?\s*[=.\]]""")
    return next((number for number, line in enumerate(text.splitlines(), 1) if pattern.match(line)), None)
