"""What happened over time, as a table of named NumPy columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class History:
    """Columns of equal length: ``history["consensus"]``, ``history.columns``, ``len(history)``."""

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

    def plot(self) -> Figure:
        """Every column against the first; for a run on a network, over virtual time: the dual objective (minus the
        optimum, if a reference was given), consensus distance, feasibility residual and total variation."""
        from barymesh.report.plots import plot_history

        return plot_history(self)
