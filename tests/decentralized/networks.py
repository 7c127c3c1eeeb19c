"""Gaussians on networks, for the tests of what runs there: run, and compare with the exact barycenter."""

from __future__ import annotations

import numpy as np

import barymesh as bm
from barymesh.scenario.faults import Crash, Duplication, Loss, Reordering, Sleep

POINTS = np.linspace(-5, 5, 24)
# long enough for the slowest network here; runs stop by themselves long before
DURATION = 3000

FAULTS = {
    "loss": [Loss(0.2)],
    "duplication and reordering": [Duplication(0.3), Reordering(0.3, 2.0)],
    "crash with memory": [Crash(0, 3.0, 9.0), Crash(5, 4.0, 8.0)],
    "crash without memory": [Crash(0, 3.0, 9.0, memory=False), Crash(5, 4.0, 8.0, memory=False)],
    "sleep": [Sleep(2, 2.0, 8.0)],
    "everything": [Loss(0.2), Duplication(0.2), Reordering(0.2, 1.0), Crash(1, 2.0, 6.0), Crash(3, 5.0, 9.0)],
}


def gaussians(count, seed=0):
    rng = np.random.default_rng(seed)
    return [
        bm.Gaussian(mean, std)
        for mean, std in zip(rng.uniform(-4, 4, count), rng.uniform(0.3, 0.9, count), strict=True)
    ]


def run(count=12, measures=None, points=POINTS, **options):
    options = {"network": "erdos_renyi", "duration": DURATION, "reference": True, "record_every": 5.0, **options}
    return bm.barycenter(measures or gaussians(count), points, reg=0.3, progress=False, **options)


def assert_right(result, tol=1e-6):
    assert result.status is bm.Status.CONVERGED
    assert result.history["tv"][-1] < tol
    assert result.feasibility < tol * 10
    assert result.consensus < tol


def exact(measures, **options):
    """The true barycenter of the measures."""
    return bm.barycenter(measures, POINTS, reg=0.3, tol=1e-12, progress=False, **options)
