"""The verdicts on studies made up so that the answers are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from barymesh.history import History
from barymesh.support.points import Support
from barymesh_a2dwb.claims import EVERYWHERE, in_short, lead_claim, slowing_claim, verdicts
from barymesh_a2dwb.study import LABELS, TOPOLOGIES, Experiment, Run, Setting, Study, at_best_steps, best_of

from .synthetic import make_study

TIMES = np.arange(0, 11.0)
SETTING = Setting(
    nodes=5, duration=10.0, record_every=1.0, reg=0.1, samples=10, step_factor=1.0, seed=0, data="made up"
)


def falling(rate, start=1.0, floor=0.0):
    return floor + (start - floor) * np.exp(-rate * TIMES)


def run(topology, method, *, gap, consensus=None, tv=None, feasibility=None, status="finished"):
    columns = {
        "time": TIMES, "dual_error": gap, "consensus_distance": gap if consensus is None else consensus,
        "feasibility": 0 * TIMES if feasibility is None else feasibility, "tv": gap if tv is None else tv,
    }  # fmt: skip
    rows = min(column.size for column in columns.values())
    history = History({name: np.asarray(column)[:rows] for name, column in columns.items()})
    return Run("made-up", topology, method, 0.1, history, {}, 1.0, status)


def study(*runs, sweeps=()):
    experiment = Experiment(
        "made-up", "Made up", SETTING, Support(np.arange(3.0)), -4.0, 1e-6, np.full(3, 1 / 3),
        {(one.topology, one.method): one for one in runs},
    )  # fmt: skip
    return Study({"made-up": experiment}, list(sweeps), quick=True)


def holds(found, claim, topology=EVERYWHERE):
    (verdict,) = (v for v in found if v.claim == claim and v.topology == topology)
    assert verdict.experiment == "made-up"
    return verdict.holds


def text(found, claim, topology=EVERYWHERE):
    return next(v.text for v in found if v.claim == claim and v.topology == topology)


# who is ahead


def test_a_lead_needs_the_end_and_most_of_the_times():
    fast, slow = falling(0.5), falling(0.1)
    # behind until 8 of 10, then ahead; and the other way round
    late = np.where(TIMES >= 9, 0.0, 2.0)
    found = verdicts(
        study(
            run("complete", "a2dwb", gap=fast, consensus=slow, tv=late),
            run("complete", "dcwb", gap=slow, consensus=fast, tv=np.ones(11)),
            run("complete", "a2dwb_naive", gap=late, consensus=fast, tv=late),
        )
    )
    assert holds(found, lead_claim("dual", "dcwb"), "complete") is True
    assert holds(found, lead_claim("consensus", "dcwb"), "complete") is False
    assert holds(found, lead_claim("tv", "dcwb"), "complete") is None
    assert holds(found, lead_claim("dual", "a2dwb_naive"), "complete") is None
    # the same is not ahead
    assert holds(found, lead_claim("tv", "a2dwb_naive"), "complete") is False
    assert {v.topology for v in found} == {"complete"}
    said = text(found, lead_claim("dual", "dcwb"), "complete")
    assert f"A2DWB {fast[-1]:.4g} above the optimum, DCWB {slow[-1]:.4g} above" in said
    assert f"A2DWB {fast[1:].mean():.4g} above" in said
    assert "lower at 100%" in said
    assert "lower at 20%" in text(found, lead_claim("tv", "dcwb"), "complete")


def test_the_papers_own_claims_are_told_from_others():
    runs = [run("star", method, gap=falling(0.1)) for method in ("a2dwb", "a2dwb_naive", "dcwb", "sinkhorn")]
    by_paper = {v.claim: v.by_paper for v in verdicts(study(*runs))}
    assert by_paper[lead_claim("dual", "dcwb")]
    assert by_paper[lead_claim("consensus", "a2dwb_naive")]
    assert not by_paper[lead_claim("tv", "dcwb")]


def test_lower_than_the_optimum_is_said_not_to_be_better():
    below, dipping = falling(0.5, floor=-0.5), np.where(TIMES == 4, -1.0, 1.0)
    rounding = falling(9.0, floor=-5e-7)
    runs = [run("star", "a2dwb", gap=below), run("star", "dcwb", gap=falling(0.1))]
    runs += [run("cycle", "a2dwb", gap=dipping), run("cycle", "dcwb", gap=2 * np.ones(11))]
    runs += [run("complete", "a2dwb", gap=rounding), run("complete", "dcwb", gap=2 * np.ones(11))]
    found = verdicts(study(*runs))
    claim = lead_claim("dual", "dcwb")
    assert holds(found, claim, "star") is True
    assert "A2DWB ends below the certified optimum" in text(found, claim, "star")
    assert "A2DWB was for a while below the certified optimum" in text(found, claim, "cycle")
    # within the certified gap nothing can be said
    assert "certified" not in text(found, claim, "complete")
    ends = "The dual objective of A2DWB ends below the certified optimum"
    assert [holds(found, ends, topology) for topology in ("star", "cycle", "complete")] == [True, False, False]
    assert "first below it at 3 s" in text(found, ends, "star")
    assert f"{-below[-1]:.4g} below the optimum" in text(found, ends, "star")
    assert "never below it" in text(found, ends, "complete")


def test_a_run_that_diverged_is_behind_and_one_that_converged_stays():
    short = falling(0.5)[:4]
    found = verdicts(
        study(
            run("star", "a2dwb", gap=falling(0.1)),
            run("star", "dcwb", gap=short, status="diverged"),
            run("cycle", "a2dwb", gap=falling(0.1)),
            run("cycle", "dcwb", gap=short, status="converged"),
        )
    )
    claim = lead_claim("dual", "dcwb")
    # behind at 1, 2 and 3 s, ahead in the seven after
    assert holds(found, claim, "star") is True
    assert "lower at 70%" in text(found, claim, "star")
    assert "DCWB diverged" in text(found, claim, "star")
    assert holds(found, claim, "cycle") is False
    assert "lower at 0%" in text(found, claim, "cycle")


# slower


def test_slowing_is_judged_by_both_metrics():
    def four(method, rates, consensus):
        return [
            run(topology, method, gap=5 * falling(rate), consensus=100 * falling(other))
            for topology, rate, other in zip(TOPOLOGIES, rates, consensus, strict=True)
        ]

    found = verdicts(
        study(
            *four("a2dwb", (1.0, 0.7, 0.4, 0.3), (1.0, 0.9, 0.1, 0.2)),
            *four("a2dwb_naive", (1.0, 0.7, 0.4, 0.3), (0.1, 0.2, 0.05, 0.2)),
            *four("dcwb", (0.1, 0.1, 0.3, 0.05), (0.1, 0.2, 0.3, 0.4)),
        )
    )
    assert holds(found, slowing_claim("a2dwb")) is True
    assert holds(found, slowing_claim("a2dwb_naive")) is None
    assert holds(found, slowing_claim("dcwb")) is False
    # exp(-t) is down to a tenth after 2.3 s, which is seen at 3; exp(-0.1 t) ends at 0.37
    assert f"Dual objective: Complete 3 s, {LABELS['erdos_renyi']} 4 s, Cycle 6 s, Star 8 s." in text(
        found, slowing_claim("a2dwb")
    )
    assert "Star never (14% left), Cycle never (37% left)." in text(found, slowing_claim("a2dwb"))


def test_a_run_that_diverged_is_the_slowest():
    runs = [
        run("complete", "dcwb", gap=falling(0.01)[:3], status="diverged"), run("cycle", "dcwb", gap=falling(0.0)),
        run("star", "dcwb", gap=falling(0.1)),
    ]  # fmt: skip
    found = verdicts(study(*runs))
    assert holds(found, slowing_claim("dcwb")) is False
    assert "Complete never (diverged)" in text(found, slowing_claim("dcwb"))


# ours


@pytest.mark.parametrize(
    ("gap", "tv", "answer"), [(1e-4, 1e-4, True), (-1e-4, 1e-4, True), (-0.1, 1e-4, False), (1e-4, 0.01, False)]
)
def test_ours_must_end_at_the_optimum_by_value_and_by_measure(gap, tv, answer):
    found = verdicts(study(run("star", "sinkhorn", gap=falling(9.0, floor=gap), tv=falling(9.0, floor=tv))))
    claim = "Sinkhorn (barymesh) ends at the optimum"
    assert holds(found, claim, "star") is answer
    assert "It ran to 10 s" in text(found, claim, "star")


def test_ours_may_stop_by_itself():
    converged = run("star", "sinkhorn", gap=falling(9.0)[:6], status="converged")
    found = verdicts(study(converged, run("star", "sinkhorn_sampled", gap=falling(0.3))))
    assert "stopped by themselves at 5 s" in text(found, "Sinkhorn (barymesh) ends at the optimum", "star")
    sampled = "Sinkhorn, from the same samples (barymesh) ends at the optimum"
    assert holds(found, sampled, "star") is False


# best steps, and the outcome in short


def test_the_best_step_is_the_one_that_ends_closest_to_the_truth():
    steps = [run("star", "dcwb", gap=falling(1.0), tv=falling(rate)) for rate in (0.1, 0.3, 0.2)]
    assert best_of(steps) is steps[1]
    lost = run("star", "dcwb", gap=falling(1.0), tv=falling(9.0)[:3], status="diverged")
    assert best_of([lost, steps[0]]) is steps[0]


def test_claims_are_judged_again_with_the_best_steps():
    slow, fast = falling(0.1), falling(0.5)
    usual = study(run("star", "a2dwb", gap=fast), run("star", "dcwb", gap=slow), run("star", "sinkhorn", gap=fast))
    made = usual.experiments["made-up"]
    best = {("star", "dcwb"): replace(run("star", "dcwb", gap=falling(0.9)), step_factor=16.0)}
    tuned = replace(usual, experiments={"made-up": replace(made, best=best)})
    claim = lead_claim("dual", "dcwb")
    assert holds(verdicts(usual), claim, "star") is True
    assert holds(verdicts(tuned), claim, "star") is True
    assert holds(verdicts(at_best_steps(tuned)), claim, "star") is False
    assert "multiples of reg/lambda_max: DCWB 16" in text(verdicts(at_best_steps(tuned)), claim, "star")
    # where no step was varied there is none to be best
    assert verdicts(at_best_steps(usual)) == []


def test_three_sentences_say_how_it_ended():
    told = in_short(make_study())
    assert len(told) == 3
    assert "On 6 pairs of data and network" in told[0]
    assert f"{LABELS['a2dwb']} at 0.3, {LABELS['dcwb']} at 1 × 10⁻⁸" in told[0]  # noqa: RUF001
    assert "on 0 of 6 by the distance to the true barycenter" in told[1]
    assert "0.40 with 16, 0.20 with 4, 0.10 with 1, 0.05 with 0.25" in told[2]


def test_nothing_is_said_in_short_without_sweeps():
    assert in_short(make_study(sweeps=False)) == []


def test_an_empty_study_has_no_verdicts():
    assert verdicts(study()) == []
    assert in_short(study()) == []
