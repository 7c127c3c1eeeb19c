"""Measures that stay where they are: functions that load them, and tell in a folder which process called them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

import barymesh as bm
from barymesh.exact import certify
from barymesh.oracle import build_oracle

POINTS = np.linspace(-3, 3, 20)
MEASURES = [bm.Gaussian(mean, 0.3 + 0.05 * k) for k, mean in enumerate(np.linspace(-2, 2, 6))]


def load(node: int, folder: Path) -> bm.Gaussian:
    (folder / f"{node}-{os.getpid()}").touch()
    return MEASURES[node]


def fail(node: int) -> None:
    raise KeyError(f"no patients for {node}")


def staying(folder: Path, at: str | None = None) -> list[bm.Measure]:
    """Two from a function, one from a file."""
    samples = folder / "samples.npy"
    np.save(samples, np.linspace(-1, 0, 50)[:, None])
    return [bm.Lazy(load, 0, folder), bm.Lazy(samples), bm.Lazy(load, 2, folder, at=at)]


def known(folder: Path) -> list[bm.Measure]:
    """The same, loaded here."""
    return [MEASURES[0], bm.Empirical(np.load(folder / "samples.npy")), MEASURES[2]]


def called(folder: Path) -> tuple[set[int], set[int]]:
    """The nodes whose measures were loaded, and the processes that did it."""
    calls = [path.name.split("-") for path in folder.iterdir() if path.suffix != ".npy"]
    return {int(node) for node, _ in calls}, {int(process) for _, process in calls}


def check_certificate(result: bm.Result, measures: list[bm.Measure]) -> None:
    """What the workers put together is what one who has all measures finds."""
    problem = bm.Problem.create(measures, POINTS, reg=result.reg)
    oracle = build_oracle(problem.atoms, problem.support, problem.cost, problem.reg)
    x = (result.duals - problem.weights @ result.duals) / problem.reg
    bounds = certify(oracle, problem.weights, x, oracle.evaluate(x)[1], result.weights, problem.product_costs)
    np.testing.assert_allclose(result.value - result.gap, bounds.lower, rtol=0, atol=1e-9)
    # each worker needs the largest cost of its own measures only
    assert bounds.lower < result.value <= bounds.upper + 1e-9
    np.testing.assert_allclose(result.node_weights, oracle.value_and_gradient(result.duals)[1], atol=1e-12)
