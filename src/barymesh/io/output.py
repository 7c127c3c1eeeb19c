"""What a run leaves in its output folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from barymesh.errors import MissingPackageError, OutputWarning, warn
from barymesh.history import History
from barymesh.io.atomic import replacing, write_csv, write_text
from barymesh.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RESULT, TABLE, PICTURE, SUMMARY = "result.npz", "weights.csv", "barycenter.png", "summary.json"
HISTORY, HISTORY_PICTURE, CHECKPOINT = "history.csv", "history.png", "run.npz"
COMPARISON, COMPARISON_PICTURE = "comparison.csv", "comparison.png"
# what a figure is, its file, and what draws it
Drawings: TypeAlias = "dict[str, tuple[str, Callable[[], Figure]]]"


def write_outputs(result: Result, folder: Path, *, animation: str | None = None) -> dict[str, str]:
    """Write the result, its weights as a table, a picture and a summary; for a run on a network also its history, and
    an animation of this kind (gif, mp4, html) if one is named. Returns name to path. Figures are left out, with a
    warning, where what draws them is not installed."""
    files = {"result": RESULT, "weights": TABLE, "summary": SUMMARY}
    drawings: Drawings = {"picture": (PICTURE, result.plot)}
    result.save(folder / RESULT)
    write_weights(folder / TABLE, result)
    if result.network is not None:
        files["history"] = HISTORY
        drawings["history_picture"] = (HISTORY_PICTURE, result.history.plot)
        result.history.to_csv(folder / HISTORY)
    files |= _write_figures(folder, drawings)
    if animation is not None:
        files["animation"] = f"animation.{animation}"
        result.animate(folder / files["animation"])
    _write_json(folder / SUMMARY, result.summary())
    return {name: str(folder / file) for name, file in files.items()}


def write_comparison(results: Mapping[str, Result], summary: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """Write the histories of several methods as one table and one picture, and a summary. Returns name to path."""
    histories = {method: result.history for method, result in results.items()}
    columns = dict.fromkeys(name for history in histories.values() for name in history.columns)
    rows = ([method, *row] for method, history in histories.items() for row in history.rows())
    write_csv(folder / COMPARISON, ["method", *columns], rows)
    _write_json(folder / SUMMARY, summary)
    drawings: Drawings = {"comparison_picture": (COMPARISON_PICTURE, lambda: _draw_runs(histories))}
    files = {"comparison": COMPARISON, "summary": SUMMARY, **_write_figures(folder, drawings)}
    return {name: str(folder / file) for name, file in files.items()}


def write_picture(folder: Path, result: Result) -> None:
    """Draw the barycenter without its measures, which others may not see; a warning where what draws it is not
    installed."""
    _write_figures(folder, {"picture": (PICTURE, partial(result.plot, inputs=False))})


def write_weights(path: Path, result: Result) -> None:
    """Write the barycenter as a table: the coordinates of each point, and its weight."""
    names = result.support.names or [f"z{axis + 1}" for axis in range(result.support.dimension)]
    # a coordinate may be called weight, too
    free = (name for name in ("weight", "mass", "barycenter weight") if name not in names)
    header = [*names, next(free, "weight")]
    rows = zip(result.support.points.tolist(), result.weights.tolist(), strict=True)
    write_csv(path, header, ([*point, weight] for point, weight in rows))


def _draw_runs(histories: Mapping[str, History]) -> Figure:
    from barymesh.viz.comparison import plot_runs

    return plot_runs(histories)


def _write_figures(folder: Path, drawings: Drawings) -> dict[str, str]:
    """Draw and write the figures. Returns name to file: nothing where what draws them is not installed."""
    try:
        for name, draw in drawings.values():
            _write_figure(folder / name, draw())
    except MissingPackageError as error:
        warn(f"No figure was written. {error}", OutputWarning)
        return {}
    return {key: name for key, (name, _) in drawings.items()}


def _write_figure(path: Path, figure: Figure) -> None:
    with replacing(path) as file:
        figure.savefig(file, format="png", dpi=150)


def _write_json(path: Path, values: Mapping[str, Any]) -> None:
    write_text(path, json.dumps(values, indent=2) + "\n")
