"""Configuration files for the command line: TOML a person can read, checked key by key."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator

from barymesh.checks import real_number, whole_number
from barymesh.decentralized import NETWORK_METHODS, WITHOUT_STEP
from barymesh.errors import ConfigError, NetworkError, OptionError
from barymesh.io.files import KINDS
from barymesh.io.toml import read_toml, toml_text
from barymesh.measures import Gaussian
from barymesh.network.edge_file import SUFFIXES
from barymesh.network.parsing import GENERATORS
from barymesh.scenario.delays import DELAYS, Delay, Trace
from barymesh.scenario.events import EVENTS
from barymesh.scenario.faults import FAULTS
from barymesh.scenario.schedules import SCHEDULES
from barymesh.specification import build_named, parse_named
from barymesh.support.text import parse_support

STRICT = ConfigDict(extra="forbid", frozen=True, strict=True)
ANIMATIONS = ("gif", "mp4", "html")
# the keys that barymesh.barycenter takes under the same name
PROBLEM = {"reg", "relative_reg", "weights", "cost", "seed", "samples", "precision"}
RUNNING = {"duration", "schedule", "faults", "events", "step", "batch", "tol", "frugal", "record_every"}

Finite = Annotated[float, Field(allow_inf_nan=False)]


class ProblemConfig(BaseModel):
    """The problem, and where to put the result: what all configurations share. Paths are relative to the file."""

    model_config = STRICT

    data: list[str] | None = Field(default=None, min_length=1, description="files and folders with the measures")
    reg: float = Field(gt=0, allow_inf_nan=False, description="entropic regularisation")
    relative_reg: bool = Field(default=False, description="reg is a multiple of the median cost")
    kind: Literal["samples", "image", "histogram"] | None = Field(
        default=None, description="what bare arrays in the data are"
    )
    invert: bool = Field(default=False, description="dark pixels carry the mass")
    columns: list[str | int] | None = Field(default=None, description="columns of tables that are coordinates")
    weight_column: str | int | None = Field(default=None, description="column of tables that holds the mass")
    support: str | None = Field(default=None, description="a grid, a file of points, or auto")
    weights: list[float] | None = Field(default=None, description="importance of each measure")
    cost: str = Field(default="sqeuclidean", description="a metric name")
    samples: int = Field(default=1000, ge=1, description="draws for measures that can only be sampled")
    seed: int = Field(default=0, description="seed of everything random")
    precision: Literal["float64", "float32"] = Field(default="float64", description="of the arithmetic")
    output: str = Field(default="out", description="folder for the results")

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

    def problem_options(self) -> dict[str, Any]:
        """The problem as arguments of ``barymesh.barycenter``; measures and support apart."""
        return self.model_dump(include=PROBLEM)


class RunConfig(ProblemConfig):
    """One barycenter, for ``barymesh run``."""

    data: list[str] = Field(min_length=1, description="files and folders with the measures")
    max_iter: int = Field(default=5000, ge=1, description="iterations at most")
    tol: float = Field(
        default=1e-6, ge=0, allow_inf_nan=False, description="how closely the measures' own estimates must agree"
    )
    resume: bool = Field(default=False, description="continue from the result already in the output folder")


class Gaussians(BaseModel):
    """Normal distributions drawn at random, for trying things out without data.

    Every coordinate of a mean is uniform between the two numbers of ``mean``, the deviation, one for all axes, between
    those of ``std``.
    """

    model_config = STRICT

    count: int = Field(ge=1, description="how many")
    mean: list[Finite] = Field(min_length=2, max_length=2, description="the range of the means, [low, high]")
    std: list[Finite] = Field(min_length=2, max_length=2, description="the range of the deviations, [low, high]")
    dimension: int = Field(default=1, ge=1, description="the number of coordinates")
    seed: int = Field(default=0, ge=0, description="seed of the draw")

    @field_validator("mean", "std")
    @classmethod
    def _a_range(cls, value: list[float]) -> list[float]:
        if value[0] > value[1]:
            raise ValueError(f"the range {value} is the wrong way round; write [low, high]")
        return value

    @field_validator("std")
    @classmethod
    def _above_zero(cls, value: list[float]) -> list[float]:
        if value[0] <= 0:
            raise ValueError(f"the range {value} has deviations that are not positive; begin it above 0")
        return value

    def draw(self) -> list[Gaussian]:
        """The measures: the same ones for the same seed."""
        rng = np.random.default_rng(self.seed)
        means = rng.uniform(self.mean[0], self.mean[1], size=(self.count, self.dimension))
        deviations = rng.uniform(self.std[0], self.std[1], size=self.count)
        return [Gaussian(mean, deviation) for mean, deviation in zip(means, deviations, strict=True)]


class SimulateConfig(ProblemConfig):
    """Runs on a network in virtual time, for ``barymesh simulate`` and ``barymesh compare``."""

    gaussians: Gaussians | None = Field(default=None, description="measures drawn at random, instead of data")
    network: str = Field(description="who talks to whom: a name such as erdos_renyi:p=0.05, or a file of edges")
    method: str = Field(default="sinkhorn", description="the method to simulate")
    methods: list[str] | None = Field(default=None, min_length=1, description="the methods to compare")
    duration: float = Field(default=60.0, gt=0, allow_inf_nan=False, description="virtual seconds to run")
    delays: str = Field(default="categorical", description="how long messages take")
    schedule: str = Field(default="windowed", description="when nodes act")
    faults: list[str] = Field(default=[], description="what goes wrong")
    events: list[str] = Field(default=[], description="nodes that leave or join")
    step: float | str | None = Field(default=None, description="step size: a number, or theory")
    steps: dict[str, float] = Field(default={}, description="step sizes by method, for comparisons")
    batch: int | str | None = Field(
        default=None, description="samples for each gradient: a number, exact, or a growing rule"
    )
    frugal: bool = Field(default=False, description="sinkhorn: send less, a little later")
    tol: float = Field(default=1e-6, ge=0, allow_inf_nan=False, description="when the nodes of sinkhorn stop")
    record_every: float = Field(default=1.0, gt=0, allow_inf_nan=False, description="virtual seconds between records")
    reference: bool | None = Field(
        default=None, description="compare with the true barycenter; if not said, only barymesh compare does"
    )
    snapshots: bool = Field(default=False, description="keep some nodes' estimates at every record")
    animation: str | None = Field(default=None, description="an animation of the nodes: true, gif, mp4 or html")

    @field_validator("network")
    @classmethod
    def _known_network(cls, value: str) -> str:
        if Path(value).suffix.lower() not in SUFFIXES and parse_named(value)[0] not in GENERATORS:
            raise NetworkError(
                f"there is no network called {value!r}; known are {', '.join(GENERATORS)}, and files of edges "
                f"({', '.join(SUFFIXES)})"
            )
        return value

    @field_validator("method")
    @classmethod
    def _known_method(cls, value: str) -> str:
        return known_methods([value])[0]

    @field_validator("methods")
    @classmethod
    def _known_methods(cls, value: list[str] | None) -> list[str] | None:
        return value if value is None else known_methods(value)

    @field_validator("delays")
    @classmethod
    def _readable_delays(cls, value: str) -> str:
        build_named(value, DELAYS, "delay", OptionError)
        return value

    @field_validator("schedule")
    @classmethod
    def _readable_schedule(cls, value: str) -> str:
        build_named(value, SCHEDULES, "schedule", OptionError)
        return value

    @field_validator("faults", mode="before")
    @classmethod
    def _tables_as_text(cls, value: object) -> object:
        """``{kind = "crash", node = 3, start = 10}`` says the same as ``"crash:node=3,start=10"``."""
        faults = value if isinstance(value, list) else [value]
        return [_fault_text(fault) if isinstance(fault, dict) else fault for fault in faults]

    @field_validator("faults", "events")
    @classmethod
    def _readable_list(cls, value: list[str], info: ValidationInfo) -> list[str]:
        known, what = (FAULTS, "fault") if info.field_name == "faults" else (EVENTS, "event")
        for text in value:
            build_named(text, known, what, OptionError)
        return value

    @field_validator("steps")
    @classmethod
    def _known_steps(cls, value: dict[str, float]) -> dict[str, float]:
        known_methods(list(value))
        for method, step in value.items():
            if method in WITHOUT_STEP:
                raise OptionError(f"{method} has no step to choose; leave it out")
            if not (step > 0 and np.isfinite(step)):
                raise OptionError(f"the step of {method} is {step!r}; give a positive number")
        return value

    @field_validator("step", mode="before")
    @classmethod
    def _readable_step(cls, value: object) -> object:
        number = real_number(value)
        if value != "theory" and (number is None or number <= 0):
            raise OptionError(f'it is {value!r}; give a positive number, or "theory"')
        return value

    @field_validator("batch", mode="before")
    @classmethod
    def _readable_batch(cls, value: object) -> object:
        if not isinstance(value, str):
            return whole_number("the batch", value, 1)
        if value != "exact" and parse_named(value)[0] != "growing":
            raise OptionError(f'it is {value!r}; give a whole number, "exact", or a rule such as "growing:epsilon=0.1"')
        return value

    @field_validator("animation", mode="before")
    @classmethod
    def _known_animation(cls, value: object) -> object:
        if isinstance(value, bool):
            return ANIMATIONS[0] if value else None
        if value not in ANIMATIONS:
            raise OptionError(f"it is {value!r}; give true, false, or one of {', '.join(ANIMATIONS)}")
        return value

    @model_validator(mode="after")
    def _one_source(self) -> SimulateConfig:
        if (self.data is None) == (self.gaussians is None):
            raise ValueError("give exactly one of the keys 'data' (files) and 'gaussians' (drawn at random)")
        return self

    def network_from(self, base: Path) -> str | Path:
        """The network's name, or the path of its file of edges."""
        return base / self.network if Path(self.network).suffix.lower() in SUFFIXES else self.network

    def running_options(self, base: Path) -> dict[str, Any]:
        """How to run, as arguments of ``barymesh.barycenter``; an animation needs snapshots."""
        delays: Delay = build_named(self.delays, DELAYS, "delay", OptionError)
        if isinstance(delays, Trace):
            delays = Trace(base / str(delays.seconds))
        wanted = self.snapshots or self.animation is not None
        return {**self.model_dump(include=RUNNING), "delays": delays, "snapshots": wanted}

    def working_options(self) -> dict[str, Any]:
        """The same for workers, in real time: only what the file says, so that what means nothing there is refused."""
        said = self.model_dump(include=self.model_fields_set & (RUNNING | {"delays", "snapshots"}))
        return said if self.animation is None else {**said, "snapshots": True}

    def step_for(self, method: str) -> float | str | None:
        """The step of one method among several: its own, or the common one if it has any."""
        return self.steps.get(method, None if method in WITHOUT_STEP else self.step)


assert set(KINDS) == {"samples", "image", "histogram"}

Config = TypeVar("Config", bound=ProblemConfig)


def known_methods(names: list[str]) -> list[str]:
    """The names of methods that run on a network, each once, or an error that lists what there is."""
    strangers = [name for name in names if name not in NETWORK_METHODS]
    if strangers:
        raise OptionError(f"There is no method {strangers[0]!r} for networks; there are {', '.join(NETWORK_METHODS)}.")
    return list(dict.fromkeys(names))


def _fault_text(table: dict[str, Any]) -> str:
    if "kind" not in table:
        raise OptionError(f"a fault must say its kind, one of {', '.join(FAULTS)}; {table} does not")
    arguments = ",".join(f"{key}={value}" for key, value in table.items() if key != "kind")
    return f"{table['kind']}:{arguments}" if arguments else str(table["kind"])


def read_config(path: Path, kind: type[Config]) -> Config:
    """The configuration of this kind in a TOML file, or a ConfigError that names key and line."""
    values = read_toml(path)
    try:
        return kind(**values)
    except ValidationError as error:
        text = toml_text(path)
        problems = [_problem(path, text, kind, item) for item in error.errors()]
        raise ConfigError("\n".join(problems)) from error
    except TypeError as error:
        raise ConfigError(f"{path}: {error}.") from error


def _problem(path: Path, text: str, config: type[ProblemConfig], item: Any) -> str:
    """An error of pydantic as a sentence that names place, key and value."""
    place, kind, said = item["loc"], item["type"], item["msg"].removeprefix("Value error, ").rstrip(".")
    if not place:
        return f"{path}: {said}."
    line = _line_of(str(place[0]), text)
    where = f"{path}, line {line}" if line else f"{path}"
    key = str(place[0]) + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place[1:])
    fields = Gaussians.model_fields if len(place) > 1 and place[0] == "gaussians" else config.model_fields
    if kind == "extra_forbidden":
        return f"{where}: unknown key {key!r}. Known keys: {', '.join(fields)}."
    if kind == "missing":
        return f"{where}: the key {key!r} is missing. It holds {fields[str(place[-1])].description}."
    return f"{where}: {key}: {said}{given_value(item)}."


def given_value(item: Any) -> str:
    """What was given in place of what pydantic wants; our own sentences have it already."""
    return "" if item["type"] == "value_error" else f", not {item['input']!r}"


def _line_of(key: str, text: str) -> int | None:
    pattern = re.compile(rf"""^\s*(\[+\s*)?["']?{re.escape(key)}["']?\s*[=.\]]""")
    return next((number for number, line in enumerate(text.splitlines(), 1) if pattern.match(line)), None)
