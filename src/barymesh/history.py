"""What happened over time, as a table of named NumPy columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from barymesh.extras import needs
from barymesh.io.atomic import replacing, write_csv

if TYPE_CHECKING:
    from barymesh.viz.figure import Figure


class History:
    """Columns of equal length: ``history["consensus"]``, ``history.columns``, ``len(history)``.

    ``pandas.DataFrame(history.columns)`` is the same as a data frame.

    Parameters
    ----------
    columns : mapping of str to array
        The columns by name, in their order.

    Examples
    --------
    >>> from barymesh import History
    >>> history = History({"iterations": [1, 2], "consensus": [0.5, 0.1]})
    >>> history
    History(2 rows: iterations, consensus)
    >>> history["consensus"]
    array([0.5, 0.1])
    """

    def __init__(self, columns: Mapping[str, NDArray[np.float64]]) -> None:
        self.columns = {name: np.asarray(column, dtype=float) for name, column in columns.items()}
        lengths = {column.size for column in self.columns.values()}
        if len(lengths) > 1:
            raise ValueError(f"The columns of a history have lengths {sorted(lengths)}; they must be the same.")

    def __getitem__(self, name: str) -> NDArray[np.float64]:
        if name not in self.columns:
            raise KeyError(f"There is no column {name!r}; there are {', '.join(self.columns) or 'none'}.")
        return self.columns[name]

    def __len__(self) -> int:
        return next((column.size for column in self.columns.values()), 0)

    def __repr__(self) -> str:
        return f"History({len(self)} rows: {', '.join(self.columns)})"

    def rows(self) -> Iterator[tuple[float, ...]]:
        """Row by row, as plain numbers in the order of the columns.

        Returns
        -------
        iterator of tuple
            The rows.
        """
        return zip(*(column.tolist() for column in self.columns.values()), strict=True)

    def to_csv(self, path: str | Path) -> Path:
        """Write a table with a header. Numbers are written so that they read back the same to the last bit.

        Parameters
        ----------
        path : path
            Where to.

        Returns
        -------
        pathlib.Path
            The file written.
        """
        write_csv(Path(path), self.columns, self.rows())
        return Path(path)

    def to_parquet(self, path: str | Path) -> Path:
        """Write an Apache Parquet file; needs pyarrow (``pip install 'barymesh[parquet]'``).

        Parameters
        ----------
        path : path
            Where to.

        Returns
        -------
        pathlib.Path
            The file written.
        """
        with needs("parquet"):
            import pyarrow
            from pyarrow import parquet

        with replacing(Path(path)) as file:
            parquet.write_table(pyarrow.table(self.columns), file)
        return Path(path)

    def plot(self) -> Figure:
        """Every column against the first.

        For a run on a network, over virtual time: the dual objective (minus the optimum, if a reference was given),
        consensus, feasibility residual and total variation.

        Returns
        -------
        matplotlib.figure.Figure
            Not shown yet.
        """
        from barymesh.viz.plots import plot_history

        return plot_history(self)
