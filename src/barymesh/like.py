"""Arrays of the kind that came in: results for programs that work with torch, JAX or CuPy."""

from __future__ import annotations

import functools
import sys
from typing import Any

import numpy as np

from barymesh.checks import is_array
from barymesh.errors import OptionError
from barymesh.result import Result
from barymesh.transport_map import TransportMap


class ResultLike:
    """A Result whose arrays, and those that its methods return, are of another library's kind.

    Everything else is as in a Result. Sparse plans and operators stay those of SciPy, and what belongs to ``support``,
    ``history`` and ``problem`` stays in NumPy.

    Attributes
    ----------
    numpy : Result
        The same with arrays of NumPy.
    points : array (n, d)
        Those of ``support``, as the kind of arrays that came in.
    """

    def __init__(self, result: Result, example: Any) -> None:
        self.numpy, self._example = result, example

    def __getattr__(self, name: str) -> Any:
        if name in ("numpy", "_example"):  # while it is made from a pickle
            raise AttributeError(name)
        return self._converted(getattr(self.numpy, name))

    @property
    def points(self) -> Any:
        return array_like(self.numpy.support.points, self._example)

    def __dir__(self) -> list[str]:
        return ["numpy", "points", *dir(self.numpy)]

    def __repr__(self) -> str:
        return repr(self.numpy)

    def _repr_html_(self) -> str:
        return self.numpy._repr_html_()

    def _converted(self, value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return array_like(value, self._example)
        if isinstance(value, TransportMap):
            return _MapLike(value, self._example)
        if isinstance(value, Result):
            return ResultLike(value, self._example)
        if callable(value):
            return functools.wraps(value)(lambda *given, **named: self._converted(value(*given, **named)))
        return value


class _MapLike:
    """A TransportMap that returns arrays of the kind of the example."""

    def __init__(self, move: TransportMap, example: Any) -> None:
        self._move, self._example = move, example

    def __call__(self, points: Any) -> Any:
        return array_like(self._move(points), self._example)

    def back(self, points: Any) -> Any:
        return array_like(self._move.back(points), self._example)


def array_like(values: np.ndarray[Any, Any], example: Any) -> Any:
    """The values as an array of the library of the example, on its device; numbers have its type if that is one of
    floating point numbers, else float64 or the nearest that the library has."""
    library = _library(example)
    kind = example.dtype if _is_floating(example) and values.dtype.kind == "f" else None
    options = {} if kind is None else {"dtype": kind}
    device = getattr(example, "device", None)
    # CuPy has no argument for it, and JAX's may be a property of a sharded array
    if library.__name__.split(".")[0] not in ("cupy",) and device is not None:
        options["device"] = device
    return library.asarray(np.array(values), **options)


def find_example(measures: Any) -> Any:
    """The first array among the measures that is not NumPy's, or None; an error if there are several kinds."""
    items = [measures] if is_array(measures) else list(measures) if isinstance(measures, list | tuple) else []
    foreign = [item for item in items if is_array(item) and _root(item) not in ("numpy", "builtins") and _knows(item)]
    kinds = sorted({_root(item) for item in foreign})
    if len(kinds) > 1:
        raise OptionError(f'output="like" needs arrays of one library; the measures are of {" and ".join(kinds)}.')
    return foreign[0] if foreign else None


def _root(item: Any) -> str:
    return "jax" if type(item).__module__.startswith("jax") else type(item).__module__.split(".")[0]


def _knows(item: Any) -> bool:
    return hasattr(item, "__array_namespace__") or _root(item) == "torch"


def _library(example: Any) -> Any:
    return sys.modules["torch"] if _root(example) == "torch" else example.__array_namespace__()


def _is_floating(example: Any) -> bool:
    return "float" in str(example.dtype)
