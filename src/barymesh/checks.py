"""Checks of what users pass in. Each raises a named error that tells the thing, the value and the remedy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from barymesh.errors import BarymeshError, OptionError

Floats = NDArray[np.float64]


def as_floats(values: Any, what: str, error: type[BarymeshError]) -> Floats:
    """An array of real numbers, or an error that says what came instead."""
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "biuf" and (array.dtype.kind != "O" or array.size == 0):
            raise TypeError(f"its type is {array.dtype}")
        return np.asarray(array, dtype=float)
    except (TypeError, ValueError, OverflowError) as cause:
        raise error(f"{what} is {type(values).__name__}, not an array of numbers ({cause}).") from cause


def normalised(masses: Floats) -> Floats:
    """Non-negative numbers, not all zero, divided by their sum; however large they are."""
    scaled = masses / masses.max()
    return np.asarray(scaled / scaled.sum())


def whole_number(name: str, value: Any, least: int | None = None, error: type[BarymeshError] = OptionError) -> int:
    """An integer option, at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise error(f"{name} is {value!r}; it must be a whole number.")
    if least is not None and value < least:
        raise error(f"{name} is {value}; it must be at least {least}.")
    return int(value)


def real_number(value: Any) -> float | None:
    """A finite real number, or None if it is not one."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if np.isfinite(number) else None
