"""TOML files: read with a limit, every error named."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from barymesh.errors import ConfigError, FileError
from barymesh.io.limits import require_regular

# far more than any configuration or network file needs
MOST_BYTES = 2**24


def read_toml(path: Path) -> dict[str, Any]:
    """The contents of a TOML file: FileError if it cannot be read, ConfigError if it is not TOML."""
    text = toml_text(path)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}.") from error
    except RecursionError as error:
        raise ConfigError(f"{path} is not read: its tables or lists are nested too deeply.") from error
    except ValueError as error:  # from Python's limit on the digits of an integer
        raise ConfigError(f"{path} holds a number that cannot be read: {error}.") from error


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
