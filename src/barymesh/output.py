"""What a run leaves in its output folder."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

from barymesh.result import Result
from barymesh.safe_write import replacing, write_text

RESULT, TABLE, PICTURE, SUMMARY = "result.npz", "weights.csv", "barycenter.png", "summary.json"


def write_outputs(result: Result, folder: Path) -> dict[str, str]:
    """Write the result, its weights as a table, a picture and a summary. Returns name to path."""
    result.save(folder / RESULT)
    write_text(folder / TABLE, _table(result))
    with replacing(folder / PICTURE) as file:
        result.plot().savefig(file, format="png", dpi=150)
    write_text(folder / SUMMARY, json.dumps(result.summary(), indent=2) + "\n")
    return {
        "result": str(folder / RESULT),
        "weights": str(folder / TABLE),
        "picture": str(folder / PICTURE),
        "summary": str(folder / SUMMARY),
    }


def _table(result: Result) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*(f"z{axis + 1}" for axis in range(result.support.dimension)), "weight"])
    for point, weight in zip(result.support.points.tolist(), result.weights.tolist(), strict=True):
        writer.writerow([*point, weight])
    return text.getvalue()
