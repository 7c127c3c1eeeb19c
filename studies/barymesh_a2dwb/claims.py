"""The paper's claims, checked on a study; and what the paper could not see.

**Ahead** means lower: at the end of the run, and at more than half of the recorded times after 0. A claim holds if both
are so, fails if neither is, and is undecided (None) if only one is. A run that diverged counts as infinitely high from
there on; one that converged stays as it is. That is the paper's reading, for the dual objective too. It is not a good
one there: A2DWB does not keep its duals feasible, so its dual objective can fall below the optimum, and lower is then
not better. Where this happened, the text says so, and the distance to the true barycenter (total variation), which the
paper did not measure, tells who is really ahead.

The dual objective is the mean over the nodes, of which the paper shows the sum, m times as much; all values are told
relative to the certified optimum.

**Slower** is judged by the time until a metric, as a share of what it was at time 0, is down to ``LEVEL``; between two
runs that never get there, by the share they end with. The claim holds for a method if it is slower on the cycle and on
the star than on the complete network by both metrics of the paper, fails if by neither, else it is undecided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from barymesh_a2dwb.study import LABELS, OURS, RIVALS, TOPOLOGIES, Experiment, Floats, Run, Study, Sweep

# the four measures a run is judged by: the column of a history, and its name in words
MEASURES = {
    "dual": ("gap", "dual objective"),
    "consensus": ("consensus", "consensus distance"),
    "feasibility": ("feasibility", "feasibility residual"),
    "tv": ("tv", "total variation to the true barycenter"),
}
PAPERS_MEASURES = ("dual", "consensus")
# a run has come this far when a metric is down to this share of its first value
LEVEL = 0.1
# ours is at the optimum when its total variation, and the share left of the dual gap, are down to this
AT_OPTIMUM = 1e-3
EVERYWHERE = "all"
A2DWB = RIVALS[0]


@dataclass(frozen=True)
class Verdict:
    """Whether a claim holds (None: undecided) on a topology of an experiment, with the figures. ``topology`` is "all"
    where the claim is about all of them. ``by_paper``: the paper makes this claim."""

    claim: str
    experiment: str
    topology: str
    holds: bool | None
    text: str
    by_paper: bool = True


@dataclass(frozen=True)
class Ordering:
    """The methods on a topology from the lowest to the highest value of a measure at the end, with these values; NaN,
    and last, if it diverged. Of the dual objective the values are relative to the optimum, and below 0 lower is not
    better."""

    experiment: str
    topology: str
    measure: str
    methods: tuple[str, ...]
    values: tuple[float, ...]


@dataclass(frozen=True)
class StepAnswer:
    """For which steps (multiples of reg/lambda_max) A2DWB ends lower than a rival; None where both diverged. ``best``:
    the same if each has its own best step, which for the dual objective is the one that ends nearest to the optimum."""

    claim: str
    topology: str
    steps: tuple[float, ...]
    holds: tuple[bool | None, ...]
    best: bool | None
    text: str


def verdicts(study: Study) -> list[Verdict]:
    """All claims, pair by pair: first the paper's, then what it could not see."""
    checks: tuple[Callable[[Experiment], Iterator[Verdict]], ...] = (_leads, _slowing, _truth, _infeasible, _ours)
    return [verdict for check in checks for experiment in study.experiments.values() for verdict in check(experiment)]


def ordering(study: Study) -> list[Ordering]:
    """Who ends where, for every topology of every experiment, by each of the four measures."""
    found = []
    for experiment in study.experiments.values():
        for topology in TOPOLOGIES:
            runs = _on(experiment, topology)
            for measure in MEASURES if runs else ():
                ends = sorted(((_end(run, measure), method) for method, run in runs.items()))
                values = tuple(end if np.isfinite(end) else float("nan") for end, _ in ends)
                methods = tuple(method for _, method in ends)
                found.append(Ordering(experiment.name, topology, measure, methods, values))
    return found


def step_answers(study: Study) -> list[StepAnswer]:
    """How the claims depend on the step, by the values at the end."""
    lines = {(sweep.topology, sweep.method): sweep for sweep in study.sweeps if sweep.parameter == "step"}
    return [
        _step_answer(measure, lines[topology, A2DWB], lines[topology, rival])
        for measure in (*PAPERS_MEASURES, "tv")
        for rival in RIVALS[1:]
        for topology in TOPOLOGIES
        if (topology, A2DWB) in lines and (topology, rival) in lines
    ]


# ---- who is ahead


def _leads(experiment: Experiment) -> Iterator[Verdict]:
    return (verdict for measure in PAPERS_MEASURES for verdict in _lead(experiment, measure, by_paper=True))


def _truth(experiment: Experiment) -> Iterator[Verdict]:
    return _lead(experiment, "tv", by_paper=False)


def _lead(experiment: Experiment, measure: str, by_paper: bool) -> Iterator[Verdict]:
    """A2DWB against each of the other two."""
    setting = experiment.setting
    times: Floats = setting.record_every * np.arange(1.0, round(setting.duration / setting.record_every) + 1)
    told = _relative if measure == "dual" else _number
    for rival in RIVALS[1:]:
        for topology in TOPOLOGIES:
            runs = _on(experiment, topology)
            if A2DWB not in runs or rival not in runs:
                continue
            values = {method: _values(runs[method], measure, times) for method in (A2DWB, rival)}
            lower = values[A2DWB] < values[rival]
            at_end, share = bool(lower[-1]), float(lower.mean())
            ends = ", ".join(f"{LABELS[method]} {told(float(v[-1]))}" for method, v in values.items())
            means = ", ".join(f"{LABELS[method]} {told(float(v.mean()))}" for method, v in values.items())
            text = (
                f"After {setting.duration:g} s: {ends}. On average over time: {means}. {LABELS[A2DWB]} is the lower at "
                f"{100 * share:.0f}% of the recorded times."
            )
            if measure == "dual":
                text += "".join(_meaning(experiment, method, v) for method, v in values.items())
            holds = at_end if at_end == (share > 0.5) else None
            yield Verdict(lead_claim(measure, rival), experiment.name, topology, holds, text, by_paper)


def lead_claim(measure: str, rival: str) -> str:
    """The words of the claim that A2DWB is ahead of a rival."""
    return f"{LABELS[A2DWB]} is ahead of {LABELS[rival]} on the {MEASURES[measure][1]}"


def _meaning(experiment: Experiment, method: str, gaps: Floats) -> str:
    """What a low dual objective is worth: ``gaps`` are its values over time, relative to the optimum."""
    below = gaps < -experiment.gap
    if not below.any():
        return ""
    how = "ends" if below[-1] else "was for a while"
    return (
        f" {LABELS[method]} {how} below the certified optimum, where no feasible duals are: lower is not better there."
    )


# ---- slower where poorly connected


def _slowing(experiment: Experiment) -> Iterator[Verdict]:
    for method in _methods(experiment):
        runs = {t: experiment.runs[t, method] for t in TOPOLOGIES if (t, method) in experiment.runs}
        poor = [topology for topology in ("cycle", "star") if topology in runs]
        if "complete" not in runs or not poor:
            continue
        answers, texts = [], []
        for measure in PAPERS_MEASURES:
            slowness = {topology: _slowness(run, measure) for topology, run in runs.items()}
            answers.append(all(slowness["complete"] < slowness[topology] for topology in poor))
            order = sorted(slowness, key=lambda topology: slowness[topology])
            told = ", ".join(f"{LABELS[topology]} {_slowness_text(slowness[topology])}" for topology in order)
            texts.append(f"{MEASURES[measure][1].capitalize()}: {told}.")
        holds = answers[0] if len(set(answers)) == 1 else None
        text = f"The time until {LEVEL:.0%} of the first value is left, from fast to slow. {' '.join(texts)}"
        yield Verdict(slowing_claim(method), experiment.name, EVERYWHERE, holds, text, method in RIVALS)


def slowing_claim(method: str) -> str:
    """The words of the claim that a method is slower on poorly connected networks."""
    return f"{LABELS[method]} slows from the complete network to the cycle and the star"


def _slowness(run: Run, measure: str) -> tuple[float, float]:
    """The time until ``LEVEL`` (infinite if never), then the share of the first value that is left at the end."""
    values = run.history[MEASURES[measure][0]]
    shares = values / values[0]
    there = np.flatnonzero(shares <= LEVEL)
    if there.size:
        return float(run.history["time"][there[0]]), 0.0
    return float("inf"), float("inf") if run.status == "diverged" else float(shares[-1])


def _slowness_text(slowness: tuple[float, float]) -> str:
    seconds, share = slowness
    if np.isfinite(seconds):
        return f"{seconds:g} s"
    return f"never ({share:.0%} left)" if np.isfinite(share) else "never (diverged)"


# ---- what the paper could not see


def _infeasible(experiment: Experiment) -> Iterator[Verdict]:
    """Where the dual objective of the two that do not keep their duals feasible ends below the optimum."""
    for method in RIVALS[:2]:
        claim = f"The dual objective of {LABELS[method]} ends below the certified optimum"
        for topology in TOPOLOGIES:
            run = _on(experiment, topology).get(method)
            if run is None:
                continue
            gaps = run.history["gap"]
            below = np.flatnonzero(gaps < -experiment.gap)
            when = f"first below it at {run.history['time'][below[0]]:g} s" if below.size else "never below it"
            text = (
                f"It ends {_relative(_end(run, 'dual'))} (certified to within {experiment.gap:.1g}), {when}; "
                f"feasibility residual {_number(_end(run, 'feasibility'))}, total variation to the true barycenter "
                f"{_number(_end(run, 'tv'))}."
            )
            holds = bool(_end(run, "dual") < -experiment.gap)
            yield Verdict(claim, experiment.name, topology, holds, text, by_paper=False)


def _ours(experiment: Experiment) -> Iterator[Verdict]:
    for method in (name for name in _methods(experiment) if name.startswith(OURS)):
        for topology in TOPOLOGIES:
            run = _on(experiment, topology).get(method)
            if run is None:
                continue
            left, tv = abs(_end(run, "dual") / run.history["gap"][0]), _end(run, "tv")
            ending = {
                "converged": "All nodes had stopped by themselves at", "diverged": "It diverged after",
            }.get(run.status, "It ran to")  # fmt: skip
            text = (
                f"{ending} {run.history['time'][-1]:g} s. The dual objective ends {_relative(_end(run, 'dual'))} "
                f"({_number(left)} of the first gap is left), total variation {_number(tv)}, feasibility residual "
                f"{_number(_end(run, 'feasibility'))}. At the optimum means: share left and total variation at most "
                f"{AT_OPTIMUM:g}."
            )
            holds = bool(left <= AT_OPTIMUM and tv <= AT_OPTIMUM)
            claim = f"{LABELS[method]} ends at the optimum"
            yield Verdict(claim, experiment.name, topology, holds, text, by_paper=False)


# ---- steps


def _step_answer(measure: str, line: Sweep, other: Sweep) -> StepAnswer:
    ends = [getattr(sweep, measure) for sweep in (line, other)]
    holds = tuple(_lower(*pair) for pair in zip(*(values.tolist() for values in ends), strict=True))
    best = _lower(*(float(np.nanmin(np.abs(v))) if np.isfinite(v).any() else float("nan") for v in ends))
    where = [f"{step:g}" for step, answer in zip(line.values, holds, strict=True) if answer]
    text = f"At {len(where)} of {len(holds)} steps" + (f" ({', '.join(where)} times reg/lambda_max)." if where else ".")
    if best is not None:
        text += f" Each with its own best step: {'yes' if best else 'no'}."
    return StepAnswer(lead_claim(measure, other.method), line.topology, tuple(line.values.tolist()), holds, best, text)


def _lower(value: float, other: float) -> bool | None:
    """Whether the value is lower than the other, where NaN is higher than everything."""
    if np.isnan(value) and np.isnan(other):
        return None
    return bool(np.isnan(other) or value < other)


# ---- runs and numbers


def _on(experiment: Experiment, topology: str) -> dict[str, Run]:
    return {method: run for (place, method), run in experiment.runs.items() if place == topology}


def _methods(experiment: Experiment) -> list[str]:
    return list(dict.fromkeys(method for _, method in experiment.runs))


def _values(run: Run, measure: str, times: Floats) -> Floats:
    """The measure at these times: the last one recorded by then, infinite once it has diverged."""
    recorded = run.history["time"]
    values = run.history[MEASURES[measure][0]][np.searchsorted(recorded, times, side="right") - 1]
    return np.where(times > recorded[-1], np.inf, values) if run.status == "diverged" else values


def _end(run: Run, measure: str) -> float:
    return float("inf") if run.status == "diverged" else float(run.history[MEASURES[measure][0]][-1])


def _number(value: float) -> str:
    return f"{value:.4g}" if np.isfinite(value) else "diverged"


def _relative(gap: float) -> str:
    """Where a dual objective is, seen from the optimum."""
    if not np.isfinite(gap):
        return "diverged"
    return f"{abs(gap):.4g} {'below' if gap < 0 else 'above'} the optimum"
