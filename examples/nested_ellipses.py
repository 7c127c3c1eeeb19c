"""Thirty pictures of two nested ellipses, and their average in two senses.

The pixel-wise mean of the pictures is a blur. Their Wasserstein barycenter is again two nested ellipses, because it
averages where the ink *is*, not how dark each pixel is.

    python examples/nested_ellipses.py [folder]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

import barymesh as bm

SIDE, COUNT, SHOWN = 128, 30, 8
REG = 0.0002


def nested_ellipses(rng: np.random.Generator, side: int = SIDE, width: float = 0.018) -> NDArray[np.float64]:
    """A picture of two thin ellipses, one around the other, of random place, size and tilt."""
    rows, columns = np.mgrid[0 : 1 : side * 1j, 0 : 1 : side * 1j]
    picture = np.zeros((side, side))
    centre = rng.uniform(0.42, 0.58, 2)
    for size in (rng.uniform(0.28, 0.38), rng.uniform(0.08, 0.16)):
        tilt, squeeze = rng.uniform(0, np.pi), rng.uniform(0.55, 1.0)
        down, right = rows - centre[0], columns - centre[1]
        along = np.cos(tilt) * down + np.sin(tilt) * right
        across = (-np.sin(tilt) * down + np.cos(tilt) * right) / squeeze
        picture += np.exp(-(((np.hypot(along, across) - size) / width) ** 2))
    return picture


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "demo")
    rng = np.random.default_rng(7)
    pictures = np.array([nested_ellipses(rng) for _ in range(COUNT)])
    pictures /= pictures.sum(axis=(1, 2), keepdims=True)

    print(f"Computing the Wasserstein barycenter of {COUNT} pictures of {SIDE} x {SIDE} pixels.", flush=True)
    result = bm.barycenter(pictures, reg=REG, tol=1e-5, progress=True)
    print(f"{result.iterations} iterations in {result.seconds:.1f} s.")
    print(f"Objective {result.value:.6f}, certified to be within {result.gap:.1e} of the best possible.")

    folder.mkdir(parents=True, exist_ok=True)
    result.save(folder / "result.npz")
    picture_file = folder / "nested-ellipses.png"
    draw(pictures, result).savefig(picture_file, dpi=150)
    print(f"The picture is in {picture_file}, everything else in {folder / 'result.npz'}.")


def draw(pictures: NDArray[np.float64], result: bm.Result) -> Figure:
    """The pixel-wise mean, some of the pictures, and the barycenter, side by side."""
    figure = Figure(figsize=(9.6, 3.0), layout="constrained")
    left, middle, right = figure.subfigures(1, 3, width_ratios=[1, 1.7, 1])
    for part, title, image in (
        (left, "pixel-wise mean", pictures.mean(axis=0)),
        (right, "Wasserstein barycenter", result.image),
    ):
        part.suptitle(title, fontsize=11)
        axes = part.subplots()
        axes.imshow(image, cmap="magma")
        axes.set_axis_off()
    middle.suptitle(f"{SHOWN} of the {COUNT} pictures", fontsize=11)
    for axes, image in zip(middle.subplots(2, SHOWN // 2).flat, pictures, strict=False):
        axes.imshow(image, cmap="magma")
        axes.set_axis_off()
    return figure


if __name__ == "__main__":
    main()
