"""Data that change: new ones arrive, old ones leave, and the barycenter continues from the last potentials."""

from __future__ import annotations

import numpy as np
import pytest

import barymesh as bm
from barymesh.errors import OptionError

POINTS = np.linspace(-4, 6, 60)
HERE, SIMULATED = {}, {"network": "complete", "delays": "constant:seconds=0.1", "record_every": 0.2}
ENGINES = {
    "exact": HERE,
    "debiased": {"debias": True, "tol": 1e-3},
    "simulation": SIMULATED,
    "rounds": {**SIMULATED, "method": "rounds"},
}


def window(site, day, length=80):
    """The last records of a site whose data drift: every day some are new, and as many are gone."""
    records = np.random.default_rng(site).normal(size=1000) * 0.5 + 0.02 * np.arange(1000) / 4 + site
    measure = bm.Empirical(records[10 * day : 10 * day + length])
    measure.label = f"site {site}"
    return measure


def barycenter(measures, **options):
    return bm.barycenter(measures, POINTS, reg=0.1, progress=False, **{"tol": 1e-5, **options})


def effort(result):
    return result.activations or result.iterations


@pytest.mark.parametrize("engine", ENGINES)
def test_a_window_that_moves(engine):
    """Every day ends at the barycenter of that day, and sooner than without the last one."""
    last, warm, cold = None, 0, 0
    for day in range(3):
        measures = [window(site, day) for site in range(4)]
        found, anew = (barycenter(measures, start=start, **ENGINES[engine]) for start in (last, None))
        assert found.success
        assert np.abs(found.weights - anew.weights).sum() < (5e-2 if engine == "debiased" else 1e-4)
        if last is not None:
            warm, cold = warm + effort(found), cold + effort(anew)
        last = found
    assert warm < cold


def test_sites_come_and_go():
    before = barycenter([window(site, 0) for site in (0, 1, 2, 3)])
    measures = [window(site, 1) for site in (3, 1, 7)]
    truth = barycenter(measures)
    for engine in (HERE, SIMULATED):
        found = barycenter(measures, start=before, **engine)
        assert found.success
        assert np.abs(found.weights - truth.weights).sum() < 1e-4
    # the same sites in another order: nothing is left to do
    again = barycenter([window(site, 0) for site in (3, 2, 1, 0)], start=before)
    assert again.iterations <= 2
    for measure in measures:
        measure.label = None
    with pytest.raises(OptionError, match="labels"):
        barycenter(measures, start=before)


def test_processes_continue_too():
    engine = {"network": "complete", "engine": "processes", "workers": 2, "duration": 60, "record_every": 0.2}
    last = barycenter([window(site, 0) for site in range(3)])
    measures = [window(site, 1) for site in range(3)]
    found = barycenter(measures, start=last, **engine)
    assert found.success
    assert np.abs(found.weights - barycenter(measures).weights).sum() < 1e-4


@pytest.mark.parametrize("options", [{"method": "a2dwb"}, {"support": bm.FreeSupport(5)}])
def test_other_methods_say_that_they_cannot(options):
    last = barycenter([window(site, 0) for site in range(3)])
    how = {"support": POINTS, "method": "sinkhorn", **options}
    with pytest.raises(OptionError, match="start="):
        bm.barycenter([window(0, 1)] * 3, how["support"], reg=0.1, start=last, network="complete", method=how["method"])
