"""The paper's claims checked on a study, and what its metrics cannot show.

**Ahead** means lower, at the end of the run and at more than half of the recorded times after 0. A claim holds if both
are true, fails if neither is, and is undecided (None) otherwise. A run that diverged is infinitely high from there on;
one that converged keeps its last values. That is the paper's criterion. For the dual objective it is a poor one: A2DWB
does not keep its duals feasible, so its dual objective can fall below the optimum, and lower is then not better. Where
that happens, the text says so; the total variation to the true barycenter, which the paper does not measure, shows
which method is closer.

The dual objective is the mean over the nodes, where the paper shows the sum; all values are relative to the certified
optimum.

**Slower** means that a metric takes longer to fall to ``LEVEL`` times its value at time 0; between two runs that never
get there, that it ends at a larger share. The claim holds for a method if it is slower on the cycle and on the star
than on the complete network by both metrics of the paper, fails if by neither, and is undecided otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from barymesh.viz.theme import shown_number
from barymesh_a2dwb.study import (
    LABELS,
    MEASURES,
    OURS,
    RIVALS,
    TOPOLOGIES,
    Experiment,
    Floats,
    Run,
    Study,
    at_best_steps,
    last_of,
    methods_of,
)

PAPERS_MEASURES = ("dual", "consensus")
# speed is the time until a metric is down to this share of its first value
LEVEL = 0.1
# a run is at the optimum when its total variation, and the share of the dual gap that is left, are at most this
AT_OPTIMUM = 1e-3
# a total variation that counts as close to the true barycenter
CLOSE = 0.01
EVERYWHERE = "all"
A2DWB = RIVALS[0]


@dataclass(frozen=True)
class Verdict:
    """Whether a claim holds (None: undecided) on a topology of an experiment, with the numbers in words. ``topology``
    is "all" if the claim is about all of them. ``by_paper``: the paper makes this claim. ``method``: the method that
    the claim is about."""

    claim: str
    experiment: str
    topology: str
    holds: bool | None
    text: str
    by_paper: bool = True
    method: str = "a2dwb"


def verdicts(study: Study) -> list[Verdict]:
    """All claims on all pairs of experiment and topology: first the paper's, then the others."""
    checks: tuple[Callable[[Experiment], Iterator[Verdict]], ...] = (_leads, _slowing, _truth, _infeasible, _ours)
    return [verdict for check in checks for experiment in study.experiments.values() for verdict in check(experiment)]


# ---- summaries


@dataclass(frozen=True)
class Count:
    """How often a claim holds, is undecided, and fails."""

    claim: str
    by_paper: bool
    holds: int
    undecided: int
    fails: int


def counts(found: Sequence[Verdict]) -> list[Count]:
    """The verdicts counted by claim."""
    claims = dict.fromkeys((verdict.claim, verdict.by_paper) for verdict in found)
    answers = {claim: [verdict.holds for verdict in found if verdict.claim == claim] for claim, _ in claims}
    return [Count(c, by_paper, *(answers[c].count(kind) for kind in (True, None, False))) for c, by_paper in claims]


def time_until_close(run: Run) -> float:
    """The virtual seconds until the total variation is at most ``CLOSE`` and stays there; NaN if never."""
    tv = run.history["tv"]
    if run.status == "diverged" or not tv[-1] <= CLOSE:
        return float("nan")
    far = np.flatnonzero(~(tv <= CLOSE))
    return float(run.history["time"][far[-1] + 1 if far.size else 0])


def in_short(study: Study) -> list[str]:
    """The outcome in three sentences, each method with its best step; fewer where runs are missing."""
    best = at_best_steps(study)
    ends = {method: _last_tv(best, method) for method in (A2DWB, "dcwb", OURS)}
    said = []
    if all(ends.values()):
        spans = [f"{LABELS[m].removesuffix(' (barymesh)')} at {_span(values)}" for m, values in ends.items()]
        said.append(
            f"On {len(ends[A2DWB])} pairs of data and network, each method with its best step, the distance to the "
            f"true barycenter (total variation, from 0 to 1) ends for {spans[0]}, {spans[1]}, and {spans[2]}."
        )
    ahead = {
        measure: [v.holds for v in verdicts(best) if v.claim == lead_claim(measure, "dcwb")]
        for measure in (*PAPERS_MEASURES, "tv")
    }
    if all(ahead.values()):
        dual, consensus, truth = (f"{answers.count(True)} of {len(answers)}" for answers in ahead.values())
        said.append(
            f"A2DWB is ahead of the synchronous DCWB on {dual} pairs by the paper's dual objective and on {consensus} "
            f"by its consensus distance, and on {truth} by the distance to the true barycenter, which the paper does "
            "not measure."
        )
    if study.bias:
        rests = [f"{last_of(run, 'tv'):.2f} with {run.step_factor:g}" for run in study.bias]
        said.append(
            "A smaller step brings A2DWB closer to the barycenter, and none that was tried brings it there: it ends "
            f"at a distance of {', '.join(rests)} times the step reg/λmax."
        )
    return said


def _last_tv(study: Study, method: str) -> list[float]:
    runs = [run for e in study.experiments.values() for (_, name), run in e.runs.items() if name == method]
    return [tv for run in runs if np.isfinite(tv := last_of(run, "tv"))]


def _span(values: Sequence[float]) -> str:
    low, high = (shown_number(end, 2) for end in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


# ---- who is ahead


def _leads(experiment: Experiment) -> Iterator[Verdict]:
    return (verdict for measure in PAPERS_MEASURES for verdict in _lead(experiment, measure, by_paper=True))


def _truth(experiment: Experiment) -> Iterator[Verdict]:
    return _lead(experiment, "tv", by_paper=False)


def _lead(experiment: Experiment, measure: str, by_paper: bool) -> Iterator[Verdict]:
    """A2DWB against each of the other two."""
    setting = experiment.setting
    times: Floats = setting.record_every * np.arange(1.0, round(setting.duration / setting.record_every) + 1)
    written = _relative if measure == "dual" else _number
    for rival in RIVALS[1:]:
        for topology in TOPOLOGIES:
            runs = _on(experiment, topology)
            if A2DWB not in runs or rival not in runs:
                continue
            values = {method: _values(runs[method], measure, times) for method in (A2DWB, rival)}
            lower = values[A2DWB] < values[rival]
            at_end, share = bool(lower[-1]), float(lower.mean())
            ends = ", ".join(f"{LABELS[method]} {written(float(v[-1]))}" for method, v in values.items())
            means = ", ".join(f"{LABELS[method]} {written(float(v.mean()))}" for method, v in values.items())
            text = (
                f"After {setting.duration:g} s: {ends}. On average over time: {means}. {LABELS[A2DWB]} is the lower at "
                f"{100 * share:.0f}% of the recorded times."
            )
            steps = [f"{LABELS[m]} {runs[m].step_factor:g}" for m in values if runs[m].step_factor is not None]
            text += f" Steps, as multiples of reg/lambda_max: {', '.join(steps)}." if steps else ""
            if measure == "dual":
                text += "".join(_meaning(experiment, method, v) for method, v in values.items())
            holds = at_end if at_end == (share > 0.5) else None
            yield Verdict(lead_claim(measure, rival), experiment.name, topology, holds, text, by_paper)


def lead_claim(measure: str, rival: str) -> str:
    """The words of the claim that A2DWB is ahead of a rival."""
    return f"{LABELS[A2DWB]} is ahead of {LABELS[rival]} on the {MEASURES[measure][1]}"


def _meaning(experiment: Experiment, method: str, gaps: Floats) -> str:
    """A note on a dual objective below the optimum; ``gaps`` are its values over time, relative to the optimum."""
    below = gaps < -experiment.gap
    if not below.any():
        return ""
    how = "ends" if below[-1] else "was for a while"
    return f" {LABELS[method]} {how} below the certified optimum, which feasible duals cannot be: lower is not better."


# ---- speed on poorly connected networks


def _slowing(experiment: Experiment) -> Iterator[Verdict]:
    for method in methods_of(experiment):
        runs = {t: experiment.runs[t, method] for t in TOPOLOGIES if (t, method) in experiment.runs}
        poor = [topology for topology in ("cycle", "star") if topology in runs]
        if "complete" not in runs or not poor:
            continue
        answers, texts = [], []
        for measure in PAPERS_MEASURES:
            slowness = {topology: _slowness(run, measure) for topology, run in runs.items()}
            answers.append(all(slowness["complete"] < slowness[topology] for topology in poor))
            order = sorted(slowness, key=lambda topology: slowness[topology])
            times = ", ".join(f"{LABELS[topology]} {_slowness_text(slowness[topology])}" for topology in order)
            texts.append(f"{MEASURES[measure][1].capitalize()}: {times}.")
        holds = answers[0] if len(set(answers)) == 1 else None
        text = f"Time until {LEVEL:.0%} of the first value is left, from fast to slow. {' '.join(texts)}"
        yield Verdict(slowing_claim(method), experiment.name, EVERYWHERE, holds, text, method in RIVALS, method)


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


# ---- what the paper does not measure


def _infeasible(experiment: Experiment) -> Iterator[Verdict]:
    """Whether the dual objective ends below the optimum, for the two methods that do not keep their duals feasible."""
    for method in RIVALS[:2]:
        claim = f"The dual objective of {LABELS[method]} ends below the certified optimum"
        for topology in TOPOLOGIES:
            run = _on(experiment, topology).get(method)
            if run is None:
                continue
            gaps = run.history["dual_error"]
            below = np.flatnonzero(gaps < -experiment.gap)
            when = f"first below it at {run.history['time'][below[0]]:g} s" if below.size else "never below it"
            text = (
                f"It ends {_relative(_end(run, 'dual'))} (certified to within {experiment.gap:.1g}), {when}; "
                f"feasibility residual {_number(_end(run, 'feasibility'))}, total variation to the true barycenter "
                f"{_number(_end(run, 'tv'))}."
            )
            holds = bool(_end(run, "dual") < -experiment.gap)
            yield Verdict(claim, experiment.name, topology, holds, text, False, method)


def _ours(experiment: Experiment) -> Iterator[Verdict]:
    for method in (name for name in methods_of(experiment) if name.startswith(OURS)):
        for topology in TOPOLOGIES:
            run = _on(experiment, topology).get(method)
            if run is None:
                continue
            left, tv = abs(_end(run, "dual") / run.history["dual_error"][0]), _end(run, "tv")
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
            yield Verdict(claim, experiment.name, topology, holds, text, False, method)


# ---- runs and numbers


def _on(experiment: Experiment, topology: str) -> dict[str, Run]:
    return {method: run for (place, method), run in experiment.runs.items() if place == topology}


def _values(run: Run, measure: str, times: Floats) -> Floats:
    """The measure at these times: the last value recorded by then, infinite after a divergence."""
    recorded = run.history["time"]
    values = run.history[MEASURES[measure][0]][np.searchsorted(recorded, times, side="right") - 1]
    return np.where(times > recorded[-1], np.inf, values) if run.status == "diverged" else values


def _end(run: Run, measure: str) -> float:
    return float("inf") if run.status == "diverged" else float(run.history[MEASURES[measure][0]][-1])


def _number(value: float) -> str:
    return f"{value:.4g}" if np.isfinite(value) else "diverged"


def _relative(gap: float) -> str:
    """A dual objective relative to the optimum, in words."""
    if not np.isfinite(gap):
        return "diverged"
    return f"{abs(gap):.4g} {'below' if gap < 0 else 'above'} the optimum"
