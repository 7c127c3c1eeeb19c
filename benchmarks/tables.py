"""Results as Markdown tables."""

from __future__ import annotations

from typing import Any

import numpy as np

# stands for a level not reached, where a number is needed
NEVER = 1e9


def table(rows: list[dict[str, Any]]) -> str:
    """Rows as a Markdown table; rows may have different columns."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(shown(row.get(column)) for column in columns) + " |" for row in rows]
    return "\n".join(lines)


def shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.3g}" if np.isfinite(value) and value < NEVER else "not reached"
    return str(value)
