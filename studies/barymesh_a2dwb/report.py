"""The report: one HTML file that needs nothing else, with the figures to look into, the claims and what became of them.

It loads nothing from anywhere: scripts, pictures and data are inside. The same study gives the same bytes.
"""

# ruff: noqa: RUF001 (minus, times and dashes are meant)
from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from bokeh.models import Range1d
from bokeh.resources import Resources

from barymesh.io.atomic import write_text
from barymesh.viz.bokeh_plots import PAINT, Curve, Dash, Frame, Mark, curves_figure, embedded, measures_figure
from barymesh.viz.page import EARLY, SCRIPT, STYLE
from barymesh.viz.plots import curve_scale
from barymesh.viz.theme import (
    METHODS,
    NOTHING,
    PANELS,
    PARAMETERS,
    SELECTION,
    SWEPT_PANELS,
    Panel,
    Row,
    at_time,
    digit_of,
    figure_name,
    history_row,
    history_rows,
    image_of,
    in_order,
    is_images,
    label_of,
    last_of,
    limits,
    mean_of,
    methods_in,
    methods_of,
    paper_rows,
    pictured_times,
    pictures_name,
    room_around,
    sensitivity_name,
    setting_text,
    short_tv,
    shown_number,
    source_of,
    style_of,
    sweep_rows,
    topologies_in_order,
    topologies_of,
)
from barymesh_a2dwb import report_text as text
from barymesh_a2dwb.claims import EVERYWHERE, MEASURES, Ordering, StepAnswer, ordering, step_answers
from barymesh_a2dwb.storage import DATA, MANIFEST, SWEEPS
from barymesh_a2dwb.study import OURS, Experiment, Floats, Run, Study, Sweep

if TYPE_CHECKING:
    from barymesh.support.points import Support
    from barymesh_a2dwb.claims import Verdict

# where 'barymesh paper' puts the figures, beside the report
FIGURES = "figures"
DASHES: dict[str, Dash] = {"-": "solid", "--": "dashed", "-.": "dotdash", ":": "dotted"}
STROKES = {"-": "", "--": "7 4", "-.": "8 3 2 3", ":": "2 3"}
MARKS: dict[str, Mark] = {"converged": "circle", "diverged": "x"}
# lines on a screen are this much thicker than on paper
THICKER = 1.5
ANSWERS = {True: ("yes", "✓ holds"), False: ("no", "✗ fails"), None: ("open", "? undecided")}
# of what the paper does not claim
FINDINGS = {True: ("plainly", "yes"), False: ("faint", "no"), None: ("open", "? undecided")}
SECTIONS = {
    "short": "In short",
    "run": "What was run",
    "reproduces": "What reproduces",
    "fails": "What the paper's metrics cannot show",
    "ours": "What ours does",
    "order": "Who ends where",
    "experiments": "The experiments",
    "sensitivity": "Sensitivity",
    "again": "Run it again, and the data",
}
FAILURE = "Where the paper's conclusion fails, and why"
# nothing may be loaded, from anywhere
ALONE = "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob:"


def write_report(study: Study, verdicts: Sequence[Verdict], path: Path) -> Path:
    """Write the report of a study and what became of the claims. Links to figures and data are relative to it."""
    write_text(path, _Report(study, verdicts).page())
    return path


class _Report:
    def __init__(self, study: Study, verdicts: Sequence[Verdict]) -> None:
        self.study, self.verdicts = study, verdicts
        self.data: list[str] = []

    def page(self) -> str:
        """The whole file."""
        title = "A2DWB, reproduced" + (" (quick study)" if self.study.quick else "")
        parts = {
            "short": self._short(),
            "run": self._run(),
            "reproduces": self._reproduces(),
            "fails": self._fails(),
            "ours": self._ours(),
            "order": self._order(),
            "experiments": self._experiments(),
            "sensitivity": self._sensitivity(),
            "again": self._again(),
        }
        shown = {name: content for name, content in parts.items() if content}
        titles = SECTIONS | ({"fails": FAILURE} if text.falls_below(self.study) else {})
        contents = "".join(f'<li><a href="#{name}">{titles[name]}</a></li>' for name in shown)
        sections = "".join(
            f'<section id="{name}" aria-labelledby="{name}-title">\n<h2 id="{name}-title">{titles[name]}</h2>\n'
            f"{content}\n</section>\n"
            for name, content in shown.items()
        )
        notice = text.notice(self.study)
        return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{ALONE}">
<title>{title}</title>
<style>{STYLE}</style>
<script>{EARLY}</script>
</head>
<body>
<a class="skip" href="#main">To the text</a>
<header>
<h1>{title}</h1>
<p class="lead">The two experiments of {text.PAPER}, run again with barymesh, and with barymesh's own method beside
them.</p>
{f'<p class="notice" role="note">{notice}</p>' if notice else ""}
<button class="switch" type="button">Dark page</button>
<nav aria-label="Contents"><ul>{contents}</ul></nav>
</header>
<main id="main">
{sections}
</main>
<footer><p>Written by <code>barymesh paper</code>. This file loads nothing: it can be kept, sent and read offline.</p>
<noscript><p>The interactive figures need JavaScript; the same figures are in <a href="{FIGURES}/">{FIGURES}/</a>.</p>
</noscript></footer>
{"".join(self.data)}
<script>{_bokeh()}</script>
<script>{PAINT}{SCRIPT}</script>
</body>
</html>
"""

    # ---- in short

    def _short(self) -> str:
        told = text.in_short(self.study, self.verdicts)
        end = text.telling_pair(self.study)
        if end is None:
            return told
        row = history_row(end.experiment, end.run.topology, end.where)
        panels = self._over_time(row, [row], (PANELS[0], PANELS[-1]), end.experiment.setting.duration, "telling")
        return (
            f'<div class="split"><div>{told}</div><figure>{_legend(methods_in([row]), "telling")}{panels}'
            f"<figcaption>{text.telling_text(end)}</figcaption></figure></div>"
        )

    # ---- what was run

    def _run(self) -> str:
        experiments = list(self.study.experiments.values())
        rows: list[tuple[str, list[str]]] = [
            ("data", [escape(e.setting.data) for e in experiments]),
            ("nodes m", [f"{e.setting.nodes}" for e in experiments]),
            ("virtual seconds", [f"{e.setting.duration:g}" for e in experiments]),
            ("support", [_support(e.support) for e in experiments]),
            ("reg", [f"{e.setting.reg:g}" for e in experiments]),
            ("step", [f"{e.setting.step_factor:g} × reg/λ<sub>max</sub>(W)" for e in experiments]),
            ("samples M", [f"{e.setting.samples}" for e in experiments]),
            ("seed", [f"{e.setting.seed}" for e in experiments]),
            ("certified optimum", [shown_number(e.optimum, 7) for e in experiments]),
            ("certified to within", [shown_number(e.gap, 2) for e in experiments]),
            ("runs", [f"{len(e.runs)}" for e in experiments]),
        ]
        head = ["", *(escape(e.title) for e in experiments)]
        table = _table("Settings of each experiment.", head, {"": [[name, *cells] for name, cells in rows]})
        return (
            text.network_text(self.study)
            + "<h3>The methods</h3>"
            + text.methods_text(self.study)
            + "<h3>The choices</h3>"
            + text.choices_text(self.study)
            + table
        )

    # ---- claims

    def _reproduces(self) -> str:
        verdicts = [verdict for verdict in self.verdicts if verdict.by_paper]
        if not verdicts:
            return "<p>The claims could not be judged: the runs they are about are not part of this study.</p>"
        return (
            text.reading_text(verdicts)
            + self._pairs(verdicts, "paper-pairs", "The paper's claims on each experiment and network.")
            + self._everywhere(verdicts, "paper-all", "The paper's claim about networks, on each experiment.")
        )

    def _fails(self) -> str:
        verdicts = [verdict for verdict in self.verdicts if not verdict.by_paper and not _about_ours(verdict)]
        return text.fails_text(self.study) + self._pairs(verdicts, "unseen", "What the paper could not see.")

    def _ours(self) -> str:
        verdicts = [verdict for verdict in self.verdicts if not verdict.by_paper and _about_ours(verdict)]
        return (
            text.ours_text(self.study)
            + self._times()
            + self._pairs(verdicts, "ours-pairs", "Whether ours ends at the optimum.")
            + self._everywhere(verdicts, "ours-all", "Ours on poorly connected networks.")
        )

    def _pairs(self, verdicts: Sequence[Verdict], name: str, caption: str) -> str:
        """Verdicts on pairs: one row a pair, one column a claim."""
        verdicts = [verdict for verdict in verdicts if verdict.topology != EVERYWHERE]
        claims = list(dict.fromkeys(verdict.claim for verdict in verdicts))
        known = {(verdict.experiment, verdict.topology, verdict.claim): verdict for verdict in verdicts}
        groups = {
            self._title(experiment): [
                [label_of(topology), *(_answer(known.get((experiment, topology, claim))) for claim in claims)]
                for topology in topologies_in_order({v.topology for v in verdicts if v.experiment == experiment})
            ]
            for experiment in dict.fromkeys(verdict.experiment for verdict in verdicts)
        }
        return _verdicts(_table(caption, ["", "", *map(escape, claims)], groups, "verdict"), name) if groups else ""

    def _everywhere(self, verdicts: Sequence[Verdict], name: str, caption: str) -> str:
        """Verdicts on whole experiments: one row an experiment, one column a claim."""
        verdicts = [verdict for verdict in verdicts if verdict.topology == EVERYWHERE]
        claims = list(dict.fromkeys(verdict.claim for verdict in verdicts))
        known = {(verdict.experiment, verdict.claim): verdict for verdict in verdicts}
        rows = [
            [self._title(experiment), *(_answer(known.get((experiment, claim))) for claim in claims)]
            for experiment in dict.fromkeys(verdict.experiment for verdict in verdicts)
        ]
        return _verdicts(_table(caption, ["", *map(escape, claims)], {"": rows}, "verdict"), name) if rows else ""

    def _title(self, experiment: str) -> str:
        known = self.study.experiments.get(experiment)
        return escape(experiment if known is None else known.title)

    def _times(self) -> str:
        """Seconds to come close to the truth."""
        methods = in_order({method for e in self.study.experiments.values() for _, method in e.runs})
        groups = {
            escape(experiment.title): [
                [label_of(topology), *(_closeness(experiment.runs.get((topology, method))) for method in methods)]
                for topology in topologies_of(experiment)
            ]
            for experiment in self.study.experiments.values()
        }
        caption = (
            f"Virtual seconds until the total variation to the true barycenter stays within {text.CLOSE}; where it "
            "never does, the value at the end."
        )
        return _table(caption, ["", "", *map(label_of, methods)], groups)

    def _order(self) -> str:
        """The summary: who ends where on which network."""
        found = ordering(self.study)
        if not found:
            return ""
        tables = {}
        for experiment in self.study.experiments.values():
            mine = {(one.topology, one.measure): one for one in found if one.experiment == experiment.name}
            rows = [
                [label_of(topology), *(_ordered(mine[topology, measure], experiment.gap) for measure in MEASURES)]
                for topology in topologies_of(experiment)
                if all((topology, measure) in mine for measure in MEASURES)
            ]
            names = [name if measure != "dual" else f"{name} − optimum" for measure, (_, name) in MEASURES.items()]
            caption = f"{escape(experiment.title)}: the methods in the order of what they end with."
            tables[experiment.title] = _table(caption, ["", *names], {"": rows})
        note = (
            "<p>The methods on each network, from the lowest value at the end to the highest. Lower is better, but for "
            "one thing: a dual objective below the optimum, marked ▼, belongs to duals that are not feasible.</p>"
        )
        return note + self._tabs("order", "Experiments", tables)

    # ---- figures

    def _experiments(self) -> str:
        pages: dict[str, str] = {}
        pairs = paper_rows(self.study)
        for experiment in self.study.experiments.values():
            if pairs and experiment is pairs[0][0]:
                pages["Figure 2 of the paper"] = self._selection(pairs)
            pages[experiment.title] = self._experiment(experiment)
        note = (
            "<p>The paper's figures, with the two columns it lacks: one row a network. The line is the certified "
            "optimum; in the grey below it there are no feasible duals. Point at a curve for its values; drag to move, "
            "hold Ctrl and turn the wheel to zoom; a row moves together. A dot ends the curve of a method whose nodes "
            "all stopped by themselves, a cross that of one that diverged. Curves that leave a panel go on outside: "
            "drag to see. The buttons hide and show methods.</p>"
        )
        return note + self._tabs("experiment", "Experiments", pages) if pages else ""

    def _experiment(self, experiment: Experiment) -> str:
        figure = self._histories(history_rows(experiment), experiment.setting.duration, experiment.name)
        setting = f"<p><small>{escape(setting_text(experiment.setting))}.</small></p>"
        pictures = (self._images if is_images(experiment) else self._curves)(experiment)
        files = [figure_name(experiment)] + ([pictures_name(experiment)] if pictures else [])
        return f"{figure}{setting}{pictures}{_figure_links(files)}"

    def _selection(self, pairs: Sequence[tuple[Experiment, str]]) -> str:
        rows = [history_row(e, topology, f"Digit {digit_of(e)} on {label_of(topology)}") for e, topology in pairs]
        note = "<p>Of its runs on images the paper shows these: on every network another digit.</p>"
        figure = self._histories(rows, pairs[0][0].setting.duration, "selection")
        setting = setting_text(pairs[0][0].setting, without="data")
        source = source_of(experiment for experiment, _ in pairs)
        return f"{note}{figure}<p><small>{setting}; data: {escape(source)}.</small></p>{_figure_links([SELECTION])}"

    def _histories(self, rows: list[Row], duration: float, group: str) -> str:
        """Panels over time: one row a network, one column a metric."""
        panels = (f"<h4>{row.label}</h4>{self._over_time(row, rows, PANELS, duration, group)}" for row in rows)
        return _legend(methods_in(rows), group) + "".join(panels)

    def _over_time(self, row: Row, rows: list[Row], panels: Sequence[Panel], duration: float, group: str) -> str:
        """One row, drawn to the same scale as the others."""
        x_range = Range1d(0, duration)
        figures = {}
        for panel in panels:
            frame = _frame(panel, row, rows, "virtual time (s)", unit="s")
            figures[f"{panel.title} over time, {row.label}"] = curves_figure(_drawn(row, panel), frame, x_range)
        return self._panels(figures, group)

    def _curves(self, experiment: Experiment) -> str:
        """What the nodes agree on, on the line."""
        times = pictured_times(experiment)
        if not times or experiment.support.dimension != 1:
            return ""
        scale, unit = curve_scale(experiment.support)
        order = np.argsort(experiment.support.points[:, 0])
        z, truth = experiment.support.points[order, 0], scale * experiment.reference[order]
        group = f"{experiment.name}-means"
        parts = [
            "<h3>What the nodes agree on</h3>",
            f"<p>The average estimate of all nodes, as {unit}; the grey area is the true barycenter.</p>",
            _legend(methods_of(experiment), group),
        ]
        for topology in topologies_of(experiment):
            x_range = Range1d(float(z[0]), float(z[-1]))
            figures = {}
            for time in times:
                curves = []
                for method in methods_of(experiment):
                    mean = mean_of(experiment, topology, method, time)
                    if mean is not None:
                        curves.append(_curve(method, z, scale * mean[order]))
                frame = Frame(f"{time:g} s", "position", (0.0, 1.6 * float(truth.max())), height=190)
                label = f"Average estimate at {time:g} s, {label_of(topology)}"
                figures[label] = measures_figure(z, truth, curves, frame, x_range)
            parts.append(f"<h4>{label_of(topology)}</h4>" + self._panels(figures, group))
        return "".join(parts)

    def _images(self, experiment: Experiment) -> str:
        """What the nodes agree on, as pictures."""
        topologies, times = topologies_of(experiment), pictured_times(experiment)
        if not times:
            return ""
        darkest = float(experiment.reference.max())
        groups = "".join(
            f'<th class="first" scope="colgroup" colspan="{len(times)}">{label_of(topology)}</th>'
            for topology in topologies
        )
        seconds = "".join(
            f'<th{_first(place)} scope="col">{time:g} s</th>' for _ in topologies for place, time in enumerate(times)
        )
        rows = []
        for method in methods_of(experiment):
            cells = []
            for topology in topologies:
                for place, time in enumerate(times):
                    mean = mean_of(experiment, topology, method, time)
                    content = NOTHING
                    if mean is not None:
                        far = short_tv(at_time(experiment.runs[topology, method], "tv", time))
                        alt = f"{label_of(method)} on {label_of(topology)} at {time:g} s, TV {far}"
                        content = f"{_image(image_of(experiment, mean), darkest, alt)}<small>{escape(far)}</small>"
                    cells.append(f"<td{_first(place)}>{content}</td>")
            rows.append(f'<tr><th scope="row">{label_of(method)}</th>{"".join(cells)}</tr>')
        truth = _image(image_of(experiment, experiment.reference), darkest, f"The true barycenter: {experiment.title}")
        spans = "".join(f'<td class="first" colspan="{len(times)}">{truth}</td>' for _ in topologies)
        rows.append(f'<tr><th scope="row">true barycenter</th>{spans}</tr>')
        return (
            "<h3>What the nodes agree on</h3>"
            '<div class="scroll fit" role="region" tabindex="0" aria-label="Barycenters"><table class="pictures">'
            "<caption>The average estimate of all nodes; below each picture its total variation to the true barycenter."
            f'</caption><thead><tr><td rowspan="2"></td>{groups}</tr><tr>{seconds}</tr></thead>'
            f"<tbody>{''.join(rows)}</tbody></table></div>"
        )

    def _sensitivity(self) -> str:
        if not self.study.sweeps:
            return ""
        pages = {}
        for parameter in dict.fromkeys(sweep.parameter for sweep in self.study.sweeps):
            sweeps = [sweep for sweep in self.study.sweeps if sweep.parameter == parameter]
            pages[PARAMETERS.get(parameter, parameter).split(",")[0]] = self._sweep(parameter, sweeps)
        usual = self.study.experiments.get("gaussian")
        on = "" if usual is None else f" Experiment: {escape(usual.title)}."
        note = (
            "<p>How far the outcome depends on the choices the paper leaves open: one of them is varied, the others "
            f"stay.{on} The values are those at the end of the runs.</p>"
        )
        return note + self._tabs("sweep", "Choices", pages)

    def _sweep(self, parameter: str, sweeps: list[Sweep]) -> str:
        group, rows = f"sweep-{parameter}", sweep_rows(sweeps)
        values = np.unique(np.concatenate([sweep.values for sweep in sweeps]))
        low, high = float(values.min()), float(values.max())
        room = room_around(low, high)
        x_label = PARAMETERS.get(parameter, parameter)
        parts = [
            text.sweep_text(self.study, sweeps),
            _steps(step_answers(self.study)) if parameter == "step" else "",
            _legend(methods_in(rows), group),
        ]
        for row in rows:
            x_range = Range1d(low / room, high * room)
            figures = {}
            for panel in SWEPT_PANELS:
                frame = _frame(panel, row, rows, x_label, ticks=values.tolist(), dots=True, log_x=True)
                figures[f"{panel.title}, by {x_label}, {row.label}"] = curves_figure(_drawn(row, panel), frame, x_range)
            parts.append(f"<h4>{row.label}</h4>{self._panels(figures, group)}")
        return "".join(parts) + _figure_links([sensitivity_name(parameter)])

    def _panels(self, figures: dict[str, Any], group: str) -> str:
        """A row of figures, by what they show, drawn when the reader comes to them."""
        number = len(self.data)
        elements = {f"plot-{number}-{place}": figure for place, figure in enumerate(figures.values())}
        content = json.dumps(embedded(elements), separators=(",", ":"), allow_nan=False).replace("</", "<\\/")
        self.data.append(f'<script type="application/json" id="plots-{number}">{content}</script>\n')
        panels = "".join(
            f'<div class="panel" id="{element}" role="group" aria-label="{escape(label)}"></div>'
            for element, label in zip(elements, figures, strict=True)
        )
        return f'<div class="panels" data-plots="plots-{number}" data-group="{group}">{panels}</div>'

    def _tabs(self, name: str, label: str, pages: dict[str, str]) -> str:
        """Pages of which one is seen; all of them where scripts do not run."""
        if len(pages) == 1:
            return next(iter(pages.values()))
        heads = "".join(
            f'<button type="button" role="tab" id="{name}-tab-{k}" aria-controls="{name}-page-{k}">'
            f"{escape(title)}</button>"
            for k, title in enumerate(pages)
        )
        bodies = "".join(
            f'<div role="tabpanel" id="{name}-page-{k}" aria-labelledby="{name}-tab-{k}">{page}</div>'
            for k, page in enumerate(pages.values())
        )
        return f'<div data-tabs><div role="tablist" aria-label="{label}">{heads}</div>{bodies}</div>'

    # ---- again

    def _again(self) -> str:
        names = list(self.study.experiments)
        kinds = {"gaussian" if name == "gaussian" else "mnist" for name in names}
        which = "all" if len(kinds) != 1 else kinds.pop()
        quick = " --quick" if self.study.quick else ""
        seeds = {e.setting.seed for e in self.study.experiments.values()} - {0}
        seed = f" --seed {seeds.pop()}" if len(seeds) == 1 else ""
        tables = "".join(self._files(experiment) for experiment in self.study.experiments.values())
        sweeps = f' Sweeps: <a href="{DATA}/{SWEEPS}">{DATA}/{SWEEPS}</a>.' if self.study.sweeps else ""
        return (
            "<p>The same command writes the same files, bit for bit, except for <code>timing.json</code>:</p>"
            f"<pre><code>pip install 'barymesh[report,mnist]'\nbarymesh paper {which}{quick}{seed} -o out/</code></pre>"
            + ("<p>and without <code>--quick</code> the paper's size.</p>" if quick else "")
            + f'<p>What was run: <a href="{DATA}/{MANIFEST}">{DATA}/{MANIFEST}</a>.{sweeps} Every history is a table '
            "(.csv); .npz files hold the nodes' average estimates too. Read all of it in Python with "
            '<code>barymesh_a2dwb.storage.load_study("out")</code>.</p>' + tables
        )

    def _files(self, experiment: Experiment) -> str:
        methods = methods_of(experiment)
        rows = []
        for topology in topologies_of(experiment):
            cells = []
            for method in methods:
                file = f"{DATA}/{experiment.name}/{topology}-{method}"
                about = f"{label_of(method)}, {label_of(topology)}"
                links = " ".join(
                    f'<a href="{file}.{kind}" aria-label="{about}, {kind}">{kind}</a>' for kind in ("csv", "npz")
                )
                cells.append(links if (topology, method) in experiment.runs else NOTHING)
            rows.append([label_of(topology), *cells])
        table = _table(f"Histories: {escape(experiment.title)}.", ["", *map(label_of, methods)], {"": rows})
        return f"<details><summary>Files of {escape(experiment.title)}</summary>{table}</details>"


def _closeness(run: Run | None) -> str:
    """When a run has come close to the truth, or how far from it it ends."""
    if run is None:
        return NOTHING
    time = text.time_until_close(run)
    if np.isfinite(time):
        return f"{time:g} s"
    far = shown_number(last_of(run, "tv"), 2)
    return f"<small>{'diverged' if run.status == 'diverged' else f'no: {far}'}</small>"


def _about_ours(verdict: Verdict) -> bool:
    return any(label_of(method) in verdict.claim for method in METHODS if method.startswith(OURS))


# ---- parts of figures


def _curve(method: str, x: Floats, y: Floats, mark: Mark | None = None) -> Curve:
    look = style_of(method)
    return Curve(label_of(method), x, y, look.colour, DASHES[look.dash], THICKER * look.width, mark)


def _drawn(row: Row, panel: Panel) -> list[Curve]:
    """The curves of a panel; on a logarithmic axis there is no place for zero."""
    curves = []
    for line in row.lines:
        y = line.y[panel.column]
        shown = y if panel.floor is None else np.where(y > 0, y, np.nan)
        curves.append(_curve(line.method, line.x, shown, MARKS.get(line.status)))
    return curves


def _frame(panel: Panel, row: Row, rows: Sequence[Row], x_label: str, **more: Any) -> Frame:
    low, high = limits(panel, row, rows)
    title = panel.title[0].upper() + panel.title[1:]
    if panel.floor is None:
        return Frame(title, x_label, (low, high), level=row.optimum, **more)
    room = room_around(low, high)
    return Frame(title, x_label, (low / room, high * room), log=True, **more)


# ---- parts of the page


def _support(support: Support) -> str:
    if support.grid is None:
        return f"{support.size} points"
    spans = [f"[{low:g}, {high:g}]" for low, high in zip(support.grid.lower, support.grid.upper, strict=True)]
    return f"{' × '.join(map(str, support.grid.shape))} points on {' × '.join(spans)}".replace("[-", "[−")


def _bokeh() -> str:
    return "\n".join(Resources(mode="inline", components=["bokeh"]).js_raw)


def _table(caption: str, head: Sequence[str], groups: Mapping[str, Sequence[Sequence[str]]], kind: str = "") -> str:
    """A table that scrolls by itself where there is no room. The first cell of a row names it; groups of rows have a
    name too, unless it is empty."""
    top = "".join(f'<th scope="col">{cell}</th>' if cell else "<td></td>" for cell in head)
    cell = f'<td class="{kind}">' if kind else "<td>"
    body = []
    for name, rows in groups.items():
        for number, row in enumerate(rows):
            first = (
                f'<th class="group" scope="rowgroup" rowspan="{len(rows)}">{name}</th>' if name and not number else ""
            )
            cells = "".join(f"{cell}{content}</td>" for content in row[1:])
            starts = ' class="starts"' if first else ""
            body.append(f'<tr{starts}>{first}<th scope="row">{row[0]}</th>{cells}</tr>')
    label = escape(re.split("[:;,.]", caption)[0])
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{label}"><table><caption>{caption}</caption>'
        f"<thead><tr>{top}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def _verdicts(table: str, name: str) -> str:
    button = f'<p><button class="plain" type="button" data-open="{name}">Show all figures</button></p>'
    return f'{button}<div id="{name}">{table}</div>'


def _answer(verdict: Verdict | None) -> str:
    if verdict is None:
        return NOTHING
    kind, word = (ANSWERS if verdict.by_paper else FINDINGS)[verdict.holds]
    return (
        f'<details><summary><span class="badge {kind}">{word}</span></summary><p>{escape(verdict.text)}</p></details>'
    )


def _ordered(found: Ordering, gap: float) -> str:
    """Methods from low to high, each with its value."""
    items = []
    for method, value in zip(found.methods, found.values, strict=True):
        under = found.measure == "dual" and value < -gap
        shown = "diverged" if np.isnan(value) else ("▼ " if under else "") + shown_number(value)
        kind = "value under" if under else "value"
        items.append(f'<li>{_swatch(method)}{_short(method)}<span class="{kind}">{shown}</span></li>')
    return f'<ol class="order">{"".join(items)}</ol>'


def _short(method: str) -> str:
    return label_of(method).removesuffix(" (barymesh)")


def _swatch(method: str) -> str:
    """A piece of the method's line; the page may have another colour for it."""
    look = style_of(method)
    colour = f"var(--c-{look.colour.removeprefix('#')}, {look.colour})"
    return (
        '<svg class="swatch" width="28" height="8" aria-hidden="true"><line x1="1" y1="4" x2="27" y2="4" '
        f'style="stroke:{colour}" stroke-width="{2 * look.width:g}" stroke-dasharray="{STROKES[look.dash]}"/></svg>'
    )


def _legend(methods: Iterable[str], group: str) -> str:
    entries = "".join(
        f'<button type="button" aria-pressed="true" data-name="{escape(label_of(method))}">{_swatch(method)}'
        f"{label_of(method)}</button>"
        for method in methods
    )
    return f'<div class="legend" role="group" aria-label="Methods shown" data-legend="{group}">{entries}</div>'


def _steps(answers: Sequence[StepAnswer]) -> str:
    """At which steps the paper's claims hold."""
    if not answers:
        return ""
    known = {(answer.claim, answer.topology): answer for answer in answers}
    topologies = topologies_in_order({answer.topology for answer in answers})
    rows = [
        [escape(claim), *(_chips(known.get((claim, topology))) for topology in topologies)]
        for claim in dict.fromkeys(answer.claim for answer in answers)
    ]
    caption = (
        "At which steps A2DWB ends lower than the other, as multiples of reg/λ<sub>max</sub>(W); and whether it does "
        "if each takes its own best step, which for the dual objective is the one that ends nearest to the optimum."
    )
    return _table(caption, ["", *map(label_of, topologies)], {"": rows}, "wrapped")


def _chips(answer: StepAnswer | None) -> str:
    """Every step with its answer."""
    if answer is None:
        return NOTHING
    pairs = [(f"{step:g}", holds) for step, holds in zip(answer.steps, answer.holds, strict=True)]
    chips = [
        f'<span class="badge {ANSWERS[holds][0]}">{ANSWERS[holds][1][0]} {escape(step)}</span>'
        for step, holds in [*pairs, ("own best", answer.best)]
    ]
    return f'<div class="chips">{"".join(chips)}</div>'


def _figure_links(names: Sequence[str]) -> str:
    links = ", ".join(
        f'{name} (<a href="{FIGURES}/{name}.pdf" aria-label="{name}, PDF">PDF</a>, '
        f'<a href="{FIGURES}/{name}.png" aria-label="{name}, PNG">PNG</a>)'
        for name in names
    )
    return f"<p>For print: {links}.</p>"


def _first(place: int) -> str:
    return ' class="first"' if place == 0 else ""


def _image(image: Floats, darkest: float, alt: str) -> str:
    """A picture inside the page, dark on white."""
    from PIL import Image

    grey = 255 - np.clip(255 * image / (darkest or 1.0), 0, 255).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(grey).save(file, "PNG")
    content = base64.b64encode(file.getvalue()).decode()
    return f'<img alt="{escape(alt)}" src="data:image/png;base64,{content}">'
