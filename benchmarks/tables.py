"""Results as Markdown tables."""

from __future__ import annotations

import math
from typing import Any

# stands for a level not reached, where a number is needed
NEVER = 1e9


def table(rows: list[dict[str, Any]]) -> str:
    """Rows as a Markdown table; rows may have different columns."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(shown(row.get(column)) for column in columns) + " |" for row in rows]
    return "\n".join(lines)


def shown(value: Any) -> str:
    """One cell: three digits of a number, nothing for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        if not math.isfinite(value) or value >= NEVER:
            return "not reached"
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return str(value).replace("|", "\\|")


def in_line(row: dict[str, Any]) -> str:
    """A row as one line of progress."""
    return ", ".join(f"{key}: {shown(value)}" for key, value in row.items() if value is not None)
