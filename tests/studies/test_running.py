"""Runs of a study: what they are, that nothing is lost or mixed up, and that they repeat to the last bit."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from barymesh.decentralized.build import choose_step
from barymesh.engines.recorder import Recorder
from barymesh.engines.simulate import simulate
from barymesh.errors import FileError, NumericalError
from barymesh.exact.reference import exact_reference
from barymesh.network import as_network
from barymesh.options import RunOptions
from barymesh_a2dwb import experiments, fingerprints, running, runs
from barymesh_a2dwb.experiments import StudySize, Variation, plan_study
from barymesh_a2dwb.running import Forecast, run_study
from barymesh_a2dwb.runs import find_reference, run_job
from barymesh_a2dwb.storage import load_study
from barymesh_a2dwb.study import RIVALS, TOPOLOGIES

pytestmark = pytest.mark.filterwarnings("ignore::barymesh.errors.DriftWarning")

HUGE = 1e200
TINY = StudySize(
    nodes=6, duration=2.0, times=(1.0, 2.0), digits=(3,), record_gaussians=0.5, record_images=1.0,
    variations=(
        Variation("step", (1.0, HUGE), ("star",), ("a2dwb", "a2dwb_naive")),
        Variation("reg", (0.1, 0.5), ("cycle",), ("sinkhorn",)),
        Variation("M", (1, 10), ("cycle",), ("sinkhorn_sampled",)),
    ),
    image_steps=(Variation("step", (1.0,), TOPOLOGIES, RIVALS),), bias_seconds=0.8,
)  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def _limited_numbers():
    """Arithmetic that ends earlier: gradients are bounded, so that duals beyond all floats are hard to come by."""

    class Limited(Recorder):
        def record(self, now, view, *others):
            if np.abs(view.duals).max() > HUGE / 1e50:
                raise NumericalError("The duals are no longer finite numbers.")
            return super().record(now, view, *others)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "Recorder", Limited)
        yield


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setattr(experiments, "QUICK", TINY)
    return lambda which="gaussian", **options: plan_study(which, quick=True, **options)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder with a study of the Gaussians, and the study."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiments, "QUICK", TINY)
        plan = plan_study("gaussian", quick=True)
    return folder, plan, run_study(plan, folder, workers=1)


def files(folder):
    data = folder / "data"
    return {str(path.relative_to(data)): path.read_bytes() for path in sorted(data.rglob("*")) if path.is_file()}


def counted(monkeypatch, name, stop_after=None):
    """Count the calls of a function of ``running``; the one after ``stop_after`` is where Ctrl-C is pressed."""
    calls, real = [], getattr(running, name)

    def counting(*arguments):
        if stop_after is not None and len(calls) == stop_after:
            raise KeyboardInterrupt
        calls.append(arguments)
        return real(*arguments)

    monkeypatch.setattr(running, name, counting)
    return calls


# what a run is


@pytest.mark.parametrize("method", ["a2dwb", "dcwb", "sinkhorn", "sinkhorn_sampled"])
def test_a_run_is_what_the_simulator_gives(whole, method):
    _, plan, study = whole
    case, experiment = plan.cases["gaussian"], study.experiments["gaussian"]
    run = experiment.runs["cycle", method]
    network = as_network("cycle", 6, 0)
    sampled = {"batch": 10} if method != "sinkhorn" else {}
    name = "sinkhorn" if method == "sinkhorn_sampled" else method
    expected = simulate(
        case.problem, network, RunOptions(method=name, duration=2, record_every=0.5, reference=True, **sampled)
    )
    for column, values in expected.history.columns.items():
        np.testing.assert_allclose(run.history[column], values, rtol=1e-9, atol=1e-9, err_msg=column)
    np.testing.assert_array_equal(run.history["consensus_distance"], expected.history["consensus_distance"])
    np.testing.assert_array_equal(run.means[2.0], case.problem.weights @ expected.node_weights)
    assert set(run.means) == {1.0, 2.0}
    assert (run.means[1.0] != run.means[2.0]).any()
    # the rule is the documented default of the methods that have a step
    default = choose_step(None, case.problem, network, 0)
    assert run.step == (None if name == "sinkhorn" else pytest.approx(default, rel=1e-13))


def test_the_optimum_is_certified_and_the_gap_of_a_history_is_relative_to_it(whole):
    _, plan, study = whole
    experiment = study.experiments["gaussian"]
    reference = exact_reference(plan.cases["gaussian"].problem)
    assert experiment.optimum == pytest.approx(reference.optimum, abs=1e-10)
    np.testing.assert_array_equal(experiment.reference, reference.weights)
    assert 0 < experiment.gap < 1e-6
    for (_, method), run in experiment.runs.items():
        np.testing.assert_allclose(
            run.history["dual_error"], run.history["dual_objective"] - experiment.optimum, atol=1e-12
        )
        if method == "dcwb":
            # feasible duals are never below the optimum
            assert (run.history["dual_error"] >= -experiment.gap).all()


def test_a_run_that_converges_ends_early_and_stays_as_it_is(tiny):
    case = tiny().cases["gaussian"]
    case = replace(case, setting=replace(case.setting, duration=80.0), times=(60.0, 80.0))
    run = run_job(case, case.job("complete", "sinkhorn"), find_reference(case, 0.1))
    assert run.status == "converged"
    assert run.history["time"][-1] < 60
    np.testing.assert_array_equal(run.means[60.0], run.means[80.0])
    assert 0.5 * np.abs(run.means[80.0] - find_reference(case, 0.1).weights).sum() < 1e-5


def test_divergence_is_an_outcome(whole):
    _, plan, study = whole
    sweep = next(s for s in study.sweeps if (s.parameter, s.method) == ("step", "a2dwb"))
    assert sweep.values.tolist() == [1.0, HUGE]
    for column in (sweep.dual, sweep.consensus, sweep.feasibility, sweep.tv):
        assert np.isfinite(column[0])
        assert np.isnan(column[1])
    case = plan.cases["gaussian"]
    job = replace(case.job("star", "a2dwb"), step_factor=HUGE)
    run = run_job(case, job, find_reference(case, 0.1))
    assert run.status == "diverged"
    assert 1 <= len(run.history) < 5
    assert all(np.isfinite(column).all() for column in run.history.columns.values())
    assert np.isnan(run.means[2.0]).all()


# what is on disk


def test_histories_are_kept_as_text_and_exactly(whole):
    folder, plan, study = whole
    experiment = study.experiments["gaussian"]
    assert list(experiment.runs) == [(job.topology, job.method) for job in plan.cases["gaussian"].jobs()]
    for (topology, method), run in experiment.runs.items():
        with (folder / "data" / "gaussian" / f"{topology}-{method}.csv").open(newline="") as file:
            header, *rows = csv.reader(file)
        assert header == list(run.history.columns)
        np.testing.assert_array_equal(np.array(rows, dtype=float).T, list(run.history.columns.values()))
        assert run.seconds > 0


def test_a_study_can_be_loaded_again(whole):
    folder, plan, study = whole
    again = load_study(folder)
    assert again.quick is True
    one, other = study.experiments["gaussian"], again.experiments["gaussian"]
    assert (one.title, one.setting, one.optimum, one.gap) == (other.title, other.setting, other.optimum, other.gap)
    assert one.setting == plan.cases["gaussian"].setting
    np.testing.assert_array_equal(other.support.points, plan.cases["gaussian"].problem.support.points)
    assert other.support.grid.shape == (100,)
    for key, run in one.runs.items():
        assert (run.step, run.status) == (other.runs[key].step, other.runs[key].status)
        for name, column in run.history.columns.items():
            np.testing.assert_array_equal(column, other.runs[key].history[name])
        for moment, mean in run.means.items():
            np.testing.assert_array_equal(mean, other.runs[key].means[moment])
    assert [(s.parameter, s.topology, s.method) for s in again.sweeps] == [
        ("step", "star", "a2dwb"), ("step", "star", "a2dwb_naive"), ("reg", "cycle", "sinkhorn"),
        ("M", "cycle", "sinkhorn_sampled"),
    ]  # fmt: skip


def test_a_sweep_holds_the_last_values(whole):
    _, _, study = whole
    reg = next(sweep for sweep in study.sweeps if sweep.parameter == "reg")
    main = study.experiments["gaussian"].runs["cycle", "sinkhorn"].history
    for name, column in (
        ("dual", "dual_error"),
        ("consensus", "consensus_distance"),
        ("feasibility", "feasibility"),
        ("tv", "tv"),
    ):
        values = getattr(reg, name)
        assert values[0] == main[column][-1]
        assert values[1] != values[0]


def test_a_folder_without_a_study_or_with_files_of_another_is_refused(whole, tmp_path):
    with pytest.raises(FileError, match="no complete study"):
        load_study(tmp_path)
    folder, *_ = whole
    shutil.copytree(folder, tmp_path / "copy")
    manifest = tmp_path / "copy" / "data" / "study.json"
    about = json.loads(manifest.read_text())
    about["experiments"]["gaussian"]["runs"][3]["fingerprint"] = "another"
    manifest.write_text(json.dumps(about))
    with pytest.raises(FileError, match="of other settings, data or source"):
        load_study(tmp_path / "copy")
    manifest.write_text("{}")
    with pytest.raises(FileError, match="damaged"):
        load_study(tmp_path / "copy")


# going on


def test_an_interrupted_study_goes_on_and_gives_the_same_files(whole, tiny, tmp_path, monkeypatch):
    expected, *_ = whole
    with monkeypatch.context() as patch:
        first = counted(patch, "run_job", stop_after=7)
        with pytest.raises(KeyboardInterrupt):
            run_study(tiny(), tmp_path, workers=1)
        assert len(first) == 7
    with pytest.raises(FileError, match="no complete study"):
        load_study(tmp_path)
    with monkeypatch.context() as patch:
        rest, references = counted(patch, "run_job"), counted(patch, "find_reference")
        run_study(tiny(), tmp_path, workers=1)
    assert len(first) + len(rest) == len(tiny().jobs())
    assert not {job for _, job, *_ in first} & {job for _, job, *_ in rest}
    assert references == []
    assert files(tmp_path) == files(expected)


def test_nothing_is_run_again_that_is_there(whole, tiny, monkeypatch):
    folder, *_ = whole
    before = files(folder)
    calls = counted(monkeypatch, "run_job")
    run_study(tiny(), folder, workers=1)
    assert calls == []
    assert files(folder) == before


def test_runs_of_other_settings_are_neither_reused_nor_mixed_in(whole, tiny, tmp_path, monkeypatch):
    folder, *_ = whole
    shutil.copytree(folder, tmp_path / "both")
    calls = counted(monkeypatch, "run_job")
    study = run_study(tiny(seed=1, sweeps=False), tmp_path / "both", workers=1)
    assert len(calls) == 20
    alone = run_study(tiny(seed=1, sweeps=False), tmp_path / "alone", workers=1)
    assert len(calls) == 40
    one, other = study.experiments["gaussian"], alone.experiments["gaussian"]
    assert (one.optimum, one.setting, study.sweeps) == (other.optimum, other.setting, [])
    mixed = files(tmp_path / "both")
    for name, content in files(tmp_path / "alone").items():
        assert mixed[name] == content


@pytest.mark.parametrize("change", ["duration", "record_every", "times", "data", "program", "damage"])
def test_a_run_is_done_again_if_anything_changed_that_it_depends_on(whole, tiny, tmp_path, monkeypatch, change):
    folder, *_ = whole
    shutil.copytree(folder, tmp_path / "copy")
    plan = tiny(sweeps=False)
    case = plan.cases["gaussian"]
    if change in ("duration", "record_every"):
        case = replace(case, setting=replace(case.setting, **{change: 1.0}))
    elif change == "times":
        case = replace(case, times=(0.5, 2.0))
    elif change == "data":
        measures = [*case.problem.measures[1:], case.problem.measures[0]]
        case = replace(case, problem=case.problem.with_measures(measures, case.problem.weights))
    elif change == "program":
        monkeypatch.setattr(fingerprints, "program_digest", lambda: "newer")
    else:
        target = tmp_path / "copy" / "data" / "gaussian" / "cycle-dcwb.npz"
        target.write_bytes(target.read_bytes()[:300])
    plan.cases["gaussian"] = case
    runs = counted(monkeypatch, "run_job")
    run_study(plan, tmp_path / "copy", workers=1)
    assert len(runs) == (1 if change == "damage" else 20)
    if change == "damage":
        assert target.read_bytes() == files(folder)["gaussian/cycle-dcwb.npz"]


def test_workers_have_no_influence_on_the_results(whole, tiny, tmp_path):
    folder, *_ = whole
    run_study(tiny(sweeps=False), tmp_path, workers=2)
    alone = files(folder)
    found = files(tmp_path)
    assert len(found) == 2 + 1 + 2 * 20
    assert {name for name, content in found.items() if content != alone[name]} == {"study.json", "sweeps.csv"}


# how long it takes


def test_the_forecast_learns_from_finished_runs_of_the_same_kind(tiny, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(running.time, "monotonic", lambda: now[0])
    case = tiny().cases["gaussian"]
    fast = [case.job(topology, "dcwb") for topology in ("complete", "cycle", "star")]
    slow = [case.job(topology, "sinkhorn") for topology in ("complete", "cycle")]
    forecast = Forecast(dict.fromkeys([*fast, *slow], 2.0), workers=2, since=now[0])
    assert forecast.left() == 5 * 2.0 / 2
    forecast.finished(fast[0], 1.0)
    # all take half of what was thought, as far as is known
    assert forecast.left() == 4 * 1.0 / 2
    forecast.finished(slow[0], 8.0)
    assert forecast.left() == (2 * 1.0 + 8.0) / 2
    now[0] += 3
    assert forecast.left() == 2
    now[0] += 3
    assert forecast.left() == 0


def test_the_best_steps_and_the_runs_of_the_bias_are_kept(whole):
    _, plan, study = whole
    best = study.experiments["gaussian"].best
    assert {key: run.step_factor for key, run in best.items()} == {
        # the other step diverges
        ("star", "a2dwb"): 1.0,
        ("star", "a2dwb_naive"): 1.0,
    }
    assert [run.step_factor for run in study.bias] == [16, 4, 1, 0.25]
    assert [run.history["time"][-1] for run in study.bias] == [job.duration for job in plan.bias_jobs()]
    assert study.bias[2].history["time"][-1] == pytest.approx(TINY.bias_seconds)


def test_expected_seconds_grow_with_the_work(tiny):
    case = tiny().cases["gaussian"]
    job = case.job("cycle", "a2dwb")
    large = replace(case, setting=replace(case.setting, nodes=500, duration=200.0))
    long = large.job("cycle", "a2dwb")
    more, rounds = replace(long, samples=100), replace(long, method="dcwb")
    seconds = [running.expected_seconds(*pair) for pair in ((case, job), (large, rounds), (large, long), (large, more))]
    assert seconds == sorted(seconds)
    # measured: about 4 s, and ten times the samples take up to ten times as long
    assert 1 < seconds[2] < 20
    assert 2 < seconds[3] / seconds[2] < 10


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0 s"), (42, "40 s"), (89, "90 s"), (100, "2 min"), (720, "12 min")]
)
def test_durations_in_words(seconds, words):
    assert running.in_words(seconds) == words
