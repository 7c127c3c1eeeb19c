"""Tables as measures: every row of a CSV or Parquet file is a sample, every column a coordinate.

Which columns are coordinates can be chosen; one column can be the mass of the samples, and one can name the measure
that a sample belongs to. Columns that are not chosen are not read, so they may hold text. Errors name file, line and
column, and never what a cell holds: that may be the name of a person.
"""

from __future__ import annotations

import csv
import math
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from barymesh.errors import FileError, MeasureError, OptionError
from barymesh.extras import needs
from barymesh.io.limits import require_regular, require_room
from barymesh.measures import Empirical
from barymesh.measures.empirical import by_group

LINES_BETWEEN_CHECKS = 2**14
# what files separate values by, other than commas
SEPARATORS = ((";", "Semicolons"), ("\t", "Tabs"), ("|", "Bars"))
# a column by its name, or by its number counted from 1
Column = str | int


@dataclass(frozen=True)
class Choice:
    """Which columns of a table are used: ``columns`` as coordinates, in this order (None for all that are left), and
    ``weight`` as mass (None for none), ``by`` as the name of the measure (None for one measure a table)."""

    columns: tuple[Column, ...] | None = None
    weight: Column | None = None
    by: Column | None = None

    @classmethod
    def of(cls, columns: Sequence[Column] | None, weight: Column | None, by: Column | None = None) -> Choice:
        """The choice, if it makes sense for some table."""
        chosen = None if columns is None else (columns,) if isinstance(columns, str | int) else tuple(columns)
        for column in (*(chosen or ()), *(one for one in (weight, by) if one is not None)):
            if isinstance(column, bool) or not isinstance(column, str | int) or column in ("", 0):
                raise OptionError(
                    f"{column!r} is no column; give the name of one, or its number, counted from 1 (columns=, "
                    "weight_column=, by=, on the command line --columns, --weight-column, --by)."
                )
        if chosen is not None and (not chosen or len(set(chosen)) < len(chosen)):
            raise OptionError(
                f"columns (on the command line --columns) is {list(chosen)}; name every column once, at least one."
            )
        if chosen is not None and weight in chosen:
            raise OptionError(
                f"The column {weight!r} is chosen both as a coordinate (columns=, --columns) and as the mass "
                "(weight_column=, --weight-column). Choose one."
            )
        if by is not None and (by in (chosen or ()) or by == weight):
            raise OptionError(
                f"The column {by!r} is chosen to name the measures (by=, --by), and as a coordinate or mass as well. "
                "Choose one."
            )
        return cls(chosen, weight, by)

    def names_header(self, first: Sequence[str]) -> bool:
        """Whether the first row has the name of a chosen column. The number of a column is not a name."""
        chosen = (*(self.columns or ()), self.weight, self.by)
        return any(isinstance(column, str) and column in first and not _numbered(column, first) for column in chosen)

    def places(self, file: Path, names: Sequence[str]) -> tuple[list[int], int | None, int | None]:
        """The places of the coordinates, of the mass and of the groups in a table with columns of these names."""
        weight = None if self.weight is None else _place(file, self.weight, names)
        by = None if self.by is None else _place(file, self.by, names)
        if self.columns is None:
            rest = [k for k in range(len(names)) if k not in (weight, by)]
            if not rest:
                raise FileError(f"{file} has no columns of coordinates beside its weights; write one for each.")
            nameless = [k + 1 for k in rest if not names[k]]
            if nameless:
                raise FileError(
                    f"{file} has a header without a name for column {nameless[0]}: the numbers of its rows? Choose "
                    "columns (columns=, --columns), or write the file without it."
                )
            return rest, weight, by
        places = [_place(file, column, names) for column in self.columns]
        others = [place for place in (weight, by) if place is not None]
        if len({*places, *others}) < len(places) + len(others):
            chosen = [*self.columns, *(one for one in (self.weight, self.by) if one is not None)]
            raise FileError(f"{file}: two of the columns {chosen} are the same one. Choose every column once.")
        return places, weight, by


def columns_from_text(text: str | None) -> list[str] | None:
    """Columns as the command line takes them: names or numbers, joined by commas."""
    return None if text is None else [part.strip() for part in text.split(",")]


def _place(file: Path, column: Column, names: Sequence[str]) -> int:
    found = [k for k, name in enumerate(names) if name == column]
    if len(found) > 1:
        raise FileError(f"{file} has {len(found)} columns called {column!r}. Rename them, or give the number of one.")
    if found:
        return found[0]
    number = _numbered(column, names)
    if not number:
        known = ", ".join(_label(names, k) for k in range(len(names)))
        raise FileError(f"{file} has no column {column!r}. Its {len(names)} columns are {known}.")
    return number - 1


def _numbered(column: Column, names: Sequence[str]) -> int:
    """The number of a column, counted from 1, if it is given by that; else 0."""
    try:
        number = int(column) if isinstance(column, int) or column.isdecimal() else 0
    except ValueError:  # from Python's limit on the digits of an integer
        return 0
    return number if 1 <= number <= len(names) else 0


def _label(names: Sequence[str], place: int) -> str:
    """How errors call a column. Its name, unless that seems to be a whole row, in a file with other separators."""
    name = names[place]
    plain = name and name.isprintable() and not any(mark in name for mark, _ in SEPARATORS)
    return name if plain and not any(_number(part) is not None for part in name.split()) else f"column {place + 1}"


def read_csv(file: Path, choice: Choice) -> list[Empirical]:
    """The samples in a CSV file, with or without a header: one measure, or one for each group."""
    require_regular(file)
    with file.open(encoding="utf-8-sig", newline="") as text:
        reader = csv.reader(text)
        try:
            return _samples(file, reader, choice)
        except UnicodeDecodeError as error:
            reason = f"{error.reason} at byte {error.start}"
            raise FileError(f"{file} is not a text file in UTF-8 ({reason}). Save it in UTF-8.") from None
        except csv.Error as error:
            raise FileError(f"{file}, line {reader.line_num}: {error}.") from error


def _samples(file: Path, reader: Any, choice: Choice) -> list[Empirical]:
    names: list[str] | None = None
    headed = False
    points, masses = array("d"), array("d")
    places: list[int] = []
    labels: list[str] = []
    weight: int | None = None
    by: int | None = None
    groups: list[str] = []
    for row in reader:
        if not any(cell.strip() for cell in row):
            continue
        where = f"{file}, line {reader.line_num}"
        if names is None:
            first = [cell.strip() for cell in row]
            headed = all(_number(cell) is None for cell in first) or choice.names_header(first)
            names = first if headed else [f"column {k + 1}" for k in range(len(first))]
            labels = [_label(names, k) for k in range(len(names))]
            places, weight, by = choice.places(file, names)
            if headed:
                continue
        if len(row) != len(names):
            raise FileError(
                f"{where}: {len(row)} values where {len(names)} are expected.{_separator(row)} The file may be "
                "truncated."
            )
        points.extend(_cell(where, labels[k], row[k]) for k in places)
        if reader.line_num % LINES_BETWEEN_CHECKS == 0:
            require_room(file, len(points))
        if weight is not None:
            masses.append(_cell(where, labels[weight], row[weight], least=0.0))
        if by is not None:
            if not row[by].strip():
                raise FileError(f"{where}, {labels[by]}: an empty cell, where the group is needed. Mend the line.")
            groups.append(row[by].strip())
    if names is None:
        raise MeasureError("the file has no rows; write one sample a line.")
    coordinates = np.array(points).reshape(-1, len(places))
    kept = [names[k] for k in places] if headed else None
    weights = None if weight is None else np.array(masses)
    return [Empirical(coordinates, weights, names=kept)] if by is None else by_group(coordinates, weights, groups, kept)


def _cell(where: str, column: str, text: str, least: float = -math.inf) -> float:
    value = _number(text)
    if value is None:
        what = "an empty cell" if not text.strip() else "not a number"
        raise FileError(f"{where}, {column}: {what}.{_separator([text])} Mend or remove the line.")
    if not math.isfinite(value):
        raise FileError(f"{where}, {column}: NaN or infinity; numbers must be finite. Mend or remove the line.")
    if value < least:
        raise FileError(f"{where}, {column}: a negative number; weights must not be negative. Mend or remove the line.")
    return value


def _separator(cells: Sequence[str]) -> str:
    """A guess at what separates the values, if it is not commas."""
    for mark, name in SEPARATORS:
        if any(mark in cell for cell in cells):
            return f" {name}? Values must be separated by commas, with a point in decimal numbers."
    return ""


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def read_parquet(file: Path, choice: Choice) -> list[Empirical]:
    """The samples in a Parquet file: one measure, or one for each group."""
    with needs("parquet"):
        import pyarrow.parquet

    require_regular(file)
    table = _undamaged(file, lambda: pyarrow.parquet.ParquetFile(file))
    names = [str(name) for name in table.schema_arrow.names]
    if not names:
        raise MeasureError("the file has no columns; write one for each coordinate.")
    places, weight, by = choice.places(file, names)
    used = places if weight is None else [*places, weight]
    require_room(file, table.metadata.num_rows * len(used))
    for k in used:
        kind = table.schema_arrow.types[k]
        if not any(is_number(kind) for is_number in _numbers(pyarrow.types)):
            raise FileError(
                f"{file}, {names[k]}: a column of type {kind}, where numbers are needed. Choose other columns "
                "(columns=, --columns)."
            )
        if names.count(names[k]) > 1:
            raise FileError(f"{file} has {names.count(names[k])} columns called {names[k]!r}. Rename them.")
    columns = _undamaged(file, lambda: table.read([names[k] for k in used] + ([] if by is None else [names[by]])))
    values = []
    for k in used:
        # what is missing becomes NaN
        column = columns.column(names[k]).cast(pyarrow.float64(), safe=False).to_numpy()
        bad = ~np.isfinite(column) if k != weight else ~(np.isfinite(column) & (column >= 0))
        if bad.any():
            what = "NaN, infinity or an empty cell" if k != weight else "a negative number, NaN or infinity"
            raise FileError(f"{file}, row {int(np.argmax(bad)) + 1}, {names[k]}: {what}. Mend or remove the row.")
        values.append(column)
    points, masses = np.stack(values[: len(places)], axis=1), None if weight is None else values[-1]
    kept = [names[k] for k in places]
    if by is None:
        return [Empirical(points, masses, names=kept)]
    groups = columns.column(names[by])
    if groups.null_count:
        raise FileError(f"{file}, {names[by]}: {groups.null_count} empty cells, where the group is needed. Mend them.")
    return by_group(points, masses, [str(group) for group in groups.to_pylist()], kept)


def _numbers(types: Any) -> tuple[Callable[[Any], bool], ...]:
    return types.is_integer, types.is_floating, types.is_decimal, types.is_boolean


def _undamaged(file: Path, read: Callable[[], Any]) -> Any:
    try:
        return read()
    except Exception as error:  # pyarrow's own errors for damage, OSError for access
        raise FileError(
            f"{file} is damaged, not Parquet, or may not be opened ({error}). Write it again, or make it readable."
        ) from error
