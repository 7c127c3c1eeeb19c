"""Private barycenters by output perturbation (Gu et al. 2025, arXiv 2510.03021): a curator who has all records computes
the barycenter of k distributions as m points, and adds normal noise to the points.

Of the paper only the abstract and a summary of its results could be had here: the noise is normal, the guarantee is
(epsilon, delta), the error is of the order ``(m d log(1/delta) / (epsilon k)^2)^(p/2)``, and splitting distributions
improves it. The rest is assumed. That error is the noise of points that each are the mean of k, one of each
distribution: if one distribution changes, each of the m points moves by ``D/k`` at most, where D is the diameter of the
data, and all together by ``sqrt(m) D / k``. Splitting: each distribution is dealt out into pieces of m records, so k is
the number of pieces of all. On a line, where the barycenter of pieces of m records is the mean of the sorted pieces,
less noise is enough: sorting brings two pieces that differ in one record no further apart, so the points move by
``D/k`` all together. Both are here; ``sharp`` is the second.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from barymesh.privacy.accounting import noise_multiplier
from benchmarks.rivals.curve import Floats


def points_of(records: Sequence[Floats], points: int, rng: np.random.Generator) -> Floats:
    """The barycenter ``(points,)``, sorted, of all pieces of so many records; those left over are not used."""
    pieces = [rng.permutation(one)[: one.size // points * points].reshape(-1, points) for one in records]
    # distributions count the same, however many pieces they have
    return np.asarray(np.mean([np.sort(own, axis=1).mean(axis=0) for own in pieces], axis=0))


def sensitivity(records: Sequence[Floats], points: int, diameter: float, *, sharp: bool) -> float:
    """By how much one record can move the points, in the Euclidean norm."""
    fewest = min(one.size for one in records) // points
    return diameter / (len(records) * fewest) * (1.0 if sharp else float(np.sqrt(points)))


def output_perturbation(
    records: Sequence[Floats], points: int, *, bounds: tuple[float, float], epsilon: float, delta: float, seed: int,
    sharp: bool,
) -> Floats:  # fmt: skip
    """The private points ``(points,)``, sorted. Records outside of the ``bounds``, which are public, are cut to them.

    Called with the records of one node only it protects them without a curator; the barycenter of several such is the
    mean of their points.
    """
    rng = np.random.default_rng(seed)
    within = [np.clip(one, *bounds) for one in records]
    moves = sensitivity(within, points, bounds[1] - bounds[0], sharp=sharp)
    noisy = points_of(within, points, rng) + noise_multiplier(epsilon, delta) * moves * rng.standard_normal(points)
    # what all know, and costs no privacy
    return np.sort(np.clip(noisy, *bounds))
