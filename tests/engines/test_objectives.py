"""Debiased barycenters and points that move, on every engine: what the exact solver finds from the same start."""

from __future__ import annotations

import numpy as np
import pytest

import barymesh as bm

RNG = np.random.default_rng(0)
CLOUDS = [bm.Empirical(RNG.normal(shift, 0.5, (40, 2))) for shift in (-1.0, 0.0, 0.5)]
START = RNG.normal(size=(6, 2))
GRID = np.stack(np.meshgrid(np.linspace(-2, 2, 6), np.linspace(-2, 2, 6)), axis=-1).reshape(-1, 2)
WEIGHTS = np.array([0.5, 0.25, 0.25])
# the support and the options of each problem, and how close the results must be
PROBLEMS = {
    "debiased": (GRID, {"debias": True, "reg": 1.0}, 1e-4),
    "free": (bm.FreeSupport(points=START), {"reg": 0.5}, 1e-6),
    "learned": (bm.FreeSupport(points=START, weights="learned"), {"reg": 0.5}, 1e-6),
}
TOL = {"debiased": 1e-5, "free": 1e-8, "learned": 1e-8}


@pytest.fixture(scope="module", autouse=True)
def cluster():
    """One Ray cluster for all: its start takes long."""
    from barymesh.engines.ray import connected

    with connected(None, 2):
        yield


@pytest.fixture(scope="module")
def exact():
    return {
        name: bm.barycenter(CLOUDS, support, weights=WEIGHTS, tol=TOL[name] / 10, max_iter=10_000, **options)
        for name, (support, options, _) in PROBLEMS.items()
    }


def same(found, exact, close):
    assert found.success
    np.testing.assert_allclose(found.support.points, exact.support.points, rtol=0, atol=close)
    np.testing.assert_allclose(found.weights, exact.weights, rtol=0, atol=close)


ENGINES = {
    "simulation": {"duration": 1e5, "delays": "constant:seconds=0.1", "record_every": 1e3},
    "processes": {"duration": 90.0, "workers": 2, "interval": 0.02, "record_every": 0.5},
    "ray": {"duration": 90.0, "workers": 2, "interval": 0.02, "record_every": 0.5},
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", PROBLEMS)
def test_every_engine_finds_what_the_exact_solver_finds(engine, name, exact):
    support, options, close = PROBLEMS[name]
    found = bm.barycenter(
        CLOUDS, support, weights=WEIGHTS, network="complete", engine=engine, tol=TOL[name], progress=False,
        **options, **ENGINES[engine],
    )  # fmt: skip
    same(found, exact[name], close)
