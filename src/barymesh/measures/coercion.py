"""Turn the measures that a user passes into objects; input that can be read in two ways is refused.

The rules:

- a list: one measure an item. Measures stay as they are; objects with ``rvs`` are distributions; other callables are
  samplers. An array ``(N, d)`` is N samples in d dimensions; without a support one of four or more columns could be an
  image too, and is refused. A flat array is samples on the line, whatever its values, except that one as long as the
  support could be a histogram too, and is refused, and that on a support of more dimensions, or with a cost matrix, it
  can be nothing but a histogram
- one array ``(m, n)``: m histograms on the n points of the support (rows are measures)
- one array ``(m, *grid shape)``: m images or volumes
- ``LazyMeasures``, or a dataset of Ray: many measures, loaded elsewhere
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from barymesh.checks import as_floats, is_array
from barymesh.errors import DimensionError, MeasureError
from barymesh.measures.base import Measure
from barymesh.measures.distribution import Distribution
from barymesh.measures.empirical import Empirical
from barymesh.measures.histogram import Histogram
from barymesh.measures.image import Image
from barymesh.measures.lazy import LazyMeasures
from barymesh.measures.sampler import Sampler
from barymesh.support.points import Support

# a list item with this many columns or more, on no given support, may as well be a picture
IMAGE_LIKE = 4


def as_measures(given: Any, support: Support | None = None, *, histograms_have_cost: bool = False) -> list[Measure]:
    """The measures behind ``given``. ``histograms_have_cost``: a cost matrix stands in for the support's
    coordinates."""
    if isinstance(given, LazyMeasures) or hasattr(given, "iter_batches"):
        return [given if isinstance(given, LazyMeasures) else LazyMeasures(given)]
    if isinstance(given, Measure):
        raise MeasureError(
            "One measure was given where a list of measures is needed. Write [measure] for a list of one."
        )
    if isinstance(given, str | bytes) or hasattr(given, "__fspath__"):
        raise MeasureError(f"{given!r} is a path, not measures. Read it first with barymesh.read_measures({given!r}).")
    if is_array(given):
        measures = _from_stack(as_floats(given, "A stack of measures", MeasureError), support, histograms_have_cost)
    elif isinstance(given, Mapping):
        raise MeasureError("Measures were given as a dictionary; give a list, for instance list(measures.values()).")
    elif isinstance(given, Iterable):
        measures = [_numbered(k, _from_item, item, support, histograms_have_cost) for k, item in enumerate(given)]
    else:
        raise MeasureError(f"Measures must be a list or an array, not {type(given).__name__}.")
    if not measures:
        raise MeasureError("There are no measures: the list is empty. A barycenter needs at least one.")
    return measures


def _from_item(item: Any, support: Support | None, histograms_have_cost: bool) -> Measure:
    if isinstance(item, Measure):
        return item
    if hasattr(item, "rvs"):
        return Distribution(item)
    if callable(item) and not is_array(item):
        return Sampler(item)
    if isinstance(item, str | bytes) or hasattr(item, "__fspath__"):
        raise MeasureError(f"{item!r} is a path. Read it first with barymesh.read_measures([...]).")
    try:
        array = as_floats(item, "An item of the list", MeasureError)
    except MeasureError as error:
        if is_array(item):
            raise
        raise MeasureError(
            f"An object of type {type(item).__name__} is no measure. Give a measure of barymesh, an array of "
            f"samples (N, d), "
            "an object with rvs(), or a function (size, rng) -> samples."
        ) from error
    if array.shape[:1] == (0,):
        raise MeasureError("The measure is empty: give at least one sample.")
    if array.ndim == 1:
        return Histogram(array) if histograms_have_cost else _from_flat(array, support)
    if array.ndim == 2:
        if support is None and array.shape[1] >= IMAGE_LIKE and array.shape[0] > 1:
            raise MeasureError(
                f"An array of shape {array.shape} in a list can be read in two ways: as {array.shape[0]} samples in "
                f"{array.shape[1]} dimensions, "
                "or as an image. Say which: barymesh.Empirical(array) or barymesh.Image(array); for files, the kind "
                "(on the command line --as) samples or image."
            )
        if support is not None and array.shape[1] != support.dimension:
            raise DimensionError(
                f"an array of shape {array.shape} in a list is read as samples in {array.shape[1]} dimensions, but "
                f"the support has "
                f"{support.dimension}. If it is an image, write barymesh.Image(array); for files, the kind (on the "
                "command line --as) image."
            )
        return Empirical(array)
    raise MeasureError(
        f"An array of shape {array.shape} in a list is no set of samples (N, d). For a volume write "
        f"barymesh.Image(array), for files the kind (on the command line --as) image; "
        "for a stack of measures pass the array itself, not in a list."
    )


def _from_flat(array: np.ndarray[Any, np.dtype[np.float64]], support: Support | None) -> Measure:
    if support is None:
        return Empirical(array)
    if support.dimension > 1:
        if support.size == array.size:
            return Histogram(array)
        raise DimensionError(
            f"a flat array of {array.size} numbers is neither samples in {support.dimension} dimensions nor a "
            f"histogram on the {support.size} points of the support. Give samples (N, {support.dimension}), or one "
            "mass for each point."
        )
    if support.size == array.size:
        raise MeasureError(
            f"A flat array of {array.size} numbers in a list, as many as the support has points, can be read in two "
            f"ways: as {array.size} samples on the line, or as a histogram on the support. Say which: "
            "barymesh.Empirical(array) or barymesh.Histogram(array); for files, the kind (on the command line --as) "
            "samples or histogram."
        )
    return Empirical(array)


def _from_stack(
    values: np.ndarray[Any, np.dtype[np.float64]], support: Support | None, histograms_have_cost: bool
) -> list[Measure]:
    if values.ndim < 2:
        raise MeasureError(
            f"An array of shape {values.shape} is not a stack of measures. Rows are measures: for one histogram "
            f"write [barymesh.Histogram(array)], "
            "for samples of one measure [barymesh.Empirical(array)]."
        )
    if values.ndim == 2:
        if support is None and not histograms_have_cost:
            raise MeasureError(
                f"One array of shape {values.shape} can be read in two ways: as {values.shape[0]} histograms, which "
                f"need support= with {values.shape[1]} "
                f"points, or as {values.shape[0]} samples of one measure, written [barymesh.Empirical(array)]. Say "
                f"which."
            )
        if support is not None and support.size != values.shape[1] and not histograms_have_cost:
            raise MeasureError(
                f"The {values.shape[0]} histograms (rows) have {values.shape[1]} entries, but the support has "
                f"{support.size} points. "
                "Rows are measures; transpose the array if yours are columns."
            )
        return [_numbered(k, Histogram, row) for k, row in enumerate(values)]
    on_support = support is not None and support.grid is not None and support.grid.shape == values.shape[1:]
    grid = support.grid if support is not None and on_support else None
    return [_numbered(k, Image, row, grid) for k, row in enumerate(values)]


def _numbered(position: int, make: Callable[..., Measure], *arguments: Any) -> Measure:
    """``make(*arguments)``, its errors prefixed with which measure they are about."""
    try:
        return make(*arguments)
    except (MeasureError, DimensionError) as error:
        raise type(error)(f"Measure {position}: {error}") from error
