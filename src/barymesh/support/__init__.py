"""Where a barycenter lives: points, grids, the choice from data, and supports written as text."""

from __future__ import annotations

from barymesh.support.grid import Grid
from barymesh.support.points import Support, as_support

__all__ = ["Grid", "Support", "as_support"]
