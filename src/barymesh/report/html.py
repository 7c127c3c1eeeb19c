"""Results in a notebook: a small table beside a picture."""

from __future__ import annotations

import base64
import html
import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barymesh.result import Result

SHOWN = ("message", "measures", "support", "reg", "value", "gap", "consensus", "feasibility", "iterations", "seconds")


def result_as_html(result: Result) -> str:
    """A self-contained fragment of HTML."""
    picture = io.BytesIO()
    result.plot().savefig(picture, format="png", dpi=80)
    data = base64.b64encode(picture.getvalue()).decode()
    summary = result.summary()
    rows = "".join(
        f"<tr><th style='text-align:left'>{name}</th><td>{html.escape(_shown(summary[name]))}</td></tr>"
        for name in SHOWN
    )
    return (
        "<div style='display:flex;gap:1em;align-items:center;flex-wrap:wrap'>"
        f"<table>{rows}</table><img alt='the barycenter' src='data:image/png;base64,{data}'></div>"
    )


def _shown(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
