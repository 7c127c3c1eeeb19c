"""Names at the ends of curves, in place of a legend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.images import Floats

# of a label, in points
SIZE = 8.5


def label_ends(axes: Any, names: Sequence[str]) -> None:
    """Write these names to the right of the axes, each in the colour of its curve and as near to its last point as the
    others allow, with a thin line between the two. Call it last: limits and size of the axes must not change."""
    lines = axes.get_lines()[: len(names)]
    ends = [(line.get_xdata()[-1], line.get_ydata()[-1]) for line in lines]
    to_axes = axes.transData + axes.transAxes.inverted()
    heights = np.clip([to_axes.transform(end)[1] for end in ends], 0.0, 1.0)
    height = axes.get_window_extent().height / axes.figure.dpi * 72
    for name, line, end, place in zip(names, lines, ends, apart(heights, 1.2 * SIZE / height), strict=True):
        axes.annotate(
            name, end, xytext=(1.07, place), textcoords="axes fraction", color=line.get_color(), fontsize=SIZE,
            va="center", annotation_clip=False,
            arrowprops={
                "arrowstyle": "-", "color": line.get_color(), "lw": 0.5, "shrinkA": 1, "shrinkB": 0, "relpos": (0, 0.5),
            },
        )  # fmt: skip


def apart(places: Sequence[float] | Floats, gap: float) -> Floats:
    """The places between 0 and 1 that are nearest to these, in the same order, with a gap between any two.

    Places that are too close form a block around their mean, and blocks that touch are joined.
    """
    order = np.argsort(places, kind="stable")
    # of each block: how many, and the sum of where each of its members would have it begin
    blocks: list[tuple[int, float]] = []

    def begin(count: int, total: float) -> float:
        return max(min(total / count, 1.0 - (count - 1) * gap), 0.0)

    for place in np.asarray(places)[order]:
        count, total = 1, float(place)
        while blocks and begin(*blocks[-1]) + blocks[-1][0] * gap > begin(count, total):
            before, total_before = blocks.pop()
            count, total = before + count, total_before + total - count * before * gap
        blocks.append((count, total))
    found = np.empty(len(order))
    found[order] = np.concatenate([begin(*block) + gap * np.arange(block[0]) for block in blocks])
    return found
