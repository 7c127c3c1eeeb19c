"""The results as a page of Markdown, made from the stored parts, so that old and new ones look the same."""

from __future__ import annotations

from typing import Any

from benchmarks.machine import in_words
from benchmarks.tables import table

INTRODUCTION = (
    "Made by `python -m benchmarks`. Compare ratios, not times: each part was measured in one run on one machine, "
    "its floors beside it."
)


def page(parts: dict[str, dict[str, Any]]) -> str:
    """A page of Markdown from the stored parts, by name."""
    latest = max((part["date"] for part in parts.values()), default="")
    machine = next((part["machine"] for part in parts.values() if part["date"] == latest), None)
    blocks = ["# Benchmarks", INTRODUCTION]
    blocks += [f"{in_words(machine)}."] if machine else []
    for name, part in parts.items():
        elsewhere = "" if part["machine"] == machine else f" On {in_words(part['machine'])}."
        blocks += [f"## {part['title'] or name}", f"{_when(name, part)}{elsewhere}"]
        blocks += _contents(part)
    return "\n\n".join(blocks) + "\n"


def _when(name: str, part: dict[str, Any]) -> str:
    quick = ", with `--quick`: small cases, rough figures" if part["quick"] else ""
    return f"*`{name}`, {part['date']}, {part['seconds']:.0f} s{quick}.*"


def _contents(part: dict[str, Any]) -> list[str]:
    if part["failed"]:
        return [f"**Not measured:** {part['failed']}"]
    blocks = [part["text"]] if part["text"] else []
    for one in part["tables"]:
        blocks += [f"### {one['title']}"] if one["title"] else []
        blocks += [one["text"]] if one["text"] else []
        blocks += [_tables(one["rows"])]
    return blocks + [f"![{picture.removesuffix('.png').replace('-', ' ')}]({picture})" for picture in part["figures"]]


def _tables(rows: list[dict[str, Any]]) -> str:
    return table(rows) if rows else "(no rows)"
