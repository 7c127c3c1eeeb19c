"""What nodes remember between two activations: named arrays, which engines can save and restore."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypeVar

from numpy.typing import NDArray


class State:
    """Base of the states: dataclasses of arrays of fixed shape, first axis the row, or of other states."""

    def saved(self) -> dict[str, NDArray[Any]]:
        """The arrays by name; those of a state within this one under ``name.``."""
        found: dict[str, NDArray[Any]] = {}
        for one in fields(self):  # type: ignore[arg-type]
            value = getattr(self, one.name)
            if isinstance(value, State):
                found |= {f"{one.name}.{inner}": array for inner, array in value.saved().items()}
            else:
                found[one.name] = value
        return found

    def restore(self, stored: dict[str, NDArray[Any]]) -> None:
        """Take over, by copy, what ``saved`` gave."""
        for one in fields(self):  # type: ignore[arg-type]
            value = getattr(self, one.name)
            if isinstance(value, State):
                begin = f"{one.name}."
                value.restore({n.removeprefix(begin): array for n, array in stored.items() if n.startswith(begin)})
            else:
                setattr(self, one.name, stored[one.name].copy())


S = TypeVar("S", bound=State)
