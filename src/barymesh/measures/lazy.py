"""Measures that are loaded only where they are needed: by the worker that hosts their node."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from barymesh.checks import as_floats
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

        with self._errors_named():
            return self.source(*self.arguments) if callable(self.source) else read_measure(Path(self.source))

    @contextmanager
    def _errors_named(self) -> Iterator[None]:
        """Errors while loading say what was loaded."""
        try:
            yield
        except BarymeshError as error:
            raise MeasureError(f"{self!r} cannot be loaded: {error}") from error
        except Exception as error:  # whatever the user's function raises
            raise MeasureError(f"{self!r} cannot be loaded: {type(error).__name__}: {error}") from error

    @property
    def reason(self) -> str:
        return (
            f"{self!r} is loaded only by workers. Use engine='ray', or a network with engine='processes' or "
            "engine='ray', with support= given, an absolute reg, and no reference."
        )

    def __repr__(self) -> str:
        name = getattr(self.source, "__name__", None) or str(self.source)
        return f"Lazy({', '.join([name, *map(repr, self.arguments)])})"


class LazyMeasures(Lazy):
    """Many measures that one worker of a Ray cluster loads, never the caller: a shard of them.

    Parameters
    ----------
    source : path, function or dataset
        The path of a file or folder of measures (as for ``read_measures``); a function that returns what ``barycenter``
        takes as measures, such as an array of images; or a ``ray.data.Dataset`` with a measure in each row. A worker
        that is restarted loads them again, and must get the same.
    *arguments
        What the function is called with.
    at : str, optional
        The address of the machine that has them; by default every machine can load them.
    weights : array, optional
        The importance of each, compared with all measures of all shards; 1 by default.
    column : str, optional
        The column of a dataset that has the measures, as arrays. Not needed if there is one column only.
    **reading
        Options of ``read_measures`` for paths, such as ``by``, the column of a table that names the measure a sample
        belongs to.

    Examples
    --------
    >>> from barymesh import LazyMeasures
    >>> LazyMeasures("/data/part-0.parquet", by="site", columns=["age", "dose"], at="10.0.0.2")
    LazyMeasures(/data/part-0.parquet)
    """

    def __init__(
        self, source: Any, *arguments: Any, at: str | None = None, weights: ArrayLike | None = None,
        column: str | None = None, **reading: Any,
    ) -> None:  # fmt: skip
        if hasattr(source, "iter_batches"):
            source = _Rows(source, column)
        super().__init__(source, *arguments, at=at)
        if reading and callable(self.source):
            raise MeasureError(f"{self!r}: {next(iter(reading))} is an option for reading files, and this is none.")
        self.reading = reading
        self.weights = None if weights is None else as_floats(weights, "The weights of LazyMeasures", MeasureError)

    def load(self) -> Any:
        """Load them in this process.

        Returns
        -------
        list or array
            What ``barycenter`` takes as measures; a MeasureError if they cannot be loaded.
        """
        from barymesh.io.files import read_measures

        with self._errors_named():
            if callable(self.source):
                return self.source(*self.arguments)
            return read_measures(self.source, **self.reading)

    def split(self, parts: int) -> list[LazyMeasures]:
        """The same in several parts, to be loaded by as many workers: those of a dataset. A file or the result of a
        function is not split.

        Parameters
        ----------
        parts : int
            How many.

        Returns
        -------
        list of LazyMeasures
            One for each part.
        """
        if not isinstance(self.source, _Rows) or parts == 1:
            return [self]
        dataset, column = self.source.dataset, self.source.column
        count = dataset.count()
        ends = np.linspace(0, count, min(parts, max(count, 1)) + 1).astype(int)[1:-1]
        pieces = dataset.split_at_indices(ends.tolist()) if ends.size else [dataset]
        weights = [None] * len(pieces) if self.weights is None else np.split(self.weights, ends)
        return [
            LazyMeasures(part, at=self.at, column=column, weights=own)
            for part, own in zip(pieces, weights, strict=True)
        ]

    @property
    def reason(self) -> str:
        return (
            f"{self!r} is loaded only by workers of a Ray cluster. Use engine='ray' without a network, with support= "
            "given and an absolute reg."
        )

    def __repr__(self) -> str:
        return super().__repr__().replace("Lazy(", "LazyMeasures(", 1)


class _Rows:
    """A measure in each row of a dataset."""

    __name__ = "dataset"

    def __init__(self, dataset: Any, column: str | None) -> None:
        self.dataset, self.column = dataset, column

    def __call__(self) -> Any:
        """The measures: an array, if those of all rows have one shape."""
        batches = list(self.dataset.iter_batches(batch_format="numpy", batch_size=None))
        if not batches:
            return []
        columns = list(batches[0])
        if self.column is None and len(columns) > 1:
            raise MeasureError(f"the dataset has the columns {', '.join(columns)}; say which has the measures: column=")
        name = self.column or columns[0]
        if name not in columns:
            raise MeasureError(f"the dataset has no column {name!r}, only {', '.join(columns)}")
        arrays = [batch[name] for batch in batches]
        if all(array.dtype != object for array in arrays):
            return np.concatenate(arrays)
        rows = [np.asarray(row) for array in arrays for row in array]
        # lists of one length are stacked by Arrow, but not as arrays
        return np.stack(rows) if len({row.shape for row in rows}) == 1 else rows
