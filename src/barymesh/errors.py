"""Every error barymesh raises on purpose. All derive from BarymeshError, so one ``except`` catches them."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

_PACKAGE = str(Path(__file__).parent)


class BarymeshError(Exception):
    """Base of all errors of barymesh. ``error.option`` is the name of the option that is wrong, where it is one."""

    option: str | None = None


class MeasureError(BarymeshError, ValueError):
    """A measure is empty, has bad weights or coordinates, or cannot be read in one way only."""


class SamplerError(MeasureError):
    """A sampler returned something that is not a finite array of the promised shape."""


class SupportError(BarymeshError, ValueError):
    """The support of the barycenter is empty, has duplicates, or does not fit the measures."""

    option = "support"


class DimensionError(BarymeshError, ValueError):
    """Measures, support or cost live in spaces of different dimension."""


class CostError(BarymeshError, ValueError):
    """The cost is unknown, or gave values that are not finite and non-negative."""

    option = "cost"


class RegularisationError(BarymeshError, ValueError):
    """``reg`` is not a positive finite number."""

    option = "reg"


class WeightError(BarymeshError, ValueError):
    """The weights of the measures are not positive, not finite, or of the wrong number."""

    option = "weights"


class OptionError(BarymeshError, ValueError):
    """An option has a value that means nothing, such as an unknown method or a negative tolerance."""


class NetworkError(BarymeshError, ValueError):
    """The network is unknown, not connected, not simple, directed, badly weighted, or of the wrong size."""

    option = "network"


class FileError(BarymeshError, OSError):
    """A file is missing, truncated, or of a kind barymesh does not read."""


class DamagedFileError(FileError):
    """A file of barymesh is not as it was written."""


class ConfigError(BarymeshError, ValueError):
    """A configuration file has an unknown key or a bad value; the message names key and line."""


class MissingPackageError(BarymeshError, ImportError):
    """A part of barymesh needs packages that are not installed, or too old; the message names the extra that brings
    them."""


class PrivacyError(BarymeshError, ValueError):
    """The data may not be used as they would be: the privacy budget is spent, or nobody has agreed."""


class NotEnoughMemoryError(BarymeshError, MemoryError):
    """The work would need more memory than the machine has free. Raised before anything is allocated."""


class AccuracyWarning(UserWarning):
    """A result is valid but may be less accurate than the problem requires; the message gives the reason and a
    remedy."""


class DriftWarning(UserWarning):
    """The method chosen does not keep the duals feasible, so what the nodes agree on is not the barycenter."""


class OutputWarning(UserWarning):
    """A part of the output of a command was not written; the message gives the reason and a remedy."""


class NumericalError(BarymeshError, ArithmeticError):
    """A computation produced a number that is not finite; nothing of it was returned."""


def warn(message: str, category: type[Warning]) -> None:
    """Warn, naming the line of the user's program that called barymesh."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
