"""The measures of the paper's first experiment, which several benchmarks share."""

from __future__ import annotations

import numpy as np

from barymesh.cli.config import Gaussians
from barymesh.measures import Gaussian
from barymesh.problem import Problem

REG = 0.1


def gaussians(size: int, seed: int = 0, order: int | None = None, points: int = 100) -> Problem:
    """``size`` normal distributions with means in [-4, 4] and deviations in [0.1, 0.6], on ``points`` of [-5, 5].

    ``order``: of their quadrature; by default the finest that makes a difference.
    """
    measures = Gaussians(count=size, mean=[-4, 4], std=[0.1, 0.6], seed=seed).draw()
    if order is not None:
        measures = [Gaussian(one.mean, cov=one.cov, order=order) for one in measures]
    return Problem.create(measures, np.linspace(-5, 5, points), reg=REG, seed=seed)
