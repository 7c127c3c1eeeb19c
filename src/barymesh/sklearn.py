"""The estimators for scikit-learn. They need ``pip install 'barymesh[sklearn]'``."""

from __future__ import annotations

from barymesh.estimators.histograms import WassersteinBarycenter
from barymesh.estimators.samples import BarycenterTransport

__all__ = ["BarycenterTransport", "WassersteinBarycenter"]
