"""Checks of what users pass in. Each raises an error that names the thing, the value and the remedy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from barymesh.errors import BarymeshError, OptionError

Floats = NDArray[np.float64]


def is_array(values: Any) -> bool:
    """Whether this is an array, of whatever library: NumPy, or one that follows the array API or DLPack."""
    return any(hasattr(values, name) for name in ("__array__", "__array_namespace__", "__dlpack__"))


def as_floats(values: Any, what: str, error: type[BarymeshError]) -> Floats:
    """An array of real numbers, or an error with what was given. Arrays of other libraries are read."""
    try:
        array = _as_numpy(values)
        if array.dtype.kind not in "biuf" and (array.dtype.kind != "O" or array.size == 0):
            raise TypeError(f"its type is {array.dtype}")
        return np.asarray(array, dtype=float)
    except (TypeError, ValueError, OverflowError) as cause:
        raise error(f"{what}: {type(values).__name__} is not an array of numbers ({cause}).") from cause


def _as_numpy(values: Any) -> NDArray[Any]:
    try:
        return np.asarray(values)
    except Exception as refusal:
        # libraries refuse in many ways to copy from another device, or out of a record of gradients
        if not hasattr(values, "__dlpack__"):
            raise
        try:
            return np.from_dlpack(values)
        except Exception:
            raise TypeError(
                f"it is on {getattr(values, 'device', 'another device')!s}, and NumPy cannot read it: {refusal} "
                "Copy it to main memory first, for instance with .detach().cpu() or .get()"
            ) from refusal


def normalised(masses: Floats) -> Floats:
    """Non-negative numbers, not all zero, divided by their sum; however large they are. How the sum is rounded does not
    depend on where among zeros they stand."""
    scaled = masses / masses.max()
    return np.asarray(scaled / scaled[scaled > 0].sum())


def whole_number(name: str, value: Any, least: int | None = None, error: type[BarymeshError] = OptionError) -> int:
    """An integer option, at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise error(f"{name} is {value!r}; it must be a whole number.")
    if least is not None and value < least:
        raise error(f"{name} is {value}; it must be at least {least}.")
    return int(value)


def positive_number(name: str, value: Any, error: type[BarymeshError] = OptionError) -> float:
    """A positive finite number."""
    number = real_number(value)
    if number is None or number <= 0:
        raise error(f"{name} is {value!r}; it must be a positive finite number.")
    return number


def real_number(value: Any) -> float | None:
    """A finite real number, or None if it is not one."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if np.isfinite(number) else None
