"""What figures and pages share: colours, panels of a history, values for a logarithmic axis, numbers for readers."""

# ruff: noqa: RUF001 (minus, times and dashes are meant)
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from barymesh.support.points import Support

Floats = NDArray[np.float64]
NOTHING = "–"
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
# Okabe and Ito's colours, which people of any colour vision can distinguish
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


@dataclass(frozen=True)
class Panel:
    """How a column of a history is drawn. ``floor``: the axis is logarithmic, and ends here; None: it is linear."""

    column: str
    title: str
    floor: float | None = None


def curve_scale(support: Support) -> tuple[float, str]:
    """The factor by which weights on the line are multiplied, and the name of the product."""
    if support.grid is not None and support.size > 1:
        return 1 / float(support.points[1, 0] - support.points[0, 0]), "density"
    return 1.0, "weight"


def log_values(values: Floats, lowest: float) -> Floats:
    """Values as a logarithmic axis that ends at ``lowest`` shows them: smaller ones are raised to it. Zeros before the
    first positive value are left out, because a curve that starts at 0 would stretch the axis."""
    shown = np.where(np.isfinite(values), np.maximum(values, lowest), np.nan)
    positive = np.flatnonzero(values > 0)
    if positive.size:
        first = positive[0]
        shown[:first][values[:first] == 0] = np.nan
    return np.asarray(shown)


def apart(heights: Floats, gap: float, top: float = 1.0) -> Floats:
    """Heights ``(k,)`` of labels beside curves, moved so that neighbours are ``gap`` apart and none is above ``top``;
    their order stays."""
    order = np.argsort(heights, kind="stable")
    moved = np.asarray(heights, dtype=float)[order]
    for place in range(1, moved.size):
        moved[place] = max(moved[place], moved[place - 1] + gap)
    if moved.size:
        moved[-1] = min(moved[-1], top)
    for place in range(moved.size - 2, -1, -1):
        moved[place] = min(moved[place], moved[place + 1] - gap)
    result = np.empty_like(moved)
    result[order] = moved
    return result


def shown_number(value: float, digits: int = 3) -> str:
    """A number for readers: 0.0123, −1.2 × 10⁻⁹."""
    if not np.isfinite(value):
        return NOTHING
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e5:
        text = f"{value:.{digits}g}"
        return (f"{value:,.0f}" if "e" in text else text).replace("-", "−")
    mantissa, exponent = f"{value:.{max(digits - 2, 0)}e}".split("e")
    power = f"10{str(int(exponent)).translate(SUPERSCRIPTS)}"
    return power if digits == 1 and mantissa == "1" else f"{mantissa} × {power}".replace("-", "−", 1)
