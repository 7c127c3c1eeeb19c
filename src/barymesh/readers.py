"""Readers of option values. Each takes the name of an option and what was given for it, and returns the value to use,
or raises an error that names the option, the value and the remedy. A value that was read may be read again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barymesh.checks import as_floats, is_array, positive_number, real_number, whole_number
from barymesh.cost import Cost
from barymesh.errors import OptionError, RegularisationError, WeightError
from barymesh.support.free import FreeSupport
from barymesh.support.points import Support, as_support

Reader = Callable[[str, Any], Any]

# weights by the number of records
SIZE = "size"
# the precisions of the arithmetic, by name
PRECISIONS: dict[str, type] = {"float64": np.float64, "float32": np.float32}


def positive(name: str, value: Any) -> float:
    """A positive finite number."""
    return positive_number(name, value)


def not_negative(name: str, value: Any) -> float:
    """A finite number, 0 or larger."""
    number = real_number(value)
    if number is None or number < 0:
        raise OptionError(f"{name} is {value!r}; it must be a finite number, 0 or larger.")
    return number


def whole(name: str, value: Any) -> int:
    """A whole number."""
    return whole_number(name, value)


def count(name: str, value: Any) -> int:
    """A whole number, at least 1."""
    return whole_number(name, value, 1)


def boolean(name: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise OptionError(f"{name} is {value!r}; it must be true or false.")
    return bool(value)


def path(name: str, value: Any) -> Path:
    """The path of a file or folder."""
    if not isinstance(value, str | Path):
        raise OptionError(f"{name} is {value!r}; give the path of a file or folder.")
    return Path(value)


def function(name: str, value: Any) -> Any:
    """Something that can be called."""
    if not callable(value):
        raise OptionError(f"{name} is {value!r}; it must be a function.")
    return value


def cluster(name: str, value: Any) -> str:
    """The address of a Ray cluster."""
    if not isinstance(value, str):
        raise OptionError(f"{name} is {value!r}; give that of a Ray cluster, such as '10.0.0.1:6379'.")
    return value


def interval(name: str, value: Any) -> float:
    """Seconds between two activations."""
    number = real_number(value)
    if number is None or not 0 <= number <= 3600:
        raise OptionError(f"{name} is {value!r}; it must be 0 to 3600 seconds.")
    return number


def step(name: str, value: Any) -> float | str:
    """A step size, or "theory"."""
    number = real_number(value)
    if isinstance(value, str) and value == "theory":
        return value
    if number is None or number <= 0:
        raise OptionError(f'{name} is {value!r}; give a positive number, "theory", or leave it out for the default.')
    return number


@dataclass(frozen=True)
class OneOf:
    """One of some names."""

    names: tuple[str, ...]

    def __call__(self, name: str, value: Any) -> str:
        if not isinstance(value, str) or value not in self.names:
            raise OptionError(f"Unknown {name} {value!r}; choose one of {', '.join(self.names)}.")
        return value


def one_of(*names: str) -> OneOf:
    """One of these names."""
    return OneOf(names)


# what a problem is made of


def regularisation(name: str, value: Any) -> float:
    """The strength of the regularisation."""
    number = real_number(value)
    if number is None or number <= 0:
        raise RegularisationError(
            f"{name} is {value!r}; it must be a positive finite number. A hundredth of the median cost is a good start."
        )
    return number


def weights(name: str, value: Any) -> NDArray[np.float64] | str:
    """Numbers, or "size"; whether there is one for each measure is seen later."""
    if isinstance(value, str):
        if value != SIZE:
            raise WeightError(f"{name} is {value!r}; give one number for each measure, or {SIZE!r}.")
        return value
    return as_floats(value, f"The {name}", WeightError)


def support(name: str, value: Any) -> Support | FreeSupport | str | None:
    """Points, a Support, a FreeSupport, or its text."""
    from barymesh.support.text import parse_support

    if isinstance(value, FreeSupport):
        return value
    return parse_support(value) if isinstance(value, str) else as_support(value)


def cost(name: str, value: Any) -> Any:
    """A cost. Functions and matrices are checked when they are used."""
    if not callable(value) and not is_array(value):
        Cost(value)
    return value


def reference(name: str, value: Any) -> Any:
    """Whether to compute the true barycenter, or its weights, which are checked against the support later."""
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        raise OptionError(f"{name} is {value!r}; give true, false, or the weights of the barycenter.")
    return value
