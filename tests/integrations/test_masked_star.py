"""Rounds on a star with masks: the same barycenter, and a coordinator that can read nothing but sums."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import barymesh as bm
from barymesh.errors import ConfigError, MeasureError, NetworkError, OptionError, RegularisationError
from barymesh.integrations.identity import SITES, Identity, SiteAgreement
from barymesh.integrations.masked_star import contribution_sums, new_coordinator, new_site
from barymesh.integrations.star import StarOptions
from barymesh.methods.orders import Order
from barymesh.transport.keys import CurveKeyError
from tests.integrations.folders import folders
from tests.integrations.test_star import samples

OPTIONS = StarOptions(support="12:-3:3", reg=0.3, sites=3)
MEASURES = samples(np.random.default_rng(2), 3)


def identities(sites):
    return [Identity.of_one_owner(k, sites) for k in range(sites)]


def run(options, measures, seen=lambda number, reports: None):
    """All rounds. Every site forgets all but what it has saved after each, and is asked twice."""
    coordinator, memories = new_coordinator(options), [None] * len(measures)
    known = identities(len(measures)) if options.masks else [None] * len(measures)
    while coordinator.result is None:
        reports = []
        for k, measure in enumerate(measures):
            for _ in range(2):
                site = new_site(options, measure, known[k], seed=k)
                if memories[k] is not None:
                    site.restore(memories[k])
                report = site.report(coordinator.round, coordinator.target)
                memories[k] = {name: array.copy() for name, array in site.saved().items()}
            reports.append(report)
        seen(coordinator.round, reports)
        coordinator.advance(reports)
    return coordinator.result


@given(seed=st.integers(0, 10**6), sites=st.integers(3, 6), weights=st.sampled_from(["equal", "size"]))
@settings(max_examples=4)
def test_the_barycenter_is_that_without_masks(seed, sites, weights):
    options = replace(OPTIONS, sites=sites, weights=weights, tol=1e-11)
    measures = samples(np.random.default_rng(seed), sites)
    masked, plain = (run(replace(options, masks=masks), measures) for masks in (True, False))
    assert masked.success
    assert plain.success
    assert np.abs(masked.weights - plain.weights).sum() / 2 <= 1e-9
    assert 0 <= masked.gap <= plain.gap + 1e-9


def test_records_outside_of_the_support_are_no_harm():
    """Every step is judged: what all sites weigh is the same number in every round."""
    rng = np.random.default_rng(0)
    measures = [np.append(rng.normal(0, 1, 9), far)[:, None] for far in (-9.0, 7.0, 6.0, 12.0)]
    options = StarOptions(support="43:-3:3", reg=0.5, sites=4, tol=1e-8, max_rounds=300)
    found = run(options, measures)
    best = bm.barycenter(measures, np.linspace(-3, 3, 43), reg=0.5, tol=1e-10)
    assert found.success
    assert found.activations < 4 * 150
    assert np.abs(found.weights - best.weights).sum() / 2 <= 1e-8


def test_what_the_coordinator_gets_of_a_site_is_random():
    words = []
    run(replace(OPTIONS, weights="size"), MEASURES, lambda number, reports: words.append((number, reports[1]["words"])))
    # the numbers of the roll are public, and all that round 0 has
    assert not words[0][1][3:].any()
    masked = np.concatenate([found[3:] for number, found in words if number > 0])
    assert len(masked) > 1000
    share = np.unpackbits(masked.view(np.uint8)).mean()
    assert abs(share - 0.5) <= 5 * 0.5 / np.sqrt(64 * masked.size)


def begun(options=OPTIONS, known=None):
    """Sites that have sent their numbers, and a coordinator with the roll."""
    coordinator = new_coordinator(options)
    sites = [new_site(options, measure, one) for measure, one in zip(MEASURES, known or identities(3), strict=True)]
    coordinator.advance([site.report(0) for site in sites])
    return coordinator, sites


def test_sites_that_are_sent_different_targets_add_up_to_nothing():
    coordinator, sites = begun()
    coordinator.advance([site.report(1, coordinator.target) for site in sites])
    probe = coordinator.target.copy()
    probe[0] += 1e-3
    reports = [site.report(2, probe if k == 1 else coordinator.target) for k, site in enumerate(sites)]
    with pytest.raises(NetworkError, match="do not cancel"):
        coordinator.advance(reports)


def test_a_site_answers_a_round_once_whatever_it_is_asked_with():
    coordinator, sites = begun()
    coordinator.advance([site.report(1, coordinator.target) for site in sites])
    first = sites[0].report(2, coordinator.target)["words"]
    other = coordinator.target.copy()
    other[:3] = 1.0
    assert (sites[0].report(2, other)["words"] == first).all()
    # and one that has lost its memory draws another number, and is not in the roll
    lost = new_site(OPTIONS, MEASURES[0], identities(3)[0])
    lost.report(0)
    with pytest.raises(NetworkError, match="does not have this one"):
        lost.report(1, coordinator.target[-4:-1])


def test_a_site_uses_no_mask_again_from_an_old_copy_of_its_memory():
    """The coordinator has it take another way to the same target: its answer is another, and so must be its masks."""
    coordinator, sites = begun()
    coordinator.advance([site.report(1, coordinator.target) for site in sites])
    site, start = sites[0], coordinator.target
    memory = {name: array.copy() for name, array in site.saved().items()}
    other = start.copy()
    other[site.method.points + Order.PLAIN] = 1.0

    def answers(*targets):
        again = new_site(OPTIONS, MEASURES[0], identities(3)[0])
        again.restore(memory)
        return [again.report(number, target)["words"][3:] for number, target in enumerate(targets, start=2)]

    (_, last), (_, same), (_, deviated) = answers(start, start), answers(start, start), answers(other, start)
    assert (same == last).all()
    # the same masks would show the difference of the answers: the count would be equal
    assert not (deviated == last).any()


def test_a_coordinator_that_lies_about_the_weights_learns_the_same_sum():
    """It may claim another total in each run. If sites cut what is too large for that, or refused it, the sum would
    have a kink at the weight of each, and the slopes between two kinks would be the contributions of single sites."""
    options = replace(OPTIONS, weights="size")
    found, total, sites = [], 0.0, []
    for claimed in (None, *np.linspace(3.0, 200.0, 12), 1000.0):
        coordinator, sites = begun(options)
        coordinator.advance([site.report(1, coordinator.target) for site in sites])
        sums, target = contribution_sums(options, coordinator.method), coordinator.target.copy()
        if claimed is None:
            total = target[-1]
        else:
            target[-1] = claimed
        words = np.sum([site.report(2, target)["words"] for site in sites], axis=0, dtype=np.uint64)
        count, weight = words[sums.roll.stop : sums.roll.stop + 2]
        # neither does the sum of the weights show anything of them
        assert count == 3
        assert sums.weights.numbers(np.array([weight]))[0] == pytest.approx(3.0, abs=1e-14)
        # of 64 bits; where the claim is far too small the highest are lost
        parts = words[sums.roll.stop + 3 :].view(np.int64) / sums.parts.scale
        period = 2.0**64 / sums.parts.scale
        honest = found[0] * total / target[-1] if found else parts
        off = np.abs((parts - honest + period / 2) % period - period / 2)
        assert (off <= 1e-9 * (1 + np.abs(honest))).all()
        found.append(parts)
        # once in a run, and where all weigh the same nothing else than that
        target[-1] = target[-1] + 1.0
        with pytest.raises(NetworkError, match="in every round"):
            sites[0].report(3, target)
    sizes = sorted(site.weight for site in sites)
    assert 3.0 < sizes[-2] < sizes[-1] < total


def test_what_is_sent_in_every_round_has_the_same_noise_in_every_round():
    """How the sum of where sites are is rounded would tell something of each site; and so would noise whose size is
    that of the last digit of a site's number, or that can be averaged away."""
    found = []
    for owner in range(4):
        known = [Identity.of_one_owner(k + owner, 6) for k in range(3)]
        known = [replace(one, number=k, public=tuple(one.public[owner : owner + 3])) for k, one in enumerate(known)]
        coordinator, sites = begun(known=known)
        coordinator.advance([site.report(1, coordinator.target) for site in sites])
        sums, fixed = contribution_sums(OPTIONS, coordinator.method), set()
        for number in range(2, 40):
            words = np.sum(
                [site.report(number, coordinator.target)["words"] for site in sites], axis=0, dtype=np.uint64
            )
            fixed.add(tuple(words[sums.roll.stop + 3 :][sums.fixed].tolist()))
        assert len(fixed) == 1
        found.append(fixed.pop())
    # with other keys it is other noise
    apart = np.ptp(np.array(found, dtype=np.uint64).view(np.int64), axis=0)
    assert (apart > 0.05 * sums.noise).all()
    assert (apart < 3 * sums.noise).all()


def test_a_server_that_asks_for_anything_else_than_was_agreed_on_learns_nothing_of_the_data():
    """It could find out where the records of a site end by supports that are ever closer to them."""
    identity = replace(identities(3)[0], agreement=SiteAgreement(OPTIONS.support, OPTIONS.reg))
    for change in ({"support": "12:-3:4"}, {"reg": 0.2}, {"weights": "size"}):
        for measure in (MEASURES[0], np.array([[0.0], [1e6]])):
            with pytest.raises(OptionError, match=f"The server asks for {next(iter(change))}"):
                new_site(replace(OPTIONS, **change), measure, identity)
    assert new_site(OPTIONS, MEASURES[0], identity).report(0)


def test_what_all_sites_weigh_is_agreed_on():
    """Where sites count by their records, others than the true total would show multiples of large numbers of records,
    and between them the part of a small site."""
    options, sizes = replace(OPTIONS, weights="size"), [measure.records for measure in MEASURES]
    agreed = SiteAgreement(OPTIONS.support, OPTIONS.reg, "size", float(sum(sizes)))
    known = [replace(one, agreement=agreed) for one in identities(3)]
    coordinator, sites = begun(options, known)
    coordinator.advance([site.report(1, coordinator.target) for site in sites])
    false = coordinator.target.copy()
    false[-1] = 3.0
    with pytest.raises(NetworkError, match="what they have agreed on"):
        sites[0].report(2, false)
    coordinator.advance([site.report(2, coordinator.target) for site in sites])
    assert coordinator.round == 3


def test_the_noise_is_the_same_whatever_else_the_server_asks_for():
    """A run with another tolerance, or another number of rounds, draws no other."""
    found = set()
    for change in ({}, {"max_rounds": 400}, {"tol": 1e-3}):
        options = replace(OPTIONS, **change)
        coordinator, sites = begun(options)
        coordinator.advance([site.report(1, coordinator.target) for site in sites])
        sums = contribution_sums(options, coordinator.method)
        words = np.sum([site.report(2, coordinator.target)["words"] for site in sites], axis=0, dtype=np.uint64)
        found.add(tuple(words[sums.roll.stop + 3 :][sums.fixed].tolist()))
    assert len(found) == 1


def test_a_server_cannot_put_its_own_keys_in_place_of_those_of_the_sites():
    """A site whose list has the keys of a man in the middle masks with him, and the sum shows that."""
    known = identities(3)
    foreign = Identity.of_one_owner(5, 6).public[5]
    known[0] = replace(known[0], public=(known[0].public[0], foreign, known[0].public[2]))
    coordinator, sites = begun(known=known)
    reports = [site.report(1, coordinator.target) for site in sites]
    with pytest.raises(NetworkError, match="have the same sites"):
        coordinator.advance(reports)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda target: target[:-1], "not one of this run"),
        (lambda target: np.where(np.arange(target.size) == target.size - 2, 0, target), "lacks a site"),
        (lambda target: np.where(np.arange(target.size) == target.size - 1, 0.5, target), "weigh 0.5 together"),
    ],
    ids=["length", "roll", "weight"],
)
def test_false_targets_are_refused(change, reason):
    coordinator, sites = begun()
    coordinator.advance([site.report(1, coordinator.target) for site in sites])
    with pytest.raises(NetworkError, match=reason):
        sites[0].report(2, change(coordinator.target))


def test_a_site_answers_no_more_rounds_than_a_run_has():
    options = replace(OPTIONS, max_rounds=7)
    coordinator, sites = begun(options)
    while coordinator.round < options.max_rounds - 1:
        coordinator.advance([site.report(coordinator.round, coordinator.target) for site in sites])
    last = sites[0].report(6, coordinator.target)["words"]
    with pytest.raises(NetworkError, match="after the run has ended"):
        sites[0].report(7, coordinator.target)
    # the last one again, as often as it is asked for
    np.testing.assert_array_equal(sites[0].report(6, coordinator.target)["words"], last)
    for wrong, reason in ((2001, "max_rounds is 2001; with masks"), (5, "max_rounds = 6 or more")):
        asked = replace(OPTIONS, max_rounds=wrong)
        with pytest.raises(OptionError, match=reason):
            new_site(asked, MEASURES[0], identities(3)[0])
        with pytest.raises(OptionError, match=reason):
            new_coordinator(asked)


def test_a_site_sends_nothing_without_masks_if_it_has_an_identity_and_nothing_at_all_without_one():
    with pytest.raises(OptionError, match="no identity"):
        new_site(OPTIONS, MEASURES[0])
    with pytest.raises(OptionError, match="nothing without masks"):
        new_site(replace(OPTIONS, masks=False), MEASURES[0], identities(3)[0])
    with pytest.raises(OptionError, match="the keys of 4"):
        new_site(OPTIONS, MEASURES[0], identities(4)[0])


def test_records_far_outside_of_the_support_are_refused():
    with pytest.raises(MeasureError, match="more than 16 times the largest"):
        new_site(OPTIONS, np.array([[0.0], [100.0]]), identities(3)[0])


def test_two_sites_with_one_identity_are_noticed():
    known = identities(3)
    with pytest.raises(NetworkError, match="same identity"):
        begun(known=[known[0], known[0], known[2]])


def test_identities_are_read_from_folders(tmp_path):
    places = folders(tmp_path, support=OPTIONS.support, reg=OPTIONS.reg)
    known = [Identity.read(place) for place in places]
    assert [one.number for one in known] == [0, 1, 2]
    assert len({one.fingerprint for one in known}) == 1
    coordinator, sites = begun(known=known)
    coordinator.advance([site.report(1, coordinator.target) for site in sites])
    assert coordinator.round == 2


AGREED = "support = '12:-3:3'\nreg = 0.3\n"


@pytest.mark.parametrize(
    ("text", "error", "reason"),
    [
        ("", ConfigError, "table"), (f"{AGREED}min_members = 2\n[sites]\n", ConfigError, "min_members"),
        ("reg = 0.3\n[sites]\n", ConfigError, "support"),
        (f"{AGREED}weights = 'size'\n[sites]\n", ConfigError, "must have records"),
        ("support = '12:-3:3'\nreg = 0\n[sites]\n", RegularisationError, "positive"),
        (f"{AGREED}weights = 'large'\n[sites]\n", OptionError, r"weights in .*sites\.toml"),
        (f"{AGREED}weigths = 'size'\n[sites]\n", ConfigError, "'weigths' is none of these"),
        (f"{AGREED}[sites]\na = 'short'\n", CurveKeyError, "malformed"),
        (f"{AGREED}[sites]\n", CurveKeyError, "does not have the public"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_the_list_of_sites_is_named(tmp_path, text, error, reason):
    place = folders(tmp_path, support=OPTIONS.support, reg=OPTIONS.reg)[0]
    (place / SITES).write_text(text)
    with pytest.raises(error, match=reason):
        Identity.read(place)
