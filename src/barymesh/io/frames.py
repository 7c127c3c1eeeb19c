"""Data frames as measures: pandas, Polars, Arrow and others that narwhals knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barymesh.errors import MeasureError, OptionError
from barymesh.extras import needs
from barymesh.measures.empirical import Empirical, by_group

# the keys under which columns of Arrow keep their unit
UNIT_KEYS = (b"unit", b"units")


def from_dataframe(
    df: Any,
    by: str,
    columns: Sequence[str] | str | None = None,
    weight: str | None = None,
    *,
    units: Mapping[str, str] | None = None,
) -> list[Empirical]:
    """Measures from a data frame: one for each value of a column, every row a sample.

    The measures are labelled by their group (``result.plan("north")``), and results of them are plotted with the names
    of the columns and their units.

    Parameters
    ----------
    df : data frame
        Of pandas, Polars, Arrow, or another library that narwhals knows. Lazy frames are collected.
    by : str
        The column that names the measure a row belongs to.
    columns : list of str or str, optional
        The columns that are coordinates, in this order. By default all other columns.
    weight : str, optional
        The column with the mass of each row. By default all rows of a group weigh the same.
    units : dict, optional
        Units of columns, for plots, such as ``{"age": "years"}``. By default those of ``df.attrs["units"]`` (pandas) or
        of the metadata ``unit`` of the fields (Arrow), if there are any.

    Returns
    -------
    list of Empirical
        In the order in which the groups appear.

    Examples
    --------
    >>> import pandas as pd
    >>> import barymesh as bm
    >>> df = pd.DataFrame({"site": ["north", "south", "north"], "age": [31, 64, 45], "bmi": [22.5, 27.1, 24.0]})
    >>> measures = bm.from_dataframe(df, by="site", columns=["age", "bmi"], units={"age": "years"})
    >>> [(measure.label, measure.records) for measure in measures], measures[0].names
    ([('north', 2), ('south', 1)], ('age (years)', 'bmi'))
    """
    with needs("dataframes"):
        import narwhals

    try:
        frame: Any = narwhals.from_native(df)
    except TypeError as error:
        raise MeasureError(
            f"{type(df).__name__} is no data frame that narwhals knows. Give one of pandas, Polars or Arrow."
        ) from error
    if isinstance(frame, narwhals.LazyFrame):
        frame = frame.collect()
    known = list(frame.columns)
    chosen = [columns] if isinstance(columns, str) else columns
    coordinates = [name for name in known if name not in (by, weight)] if chosen is None else list(chosen)
    used = [*coordinates, by, *([] if weight is None else [weight])]
    for name in used:
        if name not in known:
            raise OptionError(f"The data frame has no column {name!r}. Its columns are {', '.join(map(str, known))}.")
    if not coordinates or len(set(used)) < len(used):
        raise OptionError(
            f"by={by!r}, columns={coordinates} and weight={weight!r} must name every column once, and at least one "
            "coordinate."
        )
    if len(frame) == 0:
        raise MeasureError("The data frame has no rows. Give at least one.")
    if frame[by].null_count():
        raise MeasureError(f"The column {by!r} has {frame[by].null_count()} missing values. Remove or mend these rows.")
    points = np.stack([_numbers(frame, name) for name in coordinates], axis=1)
    masses = None if weight is None else _numbers(frame, weight)
    known_units = {**_units(narwhals.to_native(frame)), **(units or {})}
    names = [f"{name} ({known_units[name]})" if known_units.get(name) else str(name) for name in coordinates]
    return by_group(points, masses, [str(group) for group in frame[by].to_list()], names)


def _numbers(frame: Any, name: str) -> NDArray[np.float64]:
    import narwhals

    column = frame[name]
    if not (column.dtype.is_numeric() or str(column.dtype) == "Boolean"):
        raise MeasureError(
            f"The column {name!r} is of type {column.dtype}, where numbers are needed. Choose other columns=, or "
            "convert it."
        )
    # what is missing becomes NaN
    values = np.asarray(column.cast(narwhals.Float64).fill_null(np.nan).to_numpy(), dtype=float)
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise MeasureError(
            f"The column {name!r} has {bad.size} values that are missing, NaN or infinite, the first in row {bad[0]}. "
            "Remove or mend these rows."
        )
    return values


def _units(df: Any) -> dict[str, str]:
    """What the frame itself says about the units of its columns."""
    attributes = getattr(df, "attrs", None)
    if isinstance(attributes, Mapping) and isinstance(attributes.get("units"), Mapping):
        return {str(name): str(unit) for name, unit in attributes["units"].items()}
    schema: Any = getattr(df, "schema", None)
    if not hasattr(schema, "field"):
        return {}
    found = {}
    for name in schema.names:
        about = schema.field(name).metadata or {}
        for key in UNIT_KEYS:
            if key in about:
                found[name] = about[key].decode()
    return found
