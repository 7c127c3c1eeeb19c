"""The tables of the report, as data. ``report.html`` lays them out."""

# ruff: noqa: RUF001 (minus, times and dashes are meant)
from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from barymesh.support.points import Support
from barymesh.viz.theme import NOTHING, shown_number
from barymesh_a2dwb import claims
from barymesh_a2dwb.storage import DATA
from barymesh_a2dwb.study import LABELS, MEASURES, METHODS, OURS, TOPOLOGIES, Experiment, Run, Study, Sweep

from barymesh_a2dwb.study import last_of, methods_of, topologies_of  # isort: skip


@dataclass(frozen=True)
class TableRow:
    """A row with its name and cells. ``group`` is the name of the ``span`` rows that begin with this one."""

    name: str
    cells: Sequence[Any]
    group: str = ""
    span: int = 0


@dataclass(frozen=True)
class ReportTable:
    """A table. ``kind``: how the template shows a cell. ``title``: of the tab or fold that the table is on."""

    caption: str
    head: Sequence[str]
    rows: Sequence[TableRow]
    kind: str = "text"
    title: str = ""

    @property
    def label(self) -> str:
        """A short name for screen readers."""
        return re.split("[:;,.]", self.caption)[0]

    @property
    def width(self) -> int:
        """The number of columns beside the names."""
        return sum(map(bool, self.head))


def tables(study: Study, verdicts: Sequence[claims.Verdict]) -> dict[str, Any]:
    """All tables but those of the sweeps, by their names in the template."""
    own = [v for v in verdicts if v.method.startswith(OURS)]
    by_paper = [v for v in verdicts if v.by_paper]
    others = [v for v in verdicts if v not in own and v not in by_paper]
    counted = [TableRow(one.claim, (one.holds, one.undecided, one.fails)) for one in claims.counts(by_paper)]
    times = (
        f"Virtual seconds until the total variation to the true barycenter stays within {claims.CLOSE}; where it never "
        "does, the last value."
    )
    return {
        "counts": ReportTable("The paper's claims, counted.", ["", "holds", "undecided", "fails"], counted),
        "outcomes": _outcomes(study),
        "settings": _settings(study),
        "claims": _verdicts(study, by_paper, "The paper's claims."),
        "unseen": _verdicts(study, others, "What the paper does not measure."),
        "own": _verdicts(study, own, "Whether barymesh's own method slows, and ends at the optimum."),
        "times": ReportTable(times, ["", "", *_labels(METHODS)], _closeness(study)),
        "orders": _orders(study),
        "files": [_files(experiment) for experiment in study.experiments.values()],
    }


def _labels(names: Sequence[str]) -> list[str]:
    return [LABELS[name] for name in names]


def _grouped(groups: Mapping[str, Mapping[str, Sequence[Any]]]) -> list[TableRow]:
    return [
        TableRow(name, cells, group, 0 if number else len(rows))
        for group, rows in groups.items()
        for number, (name, cells) in enumerate(rows.items())
    ]


def _span(ends: tuple[float, float]) -> str:
    low, high = (shown_number(end, 2) for end in ends)
    return low if low == high else f"{low} to {high}"


def _outcomes(study: Study) -> ReportTable:
    head = (
        "", "runs", "dual objective − optimum", "feasibility residual", "TV", f"TV within {claims.CLOSE}", "stopped",
        "diverged",
    )  # fmt: skip
    rows = [
        TableRow(
            LABELS[one.method],
            (one.runs, *map(_span, (one.dual, one.feasibility, one.tv)), one.close, one.stopped, one.diverged),
        )
        for one in claims.outcomes(study)
    ]
    caption = (
        "What the runs of each method end with: the least and the largest last value over all experiments and "
        "networks; and how many end close to the true barycenter, were stopped by their nodes, and diverged."
    )
    return ReportTable(caption, head, rows, "numbers")


def _settings(study: Study) -> ReportTable:
    facts: dict[str, Callable[[Experiment], str]] = {
        "data": lambda e: e.setting.data,
        "nodes m": lambda e: f"{e.setting.nodes}",
        "virtual seconds": lambda e: f"{e.setting.duration:g}",
        "support": lambda e: _support(e.support),
        "reg": lambda e: f"{e.setting.reg:g}",
        "reg over squared spacing": lambda e: shown_number(e.setting.reg / e.support.spacing**2, 2),
        "step": lambda e: f"{e.setting.step_factor:g} × reg/λmax(W)",
        "samples M": lambda e: f"{e.setting.samples}",
        "seed": lambda e: f"{e.setting.seed}",
        "certified optimum": lambda e: shown_number(e.optimum, 7),
        "certified to within": lambda e: shown_number(e.gap, 2),
        "runs": lambda e: f"{len(e.runs)}",
    }
    experiments = study.experiments.values()
    rows = [TableRow(name, [fact(experiment) for experiment in experiments]) for name, fact in facts.items()]
    return ReportTable("Settings of each experiment.", ["", *(e.title for e in experiments)], rows)


def _support(support: Support) -> str:
    if support.grid is None:
        return f"{support.size} points"
    spans = [f"[{low:g}, {high:g}]" for low, high in zip(support.grid.lower, support.grid.upper, strict=True)]
    return f"{' × '.join(map(str, support.grid.shape))} points on {' × '.join(spans)}".replace("[-", "[−")


def _verdicts(study: Study, verdicts: Sequence[claims.Verdict], caption: str) -> ReportTable:
    """One group a claim, one row an experiment, one column a topology; one wide cell for a claim about all of them."""
    known = {(v.claim, v.experiment, v.topology): v for v in verdicts}
    topologies = [t for t in TOPOLOGIES if any(v.topology == t for v in verdicts)] or TOPOLOGIES
    groups: dict[str, dict[str, list[claims.Verdict | None]]] = {}
    for claim, experiment, place in known:
        places = [place] if place == claims.EVERYWHERE else topologies
        row = [known.get((claim, experiment, one)) for one in places]
        groups.setdefault(claim, {})[study.experiments[experiment].title] = row
    return ReportTable(caption, ["", "", *_labels(topologies)], _grouped(groups), "verdict")


def _closeness(study: Study) -> list[TableRow]:
    """The time that each run takes to come close to the true barycenter."""

    def cell(run: Run | None) -> str:
        if run is None:
            return NOTHING
        time = claims.time_until_close(run)
        if np.isfinite(time):
            return f"{time:g} s"
        return "diverged" if run.status == "diverged" else f"no: {shown_number(last_of(run, 'tv'), 2)}"

    return _grouped(
        {
            e.title: {LABELS[t]: [cell(e.runs.get((t, method))) for method in METHODS] for t in topologies_of(e)}
            for e in study.experiments.values()
        }
    )


def _orders(study: Study) -> list[ReportTable]:
    """For each experiment the methods from the lowest last value to the highest."""
    found = {(one.experiment, one.topology, one.measure): one for one in claims.ordering(study)}
    names = [name + (" − optimum" if measure == "dual" else "") for measure, (_, name) in MEASURES.items()]
    tables = []
    for e in study.experiments.values():
        rows = [TableRow(LABELS[t], [found[e.name, t, measure] for measure in MEASURES]) for t in topologies_of(e)]
        caption = f"{e.title}: the methods in the order of their last values."
        tables.append(ReportTable(caption, ["", *names], rows, "order", e.title))
    return tables


def _files(experiment: Experiment) -> ReportTable:
    methods = methods_of(experiment)
    stem = f"{DATA}/{experiment.name}"
    rows = [
        TableRow(LABELS[t], [f"{stem}/{t}-{m}" if (t, m) in experiment.runs else None for m in methods])
        for t in topologies_of(experiment)
    ]
    caption = f"Histories: {experiment.title}."
    return ReportTable(caption, ["", *_labels(methods)], rows, "links", f"Files of {experiment.title}")


def sweep_table(study: Study, sweeps: Sequence[Sweep]) -> ReportTable:
    """The best that each method reaches in the sweeps of one parameter."""
    gap = max((experiment.gap for experiment in study.experiments.values()), default=0.0)
    rows = []
    for method in METHODS:
        lines = [sweep for sweep in sweeps if sweep.method == method]
        ends = [(tv, v, s.topology) for s in lines for tv, v in zip(s.tv.tolist(), s.values.tolist(), strict=True)]
        if not ends:
            continue
        best = min((end for end in ends if np.isfinite(end[0])), default=None)
        where = [NOTHING] * 3 if best is None else [shown_number(best[0], 2), f"{best[1]:g}", LABELS[best[2]]]
        dual = np.concatenate([sweep.dual for sweep in lines])
        rows.append(TableRow(LABELS[method], [len(ends), *where, (dual < -gap).sum(), np.isnan(dual).sum()]))
    head = ("", "runs", "lowest TV at the end", "at the value", "on", "end below the optimum", "diverged")
    return ReportTable("The best that each method reaches.", head, rows)


def step_table(study: Study) -> ReportTable:
    """At which steps the paper's claims hold."""
    answers = {(one.claim, one.topology): one for one in claims.step_answers(study)}
    topologies = [t for t in TOPOLOGIES if any(t == place for _, place in answers)]
    named = dict.fromkeys(claim for claim, _ in answers)
    rows = [TableRow(claim, [answers.get((claim, topology)) for topology in topologies]) for claim in named]
    caption = (
        "At which steps A2DWB ends lower than the other, as multiples of reg/λmax(W); and whether it does with the "
        "best step of each, which for the dual objective is the one that ends nearest to the optimum."
    )
    return ReportTable(caption, ["", *_labels(topologies)], rows, "wrapped")
