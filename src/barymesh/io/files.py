"""Read measures from files: arrays, tables, images, and folders of them.

One file is one measure, except for files that hold a stack (IDX image sets, a single ``.npy`` given alone, ``.npz``
with several arrays). ``kind`` decides how an array is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barymesh.errors import BarymeshError, FileError, MeasureError, OptionError
from barymesh.extras import needs
from barymesh.io.idx import read_idx
from barymesh.io.limits import require_regular, require_room
from barymesh.io.npz import read_npy, read_npz
from barymesh.io.tables import Choice, Column, read_csv, read_parquet
from barymesh.measures import Empirical, Histogram, Image, Measure

Array = NDArray[Any]
KINDS = ("samples", "image", "histogram")
IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".pgm")
ARRAYS = (".npy", ".npz")
TABLES = (".csv", ".parquet")


def read_measures(
    paths: str | Path | Iterable[str | Path],
    *,
    kind: str | None = None,
    invert: bool = False,
    columns: Sequence[Column] | None = None,
    weight_column: Column | None = None,
    by: Column | None = None,
) -> Any:
    """Measures from files and folders, in the order given; a folder's files in the order of their names.

    ``.csv`` and ``.parquet`` hold samples, one a row; their columns are the coordinates. ``.png`` and other images
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
    columns : list of str or int, optional
        The columns of tables that are coordinates, in this order: by name, or by number, counted from 1. By default
        all but the weights. Others are not read, and may hold text.
    weight_column : str or int, optional
        The column of tables that holds the mass of each sample. By default all samples weigh the same, whatever the
        columns are called.
    by : str or int, optional
        The column of tables that names the measure a sample belongs to, so that one table holds many. By default a
        table is one measure.

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
    >>> bm.read_measures(folder, weight_column="weight")[0].weights
    array([0.25, 0.75])
    >>> bm.read_measures(folder)[0].names
    ('x', 'weight')
    """
    if kind is not None and kind not in KINDS:
        raise OptionError(f"kind (on the command line --as) is {kind!r}; choose one of {', '.join(KINDS)}.")
    choice = Choice.of(columns, weight_column, by)
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
    return [measure for file in files for measure in _with_name(file, _read, file, kind, invert, choice)]


def _with_name(file: Path, read: Callable[..., Any], *arguments: Any) -> Any:
    """``read(*arguments)``; every error names the file."""
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


def _read(file: Path, kind: str | None, invert: bool, choice: Choice) -> list[Any]:
    suffix = file.suffix.lower()
    if _is_idx(file):
        return _stack_of_images(file, read_idx(file), invert)
    if suffix == ".npz":
        return _read_npz(file, kind)
    if suffix == ".npy":
        return [_as_kind(_read_npy(file), kind)]
    if suffix == ".csv":
        return read_csv(file, choice)
    if suffix == ".parquet":
        return read_parquet(file, choice)
    return [Image(_read_image(file, invert))]


def _as_kind(array: Array, kind: str | None) -> Measure | Array:
    """A bare array as a measure of this kind; without a kind it is left to the rules of ``barycenter``."""
    if kind == "samples":
        return Empirical(array)
    if kind == "image":
        return Image(array)
    if kind == "histogram":
        return Histogram(array)
    return array


def _read_npy(file: Path) -> Array:
    return _numeric(file, _undamaged(file, read_npy))


def _read_npz(file: Path, kind: str | None) -> list[Any]:
    arrays = {name: _numeric(file, array) for name, array in _undamaged(file, read_npz).items()}
    if not arrays:
        raise FileError(f"{file} holds no array. Write one for each measure with numpy.savez.")
    if "points" in arrays:
        return [Empirical(arrays["points"], arrays.get("weights"))]
    return [_as_kind(array, kind) for array in arrays.values()]


def _numeric(file: Path, array: Array) -> Array:
    if array.dtype.kind not in "buif":
        raise FileError(f"{file} holds values of type {array.dtype}; real numbers are needed.")
    return array


def _undamaged(file: Path, read: Callable[[Path], Any]) -> Any:
    try:
        return read(file)
    except FileError:
        raise
    except Exception as error:  # truncated zip, zlib, header and pickle errors share no base
        raise FileError(
            f"{file} is truncated, damaged, not a NumPy file, or may not be opened ({error}). Write it again, or "
            "make it readable."
        ) from error


def _read_image(file: Path, invert: bool) -> Array:
    with needs("images"):
        from PIL import Image as Pillow

    require_regular(file)
    try:
        with Pillow.open(file) as picture:
            require_room(file, math.prod(picture.size))
            # 16-bit and float images keep their depth; everything else becomes 8-bit grey
            grey = picture if picture.mode.startswith(("I", "F")) else picture.convert("L")
            pixels = np.asarray(grey, dtype=float)
    except FileError:
        raise
    except Exception as error:  # Pillow raises OSError, SyntaxError or its own, by format
        raise FileError(
            f"{file} is truncated, damaged, not an image, or may not be opened ({error}). Write it again, or make it "
            "readable."
        ) from error
    return pixels.max() - pixels if invert else pixels


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


def read_measure(path: Path, **reading: Any) -> Any:
    """The one measure of a node, from a file that ``read_measures`` knows; ``reading`` as there."""
    # as one of two, an array in .npy is a measure and not a stack of them
    found = read_measures([path, path], **reading)
    if len(found) != 2:
        raise MeasureError(f"{path} holds {len(found) // 2} measures, and a node has one. Give a file of one.")
    return found[0]
