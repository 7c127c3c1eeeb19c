"""The report: one HTML file that needs nothing else, with interactive figures, and the claims with their verdicts.

The words and the layout are in ``report.html``, a template of Jinja; the tables come from ``tables.py``, the figures
from here. The same study gives the same bytes.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from barymesh.extras import needs
from barymesh.io.atomic import write_text
from barymesh.viz.bokeh_plots import PAINT, Curve, Dash, Frame, Marker, curves_figure, embedded, measures_figure
from barymesh.viz.page import EARLY, STYLE
from barymesh.viz.theme import Panel, curve_scale, shown_number
from barymesh_a2dwb import panels
from barymesh_a2dwb.claims import Verdict, in_short
from barymesh_a2dwb.experiments import PAPER
from barymesh_a2dwb.panels import PANELS, SWEPT_PANELS, PanelRow
from barymesh_a2dwb.storage import DATA
from barymesh_a2dwb.study import LABELS, Experiment, Floats, Study, Sweep, at_best_steps, methods_of, topologies_of
from barymesh_a2dwb.tables import sweep_table, tables

with needs("report"):
    from bokeh.models import Range1d
    from bokeh.resources import Resources
    from jinja2 import Environment, StrictUndefined
    from PIL import Image

DASHES: dict[str, Dash] = {"-": "solid", "--": "dashed", "-.": "dotdash", ":": "dotted"}
STROKES = {"-": "", "--": "7 4", "-.": "8 3 2 3", ":": "2 3"}
MARKS: dict[str, Marker] = {"converged": "circle", "diverged": "x"}
# lines on a screen are this much thicker than on paper
THICKER = 1.5
# the class and the word of a verdict on a claim of the paper, and on another
ANSWERS = {True: ("yes", "✓ holds"), False: ("no", "✗ fails"), None: ("open", "? undecided")}
FINDINGS = {True: ("plainly", "yes"), False: ("faint", "no"), None: ("open", "? undecided")}
SECTIONS = {
    "short": "In short",
    "claims": "The paper's claims",
    "bias": "Why A2DWB misses the barycenter",
    "ours": "barymesh's own method",
    "experiments": "The experiments",
    "sensitivity": "Sensitivity",
    "run": "What was run",
    "again": "Errata, data, and how to run it again",
}
# the network of the opening chart, if there is a choice
USUAL = "erdos_renyi"


def write_report(study: Study, verdicts: Sequence[Verdict], path: Path) -> Path:
    """Write the report of a study and of the verdicts on the claims. Links to figures and data are relative to it."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["number"] = shown_number
    plots = Plots()
    content = tables(study, verdicts) | _figures(study, plots)
    content["sentences"] = in_short(study)
    empty = {"experiments": not content["pages"], "sensitivity": not content["sweeps"]}
    page = environment.from_string(_text("report.html")).render(
        content,
        title="A2DWB, reproduced" + (" (quick study)" if study.quick else ""),
        notice=_notice(study), quick=study.quick, command=_command(study), data=DATA,
        sections={name: title for name, title in SECTIONS.items() if not empty.get(name)},
        labels=LABELS, styles=panels.STYLES, strokes=STROKES, answers=ANSWERS, findings=FINDINGS, zip=zip,
        style=STYLE + _text("report.css"), early=EARLY, script=PAINT + _text("report.js"),
        bokeh="\n".join(Resources(mode="inline", components=["bokeh"]).js_raw), documents=plots.documents,
    )  # fmt: skip
    write_text(path, page.lstrip())
    return path


def _text(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _notice(study: Study) -> str:
    """What is not the paper's size."""
    sizes = {(e.setting.nodes, e.setting.duration) for e in study.experiments.values()}
    others = sorted(sizes - {(PAPER.nodes, PAPER.duration)})
    if not others:
        return ""
    size = ", ".join(f"{nodes} nodes and {duration:g} s" for nodes, duration in others)
    kind = "This is a quick study, not the paper's size" if study.quick else "Not the paper's size"
    return f"{kind}: {size}, where the paper has {PAPER.nodes} nodes and {PAPER.duration:g} s."


def _command(study: Study) -> str:
    """The command that repeats the study."""
    kinds = {"gaussian" if name == "gaussian" else "mnist" for name in study.experiments}
    seeds = {e.setting.seed for e in study.experiments.values()} - {0}
    words = ["barymesh paper", kinds.pop() if len(kinds) == 1 else "all", "--quick" if study.quick else ""]
    return " ".join(filter(None, [*words, *(f"--seed {seed}" for seed in seeds), "-o out/"]))


# ---- rows of panels


class Plots:
    """Interactive figures, drawn when the reader comes to them: ``documents`` holds those of each row as JSON."""

    def __init__(self) -> None:
        self.documents: dict[str, str] = {}

    def row(self, label: str, figures: Mapping[str, Any]) -> dict[str, Any]:
        """A row of figures, by what they show, for the template."""
        number = len(self.documents)
        elements = {f"plot-{number}-{place}": figure for place, figure in enumerate(figures.values())}
        content = json.dumps(embedded(elements), separators=(",", ":"), allow_nan=False).replace("</", "<\\/")
        self.documents[f"plots-{number}"] = content
        return {"label": label, "id": f"plots-{number}", "panels": list(zip(elements, figures, strict=True))}

    def over_time(
        self, rows: Sequence[PanelRow], duration: float, group: str, columns: Sequence[Panel] = PANELS, **look: Any
    ) -> dict[str, Any]:
        """Histories: one row a network, one column a measure."""
        return self._curves(rows, "virtual time (s)", group, columns, lambda: Range1d(0, duration), unit="s", **look)

    def over_values(self, sweeps: Sequence[Sweep], x_label: str, group: str) -> dict[str, Any]:
        """Sweeps: one row a network, one column a measure."""
        values = np.unique(np.concatenate([sweep.values for sweep in sweeps]))
        low, high = float(values.min()), float(values.max())
        room = panels.room_around(low, high)
        rows, look = panels.sweep_rows(sweeps), {"ticks": values.tolist(), "dots": True, "log_x": True}
        return self._curves(rows, x_label, group, SWEPT_PANELS, lambda: Range1d(low / room, high * room), **look)

    def _curves(
        self, rows: Sequence[PanelRow], x_label: str, group: str, columns: Sequence[Panel],
        x_range: Callable[[], Range1d], **look: Any,
    ) -> dict[str, Any]:  # fmt: skip
        drawn = []
        for row in rows:
            figures, axis = {}, x_range()
            for panel in columns:
                frame = _frame(panel, row, rows, x_label, **look)
                # the names are at the right end of a row
                figure = curves_figure(_panel_curves(row, panel, panel is columns[-1]), frame, axis)
                figures[f"{panel.title}, by {x_label}, {row.label}"] = figure
            drawn.append(self.row(row.label, figures))
        return {"group": group, "methods": panels.methods_in(rows), "rows": drawn}


def _curve(method: str, x: Floats, y: Floats, mark: Marker | None = None, label: str = "") -> Curve:
    look = panels.STYLES[method]
    return Curve(LABELS[method], x, y, look.colour, DASHES[look.dash], THICKER * look.width, mark, label)


def _panel_curves(row: PanelRow, panel: Panel, named: bool) -> list[Curve]:
    curves = []
    for line in row.lines:
        y = line.y[panel.column]
        # zero has no place on a logarithmic axis
        shown = y if panel.floor is None else np.where(y > 0, y, np.nan)
        name = panels.SHORT[line.method] if named else ""
        curves.append(_curve(line.method, line.x, shown, MARKS.get(line.status), name))
    return curves


def _frame(panel: Panel, row: PanelRow, rows: Sequence[PanelRow], x_label: str, **look: Any) -> Frame:
    low, high = panels.limits(panel, row, rows)
    title = panel.title[0].upper() + panel.title[1:]
    if panel.floor is None:
        return Frame(title, x_label, (low, high), level=row.optimum, **look)
    room = panels.room_around(low, high)
    return Frame(title, x_label, (low / room, high * room), log=True, **look)


# ---- what the sections show


def _figures(study: Study, plots: Plots) -> dict[str, Any]:
    """The figures of all sections, by their names in the template."""
    opening, bias, pages, sweeps = _opening(study, plots), _bias(study, plots), [], []
    selection = panels.paper_rows(study)
    for experiment in study.experiments.values():
        if selection and experiment is selection[0][0]:
            pages.append(_selection(selection, plots))
        pages.append(_experiment(experiment, plots))
    for parameter, x_label in panels.PARAMETERS.items():
        some = [sweep for sweep in study.sweeps if sweep.parameter == parameter]
        if some:
            sweeps.append(
                {
                    "title": x_label.split(",")[0],
                    "table": sweep_table(study, some),
                    "plots": plots.over_values(some, x_label, f"sweep-{parameter}"),
                    "files": [panels.sensitivity_name(parameter)],
                }
            )
    return {"opening": opening, "drift": bias, "pages": pages, "sweeps": sweeps}


def _opening(study: Study, plots: Plots) -> dict[str, Any] | None:
    """The distance to the truth over time, each method with its best step."""
    experiments = list((at_best_steps(study).experiments or study.experiments).values())
    if not experiments or not experiments[0].runs:
        return None
    experiment, topologies = experiments[0], topologies_of(experiments[0])
    topology = USUAL if USUAL in topologies else topologies[0]
    row = panels.history_row(experiment, topology, "")
    steps = [f"{LABELS[run.method]} {run.step_factor:g}" for (t, _), run in experiment.best.items() if t == topology]
    return {
        "where": f"{experiment.title}, {LABELS[topology]} network of {experiment.setting.nodes} nodes",
        "steps": ", ".join(steps),
        "plots": plots.over_time([row], experiment.setting.duration, "short", PANELS[-1:], height=330, room=0.2),
    }


def _bias(study: Study, plots: Plots) -> dict[str, Any] | None:
    """A2DWB over a long time: the smaller the step, the closer to the truth, and not there."""
    if not study.bias:
        return None
    colour = panels.STYLES[study.bias[0].method].colour
    curves = []
    for run, dash in zip(study.bias, DASHES.values(), strict=True):
        time, tv = run.history["time"][1:], run.history["tv"][1:]
        name = f"step {run.step_factor:g}"
        curves.append(Curve(name, time, tv, colour, dash, 2.2, label=f"{name}: {tv[-1]:.2f}"))
    first, last = (float(pick([pick(curve.x) for curve in curves])) for pick in (np.min, np.max))
    frame = Frame("TV to true barycenter", "virtual time (s)", (0.0, 1.0), log_x=True, unit="s", height=300, room=0.2)
    figure = curves_figure(curves, frame, Range1d(first, last))
    label = "A2DWB's distance to the true barycenter over time, for four steps"
    return {"group": "bias", "methods": [], "rows": [plots.row("", {label: figure})]}


def _selection(pairs: Sequence[tuple[Experiment, str]], plots: Plots) -> dict[str, Any]:
    """The paper's figure 2."""
    setting = pairs[0][0].setting
    rows = [panels.history_row(e, t, f"Digit {panels.digit_of(e)} on {LABELS[t]}") for e, t in pairs]
    source = panels.source_of(experiment for experiment, _ in pairs)
    return {
        "title": "Figure 2 of the paper",
        "note": "The rows that the paper shows: another digit on every network.",
        "histories": plots.over_time(rows, setting.duration, "selection"),
        "setting": f"{panels.setting_text(setting, without='data')}; data: {source}",
        "files": [panels.SELECTION],
    }


def _experiment(experiment: Experiment, plots: Plots) -> dict[str, Any]:
    times, name = panels.pictured_times(experiment), experiment.name
    page = {
        "title": experiment.title,
        "histories": plots.over_time(panels.history_rows(experiment), experiment.setting.duration, name),
        "setting": panels.setting_text(experiment.setting),
        "files": [panels.figure_name(experiment), *([panels.pictures_name(experiment)] if times else [])],
    }
    if not times:
        return page
    if panels.is_images(experiment):
        return page | {"pictures": _pictures(experiment)}
    return page | {"means": _means(experiment, plots), "unit": curve_scale(experiment.support)[1]}


def _means(experiment: Experiment, plots: Plots) -> dict[str, Any]:
    """The average estimates on the line: one row a network, one column a time."""
    scale, _ = curve_scale(experiment.support)
    order = np.argsort(experiment.support.points[:, 0])
    z, truth = experiment.support.points[order, 0], scale * experiment.reference[order]
    rows = []
    for topology in topologies_of(experiment):
        x_range = Range1d(float(z[0]), float(z[-1]))
        figures = {}
        for time in panels.pictured_times(experiment):
            means = {method: panels.mean_of(experiment, topology, method, time) for method in methods_of(experiment)}
            curves = [_curve(method, z, scale * mean[order]) for method, mean in means.items() if mean is not None]
            frame = Frame(f"{time:g} s", "position", (0.0, 1.6 * float(truth.max())), height=190)
            label = f"Average estimate at {time:g} s, {LABELS[topology]}"
            figures[label] = measures_figure(z, truth, curves, frame, x_range)
        rows.append(plots.row(LABELS[topology], figures))
    return {"group": f"{experiment.name}-means", "methods": methods_of(experiment), "rows": rows}


def _pictures(experiment: Experiment) -> dict[str, Any]:
    """The average estimates as pictures: one row a method, one group of columns a network."""
    darkest = float(experiment.reference.max())
    times, topologies = panels.pictured_times(experiment), topologies_of(experiment)

    def picture(method: str, topology: str, time: float) -> dict[str, str] | None:
        mean = panels.mean_of(experiment, topology, method, time)
        if mean is None:
            return None
        tv = panels.short_tv(panels.at_time(experiment.runs[topology, method], "tv", time))
        alt = f"{LABELS[method]} on {LABELS[topology]} at {time:g} s, TV {tv}"
        return {"src": _png(panels.image_of(experiment, mean), darkest), "alt": alt, "tv": tv}

    rows = {
        LABELS[method]: [[picture(method, topology, time) for time in times] for topology in topologies]
        for method in methods_of(experiment)
    }
    return {
        "topologies": [LABELS[topology] for topology in topologies],
        "times": [f"{time:g}" for time in times],
        "rows": rows,
        "truth": _png(panels.image_of(experiment, experiment.reference), darkest),
    }


def _png(image: Floats, darkest: float) -> str:
    """A picture, dark on white, as a data address."""
    grey = 255 - np.clip(255 * image / (darkest or 1.0), 0, 255).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(grey).save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
