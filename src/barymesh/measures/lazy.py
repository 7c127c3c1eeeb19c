"""Measures that are loaded only where they are needed: by the worker that hosts their node."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from barymesh.errors import BarymeshError, MeasureError
from barymesh.measures.base import Unavailable


class Lazy(Unavailable):
    """A measure that is loaded by the worker that hosts its node, never by the caller.

    Parameters
    ----------
    source : path or function
        The path of a file of one measure (as for ``read_measures``), or a function that returns what a list of measures
        may hold. A worker that is restarted loads it again, and must get the same.
    *arguments
        What the function is called with.
    at : str, optional
        The address of the machine of a Ray cluster that has it; by default every machine can load it.

    Examples
    --------
    >>> from barymesh import Lazy
    >>> Lazy("/data/north.csv", at="10.0.0.2")
    Lazy(/data/north.csv)
    """

    def __init__(self, source: str | Path | Callable[..., Any], *arguments: Any, at: str | None = None) -> None:
        if not callable(source) and not isinstance(source, str | os.PathLike):
            raise MeasureError(f"Lazy({source!r}): give the path of a file, or a function that returns the measure.")
        if arguments and not callable(source):
            raise MeasureError(f"Lazy({str(source)!r}, ...): only a function takes arguments; a path takes none.")
        if at is not None and not isinstance(at, str):
            raise MeasureError(f"Lazy(..., at={at!r}): give the address of a machine as text, such as '10.0.0.5'.")
        self.source, self.arguments, self.at = source, arguments, at

    def load(self) -> Any:
        """Load it in this process.

        Returns
        -------
        Measure, array, or anything else that a list of measures may hold
            The measure; a MeasureError if it cannot be loaded.
        """
        from barymesh.io.files import read_measure

        try:
            return self.source(*self.arguments) if callable(self.source) else read_measure(Path(self.source))
        except BarymeshError as error:
            raise MeasureError(f"{self!r} cannot be loaded: {error}") from error
        except Exception as error:  # whatever the user's function raises
            raise MeasureError(f"{self!r} cannot be loaded: {type(error).__name__}: {error}") from error

    @property
    def reason(self) -> str:
        return (
            f"{self!r} is loaded only by workers. Run it on a network with engine='processes' or engine='ray', with "
            "support= given, an absolute reg, and no reference."
        )

    def __repr__(self) -> str:
        name = getattr(self.source, "__name__", None) or str(self.source)
        return f"Lazy({', '.join([name, *map(repr, self.arguments)])})"
