"""Erratum 6: A2DWB does not conserve the sum of the duals, so it ends below the optimum, at a wrong measure."""

from __future__ import annotations

import numpy as np
import pytest

import barymesh as bm
from barymesh.errors import DriftWarning


@pytest.fixture(scope="module")
def results():
    rng = np.random.default_rng(0)
    measures = [
        bm.Gaussian(mean, std) for mean, std in zip(rng.uniform(-4, 4, 30), rng.uniform(0.1, 0.6, 30), strict=True)
    ]
    options = {
        "support": np.linspace(-5, 5, 50), "reg": 0.1, "network": "erdos_renyi", "duration": 200, "batch": "exact",
        "record_every": 20, "reference": True,
    }  # fmt: skip
    with pytest.warns(DriftWarning, match="feasibility residual is now"):
        drifting = bm.barycenter(measures, method="a2dwb", **options)
    return drifting, bm.barycenter(measures, method="dcwb", **options)


def test_the_residual_grows(results):
    residual = results[0].history["feasibility"]
    assert residual[0] == 0
    assert residual[-1] > 0.05
    assert results[0].feasibility == pytest.approx(residual[-1], rel=0.1)
    assert results[1].history["feasibility"].max() < 1e-12


def test_the_dual_objective_falls_below_the_certified_optimum(results):
    drifting, conserving = results
    # the certificate of the conserving run bounds the optimum of the dual from below
    assert drifting.history["dual_error"][-1] < -0.01
    assert drifting.history["dual_objective"][-1] < -conserving.value + conserving.gap
    assert (conserving.history["dual_error"] > -1e-9).all()


def test_the_nodes_agree_on_a_wrong_measure(results):
    history = results[0].history
    assert history["consensus_distance"][-1] < 0.05 * history["consensus_distance"][0]
    assert history["tv"][-1] > 0.05
