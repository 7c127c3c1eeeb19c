"""Measures that are not here: results in files and pickles know their number, and nothing of their data."""

from __future__ import annotations

from typing import NoReturn

from barymesh.errors import CostError
from barymesh.measures.base import Floats, Unavailable


class Absent(Unavailable):
    """A measure of which only the ``label`` is known."""

    def __init__(self, label: str | None = None) -> None:
        self.label = label

    @property
    def reason(self) -> str:
        return (
            "The measure is not here: files and pickles of results hold no data. Give the measures again, with None "
            "for those you do not have: result = result.with_measures([...])."
        )


def absent_cost(support: Floats, atoms: Floats) -> NoReturn:
    """Stands for a cost that was a function or a matrix, in results from files and pickles."""
    raise CostError(
        "The cost was a function or a matrix, which files and pickles of results do not hold. Give it again, with the "
        "measures: result = result.with_measures([...], cost=...)."
    )
