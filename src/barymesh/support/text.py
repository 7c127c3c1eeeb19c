"""Supports written as text, for the command line and configuration files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from barymesh.errors import SupportError
from barymesh.specification import build_from_spec
from barymesh.support.free import FreeSupport
from barymesh.support.points import Support

# files that hold points
SUFFIXES = (".csv", ".npy")
HELP = (
    "'auto', a file of points (.csv, .npy), or a grid: count:lower:upper for each axis, joined by commas "
    "(100:-5:5 or 64:0:1,64:0:1); or points that move (free:n=200, or free:n=200,weights=learned,starts=5)"
)


def parse_support(
    text: str, base: Path | None = None, *, check_only: bool = False
) -> Support | FreeSupport | str | None:
    """A support from its text. ``check_only``: check the form, and open no file."""
    if text == "auto":
        return text
    if text.partition(":")[0] == "free":
        found: FreeSupport = build_from_spec(text, {"free": _free}, "support", SupportError)
        return found
    if ":" in text and Path(text).suffix.lower() not in SUFFIXES:
        return _grid(text)
    if Path(text).suffix.lower() not in SUFFIXES:
        raise SupportError(f"The support {text!r} is not understood. Give {HELP}.")
    if check_only:
        return None
    return _from_file((base or Path()) / text)


def _free(
    n: int, weights: str = "uniform", starts: int = 1, dimension: int | None = None, seed: int = 0,
    reach: float | None = None,
) -> FreeSupport:  # fmt: skip
    return FreeSupport(n, weights=weights, starts=starts, dimension=dimension, seed=seed, reach=reach)


def _grid(text: str) -> Support:
    counts, lower, upper = [], [], []
    for axis in text.split(","):
        parts = axis.split(":")
        try:
            count, low, high = int(parts[0]), float(parts[1]), float(parts[2])
            if len(parts) != 3:
                raise ValueError
        except (ValueError, IndexError) as error:
            raise SupportError(f"The support {text!r} is not understood at {axis!r}. Give {HELP}.") from error
        counts.append(count)
        lower.append(low)
        upper.append(high)
    return Support.regular(counts, lower, upper)


def _from_file(path: Path) -> Support:
    from barymesh.io.files import read_measures
    from barymesh.measures import Empirical

    read = read_measures(path)
    if isinstance(read, list) and len(read) == 1 and isinstance(read[0], Empirical):
        return Support(read[0].points)
    return Support(np.asarray(read))
