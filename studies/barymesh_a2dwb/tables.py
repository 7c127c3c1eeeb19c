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
from barymesh_a2dwb.study import (
    LABELS,
    METHODS,
    OURS,
    TOPOLOGIES,
    Experiment,
    Run,
    Study,
    Sweep,
    at_best_steps,
    last_of,
    methods_of,
    topologies_of,
)


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
    """All tables but those of the sweeps, by their names in the template. ``verdicts``: those with the step of the
    setting."""
    best = at_best_steps(study)
    kinds = {
        "claims": "The paper's claims, each method with its best step: the one that ends closest to the barycenter.",
        "fixed": "The paper's claims, all methods with the same step, reg/λmax(W).",
    }
    found = {
        name: [v for v in some if v.by_paper]
        for name, some in zip(kinds, (claims.verdicts(best), verdicts), strict=True)
    }
    own = [v for v in verdicts if v.method.startswith(OURS)]
    others = [v for v in verdicts if v not in own and not v.by_paper]
    times = (
        f"Virtual seconds until the total variation to the true barycenter stays within {claims.CLOSE}; where it never "
        "does, the last value. Each method with its best step, where steps were varied."
    )
    return {
        **{name: _verdicts(study, found[name], caption) for name, caption in kinds.items()},
        "settings": _settings(study),
        "unseen": _verdicts(study, others, "What the paper does not measure, all methods with the same step."),
        "own": _verdicts(study, own, "Whether barymesh's own method slows, and ends at the optimum."),
        "times": ReportTable(times, ["", "", *_labels(METHODS)], _closeness(study)),
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
            e.title: {
                LABELS[t]: [cell(e.best.get((t, method), e.runs.get((t, method)))) for method in METHODS]
                for t in topologies_of(e)
            }
            for e in study.experiments.values()
        }
    )


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
