"""Configuration files for ``barymesh run``: TOML a person can read, checked key by key."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from barymesh.errors import ConfigError
from barymesh.files import KINDS
from barymesh.support_text import parse_support


class RunConfig(BaseModel):
    """One barycenter: the data, the problem, and where to put the result. Paths are relative to the file."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    data: list[str] = Field(min_length=1, description="files and folders with the measures")
    reg: float = Field(gt=0, allow_inf_nan=False, description="entropic regularisation")
    relative_reg: bool = Field(default=False, description="reg is a multiple of the median cost")
    kind: Literal["samples", "image", "histogram"] | None = Field(
        default=None, description="what bare arrays in the data are"
    )
    invert: bool = Field(default=False, description="dark pixels carry the mass")
    support: str | None = Field(default=None, description="a grid, a file of points, or auto")
    weights: list[float] | None = Field(default=None, description="importance of each measure")
    cost: str = Field(default="sqeuclidean", description="a metric name")
    samples: int = Field(default=1000, ge=1, description="draws for measures that can only be sampled")
    max_iter: int = Field(default=5000, ge=1)
    tol: float = Field(default=1e-6, ge=0, allow_inf_nan=False)
    seed: int = Field(default=0)
    precision: Literal["float64", "float32"] = "float64"
    output: str = Field(default="out", description="folder for the results")
    resume: bool = Field(default=False, description="continue from the result already in the output folder")

    @field_validator("data", mode="before")
    @classmethod
    def _one_or_many(cls, value: object) -> object:
        return [value] if isinstance(value, str) else value

    @field_validator("support")
    @classmethod
    def _readable_support(cls, value: str | None) -> str | None:
        if value is not None:
            parse_support(value, check_only=True)
        return value


assert set(KINDS) == {"samples", "image", "histogram"}


def read_config(path: Path) -> RunConfig:
    """The configuration in a TOML file, or a ConfigError that names key and line."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise ConfigError(f"There is no configuration file {path}.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}.") from error
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}.") from error
    try:
        return RunConfig(**values)
    except ValidationError as error:
        problems = [_problem(path, text, list(item["loc"]), item["type"], item["msg"]) for item in error.errors()]
        raise ConfigError("\n".join(problems)) from error
    except TypeError as error:
        raise ConfigError(f"{path}: {error}.") from error


def _problem(path: Path, text: str, place: list[int | str], kind: str, message: str) -> str:
    key = str(place[0]) if place else "?"
    line = _line_of(key, text)
    where = f"{path}, line {line}" if line else f"{path}"
    if kind == "extra_forbidden":
        known = ", ".join(RunConfig.model_fields)
        return f"{where}: unknown key {key!r}. Known keys: {known}."
    if kind == "missing":
        return f"{where}: the key {key!r} is missing. It holds {RunConfig.model_fields[key].description}."
    item = "".join(f"[{part}]" for part in place[1:])
    return f"{where}: {key}{item}: {message.removeprefix('Value error, ').rstrip('.')}."


def _line_of(key: str, text: str) -> int | None:
    pattern = re.compile(rf"""^\s*(\[+\s*)?["']?{re.escape(key)}["']?\s*[=.\]]""")
    return next((number for number, line in enumerate(text.splitlines(), 1) if pattern.match(line)), None)
