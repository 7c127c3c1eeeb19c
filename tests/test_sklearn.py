"""The estimator keeps scikit-learn's rules, and its own promises about scores and about data arriving over time."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import ot
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

import barymesh as bm
from barymesh.errors import MeasureError, OptionError, RegularisationError, SupportError
from barymesh.sklearn import BarycenterTransport, WassersteinBarycenter

NO_MASS = "its data have a row without mass, which is no histogram"
EXPECTED = dict.fromkeys(
    ("check_estimators_dtypes", "check_sample_weights_pandas_series", "check_sample_weights_not_an_array"), NO_MASS
)
LINE = np.linspace(0, 1, 40)


def bumps(rng, count, width=0.08):
    """Histograms with one bump each, somewhere in the middle half of the line."""
    centres = rng.uniform(0.25, 0.75, count)
    return np.exp(-(((LINE - centres[:, None]) / width) ** 2) / 2) + 1e-9


def total_variation(p, q):
    return np.abs(p - q).sum() / 2


# a large reg: most of the checks have two to four features, on which a small one converges slowly
def test_it_passes_the_checks_of_scikit_learn():
    found = check_estimator(WassersteinBarycenter(reg=1.0), expected_failed_checks=EXPECTED, on_fail=None, on_skip=None)
    failed = {one["check_name"]: repr(one["exception"]) for one in found if one["status"] == "failed"}
    assert failed == {}
    assert {one["check_name"] for one in found if one["status"] == "xfail"} == set(EXPECTED)
    assert len(found) > 50


def test_fit_is_the_barycenter(rng):
    rows, weights = bumps(rng, 6), rng.random(6)
    fitted = WassersteinBarycenter(reg=0.003, relative_reg=False).fit(rows, sample_weight=weights)
    expected = bm.barycenter(rows, LINE, reg=0.003, weights=weights)
    assert total_variation(fitted.barycenter_, expected.weights) < 1e-6
    assert fitted.result_.gap < 1e-5
    assert fitted.reg_ == 0.003
    assert (fitted.n_samples_seen_, fitted.n_features_in_) == (6, 40)
    assert fitted.weight_seen_ == pytest.approx(weights.sum())


def test_the_scale_of_the_support_does_not_matter(rng):
    rows = bumps(rng, 5)
    near, far = (
        WassersteinBarycenter(reg=0.05, relative_reg=True, support=scale * LINE).fit(rows) for scale in (1.0, 1e6)
    )
    assert far.reg_ == pytest.approx(1e12 * near.reg_)
    assert total_variation(near.barycenter_, far.barycenter_) < 1e-5


def test_images_and_costs(rng):
    images = rng.random((4, 6, 9))
    shaped = WassersteinBarycenter(support=(6, 9)).fit(images.reshape(4, -1))
    assert shaped.support_.grid.shape == (6, 9)
    points = shaped.support_.points
    matrix = ((points[:, None] - points) ** 2).sum(axis=-1)
    for same in ({"support": points}, {"support": shaped.support_}, {"support": (6, 9), "cost": matrix}):
        other = WassersteinBarycenter(**same).fit(images.reshape(4, -1))
        assert total_variation(other.barycenter_, shaped.barycenter_) < 1e-5


@pytest.mark.parametrize("score_reg", [None, 0.02])
def test_the_score_is_what_pot_finds(rng, score_reg):
    rows = bumps(rng, 5)
    fitted = WassersteinBarycenter(reg=0.01, relative_reg=False, score_reg=score_reg).fit(rows[:3])
    reg, cost = score_reg or 0.01, (LINE[:, None] - LINE) ** 2
    expected = []
    for row in rows / rows.sum(axis=1, keepdims=True):
        p = fitted.barycenter_ / fitted.barycenter_.sum()
        plan = ot.sinkhorn(p, row, cost, reg, method="sinkhorn_log", stopThr=1e-11, numItermax=20_000)
        linear = ot.sinkhorn2(p, row, cost, reg, method="sinkhorn_log", stopThr=1e-11, numItermax=20_000)
        expected.append(linear + reg * (plan * np.log(np.maximum(plan, 1e-300) / row)).sum())
    np.testing.assert_allclose(fitted.transform(rows)[:, 0], expected, atol=1e-7)
    weights = rng.random(5)
    assert fitted.score(rows) == pytest.approx(-np.mean(expected), abs=1e-7)
    assert fitted.score(rows, sample_weight=weights) == pytest.approx(-np.average(expected, weights=weights), abs=1e-7)


def test_no_measure_scores_better_than_the_barycenter(rng):
    rows = bumps(rng, 5)
    fitted = WassersteinBarycenter().fit(rows)
    best = fitted.score(rows)
    for other in (rows[0], rows.mean(axis=0), np.ones(40)):
        fitted.barycenter_ = other / other.sum()
        assert fitted.score(rows) < best


def test_the_weights_go_straight_into_pot(rng):
    rows = bumps(rng, 4)
    fitted = WassersteinBarycenter().fit(rows)
    cost = (LINE[:, None] - LINE) ** 2
    for weights in (fitted.result_.weights, bm.barycenter(rows, LINE, reg=0.01).weights):
        assert weights.dtype == np.float64
        assert abs(weights.sum() - 1) < 1e-12
        # POT warns of masses that do not match, and warnings are errors here
        assert 0 < ot.emd2(weights, rows[0] / rows[0].sum(), cost) < 0.3


def test_it_lives_in_pipelines_and_searches(rng):
    rows = bumps(rng, 12)
    chain = make_pipeline(FunctionTransformer(np.square), WassersteinBarycenter(score_reg=0.01))
    distances = chain.fit_transform(rows)
    assert distances.shape == (12, 1)
    assert chain.score(rows) == pytest.approx(-distances.mean())
    assert list(chain[-1].get_feature_names_out()) == ["wassersteinbarycenter0"]
    search = GridSearchCV(WassersteinBarycenter(score_reg=0.01), {"reg": [0.02, 5.0]}, cv=3).fit(rows)
    assert search.best_params_ == {"reg": 0.02}


def test_scores_at_their_own_reg_do_not_compare(rng):
    """The reason for score_reg."""
    rows = bumps(rng, 12)
    assert WassersteinBarycenter(reg=5.0, relative_reg=True).fit(rows).score(rows) > WassersteinBarycenter(
        reg=0.02, relative_reg=True
    ).fit(rows).score(rows)


# ---- data arriving over time


def test_the_first_part_is_a_fit(rng):
    rows = bumps(rng, 4)
    whole, part = (
        WassersteinBarycenter().fit(rows),
        WassersteinBarycenter().partial_fit(rows),
    )
    np.testing.assert_array_equal(whole.barycenter_, part.barycenter_)


def test_rows_whose_barycenter_it_is_already_change_nothing(rng):
    rows = bumps(rng, 4)
    fitted = WassersteinBarycenter(tol=1e-9).fit(rows)
    before = fitted.barycenter_
    for _ in range(3):
        fitted.partial_fit(rows)
    assert total_variation(fitted.barycenter_, before) < 1e-7
    assert (fitted.n_samples_seen_, fitted.weight_seen_) == (16, 16.0)


def test_what_was_seen_counts_as_its_divergence(rng):
    """The objective that the notes promise is the one that is minimised: no other measure does better."""
    rows = bumps(rng, 5)
    fitted = WassersteinBarycenter(tol=1e-9).fit(rows[:3])
    past = fitted.barycenter_
    fitted.partial_fit(rows[3:], sample_weight=[0.5, 1.5])

    def objective(p):
        probe = clone(fitted).fit(rows[:2])
        probe.barycenter_ = p
        return 3 * probe.reg_ * (p * np.log(p / past)).sum() + np.array([0.5, 1.5]) @ probe.transform(rows[3:])[:, 0]

    best = objective(fitted.barycenter_)
    for _ in range(4):
        other = fitted.barycenter_ * np.exp(0.05 * rng.normal(size=40))
        assert objective(other / other.sum()) > best
    # and it is the objective that the certificate is about, over the weight of all
    assert fitted.result_.value == pytest.approx(best / 5, abs=2 * fitted.result_.gap + 1e-9)
    assert fitted.result_.gap < 1e-6


def test_the_divergence_never_says_more_than_the_rows_did(rng):
    """What is kept of rows bounds their objective from below, after one part (from its least value) and after two."""
    rows = bumps(rng, 5)
    fitted = WassersteinBarycenter(tol=1e-9).fit(rows)
    parts = WassersteinBarycenter(tol=1e-9).partial_fit(rows[:3]).partial_fit(rows[3:])
    probe = clone(fitted).fit(rows)

    def objective(p):
        probe.barycenter_ = p
        return -probe.score(rows)

    # of two parts: the least value of the first alone, and of what the second one minimised
    first = WassersteinBarycenter(tol=1e-9).fit(rows[:3])
    constant = 0.6 * -first.score(rows[:3]) + parts.result_.value - parts.result_.gap
    for strength in (0.1, 0.5, 2.0):
        other = fitted.barycenter_ * np.exp(strength * rng.normal(size=40))
        other /= other.sum()
        least = [one.reg_ * (other * np.log(other / one.barycenter_)).sum() for one in (fitted, parts)]
        assert objective(other) >= objective(fitted.barycenter_) + least[0] - 1e-9
        assert objective(other) >= constant + least[1] - 1e-9


def test_a_stream_approaches_the_barycenter_of_its_distribution():
    rng = np.random.default_rng(3)
    rows = bumps(rng, 240)
    whole = WassersteinBarycenter(reg=0.2, relative_reg=True).fit(rows).barycenter_
    stream = WassersteinBarycenter(reg=0.2, relative_reg=True)
    away = []
    for batch in np.split(rows, 12):
        away.append(total_variation(stream.partial_fit(batch).barycenter_, whole))
    assert away[-1] < 0.02 < max(away)
    spread = [np.sqrt(p @ LINE**2 - (p @ LINE) ** 2) for p in (stream.barycenter_, whole)]
    assert spread[0] == pytest.approx(spread[1], rel=0.05)


def test_with_a_half_life_it_follows_what_changes(rng):
    left = np.exp(-(((LINE - 0.3) / 0.05) ** 2))[None].repeat(20, axis=0)
    right = left[:, ::-1]
    keeps, forgets = (WassersteinBarycenter(half_life=life).fit(left) for life in (None, 5.0))
    forgets.partial_fit(right)
    keeps.partial_fit(right)
    assert forgets.weight_seen_ == pytest.approx(20 + 20 / 16)
    assert 0.45 < keeps.barycenter_ @ LINE < 0.6
    assert forgets.barycenter_ @ LINE > 0.65


# ---- what is refused


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"reg": -1}, RegularisationError, "reg=-1"),
        ({"support": (3, 3)}, SupportError, "9 points, but X has 40 features"),
        ({"support": (3, "4")}, SupportError, "A side of the support is '4'"),
        ({"tol": -1.0}, OptionError, r"tol is -1\.0"),
        ({"max_iter": 0}, OptionError, "max_iter is 0"),
    ],
)
def test_bad_parameters_are_refused_in_fit(rng, options, error, said):
    estimator = WassersteinBarycenter(**options)
    with pytest.raises(error, match=said):
        estimator.fit(bumps(rng, 2))


def test_bad_rows_and_late_errors(rng):
    rows = bumps(rng, 3)
    rows[1] = 0
    with pytest.raises(MeasureError, match="Row 1 of X has no mass"):
        WassersteinBarycenter().fit(rows)
    with pytest.raises(ValueError, match=r"[Ss]ample weights"):
        WassersteinBarycenter().fit(bumps(rng, 3), sample_weight=[0, 0, 0])
    with pytest.raises(NotFittedError):
        WassersteinBarycenter().score(bumps(rng, 2))
    with pytest.raises(OptionError, match="half_life is 0"):
        WassersteinBarycenter(half_life=0).fit(bumps(rng, 2)).partial_fit(bumps(rng, 2))
    with pytest.raises(RegularisationError, match="score_reg='small'"):
        WassersteinBarycenter(score_reg="small").fit(bumps(rng, 2)).score(bumps(rng, 2))


def test_too_few_iterations_are_said(rng):
    estimator = WassersteinBarycenter(max_iter=2)
    with pytest.warns(ConvergenceWarning, match=r"after max_iter=2 iterations"):
        estimator.fit(bumps(rng, 3))
    with pytest.warns(ConvergenceWarning, match="transport of a row"):
        estimator.score(bumps(rng, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        WassersteinBarycenter().fit(bumps(rng, 3))


def test_reg_means_what_it_means_in_barycenter(rng):
    rows = bumps(rng, 4)
    assert WassersteinBarycenter().fit(rows).reg_ == WassersteinBarycenter().reg
    for relative in (False, True):
        fitted = WassersteinBarycenter(reg=0.04, relative_reg=relative).fit(rows)
        expected = bm.barycenter(rows, LINE, reg=0.04, relative_reg=relative)
        assert fitted.reg_ == pytest.approx(expected.reg, rel=1e-12)
        assert total_variation(fitted.barycenter_, expected.weights) < 1e-5


def two_sites(rng, count=150):
    """Samples of two sites that measure differently, and what is to be predicted from them."""
    site = rng.choice(["north", "south"], count)
    truth = rng.normal(size=(count, 2))
    seen = np.where((site == "north")[:, None], truth, 2 * truth + [4, -3])
    return site, seen, truth[:, 0] > 0


def test_samples_of_all_groups_are_moved_to_one_distribution(rng):
    site, seen, _ = two_sites(rng)
    estimator = BarycenterTransport(reg=0.1, weights="size")
    moved = estimator.fit_transform(seen, groups=site)
    north, south = moved[site == "north"], moved[site == "south"]
    assert np.linalg.norm(north.mean(axis=0) - south.mean(axis=0)) < 1e-3
    apart = ot.emd2([], [], ot.dist(north, south))
    assert apart < 0.05 * ot.emd2([], [], ot.dist(seen[site == "north"], seen[site == "south"]))
    expected = bm.barycenter([seen[site == name] for name in estimator.groups_], reg=0.1, weights="size")
    for k, name in enumerate(estimator.groups_):
        np.testing.assert_allclose(moved[site == name], expected.map(k)(seen[site == name]), atol=1e-9)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_a_pipeline_takes_a_frame_with_the_groups_in_a_column(rng, make):
    site, seen, truth = two_sites(rng)
    frame = make({"a": seen[:, 0], "site": site, "b": seen[:, 1]})
    chain = make_pipeline(BarycenterTransport(reg=0.1, by="site"), LogisticRegression())
    chain.fit(frame, truth)
    blind = make_pipeline(LogisticRegression()).fit(seen, truth)
    new_site, new_seen, new_truth = two_sites(rng)
    new = make({"a": new_seen[:, 0], "site": new_site, "b": new_seen[:, 1]})
    assert chain.score(new, new_truth) > max(0.9, blind.score(new_seen, new_truth) + 0.1)
    assert list(chain[0].get_feature_names_out()) == ["a", "b"]
    assert chain[0].n_features_in_ == 3
    again = pickle.loads(pickle.dumps(chain))
    np.testing.assert_array_equal(again.predict(new), chain.predict(new))
    search = GridSearchCV(chain, {"barycentertransport__reg": [0.1, 0.3]}, cv=2).fit(frame, truth)
    assert search.best_score_ > 0.8


def test_the_column_may_have_a_number_and_the_cost_be_a_function(rng):
    site, seen, _ = two_sites(rng, 40)
    rows = np.column_stack([seen, site == "north"])
    options = {"reg": 0.5, "weights": {1.0: 3, 0.0: 1}, "tol": 1e-4}
    first = BarycenterTransport(by=-1, **options).fit(rows)
    other = BarycenterTransport(by=2, cost=squared, **options).fit(rows.tolist())
    np.testing.assert_allclose(first.transform(rows), other.transform(rows), atol=1e-3)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(other)).transform(rows), other.transform(rows))
    np.testing.assert_allclose(sorted(first.result_.problem.weights), [0.25, 0.75])


def squared(z, y):
    return ((z[:, None] - y) ** 2).sum(axis=-1)


def test_what_is_wrong_with_the_groups_is_named(rng):
    site, seen, _ = two_sites(rng, 20)
    fitted = BarycenterTransport(reg=1.0).fit(seen, groups=site)
    with pytest.raises(MeasureError, match=r"group 'west', which fit has not seen. It has seen (north|south), "):
        fitted.transform(seen[:1], groups=["west"])
    with pytest.raises(OptionError, match="20 samples and groups of shape"):
        fitted.transform(seen, groups=site[:3])
    with pytest.raises(OptionError, match="no column by='site'; its columns are 0, 1"):
        BarycenterTransport(by="site").fit(seen)
    with pytest.raises(OptionError, match="by=0 is set as well"):
        BarycenterTransport(by=0).fit(seen, groups=site)
    with pytest.raises(OptionError, match="weights has the groups east"):
        BarycenterTransport(weights={"east": 1}).fit(seen, groups=site)
    with pytest.raises(NotFittedError):
        BarycenterTransport().transform(seen)
    with pytest.warns(ConvergenceWarning, match="Raise max_iter"):
        BarycenterTransport(reg=0.5, max_iter=1).fit(seen, groups=site)


def test_the_transport_passes_the_checks_of_scikit_learn():
    estimator = BarycenterTransport(reg=5.0, tol=1e-3)
    found = check_estimator(estimator, on_fail=None, on_skip=None)
    failed = {one["check_name"]: repr(one["exception"]) for one in found if one["status"] == "failed"}
    assert failed == {}
