"""Parameters of commands, made from the models of options: a new option appears by itself."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from dataclasses import Field, dataclass
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from barymesh.cli import completion
from barymesh.cli.config import RUN, CommandOptions, Config
from barymesh.cli.config_file import key_help, known_keys
from barymesh.errors import WeightError
from barymesh.io.tables import columns_from_text
from barymesh.options import Options
from barymesh.options.model import is_needed, read_value
from barymesh.readers import SIZE
from barymesh.support.text import HELP as SUPPORT_HELP

Json = Annotated[bool, typer.Option("--json", help="Print the summary as JSON on standard output, and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
ConfigPath = Annotated[Path, typer.Argument(help="A TOML file; paths in it are relative to its folder.")]
Command = Callable[..., None]
# the types of fields that are also types of the command line; all others are given as text
TYPES = {"int": int, "float": float, "bool": bool, "Path": Path}


@dataclass(frozen=True)
class Form:
    """How an option looks on the command line, where that differs from the model."""

    names: tuple[str, ...] = ()
    help: str = ""
    complete: Callable[[str], list[str]] | None = None
    read: Callable[[str], Any] | None = None


def numbers_or_size(text: str) -> list[float] | str:
    """Numbers joined by commas, or "size"."""
    if text == SIZE:
        return SIZE
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise WeightError(
            f"--weights {text!r} is neither a list of numbers joined by commas, such as 1,2,1, nor 'size'."
        ) from error


FORMS = {
    "relative_reg": Form(("--relative",)),
    "kind": Form(("--as",)),
    "output": Form(("--output", "-o")),
    "support": Form(help=f"Where the barycenter lives: {SUPPORT_HELP}."),
    "weights": Form(
        help="Importance of each measure: numbers joined by commas, or size (its number of records). Default: equal.",
        read=numbers_or_size,
    ),
    "columns": Form(
        help="Columns of tables that are coordinates, joined by commas: names, or numbers counted from 1.",
        read=columns_from_text,
    ),
    "cost": Form(complete=completion.one_of(completion.COSTS)),
}
# the flags of 'barymesh barycenter' are the keys of 'barymesh run'; the data are its argument, and without a network
# there is only one method
FLAGS = {name: one for name, one in known_keys(RUN).items() if name not in ("data", "method")}


def takes(fields: Iterable[Field[Any]], *, defaults: bool = True) -> Callable[[Command], Command]:
    """Give a command a parameter for each of these options, after its arguments; those that are set arrive in its
    ``**given``. Without ``defaults`` an option that was not given is not set."""
    options = {one.name: _parameter(one, defaults) for one in sorted(fields, key=is_needed, reverse=True)}

    def decorate(command: Command) -> Command:
        own = [one for one in inspect.signature(command, eval_str=True).parameters.values() if one.name != "given"]
        own = [one.replace(kind=one.KEYWORD_ONLY) for one in own]
        arguments = [one for one in own if one.default is one.empty]
        parameters = [*arguments, *options.values(), *own[len(arguments) :]]

        @functools.wraps(command)
        def call(**values: Any) -> None:
            command(**{name: value for name, value in values.items() if name not in options or value is not None})

        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        call.__annotations__ = {one.name: one.annotation for one in parameters}
        return call

    return decorate


def config_from_flags(data: list[Path], given: dict[str, Any]) -> Config:
    """The configuration given by the flags of 'barymesh barycenter'."""
    options = Options.fields()
    values = {}
    for name, value in given.items():
        read = FORMS.get(name, Form()).read
        values[name] = read_value(FLAGS[name], value if read is None else read(value))
    own = {name: value for name, value in values.items() if name in CommandOptions.fields()}
    return Config(
        CommandOptions(data=data, **own), {name: values[name] for name in values if name in options and name not in own}
    )


def _parameter(one: Field[Any], defaults: bool) -> inspect.Parameter:
    form = FORMS.get(one.name, Form())
    kind: Any = TYPES.get(str(one.type).removesuffix(" | None"), str)
    needed = is_needed(one) and defaults
    default = inspect.Parameter.empty if needed else one.default if defaults else None
    names = form.names or (f"--{one.name.replace('_', '-')}",)
    choices = getattr(one.metadata["reader"], "names", None)
    complete = form.complete or (completion.one_of(choices) if choices else None)
    described = typer.Option(*names, help=form.help or key_help(one.name), autocompletion=complete)
    annotation = cast(Any, Annotated)[kind | None if default is None else kind, described]
    return inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
