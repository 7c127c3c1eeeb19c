"""The words of the report. Every number in them, and every "all", "none" or "some", comes from the study at hand."""

# ruff: noqa: RUF001 (minus, times and dashes are meant)
from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from barymesh.viz.theme import at_time, in_order, is_images, label_of, last_of, shown_number, topologies_of, values_of
from barymesh_a2dwb.study import OURS, RIVALS, Experiment, Run, Study, Sweep

if TYPE_CHECKING:
    from barymesh_a2dwb.claims import Verdict

PAPER = "Zhang, Qian and Xie, <cite>An Asynchronous Decentralized Algorithm for Wasserstein Barycenter Problem</cite>"
PAPER_NODES, PAPER_SECONDS = 500, 200.0
A2DWB, NAIVE, DCWB = RIVALS
SAMPLED = "sinkhorn_sampled"
# close to the true barycenter, as a total variation
CLOSE = 0.01
# a total variation that is not down to this share of what it was at half time has come to rest
RESTING = 0.98
# and one that is not down to this share of what it was at first has hardly begun to move
MOVED = 0.8
# more places than these are counted, not named
MOST_NAMED = 4
NOT_KNOWN = "not known, because every run diverged"


# ---- what the runs end with


@dataclass(frozen=True)
class Ending:
    """What a run ends with; ``dual`` is relative to the optimum."""

    experiment: Experiment
    run: Run

    @property
    def where(self) -> str:
        return f"{self.experiment.title}, {label_of(self.run.topology)}"

    @property
    def dual(self) -> float:
        return last_of(self.run, "dual_objective") - self.experiment.optimum

    @property
    def feasibility(self) -> float:
        return last_of(self.run, "feasibility")

    @property
    def tv(self) -> float:
        return last_of(self.run, "tv")

    @property
    def below(self) -> bool:
        """Whether the dual objective ends below the certified optimum."""
        return self.dual < -self.experiment.gap

    @property
    def share_below(self) -> float:
        """How far below, as a share of the way from the start to the optimum."""
        way = float(values_of(self.run.history, "dual_objective")[0]) - self.experiment.optimum
        return -self.dual / way if way > 0 else float("nan")

    @property
    def drifting(self) -> bool:
        """Whether the duals are farther from feasible at the end than at a quarter of the time."""
        return self.feasibility > at_time(self.run, "feasibility", self.experiment.setting.duration / 4)

    @property
    def resting(self) -> bool:
        """Whether the total variation has come down, and no longer falls."""
        first, half = (at_time(self.run, "tv", share * self.experiment.setting.duration) for share in (0.0, 0.5))
        return self.tv > RESTING * half and self.tv < MOVED * first


def endings(study: Study, method: str) -> list[Ending]:
    """All runs of a method."""
    return [
        Ending(experiment, experiment.runs[topology, method])
        for experiment in study.experiments.values()
        for topology in topologies_of(experiment)
        if (topology, method) in experiment.runs
    ]


def time_until_close(run: Run) -> float:
    """The virtual seconds until the total variation is down to ``CLOSE`` for good; NaN if never."""
    tv = values_of(run.history, "tv")
    if run.status == "diverged" or not tv.size or not tv[-1] <= CLOSE:
        return float("nan")
    far = np.flatnonzero(~(tv <= CLOSE))
    return float(run.history["time"][far[-1] + 1 if far.size else 0])


# ---- small words


def of(count: int, total: int) -> str:
    """3 of 8, all 8, none of the 8."""
    if total == 1:
        return "the one" if count else "not the one"
    return f"all {total}" if count == total else f"none of the {total}" if count == 0 else f"{count} of the {total}"


def span(values: Iterable[float], digits: int = 2) -> str:
    """From the least to the largest."""
    known = sorted(value for value in values if np.isfinite(value))
    if not known:
        return NOT_KNOWN
    low, high = (shown_number(value, digits) for value in (known[0], known[-1]))
    return low if low == high else f"between {low} and {high}"


def listed(words: Sequence[str]) -> str:
    """a, b and c."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def paragraphs(*texts: str) -> str:
    return "".join(f"<p>{text}</p>\n" for text in texts if text)


def bullets(texts: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{text}</li>\n" for text in texts if text) + "</ul>"


# ---- in short


def notice(study: Study) -> str:
    """That a quick study is one; and what else is not as in the paper."""
    settings = [experiment.setting for experiment in study.experiments.values()]
    nodes, seconds = {setting.nodes for setting in settings}, {setting.duration for setting in settings}
    size = f"{listed([f'{n}' for n in sorted(nodes)])} nodes and {listed([f'{t:g}' for t in sorted(seconds)])} s"
    if study.quick:
        return (
            f"<strong>This is a quick study, not the paper's size:</strong> {size}, where the paper has {PAPER_NODES} "
            f"nodes and {PAPER_SECONDS:g} s. It shows how things work. What the methods do in longer runs on larger "
            "networks it cannot say; <code>barymesh paper all</code> runs the paper's size."
        )
    if nodes != {PAPER_NODES} or seconds != {PAPER_SECONDS}:
        return (
            f"<strong>Not the paper's size:</strong> {size}, where the paper has {PAPER_NODES} nodes and "
            f"{PAPER_SECONDS:g} s."
        )
    return ""


def in_short(study: Study, verdicts: Sequence[Verdict]) -> str:
    """What came out."""
    return bullets([_claims_in_short(verdicts), _drift_in_short(study), _ours_in_short(study)])


def _claims_in_short(verdicts: Sequence[Verdict]) -> str:
    claims: dict[str, list[bool | None]] = {}
    for one in verdicts:
        if one.by_paper:
            claims.setdefault(one.claim, []).append(one.holds)
    if not claims:
        return ""
    answers = [answer for some in claims.values() for answer in some]
    if answers.count(True) == len(answers):
        verdict = "<strong>The paper's claims reproduce</strong> by its own two metrics"
    elif answers.count(False) == len(answers):
        verdict = "<strong>None of the paper's claims reproduces</strong>"
    else:
        verdict = "<strong>The paper's claims reproduce in part</strong>"
    claimed = bullets(f"{escape(claim)}: {_counted(some)}." for claim, some in claims.items())
    return f"{verdict}. In {len(answers)} comparisons:{claimed}"


def _counted(answers: Sequence[bool | None]) -> str:
    text = f"holds in {answers.count(True)} of {len(answers)}"
    others = ((answers.count(False), "fails in"), (answers.count(None), "undecided in"))
    return text + "".join(f", {word} {count}" for count, word in others if count)


def _drift_in_short(study: Study) -> str:
    ends = [end for end in endings(study, A2DWB) if np.isfinite(end.tv)]
    if not ends:
        return ""
    below, close = [end for end in ends if end.below], [end for end in ends if end.tv <= CLOSE]
    if below:
        lowest = max(below, key=lambda end: end.share_below)
        what = (
            f"<strong>A2DWB's dual objective ends below the certified optimum</strong> on {of(len(below), len(ends))} "
            f"pairs of experiment and network, farthest by {shown_number(-lowest.dual)} ({escape(lowest.where)}). "
            "Feasible duals cannot do that, so being lower is no longer being better."
        )
    else:
        what = (
            f"A2DWB's dual objective ends above the certified optimum on {of(len(ends), len(ends))} pairs of "
            "experiment and network of this study."
        )
    return (
        f"{what} Its total variation to the true barycenter ends {span(end.tv for end in ends)}; it comes within "
        f"{CLOSE} on {of(len(close), len(ends))}."
    )


def _ours_in_short(study: Study) -> str:
    texts = []
    for method in (OURS, SAMPLED):
        ends = [end for end in endings(study, method) if np.isfinite(end.tv)]
        if ends:
            close = [end for end in ends if end.tv <= CLOSE]
            texts.append(
                f"<strong>{label_of(method)}</strong> comes within {CLOSE} of the true barycenter on "
                f"{of(len(close), len(ends))} pairs; its total variation ends {span(end.tv for end in ends)}."
            )
    return " ".join(texts)


def falls_below(study: Study) -> bool:
    """Whether A2DWB ends below the optimum anywhere."""
    return any(end.below for end in endings(study, A2DWB))


def telling_pair(study: Study) -> Ending | None:
    """The run of A2DWB that tells most: the one that ends lowest, for the way that it had to go."""
    ends = [end for end in endings(study, A2DWB) if np.isfinite(end.share_below)]
    return max(ends, key=lambda end: end.share_below, default=None)


def telling_text(end: Ending) -> str:
    """What to see in the figure of that run."""
    if end.below:
        return (
            f"{escape(end.where)}. By the paper's metric, above, A2DWB does well: its dual objective goes down and "
            "down, past the optimum, which feasible duals cannot do. Below, how far the nodes are from the true "
            f"barycenter: A2DWB ends at {shown_number(end.tv, 2)}."
        )
    return (
        f"{escape(end.where)}. Above, the paper's metric; below, how far the nodes are from the true barycenter. A2DWB "
        f"ends at {shown_number(end.tv, 2)}."
    )


# ---- what was run


def network_text(study: Study) -> str:
    """What all experiments share, and is the paper's."""
    return paragraphs(
        "Every node holds a measure of its own. Nodes send messages to their neighbours, on four networks: complete, "
        "Erdős–Rényi (with edge probability 2 log(m)/m, since the paper gives none), cycle and star. A message takes "
        "0.2, 0.4, 0.6, 0.8 or 1 s, each as often. All nodes act once every 0.2 s, one after another, in an order "
        "drawn anew each time; DCWB, the synchronous one, waits in every round for the slowest message. All of this is "
        "the paper's, in virtual time, and the same for every method.",
        "Four things are measured, always from outside, with exact integrals. <strong>Dual objective</strong> and "
        "<strong>consensus distance</strong> (squared differences of estimates, summed over the edges) are the "
        "paper's; the dual objective is the mean over the nodes, of which the paper shows the sum. The paper lacks "
        "two: the <strong>feasibility residual</strong>, the largest entry of the average dual, which must be 0; and "
        "the <strong>total variation</strong> (TV) between the nodes' estimates and the true barycenter, which a "
        "solver with all data in one place finds with a certificate.",
    )


def methods_text(study: Study) -> str:
    """What the methods are."""
    known = {
        A2DWB: "the paper's algorithm 3, with two misprints mended without which it cannot work: θ starts at 1/m, and "
        "a node's own gradient counts deg(i) times",
        NAIVE: "the paper's naive variant, without the compensation of old information",
        DCWB: "the synchronous algorithm of Dvurechenskii and others, which the paper compares with",
        OURS: "the asynchronous, decentralised Sinkhorn iteration of barymesh. It has no step, and uses all that a "
        "node knows of its own measure",
        SAMPLED: "the same from M samples an activation, as many as the paper's methods draw; a node keeps what it has "
        "drawn",
    }
    there = {method for experiment in study.experiments.values() for _, method in experiment.runs}
    rows = "".join(f"<dt>{label_of(name)}</dt><dd>{text}.</dd>\n" for name, text in known.items() if name in there)
    return f"<dl>{rows}</dl>"


def choices_text(study: Study) -> str:
    """How reg, step and M were chosen."""
    experiments = list(study.experiments.values())
    regs = listed(
        [
            f"{e.setting.reg:g} ({escape(e.title)}: {shown_number(e.setting.reg / e.support.spacing**2, 2)} times the "
            "squared distance of neighbouring support points)"
            for e in _one_of_each_kind(experiments)
        ]
    )
    factors = listed(sorted({f"{e.setting.step_factor:g}" for e in experiments}))
    samples = listed(sorted({f"{e.setting.samples}" for e in experiments}))
    return paragraphs(
        "The paper states neither the regularisation nor the step nor the number of samples. They are chosen once, by "
        "rule, for all methods alike, and nothing is tuned to anybody's advantage:"
    ) + bullets(
        [
            f"<strong>reg</strong> is {regs}: wide enough to be smooth on the grid, and no wider.",
            f"<strong>step</strong> is {factors} × reg/λ<sub>max</sub>(W), for every method that has one: 1/L with the "
            "smoothness L of the dual, what gradient methods take by default. No theorem covers it with messages this "
            "late.",
            f"<strong>M</strong> is {samples} samples of its own measure for each gradient of a node: few enough to be "
            "cheap.",
        ]
    )


def _one_of_each_kind(experiments: Sequence[Experiment]) -> list[Experiment]:
    kinds: dict[tuple[float, bool], Experiment] = {}
    for experiment in experiments:
        kinds.setdefault((experiment.setting.reg, is_images(experiment)), experiment)
    return list(kinds.values())


# ---- where the paper's conclusion fails


def reading_text(verdicts: Sequence[Verdict]) -> str:
    """How to read the table of verdicts."""
    return paragraphs(
        "Each of the paper's claims, on each pair of experiment and network. <em>Ahead</em> means lower, at the end "
        "and at more than half of the recorded times; where only one of the two is so, the claim is undecided. The "
        "figures are behind each answer."
    )


def fails_text(study: Study) -> str:
    """Why a low dual objective is not enough, and what the data say."""
    return paragraphs(
        "The paper judges by the dual objective: the lower, the better. That is right as long as the duals are "
        "<em>feasible</em>, that is, sum to zero over the nodes. A2DWB does not keep them so. A node that acts "
        "changes its own dual alone, along <code>deg(i) g<sub>i</sub> − Σ<sub>j</sub> g<sub>j</sub></code>, with the "
        "neighbours' gradients g<sub>j</sub> as old as their last message. Over all nodes these steps would cancel "
        "if all were taken at the same moment, with gradients of that moment; they never are, and the step grows from "
        "activation to activation. So the sum of the duals wanders off. (The paper derives A2DWB from a method that "
        "does keep the sum, by a change of variables that does not carry over to single nodes.)",
        "For infeasible duals the dual objective means nothing: it can fall below its own minimum. And the nodes can "
        "agree perfectly, consensus distance 0, on a measure that is not the barycenter. The paper's two metrics "
        "cannot show either. The other two can:",
    ) + bullets([_below_text(study), _residual_text(study), _tv_text(study)])


def _below_text(study: Study) -> str:
    texts = []
    for method in (A2DWB, NAIVE):
        ends = [end for end in endings(study, method) if np.isfinite(end.dual)]
        below = [end for end in ends if end.below]
        if below:
            lowest = max(below, key=lambda end: end.share_below)
            texts.append(
                f"The dual objective of {label_of(method)} ends <strong>below the certified optimum</strong> on "
                f"{of(len(below), len(ends))} pairs, farthest on {escape(lowest.where)}: by "
                f"{shown_number(-lowest.dual)}, {lowest.share_below:.0%} of the way from the start to the optimum."
            )
        elif ends:
            texts.append(
                f"The dual objective of {label_of(method)} ends below the certified optimum on none of the {len(ends)} "
                "pairs. Whether it would in longer runs, these data cannot say."
            )
    return " ".join(texts)


def _residual_text(study: Study) -> str:
    ends = [end for end in endings(study, A2DWB) if np.isfinite(end.feasibility)]
    if not ends:
        return ""
    growing = sum(end.drifting for end in ends)
    text = (
        f"The feasibility residual of A2DWB ends {span(end.feasibility for end in ends)}, and is larger at the end "
        f"than at a quarter of the time on {of(growing, len(ends))} pairs."
    )
    kept = [end.feasibility for end in endings(study, DCWB) if np.isfinite(end.feasibility)]
    if kept:
        text += f" That of DCWB, which does keep the sum, ends at {shown_number(max(kept), 2)} at most."
    return text


def _tv_text(study: Study) -> str:
    ends = [end for end in endings(study, A2DWB) if np.isfinite(end.tv)]
    if not ends:
        return ""
    close = sum(end.tv <= CLOSE for end in ends)
    resting = [end for end in ends if end.resting and end.tv > CLOSE]
    text = (
        f"The total variation of A2DWB to the true barycenter ends {span(end.tv for end in ends)}; it comes within "
        f"{CLOSE} on {of(close, len(ends))} pairs."
    )
    if resting:
        text += (
            f" On {of(len(resting), len(ends))} it no longer falls in the second half of the time: A2DWB has come to "
            f"rest beside the barycenter ({_places(resting)})."
        )
    if len(resting) + close < len(ends):
        rest = "the others" if resting or close else "all of them"
        text += (
            f" On {rest} it still changes when the time is up, or has hardly come down: drift and slowness cannot be "
            "told apart there."
        )
    return text


# ---- ours


def ours_text(study: Study) -> str:
    """What the project's own method does."""
    texts = [
        "The Sinkhorn iteration of barymesh works with logarithms of the estimates, for which no step has to be "
        "chosen. The nodes find a spanning tree by themselves and add up along it; the root sees the sum of all duals "
        "and drives it to zero. Nothing depends on old messages cancelling: a wrong number is forgotten as soon as a "
        "newer one arrives. On the way its duals are infeasible too; at rest they are not."
    ]
    for method in (OURS, SAMPLED):
        ends = endings(study, method)
        if not ends:
            continue
        times = [time_until_close(end.run) for end in ends]
        close = [time for time in times if np.isfinite(time)]
        stopped = sum(end.run.status == "converged" for end in ends)
        diverged = sum(end.run.status == "diverged" for end in ends)
        text = f"{label_of(method)} comes within TV {CLOSE} of the true barycenter on {of(len(close), len(ends))} pairs"
        text += f", {_after(close)}." if close else "."
        text += f" Its total variation ends {span(end.tv for end in ends)}, its feasibility residual "
        text += f"{span(end.feasibility for end in ends)}."
        if stopped:
            text += f" On {of(stopped, len(ends))} all nodes noticed that they were done, and stopped by themselves."
        if diverged:
            text += f" It diverged on {of(diverged, len(ends))}."
        late = [end for end, time in zip(ends, times, strict=True) if not np.isfinite(time)]
        if late:
            text += f" Not there when the time was up: {_places(late)}."
        texts.append(text)
    return paragraphs(*texts)


def _after(times: Sequence[float]) -> str:
    low, high = f"{min(times):g}", f"{max(times):g}"
    return f"after {low} s" if low == high else f"after {low} to {high} s"


def _places(ends: Sequence[Ending]) -> str:
    if len(ends) > MOST_NAMED:
        return f"{len(ends)} pairs, with TV {span(end.tv for end in ends)}"
    return "; ".join(f"{escape(end.where)}: TV {shown_number(end.tv, 2)}" for end in ends)


# ---- sensitivity


def sweep_text(study: Study, sweeps: Sequence[Sweep]) -> str:
    """What a sweep says: how close each method comes at best, and where A2DWB ends below the optimum."""
    methods = in_order({sweep.method for sweep in sweeps})
    best = [_best(method, [sweep for sweep in sweeps if sweep.method == method]) for method in methods]
    texts = [f"The lowest total variation each method ends with, over all values tried: {'; '.join(best)}."]
    mine = [sweep for sweep in sweeps if sweep.method == A2DWB]
    if mine:
        # NaN is not below anything
        below = {sweep.topology: sweep.values[sweep.dual < -_gap(study)].tolist() for sweep in mine}
        where = "; ".join(
            f"{label_of(topology)}: {listed([f'{value:g}' for value in values])}"
            for topology, values in below.items()
            if values
        )
        texts.append(
            f"A2DWB's dual objective ends below the optimum at these values: {where}."
            if where
            else "A2DWB's dual objective ends below the optimum at none of the values."
        )
    lost = sum(int(np.isnan(sweep.dual).sum()) for sweep in sweeps)
    return paragraphs(" ".join(texts) + (f" Runs that diverged: {lost}." if lost else ""))


def _best(method: str, sweeps: Sequence[Sweep]) -> str:
    known = [
        (tv, value, sweep.topology)
        for sweep in sweeps
        for tv, value in zip(sweep.tv.tolist(), sweep.values.tolist(), strict=True)
        if np.isfinite(tv)
    ]
    if not known:
        return f"{label_of(method)} {NOT_KNOWN}"
    tv, value, topology = min(known)
    return f"{label_of(method)} {shown_number(tv, 2)} (at {value:g}, {label_of(topology)})"


def _gap(study: Study) -> float:
    """How exactly the optimum of the experiment of the sweeps is known, as far as it is."""
    return max([experiment.gap for experiment in study.experiments.values()], default=0.0)
