"""Small pictures of the measures, beside that of their barycenter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from barymesh.measures.histogram import Histogram
from barymesh.measures.image import Image
from barymesh.subsample import evenly
from barymesh.support.grid import Grid
from barymesh.support.points import Support
from barymesh.viz.plane import PlanePicture

if TYPE_CHECKING:
    from barymesh.result import Result

Floats = NDArray[np.floating[Any]]
MOST_INPUTS, MOST_ROWS = 8, 4
# longer names are cut off
LONGEST_NAME = 14


@dataclass(frozen=True)
class Input:
    """A measure that can be shown as a picture: ``masses (n,)`` on a grid in the plane."""

    name: str
    support: Support
    masses: Floats


def known_inputs(result: Result) -> list[Input]:
    """Some of the measures that are masses on a grid in the plane, evenly chosen. None of a result from a file, which
    has no data."""
    problem = result.problem
    if problem is None:
        return []
    known = [k for k, measure in enumerate(problem.measures) if isinstance(measure, Image | Histogram)]
    inputs = []
    for k in (known[place] for place in evenly(len(known), MOST_INPUTS)):
        atoms = problem.atoms_of(k)
        if atoms.grid is not None and atoms.grid.dimension == 2:
            masses = np.zeros(len(atoms.table))
            masses[atoms.index] = atoms.weights
            support = Support.of_grid(atoms.grid).named(result.support.names)
            inputs.append(Input(problem.measures[k].label or f"measure {k}", support, masses))
    return inputs


def numbered_pixels(result: Result) -> Support | None:
    """The support with the numbers of rows and columns as coordinates, if it is the pixels of images."""
    support, grid, problem = result.support, result.support.grid, result.problem
    if problem is None or grid is None or support.names is not None or grid != Grid.of_image(grid.shape):
        return None
    if not any(isinstance(measure, Image) for measure in problem.measures):
        return None
    return Support.of_grid(Grid(grid.shape, (0.0,) * grid.dimension, tuple(side - 1.0 for side in grid.shape)))


def draw_inputs(panel: Any, inputs: list[Input], count: int) -> None:
    """Draw them below one another, in two columns if they are many. ``count`` is the number of all measures."""
    columns = -(-len(inputs) // MOST_ROWS)
    places = panel.subplots(-(-len(inputs) // columns), columns, squeeze=False).ravel()
    for axes, one in zip(places, inputs, strict=False):
        picture = PlanePicture(axes, one.support, one.masses)
        # smaller than its pixels are many, it would lose thin lines
        picture.image.set_interpolation("antialiased")
        name = one.name if len(one.name) <= LONGEST_NAME else f"{one.name[: LONGEST_NAME - 1]}…"
        axes.set(xticks=[], yticks=[], xlabel="", ylabel="")
        axes.set_title(name, fontsize=8, pad=2, parse_math=False)
    for spare in places[len(inputs) :]:
        spare.axis("off")
    panel.suptitle(f"{len(inputs)} of the {count} measures" if len(inputs) < count else "the measures", fontsize=10)
