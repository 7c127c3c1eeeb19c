"""The configuration of a command: the options of ``barymesh.barycenter``, and options of its own. Configuration files
and the command line share this model; ``config_file`` reads the former."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from barymesh import readers as read
from barymesh.checks import real_number, whole_number
from barymesh.errors import OptionError
from barymesh.io.files import KINDS
from barymesh.io.tables import Column
from barymesh.measures import Gaussian
from barymesh.method_names import NETWORK_METHODS, WITHOUT_STEP
from barymesh.options.model import Model, details, is_needed, option

# the commands that read a configuration file
RUN, SIMULATE, COMPARE = "run", "simulate", "compare"
ON_A_NETWORK = (SIMULATE, COMPARE)
ANIMATIONS = ("gif", "mp4", "html")


def read_range(name: str, value: Any) -> tuple[float, float]:
    """Two finite numbers in order."""
    ends = [real_number(end) for end in value] if isinstance(value, list | tuple) else []
    if len(ends) != 2 or ends[0] is None or ends[1] is None:
        raise OptionError(f"{name} is {value!r}; write two finite numbers, [low, high].")
    if ends[0] > ends[1]:
        raise OptionError(f"{name} is {value!r}, the wrong way round; write [low, high].")
    return ends[0], ends[1]


def read_positive_range(name: str, value: Any) -> tuple[float, float]:
    """Two positive finite numbers in order."""
    low, high = read_range(name, value)
    if low <= 0:
        raise OptionError(f"{name} is {value!r}, which is not positive; begin the range above 0.")
    return low, high


def read_seed(name: str, value: Any) -> int:
    """A whole number, not negative."""
    return whole_number(name, value, 0)


@dataclass(frozen=True, kw_only=True)
class Gaussians(Model):
    """Normal distributions drawn at random, for trying things out without data.

    Parameters
    ----------
    count : int
        How many.
    mean : pair of float
        The range of the means, [low, high]. Every coordinate is drawn uniformly from it.
    std : pair of float
        The range of the standard deviations, [low, high]. One for all axes is drawn uniformly from it.
    dimension : int, default=1
        The number of coordinates.
    seed : int, default=0
        Seed of the draw.
    """

    count: int = field(metadata=details(reader=read.count))
    mean: Sequence[float] = field(metadata=details(reader=read_range))
    std: Sequence[float] = field(metadata=details(reader=read_positive_range))
    dimension: int = option(1, reader=read.count)
    seed: int = option(0, reader=read_seed)

    def draw(self) -> list[Gaussian]:
        """The measures: the same ones for the same seed."""
        rng = np.random.default_rng(self.seed)
        means = rng.uniform(self.mean[0], self.mean[1], size=(self.count, self.dimension))
        deviations = rng.uniform(self.std[0], self.std[1], size=self.count)
        return [Gaussian(mean, deviation) for mean, deviation in zip(means, deviations, strict=True)]


def read_paths(name: str, value: Any) -> list[Path]:
    """One path or several."""
    values = value if isinstance(value, list | tuple) else [value]
    if not values:
        raise OptionError(f"{name} is empty; name at least one file or folder.")
    return [read.path(name if len(values) == 1 else f"{name}[{k}]", one) for k, one in enumerate(values)]


def read_column(name: str, value: Any) -> Column:
    """The name of a column, or its number."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise OptionError(f"{name} is {value!r}; give the name of a column, or its number, counted from 1.")
    return value


def read_columns(name: str, value: Any) -> list[Column]:
    """One column or several."""
    values = value if isinstance(value, list | tuple) else [value]
    if not values:
        raise OptionError(f"{name} is empty; name at least one column, or leave it out for all.")
    return [read_column(name if len(values) == 1 else f"{name}[{k}]", one) for k, one in enumerate(values)]


def read_gaussians(name: str, value: Any) -> Gaussians:
    """A table with the fields of ``Gaussians``."""
    if isinstance(value, Gaussians):
        return value
    if not isinstance(value, dict):
        raise OptionError(f"{name} is {value!r}; write a table, such as {{count = 30, mean = [-4, 4], std = [1, 2]}}.")
    known = Gaussians.fields()
    for key in value:
        if key not in known:
            raise OptionError(f"unknown key {f'{name}.{key}'!r}. Known keys: {', '.join(known)}.")
    for key, one in known.items():
        if is_needed(one) and key not in value:
            raise OptionError(f"the key {f'{name}.{key}'!r} is missing. Known keys: {', '.join(known)}.")
    try:
        return Gaussians(**value)
    except OptionError as error:
        raise OptionError(f"{name}.{error}") from error


def read_methods(name: str, value: Any) -> list[str]:
    """Names of methods that run on a network, each once."""
    if not isinstance(value, list | tuple) or not value:
        raise OptionError(f"{name} is {value!r}; list one or more of {', '.join(NETWORK_METHODS)}.")
    known = read.one_of(*NETWORK_METHODS)
    return list(dict.fromkeys(known("method", one) for one in value))


def read_steps(name: str, value: Any) -> dict[str, float]:
    """Step sizes by method."""
    if not isinstance(value, dict):
        raise OptionError(f"{name} is {value!r}; write a table of methods and step sizes, such as {{dcwb = 0.1}}.")
    read_methods(name, list(value)) if value else None
    for method in value:
        if method in WITHOUT_STEP:
            raise OptionError(f"{name}: {method} has no step to choose; leave it out.")
    return {method: read.positive(f"{name}.{method}", step) for method, step in value.items()}


def read_animation(name: str, value: Any) -> str | None:
    """A kind of animation that can be written on this machine; true for the first, false for none."""
    if value is False:
        return None
    kind = ANIMATIONS[0] if value is True else value
    if not isinstance(kind, str) or kind not in ANIMATIONS:
        raise OptionError(f"{name} is {value!r}; give true, false, or one of {', '.join(ANIMATIONS)}.")
    from barymesh.viz.animation import check_kind

    check_kind(Path(f"{name}.{kind}"))
    return kind


@dataclass(frozen=True, kw_only=True)
class CommandOptions(Model):
    """The options of commands that are not those of ``barymesh.barycenter``. The places of an option are commands.

    Parameters
    ----------
    data : path or list of paths
        Files and folders with the measures.
    gaussians : table
        Measures drawn at random, instead of data: a table with the keys count, mean, std, dimension and seed.
    kind : str
        What bare arrays in .npy and .npz are: samples, image or histogram.
    invert : bool
        Whether dark pixels of images carry the mass.
    columns : list of str or int
        Columns of tables that are coordinates: names, or numbers counted from 1.
    weight_column : str or int
        Column of tables that holds the mass of each sample.
    by : str or int
        Column of tables that names the measure a sample belongs to, so that one table holds many.
    output : path
        Folder for the results.
    resume : bool
        Whether to continue from the result already in the output folder.
    methods : list of str
        The methods to compare.
    steps : table
        Step sizes by method, for comparisons.
    animation : bool or str
        An animation of the nodes: true, gif, mp4 or html.
    """

    data: Sequence[Path] | None = option(None, reader=read_paths)
    gaussians: Gaussians | None = option(None, *ON_A_NETWORK, reader=read_gaussians)
    kind: str | None = option(None, reader=read.one_of(*KINDS))
    invert: bool = option(False, reader=read.boolean)
    columns: Sequence[Column] | None = option(None, reader=read_columns)
    weight_column: Column | None = option(None, reader=read_column)
    by: Column | None = option(None, reader=read_column)
    output: Path = option(Path("out"), reader=read.path)
    resume: bool = option(False, RUN, reader=read.boolean)
    methods: Sequence[str] | None = option(None, *ON_A_NETWORK, reader=read_methods)
    steps: Mapping[str, float] | None = option(None, *ON_A_NETWORK, reader=read_steps)
    animation: str | None = option(None, *ON_A_NETWORK, reader=read_animation)

    def measures(self) -> Any:
        """The measures, drawn or read from files."""
        from barymesh.io.files import read_measures

        if self.gaussians is not None:
            return self.gaussians.draw()
        return read_measures(
            self.data or (),
            kind=self.kind,
            invert=self.invert,
            columns=self.columns,
            weight_column=self.weight_column,
            by=self.by,
        )


@dataclass(frozen=True)
class Config:
    """The configuration of a command.

    Attributes
    ----------
    command : CommandOptions
        Where the measures come from, where the results go, and what else the command needs to know.
    options : dict
        Arguments of ``barymesh.barycenter``, but for the measures; only those that were given.
    """

    command: CommandOptions
    options: dict[str, Any]

    @property
    def folder(self) -> Path:
        """Where the results go."""
        return self.command.output

    def step_for(self, method: str) -> float | str | None:
        """The step of one method among several: its own, or the common one if it has any."""
        common = None if method in WITHOUT_STEP else self.options.get("step")
        return (self.command.steps or {}).get(method, common)
