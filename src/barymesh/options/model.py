"""Models of options: dataclasses whose fields know how a value is read and where it applies.

The signature and the documentation of functions, the keys of configuration files and the flags of the command line are
made from such a model, so that an option is written down once.
"""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, ParamSpec, TypeVar, cast

from barymesh.errors import BarymeshError
from barymesh.readers import Reader

P = ParamSpec("P")
R = TypeVar("R")


def details(*places: str, reader: Reader | None = None, text: bool = True) -> dict[str, Any]:
    """The metadata of a field.

    ``places``: where the option applies, everywhere if none is named. ``reader``: checks a value, or makes one from its
    text. ``text``: whether a configuration file can hold it.
    """
    return {"places": places, "reader": reader, "text": text}


def option(default: Any, *places: str, reader: Reader | None = None, text: bool = True) -> Any:
    """A field that may be left out; the other arguments as for ``details``."""
    return field(default=default, metadata=details(*places, reader=reader, text=text))


@dataclass(frozen=True)
class Model:
    """Options that are read when the object is made."""

    def __post_init__(self) -> None:
        for one in fields(self):
            object.__setattr__(self, one.name, read_value(one, getattr(self, one.name)))

    @classmethod
    def fields(cls) -> dict[str, Field[Any]]:
        """The fields by name, in the order of the documentation."""
        known = {one.name: one for one in fields(cls)}
        return {name: known[name] for name in documentation(cls)}

    def check(self, given: set[str]) -> None:
        """An error if the options given do not go together. Models that have such rules override it."""


def read_value(one: Field[Any], value: Any) -> Any:
    """What the field's reader makes of a value; its errors carry the name of the option."""
    reader: Reader | None = one.metadata.get("reader")
    if reader is None or (value is None and one.default is None):
        return value
    try:
        return reader(one.name, value)
    except BarymeshError as error:
        error.option = one.name
        raise


def is_needed(one: Field[Any]) -> bool:
    """Whether the option has no default."""
    return one.default is MISSING and one.default_factory is MISSING


def documentation(model: type[Model]) -> dict[str, str]:
    """The documentation of every option by name: the entries of the docstrings, as running text."""
    return _documentation(cast(Any, model))


@functools.cache
def _documentation(model: Any) -> dict[str, str]:
    names = {one.name for one in fields(model)}
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for line in _entries(model).splitlines():
        name, colon, _ = line.partition(" : ")
        if colon and name in names:
            current = found.setdefault(name, [])
        elif line.startswith("    "):
            current.append(line.strip())
    return {name: " ".join(lines) for name, lines in found.items()}


def first_sentence(text: str) -> str:
    """The first sentence of an entry, without the marks of reStructuredText."""
    return text.partition(". ")[0].rstrip(".").replace("``", "") + "."


def _entries(model: type[Model]) -> str:
    """The entries under "Parameters" in the docstrings of the model and of those it is made of."""
    parts = []
    for one in model.__mro__:
        _, heading, entries = inspect.cleandoc(one.__doc__ or "").partition("Parameters\n----------\n")
        if heading:
            parts.append(entries.rstrip())
    return "\n".join(parts)


M = TypeVar("M", bound=Model)


def takes_options(model: Callable[P, M]) -> Callable[[Callable[[M], R]], Callable[P, R]]:
    """Make a function of a model one that takes each option as an argument, with the documentation of the options in
    the place of ``{options}``."""
    kind = cast(type[Model], model)
    own = inspect.signature(kind).parameters
    parameters = [own[name] for name in kind.fields()]
    entries = f"Parameters\n----------\n{_entries(kind)}"

    def decorate(run: Callable[[M], R]) -> Callable[P, R]:
        result = inspect.signature(run).return_annotation
        signature = inspect.Signature(parameters, return_annotation=result)

        @functools.wraps(run)
        def call(*arguments: P.args, **given: P.kwargs) -> R:
            mistake = _mistake(signature, arguments, given)
            if mistake:
                raise TypeError(f"{run.__name__}(): {mistake}")
            options = model(*arguments, **given)
            # None is how a program leaves an option out
            options.check({name for name, value in given.items() if value is not None})
            return run(options)

        call.__doc__ = inspect.cleandoc(run.__doc__ or "").replace("{options}", entries)
        call.__signature__ = signature  # type: ignore[attr-defined]
        # those of ``run`` would be wrong, and some of the model are known to type checkers only
        call.__annotations__ = {}
        return call

    return decorate


def _mistake(signature: inspect.Signature, arguments: tuple[Any, ...], given: dict[str, Any]) -> str | None:
    """What is wrong with a call, if it does not fit the signature."""
    for name in given:
        if name not in signature.parameters:
            close = difflib.get_close_matches(name, signature.parameters, 1)
            return f"there is no option {name!r}." + (f" Did you mean {close[0]!r}?" if close else "")
    free = [one.name for one in signature.parameters.values() if one.kind is not one.KEYWORD_ONLY]
    if len(arguments) > len(free):
        return f"{len(arguments)} arguments without a name; only {' and '.join(free)} may be given so."
    try:
        signature.bind(*arguments, **given)
    except TypeError as error:
        return f"{error}."
    return None
