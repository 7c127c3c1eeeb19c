"""Read measures from files: arrays, tables, images, and folders of them.

One file is one measure, except for files that hold a stack (IDX image sets, a single ``.npy`` given alone, ``.npz``
with several arrays). Which reading an array gets can be said with ``kind``.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import struct
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barymesh.errors import BarymeshError, FileError, MeasureError, OptionError
from barymesh.measures import Empirical, Histogram, Image, Measure

Array = NDArray[Any]
KINDS = ("samples", "image", "histogram")
IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".pgm")
ARRAYS = (".npy", ".npz")
TABLES = (".csv", ".parquet")
IDX_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
WEIGHT_COLUMNS = ("weight", "weights", "mass")


def read_measures(paths: str | Path | Iterable[str | Path], *, kind: str | None = None, invert: bool = False) -> Any:
    """Measures from files and folders, in the order given; a folder's files in the order of their names.

    ``.csv`` and ``.parquet`` hold samples, one a row, with an optional column ``weight``. ``.png`` and other images
    hold brightness. IDX files hold a stack of images. ``.npz`` holds ``points`` and ``weights``, or one array a
    measure. ``.npy`` holds samples ``(N, d)``, an image, or, given alone, a stack ``(m, n)`` or ``(m, *shape)`` as in
    ``barycenter``.

    Parameters
    ----------
    paths : path or list of paths
        Files and folders.
    kind : {"samples", "image", "histogram"}, optional
        What bare arrays in .npy and .npz are.
    invert : bool, default=False
        Whether dark pixels of images carry the mass.

    Returns
    -------
    list or array
        What ``barymesh.barycenter`` takes as measures.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import barymesh as bm
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.csv").write_text("x,weight\\n0.5,1\\n1.5,3\\n")
    >>> bm.read_measures(folder)[0].weights
    array([0.25, 0.75])
    """
    if kind is not None and kind not in KINDS:
        raise OptionError(f"kind (on the command line --as) is {kind!r}; choose one of {', '.join(KINDS)}.")
    given = [Path(paths)] if isinstance(paths, str | Path) else [Path(p) for p in paths]
    if not given:
        raise FileError("No data files were given; name at least one file or folder.")
    files = [file for path in given for file in _files_in(path)]
    if len(files) == 1 and given[0].is_file() and files[0].suffix.lower() == ".npy":
        stack = _read_npy(files[0])
        if kind is None:
            return stack
        if stack.ndim == 0:
            raise FileError(f"{files[0]} holds a single number, not a stack of measures (m, n).")
        return [_with_name(files[0], _as_kind, row, kind) for row in stack]
    return [measure for file in files for measure in _with_name(file, _read, file, kind, invert)]


def _with_name(file: Path, read: Callable[..., Any], *arguments: Any) -> Any:
    """``read(*arguments)``; every error says which file it is about."""
    try:
        return read(*arguments)
    except FileError:
        raise
    except BarymeshError as error:
        raise type(error)(f"{file}: {error}") from error
    except OSError as error:
        raise FileError(f"{file} cannot be read: {error.strerror or error}.") from error


def _files_in(path: Path) -> list[Path]:
    if path.is_dir():
        found = sorted(f for f in path.iterdir() if f.is_file() and not f.name.startswith(".") and _known(f))
        if not found:
            raise FileError(
                f"The folder {path} holds no file barymesh reads ({', '.join((*ARRAYS, *TABLES, *IMAGES))}, IDX)."
            )
        return found
    if not path.exists():
        raise FileError(f"There is no file or folder {path}.")
    if not _known(path):
        raise FileError(
            f"{path}: files ending in {path.suffix or 'nothing'} are not read. Known: "
            f"{', '.join((*ARRAYS, *TABLES, *IMAGES))}, and IDX."
        )
    return [path]


def _known(file: Path) -> bool:
    return file.suffix.lower() in (*ARRAYS, *TABLES, *IMAGES) or _is_idx(file)


def _is_idx(file: Path) -> bool:
    if file.suffix.lower() in (*ARRAYS, *TABLES, *IMAGES):
        return False
    name = file.name.removesuffix(".gz")
    return name.endswith(".idx") or "-idx" in name or ".idx" in name


def _read(file: Path, kind: str | None, invert: bool) -> list[Any]:
    suffix = file.suffix.lower()
    if _is_idx(file):
        return _stack_of_images(file, _read_idx(file), invert)
    if suffix == ".npz":
        return _read_npz(file, kind)
    if suffix == ".npy":
        return [_as_kind(_read_npy(file), kind)]
    if suffix == ".csv":
        return [_table(*_read_csv(file))]
    if suffix == ".parquet":
        return [_table(*_read_parquet(file))]
    return [Image(_read_image(file, invert))]


def _as_kind(array: Array, kind: str | None) -> Measure | Array:
    """A bare array as the measure the user says it is; left to ``barycenter``'s own rules if nothing was said."""
    if kind == "samples":
        return Empirical(array)
    if kind == "image":
        return Image(array)
    if kind == "histogram":
        return Histogram(array)
    return array


def _read_npy(file: Path) -> Array:
    def load() -> Array:
        with file.open("rb") as raw:
            array = np.load(raw, allow_pickle=False)
            if not isinstance(array, np.ndarray):
                raise ValueError("it is an archive of arrays; call it .npz")
            return array

    return _numeric(file, _numbers(file, load))


def _read_npz(file: Path, kind: str | None) -> list[Any]:
    def load() -> dict[str, Array]:
        # opened here, because NumPy leaves a damaged archive open
        with file.open("rb") as raw, np.load(raw, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}

    arrays = {name: _numeric(file, array) for name, array in _numbers(file, load).items()}
    if not arrays:
        raise FileError(f"{file} holds no array. Write one for each measure with numpy.savez.")
    if "points" in arrays:
        return [Empirical(arrays["points"], arrays.get("weights"))]
    return [_as_kind(array, kind) for array in arrays.values()]


def _numeric(file: Path, array: Array) -> Array:
    if array.dtype.kind not in "buif":
        raise FileError(f"{file} holds values of type {array.dtype}; real numbers are needed.")
    return array


def _numbers(file: Path, load: Callable[[], Any]) -> Any:
    try:
        return load()
    except Exception as error:  # truncated zip, zlib, header and pickle errors share no base
        raise FileError(
            f"{file} is truncated, damaged, not a NumPy file, or may not be opened ({error}). Write it again, or "
            "make it readable."
        ) from error


def _read_csv(file: Path) -> tuple[list[str], Array]:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileError(f"{file} is not a text file in UTF-8 ({error}). Save it in UTF-8.") from error
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        rows = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise FileError(f"{file}, line {reader.line_num}: {error}.") from error
    if not rows:
        raise MeasureError("the file has no rows; write one sample a line.")
    names = [cell.strip() for cell in rows[0][1]]
    if all(_number(cell) is None for cell in names):
        rows = rows[1:]
    else:
        names = [f"column {k + 1}" for k in range(len(names))]
    values = np.empty((len(rows), len(names)))
    for k, (number, row) in enumerate(rows):
        if len(row) != len(names):
            raise FileError(
                f"{file}, line {number}: {len(row)} values where {len(names)} are expected. The file may be truncated."
            )
        for j, cell in enumerate(row):
            value = _number(cell)
            if value is None:
                raise FileError(
                    f"{file}, line {number}, {names[j]}: {cell!r} is not a number. Mend or remove the line."
                )
            values[k, j] = value
    return names, values


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return math.nan if cell.strip().lower() in ("na", "null") else None


def _read_parquet(file: Path) -> tuple[list[str], Array]:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise FileError(
            f"{file}: reading Parquet needs pyarrow. Install it with: pip install 'barymesh[parquet]'."
        ) from error
    try:
        table = pyarrow.parquet.read_table(file)
        columns = [np.asarray(column.to_numpy(), dtype=float) for column in table.columns]
    except Exception as error:  # pyarrow raises errors of its own for damage, ValueError for text columns
        raise FileError(
            f"{file} is damaged, not Parquet, may not be opened, or has columns that are not numbers ({error}). "
            "Write it again, with numbers only."
        ) from error
    if not columns:
        raise MeasureError("the file has no columns; write one for each coordinate.")
    return list(table.column_names), np.stack(columns, axis=1)


def _table(names: list[str], values: Array) -> Empirical:
    """Rows as samples; a column called weight as their weights."""
    weighted = [k for k, name in enumerate(names) if name.lower() in WEIGHT_COLUMNS]
    if len(weighted) > 1:
        raise MeasureError(f"the columns {[names[k] for k in weighted]} all look like weights; keep one.")
    points = np.delete(values, weighted, axis=1)
    return Empirical(points, values[:, weighted[0]] if weighted else None)


def _read_image(file: Path, invert: bool) -> Array:
    from PIL import Image as Pillow

    try:
        with Pillow.open(file) as picture:
            # 16-bit and float images keep their depth; everything else becomes 8-bit grey
            grey = picture if picture.mode.startswith(("I", "F")) else picture.convert("L")
            pixels = np.asarray(grey, dtype=float)
    except Exception as error:  # Pillow raises OSError, SyntaxError or its own, by format
        raise FileError(
            f"{file} is truncated, damaged, not an image, or may not be opened ({error}). Write it again, or make it "
            "readable."
        ) from error
    return pixels.max() - pixels if invert else pixels


def _read_idx(file: Path) -> Array:
    try:
        raw = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise FileError(
            f"{file} is truncated, not a gzip file, or may not be opened ({error}). Get it again, or make it readable."
        ) from error
    if len(raw) < 4 or raw[:2] != b"\0\0" or raw[2] not in IDX_TYPES:
        raise FileError(
            f"{file} is not an IDX file: its first bytes are {raw[:4].hex(' ')}, "
            "not 00 00 and a known type. Rename it if it is of another kind."
        )
    dtype, axes = np.dtype(IDX_TYPES[raw[2]]), raw[3]
    start = 4 + 4 * axes
    if axes == 0 or len(raw) < start:
        raise FileError(f"{file} is truncated: its header is incomplete. Get it again.")
    shape = struct.unpack(f">{axes}I", raw[4:start])
    needed = start + dtype.itemsize * math.prod(shape)
    if len(raw) < needed:
        raise FileError(
            f"{file} is truncated: {len(raw)} bytes, where a stack of shape {shape} needs {needed}. Get it again."
        )
    return np.frombuffer(raw, dtype, math.prod(shape), start).reshape(shape)


def _stack_of_images(file: Path, stack: Array, invert: bool) -> list[Measure]:
    if stack.ndim < 2:
        raise FileError(f"{file} holds a list of {stack.size} numbers (labels?), not images. Give the file of images.")
    if stack.size == 0:
        raise FileError(f"{file} holds no images: its shape is {stack.shape}. Get it again.")
    if stack.ndim == 2:
        stack = stack[None]
    measures: list[Measure] = []
    for k, pixels in enumerate(stack):
        try:
            measures.append(Image(pixels.max() - pixels if invert else pixels))
        except MeasureError as error:
            raise MeasureError(f"image {k}: {error}") from error
    return measures


def read_measure(path: Path, kind: str | None = None, invert: bool = False) -> Any:
    """The one measure of a node, from a file that ``read_measures`` knows."""
    # as one of two, an array in .npy is a measure and not a stack of them
    found = read_measures([path, path], kind=kind, invert=invert)
    if len(found) != 2:
        raise MeasureError(f"{path} holds {len(found) // 2} measures, and a node has one. Give a file of one.")
    return found[0]
