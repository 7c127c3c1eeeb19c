"""What a benchmark returns: tables with a text that explains them, and figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

Row = dict[str, Any]


@dataclass(frozen=True)
class Table:
    """``rows`` under a ``text`` that says what is compared, what the floor is, and how it was measured."""

    title: str
    text: str
    rows: list[Row]


@dataclass(frozen=True)
class Part:
    """One benchmark: tables, and figures by file name, each drawn on matplotlib axes."""

    title: str
    text: str
    tables: list[Table] = field(default_factory=list)
    figures: dict[str, Callable[[Any], None]] = field(default_factory=dict)


class Benchmark(Protocol):
    """A module's ``run``. ``quick``: smaller cases, less time. ``say``: called with a line for every row."""

    def __call__(self, quick: bool, say: Callable[[str], None]) -> Part: ...
