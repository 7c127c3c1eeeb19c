"""Measures: one file a kind, and the rules that turn a user's objects into them."""

from __future__ import annotations

from barymesh.measures.base import Atoms, Discretisation, Measure, discretise
from barymesh.measures.coercion import as_measures
from barymesh.measures.distribution import Distribution
from barymesh.measures.empirical import Empirical
from barymesh.measures.gaussian import Gaussian
from barymesh.measures.histogram import Histogram
from barymesh.measures.image import Image
from barymesh.measures.mixture import Mixture
from barymesh.measures.sampler import Sampler

__all__ = [
    "Atoms",
    "Discretisation",
    "Distribution",
    "Empirical",
    "Gaussian",
    "Histogram",
    "Image",
    "Measure",
    "Mixture",
    "Sampler",
    "as_measures",
    "discretise",
]
