"""barymesh: Wasserstein barycenters with a certificate, on one machine or on a network that pools no data.

Examples
--------
>>> import barymesh as bm
>>> bm.barycenter([bm.Gaussian(-2, 0.5), bm.Gaussian(3, 1.0)], reg=0.05).success
True
"""

from __future__ import annotations

from barymesh.api import barycenter
from barymesh.errors import BarymeshError
from barymesh.gaussians import gaussian_barycenter
from barymesh.history import History
from barymesh.io.files import read_measures
from barymesh.io.frames import from_dataframe
from barymesh.measures import Distribution, Empirical, Gaussian, Histogram, Image, Measure, Mixture, Sampler
from barymesh.measures.lazy import Lazy, LazyMeasures
from barymesh.problem import Problem
from barymesh.record import Record
from barymesh.resources.cores import set_threads
from barymesh.result import Result
from barymesh.status import Status
from barymesh.support.free import FreeSupport
from barymesh.support.grid import Grid
from barymesh.support.points import Support
from barymesh.weight_path import BarycenterPath, path

__version__ = "0.1.0"

set_threads()
load = Result.load

__all__ = [
    "BarycenterPath",
    "BarymeshError",
    "Distribution",
    "Empirical",
    "FreeSupport",
    "Gaussian",
    "Grid",
    "Histogram",
    "History",
    "Image",
    "Lazy",
    "LazyMeasures",
    "Measure",
    "Mixture",
    "Problem",
    "Record",
    "Result",
    "Sampler",
    "Status",
    "Support",
    "barycenter",
    "from_dataframe",
    "gaussian_barycenter",
    "load",
    "path",
    "read_measures",
    "set_threads",
]


def __dir__() -> list[str]:
    """The public names, and those of Python; not the modules that this one has imported."""
    return [*__all__, *(name for name in globals() if name.startswith("__"))]
