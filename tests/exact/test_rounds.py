"""Rounds without a network: the barycenter of the exact solver, in few steps, and its options."""

from __future__ import annotations

import numpy as np
import pytest

import barymesh as bm

POINTS = np.linspace(-3, 3, 40)
FINE = np.linspace(-3, 3, 300)
GAUSSIANS = [bm.Gaussian(mean, 0.3 + 0.05 * k) for k, mean in enumerate(np.linspace(-2, 2, 5))]


def solved(points=POINTS, **options):
    return bm.barycenter(GAUSSIANS, points, progress=False, **{"reg": 0.1, "method": "rounds", **options})


@pytest.mark.parametrize("debias", [False, True])
@pytest.mark.parametrize(("points", "reg"), [(POINTS, 0.1), (FINE, 0.1), (POINTS, 0.01)], ids=["", "fine", "small reg"])
@pytest.mark.filterwarnings("ignore::barymesh.errors.AccuracyWarning")
def test_they_end_where_the_solver_does(points, reg, debias):
    weights = [1, 2, 3, 1, 1]
    truth = solved(points, reg=reg, debias=debias, weights=weights, method="sinkhorn", tol=1e-9)
    found = solved(points, reg=reg, debias=debias, weights=weights, tol=1e-9)
    assert found.success
    assert found.method == "rounds"
    assert found.iterations < truth.iterations
    np.testing.assert_allclose(found.weights, truth.weights, rtol=0, atol=1e-7)
    assert found.value == pytest.approx(truth.value, abs=1e-7)
    assert 0 <= found.gap < 1e-6
    assert found.feasibility < 1e-6


def test_they_continue_from_a_result_and_may_be_stopped():
    seen = []
    first = solved(callback=lambda record: seen.append(record) or len(seen) == 3)
    assert first.status is bm.Status.STOPPED
    assert first.iterations == 3
    assert 0 < first.gap < 1
    then, anew = solved(start=first), solved()
    assert then.success
    assert then.iterations < anew.iterations
    np.testing.assert_allclose(then.weights, anew.weights, rtol=0, atol=1e-6)
    assert solved(max_iter=2).status is bm.Status.MAX_ITERATIONS
