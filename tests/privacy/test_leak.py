"""What a neighbour can make of one message: a few records without privacy, and with it nothing."""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls

import barymesh as bm
from barymesh.privacy import private_measure

SUPPORT, REG = bm.Support.regular(100, -5, 5), 0.1
CANDIDATES = np.linspace(-5, 5, 1001)
RECORDS = np.array([-1.3, -0.2, 0.45, 1.7, 2.6])


def guessed(measure):
    """Where a neighbour that knows the potential x of the node and its estimate ``p = sum_y mu(y) softmax(x - c(y))``
    sees records: the mu >= 0 on candidates that explain p best."""
    result = bm.barycenter([measure, bm.Gaussian(0, 1), bm.Gaussian(1, 0.6)], SUPPORT, reg=REG)
    exponents = (result.duals[0][:, None] - np.square(SUPPORT.points - CANDIDATES)) / REG
    columns = np.exp(exponents - exponents.max(axis=0))
    masses, _ = nnls(columns / columns.sum(axis=0), result.node_weights[0], maxiter=20_000)
    return CANDIDATES[masses > 0.2 / len(RECORDS)]


def farthest(measure):
    """How far the worst found record is from where the neighbour sees one."""
    return max(np.abs(guessed(measure) - record).min() for record in RECORDS)


def test_without_privacy_a_neighbour_finds_every_one_of_a_few_records():
    assert farthest(bm.Empirical(RECORDS[:, None])) < 0.015


def test_with_privacy_it_does_not():
    private, _ = private_measure(RECORDS[:, None], SUPPORT, reg=REG, epsilon=1.0, delta=1e-4, key=b"key")
    assert farthest(private) > 0.5
