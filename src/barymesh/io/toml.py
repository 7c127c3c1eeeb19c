"""TOML files: read with a limit, every error named."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from barymesh.errors import ConfigError, FileError
from barymesh.io.limits import require_regular

# far more than any configuration or network file needs
MOST_BYTES = 2**24
# of a whole number: as many as TOML promises
MOST_BITS = 64


def read_toml(path: Path) -> dict[str, Any]:
    """The contents of a TOML file: FileError if it cannot be read, ConfigError if it is not TOML."""
    text = toml_text(path)
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}.") from error
    except RecursionError as error:
        raise ConfigError(f"{path} is not read: its tables or lists are nested too deeply.") from error
    except ValueError as error:  # from Python's limit on the digits of an integer
        raise ConfigError(f"{path} holds a number that cannot be read: {error}.") from error
    for key, value in _leaves(values):
        # one in another base may be so long that Python cannot even print it
        if isinstance(value, int) and value.bit_length() > MOST_BITS:
            raise ConfigError(f"{path}: {key} is a whole number of more than {MOST_BITS} bits, too large to be meant.")
    return values


def _leaves(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """All values that are neither tables nor lists, each with the keys that lead to it."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _leaves(part, f"{key}.{name}" if key else name)
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield from _leaves(part, f"{key}[{number}]")
    else:
        yield key, value


def toml_text(path: Path) -> str:
    """The text of a TOML file."""
    require_regular(path)
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror or error}.") from error
    if len(content) > MOST_BYTES:
        raise FileError(f"{path} is larger than {MOST_BYTES // 2**20} MiB, too large for a file of settings.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileError(f"{path} is not a text file in UTF-8 ({error}). Save it in UTF-8.") from error
