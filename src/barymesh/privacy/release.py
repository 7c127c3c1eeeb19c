"""The one use of a node's data: a histogram of its records with Gaussian noise."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barymesh.checks import real_number, whole_number
from barymesh.errors import DimensionError, MeasureError, OptionError, RegularisationError
from barymesh.measures import Distribution, Empirical, Histogram, Sampler, as_measures
from barymesh.privacy.accounting import noise_multiplier
from barymesh.privacy.noise import Stream
from barymesh.privacy.projection import nearest_histogram
from barymesh.support.points import Support, as_support

Floats = NDArray[np.float64]
# two probability vectors are at most so far apart, in L2
DIAMETER = np.sqrt(2.0)
DIGEST = 16


@dataclass(frozen=True)
class Release:
    """What was released of some records.

    Attributes
    ----------
    digest : str
        Releases with the same digest are the same one.
    epsilon, delta : float
        The privacy guarantee.
    records : int
        How many there were.
    noise_multiplier : float
        The noise had the deviation ``noise_multiplier * sqrt(2) / records``.
    """

    digest: str
    epsilon: float
    delta: float
    records: int
    noise_multiplier: float


def private_measure(
    measure: Any,
    support: Any,
    *,
    reg: float,
    epsilon: float,
    delta: float,
    samples: int | None = None,
    key: bytes | None = None,
) -> tuple[Histogram, Release]:
    """A histogram on the support that reveals little about any one record of the measure.

    It has (epsilon, delta)-differential privacy for the replacement of one record by any other.

    Parameters
    ----------
    measure : array (N, d), Empirical, function or distribution
        The records: samples ``(N, d)`` (or an Empirical without weights), or something to draw ``samples`` records
        from, a function ``(size, rng) -> samples`` or a ``scipy.stats`` distribution.
    support : array (n, d) or Support
        Where the barycenter lives. It must have been chosen without looking at the records, which count for the
        support point nearest to them.
    reg : float
        That of the barycenter to come: detail finer than its blur is taken for noise. It has no part in the privacy.
    epsilon, delta : float
        The privacy guarantee; for instance 1 and 1e-6.
    samples : int, optional
        How many records to draw, where ``measure`` has to be drawn from.
    key : bytes, optional
        The secret that the noise is made from: with the same key, records, support, epsilon and delta comes the same
        release, which therefore can be made again without releasing more. By default a new one each time. Against
        those who know the key there is no privacy, so a key written in a program is for experiments only.

    Returns
    -------
    histogram : Histogram
        What is used in place of the records.
    release : Release
        What was released.

    Examples
    --------
    >>> import numpy as np
    >>> from barymesh.privacy import private_measure
    >>> records = np.random.default_rng(0).normal(0, 1, 5000)
    >>> histogram, release = private_measure(records, np.linspace(-4, 4, 40), reg=0.1, epsilon=1, delta=1e-6)
    >>> release.records, histogram.masses.size
    (5000, 40)
    """
    place = as_support(support)
    blur = real_number(reg)
    if blur is None or blur <= 0:
        raise RegularisationError(f"reg is {reg!r}; it must be a positive number, that of the barycenter to come.")
    if key is not None and (not isinstance(key, bytes) or not key):
        raise OptionError("The key of a private measure must be bytes, at least one. Leave it out for a new one.")
    secret = secrets.token_bytes(32) if key is None else key
    multiplier = noise_multiplier(epsilon, delta)
    records = _sorted(_records(measure, place, samples, secret))
    count = len(records)
    if delta * count >= 1:
        raise OptionError(
            f"delta is {delta:g} with {count} records; from 1/{count} on it would allow to publish one of them as it "
            f"is. Give a far smaller one, such as {0.01 / count:.0e}."
        )
    about = [np.ascontiguousarray(array, dtype="<f8") for array in (records, place.points, [epsilon, delta])]
    parts = [part for array in about for part in (repr(array.shape).encode(), array.tobytes())]
    noise = multiplier * DIAMETER / count * Stream(secret, b"noise", *parts).normals(place.size)
    digest = Stream(secret, b"digest", *parts).bytes(DIGEST).hex()
    release = Release(digest, float(epsilon), float(delta), count, multiplier)
    return Histogram(nearest_histogram(shares(records, place) + noise, place, blur), place.points), release


def shares(records: Floats, support: Support) -> Floats:
    """The share of the records ``(M, d)`` nearest to each support point ``(n,)``: the average of M vectors with a
    single 1. To replace a record moves it by at most sqrt(2)/M in L2."""
    from scipy.spatial import cKDTree

    _, nearest = cKDTree(support.points).query(records)
    return np.bincount(nearest, minlength=support.size) / len(records)


def _records(measure: Any, support: Support, samples: int | None, secret: bytes) -> Floats:
    (found,) = as_measures([measure], support)
    if found.dimension is not None and found.dimension != support.dimension:
        raise DimensionError(
            f"The measure lives in {found.dimension} dimensions, the support in {support.dimension}. They must agree."
        )
    if isinstance(found, Empirical):
        if samples is not None:
            raise OptionError(
                f"samples= is {samples}, but the measure has records of its own, {len(found.points)}; leave it out."
            )
        if np.ptp(found.weights) > 0:
            raise MeasureError(
                "The records of a private measure have weights, so that a single one may count for much more than "
                "others, and would need much more noise. Give them without weights."
            )
        return found.points
    if isinstance(found, Sampler | Distribution):
        if samples is None:
            raise OptionError("The measure has to be drawn from; give the number of records, such as samples=10_000.")
        size = whole_number("samples", samples, 1)
        # of the key, so that a restart draws the same records
        seed = int.from_bytes(Stream(secret, b"draws").bytes(32), "big")
        return found.sample(size, np.random.default_rng(seed))
    raise MeasureError(
        f"A measure of type {type(found).__name__} cannot be made private: it is not known how many records it was "
        "made from, nor how much one of them may have changed it. Give the records themselves, samples (N, d)."
    )


def _sorted(records: Floats) -> Floats:
    """In a fixed order: the same records in another order must not make another release. (-0 becomes 0.)"""
    return (records + 0.0)[np.lexsort(records.T)]
