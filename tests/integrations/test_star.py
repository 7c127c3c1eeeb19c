"""Rounds on a star, without a framework: the coordinator knows sums only, and finds what the exact solver finds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import barymesh as bm
from barymesh.errors import MeasureError, NetworkError, OptionError, SupportError, WeightError
from barymesh.integrations.star import Coordinator, Site, StarOptions
from barymesh.methods.rounds import MATRIX_POINTS

OPTIONS = StarOptions(support="20:-3:3", reg=0.2, sites=3, masks=False)


def run(options, measures, repeat=lambda number: False):
    """All rounds. Every site forgets all but what it has saved after each; some rounds are asked for twice."""
    coordinator, memories = Coordinator(options), [None] * len(measures)
    while coordinator.result is None:
        reports = []
        for k, measure in enumerate(measures):
            for _ in range(1 + repeat(coordinator.round)):
                site = Site(options, measure, seed=k)
                if memories[k] is not None:
                    site.restore(memories[k])
                report = site.report(coordinator.round, coordinator.target)
                memories[k] = {name: array.copy() for name, array in site.saved().items()}
            reports.append(report)
        coordinator.advance(reports)
    return coordinator


def samples(rng, sites):
    """Unequal sizes down to two records, with clusters and heavy tails."""
    sizes = rng.integers(2, 40, sites)
    return [bm.Empirical(np.clip(rng.normal(3) + rng.standard_t(2, size), -3, 3)[:, None]) for size in sizes]


def assert_certified(result, measures, options, distance):
    """The barycenter to this total variation, and a certificate that holds."""
    sizes = None if options.weights == "equal" else "size"
    best = bm.barycenter(measures, options.points, reg=options.reg, weights=sizes, tol=1e-10)
    off = np.abs(result.weights - best.weights).sum() / 2
    assert result.success
    assert off <= distance
    assert off <= result.tv_bound + 1e-9
    # the intervals of the two certificates have the best objective in common
    assert result.value - result.gap <= best.value + 1e-9
    assert best.value - best.gap <= result.value + 1e-9
    assert result.consensus <= options.tol
    assert result.measures == options.sites


@given(seed=st.integers(0, 10**6), weights=st.sampled_from(["equal", "size"]))
@settings(max_examples=12)
def test_the_coordinator_finds_the_barycenter_and_its_certificate_holds(seed, weights):
    rng = np.random.default_rng(seed)
    sites, reg = int(rng.integers(1, 5)), float(np.exp(rng.uniform(np.log(0.02), np.log(2))))
    options = StarOptions(support="15:-3:3", reg=reg, sites=sites, weights=weights, tol=1e-7, masks=False)
    measures = samples(rng, sites)
    assert_certified(run(options, measures).result, measures, options, 1e-7)


def test_supports_without_matrices():
    options = replace(OPTIONS, support=f"{MATRIX_POINTS + 2}:-3:3", tol=1e-5)
    measures = samples(np.random.default_rng(5), 3)
    assert_certified(run(options, measures).result, measures, options, 1e-5)


def test_a_round_that_is_asked_for_twice_is_acted_on_once():
    measures = samples(np.random.default_rng(1), 3)
    once, twice = run(OPTIONS, measures), run(OPTIONS, measures, repeat=lambda number: number % 2 == 1)
    assert once.round == twice.round
    np.testing.assert_allclose(once.result.weights, twice.result.weights, rtol=0, atol=1e-14)


@pytest.mark.parametrize("rounds_allowed", [1, 6, 8])
def test_a_run_that_is_cut_short_says_so_and_certifies_what_it_has(rounds_allowed):
    measures = samples(np.random.default_rng(2), 3)
    short = run(replace(OPTIONS, max_rounds=rounds_allowed, tol=1e-12), measures)
    best = bm.barycenter(measures, OPTIONS.points, reg=OPTIONS.reg, tol=1e-10)
    assert short.round <= rounds_allowed
    assert not short.result.success
    distance = np.abs(short.result.weights - best.weights).sum() / 2
    if rounds_allowed > 3:
        assert distance <= short.result.tv_bound + 1e-9
    else:
        assert np.isnan(short.result.gap)
        assert np.isnan(short.result.tv_bound)


def test_the_result_can_be_saved_and_loaded(tmp_path):
    result = run(OPTIONS, samples(np.random.default_rng(3), 3)).result
    loaded = bm.load(result.save(tmp_path / "barycenter"))
    np.testing.assert_array_equal(loaded.weights, result.weights)
    assert (loaded.gap, loaded.value, loaded.measures, loaded.status) == (result.gap, result.value, 3, result.status)
    assert loaded.summary()["measures"] == 3


def reports_of_round_0():
    return [Site(OPTIONS, measure).report(0) for measure in samples(np.random.default_rng(4), 3)]


@pytest.mark.parametrize(
    "spoiled",
    [
        {"weight": 0.0}, {"weight": np.nan}, {"weight": -1.0}, {"error": 3.0}, {"error": np.nan},
        {"sums": np.zeros(7)}, {"sums": np.nan}, {"sums": np.inf}, {"sums": 1e13},
    ],
    ids=str,
)  # fmt: skip
def test_a_bad_report_is_named(spoiled):
    reports = reports_of_round_0()
    if np.isscalar(spoiled.get("sums")):
        spoiled = {"sums": np.full_like(reports[1]["sums"], spoiled["sums"])}
    reports[1] = {**reports[1], **spoiled}
    with pytest.raises(NetworkError, match="Report 1 of round 0"):
        Coordinator(OPTIONS).advance(reports)


def test_all_sites_are_needed():
    with pytest.raises(NetworkError, match="of 2 sites; all 3 are needed"):
        Coordinator(OPTIONS).advance(reports_of_round_0()[:2])


def test_a_site_refuses_rounds_that_do_not_follow_and_targets_that_are_none():
    coordinator, site = Coordinator(OPTIONS), Site(OPTIONS, np.array([0.1, 0.5, 0.7]))
    coordinator.advance(reports_of_round_0())
    with pytest.raises(NetworkError, match="lost its memory"):
        site.report(1, coordinator.target)
    site.report(0)
    for target in (np.zeros(5), np.full_like(coordinator.target, np.nan), np.full_like(coordinator.target, 1e13)):
        with pytest.raises(NetworkError, match="not one of this run"):
            site.report(1, target)
    with pytest.raises(NetworkError, match="missed a round"):
        site.report(2, coordinator.target)
    site.report(1, coordinator.target)


def test_data_must_not_change_during_a_run():
    """Otherwise a release with fresh noise in every round would spend its privacy again and again."""
    first, other = Site(OPTIONS, np.array([0.1, 0.5])), Site(OPTIONS, np.array([0.1, 0.6]))
    first.report(0)
    with pytest.raises(MeasureError, match="the same in every round"):
        other.restore(first.saved())
    Site(OPTIONS, np.array([0.1, 0.5])).restore(first.saved())


@pytest.mark.parametrize("support", ["auto", "points.csv", "a:b", "/etc/secret:1.npy", 5])
def test_a_support_must_be_a_grid(support):
    with pytest.raises(SupportError):
        StarOptions(support=support, reg=0.1, sites=2)


def test_options_are_read_from_the_configuration_of_an_application():
    config = {"support": "9:0:1", "reg": 0.1, "sites": 2, "max-rounds": 7, "colour": "blue"}
    assert StarOptions.from_config(config) == StarOptions(support="9:0:1", reg=0.1, sites=2, max_rounds=7)
    with pytest.raises(OptionError, match="Did you mean 'max_rounds'"):
        StarOptions.from_config({**config, "max-round": 7})
    del config["sites"]
    with pytest.raises(OptionError, match="no 'sites'"):
        StarOptions.from_config(config)


@pytest.mark.parametrize("wrong", [{"reg": 0}, {"sites": 0}, {"tol": 0}, {"max_rounds": 0.5}, {"weights": "random"}])
def test_wrong_options_are_named(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        replace(OPTIONS, **wrong)


def test_sizes_need_records():
    with pytest.raises(WeightError, match="none to count"):
        Site(replace(OPTIONS, weights="size"), bm.Gaussian(0, 1))
