"""What nodes remember between two activations: named arrays, which engines can save and restore."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import Any, TypeVar

from numpy.typing import NDArray


class State:
    """Base of the states: dataclasses of arrays of fixed shape, first axis the row, or of other states. The arrays
    change in place: others may have views of them."""

    @classmethod
    @cache
    def _names(cls) -> tuple[str, ...]:
        # looking up the fields takes longer than copying what they hold
        return tuple(one.name for one in fields(cls))  # type: ignore[arg-type]

    def saved(self) -> dict[str, NDArray[Any]]:
        """The arrays by name; those of a state within this one under ``name.``."""
        found: dict[str, NDArray[Any]] = {}
        for name in self._names():
            value = getattr(self, name)
            if isinstance(value, State):
                found |= {f"{name}.{inner}": array for inner, array in value.saved().items()}
            else:
                found[name] = value
        return found

    def restore(self, stored: dict[str, NDArray[Any]]) -> None:
        """Take over, by copy, what ``saved`` gave."""
        for name in self._names():
            value = getattr(self, name)
            if isinstance(value, State):
                begin = f"{name}."
                value.restore({n.removeprefix(begin): array for n, array in stored.items() if n.startswith(begin)})
            else:
                value[...] = stored[name]


S = TypeVar("S", bound=State)
