"""Barycenters along a path of weights: each is where the next begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from barymesh.checks import whole_number
from barymesh.errors import OptionError, WeightError
from barymesh.options import EXACT, Options, check_places
from barymesh.problem import Problem
from barymesh.problem_input import checked_weights
from barymesh.result import Result
from barymesh.status import Status

if TYPE_CHECKING:
    from matplotlib.animation import FuncAnimation

    from barymesh.viz.figure import Figure

Floats = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class BarycenterPath(Sequence[Result]):
    """Barycenters along a path of weights: a sequence of Results.

    Attributes
    ----------
    results : tuple of Result
        One for each step, all on one support, with a row for every measure, also where its weight is 0.
    weights : array (steps, m)
        The weights of the measures at each step.

    Examples
    --------
    >>> import barymesh as bm
    >>> path = bm.path([bm.Gaussian(-2, 0.5), bm.Gaussian(3, 1.5)], steps=2, reg=0.1)
    >>> len(path), path.weights.tolist()
    (2, [[1.0, 0.0], [0.0, 1.0]])
    """

    results: tuple[Result, ...]
    weights: Floats

    @overload
    def __getitem__(self, step: int) -> Result: ...

    @overload
    def __getitem__(self, step: slice) -> Sequence[Result]: ...

    def __getitem__(self, step: int | slice) -> Result | Sequence[Result]:
        return self.results[step]

    def __len__(self) -> int:
        return len(self.results)

    def __repr__(self) -> str:
        reached = sum(result.success for result in self.results)
        m = self.weights.shape[1]
        return f"BarycenterPath({len(self)} barycenters of {m} measures, {reached} within the tolerance)"

    def plot(self) -> Figure:
        """A figure of the path: curves in 1-D, else a row of pictures.

        Returns
        -------
        matplotlib.figure.Figure
            Not shown yet; ``figure.savefig("path.png")`` writes it.
        """
        from barymesh.viz.path_plot import plot_path

        return plot_path(self.results, self.weights)

    def animate(self, path: str | Path | None = None, *, fps: int = 10) -> FuncAnimation:
        """The barycenter as the weights change, a picture for each step.

        Parameters
        ----------
        path : path, optional
            Where to write it: .gif, .html, or .mp4, which needs ffmpeg.
        fps : int, default=10
            Pictures a second.

        Returns
        -------
        matplotlib.animation.FuncAnimation
            The animation; a notebook shows ``animation.to_jshtml()``.
        """
        from barymesh.viz.animation import saved
        from barymesh.viz.path_plot import animate_path

        return saved(lambda: animate_path(self.results, self.weights, fps=fps), path, fps)


def path(
    measures: Any,
    weights_from: ArrayLike | str | None = None,
    weights_to: ArrayLike | str | None = None,
    steps: int = 11,
    support: Any = None,
    **options: Any,
) -> BarycenterPath:
    """Barycenters along the straight line between two choices of weights.

    Each step begins with the potentials of the one before, so that all take little longer than a few. Between two
    measures, from ``(1, 0)`` to ``(0, 1)``, this is the geodesic, up to the blur by ``reg``.

    Parameters
    ----------
    measures : list or array
        As for ``barycenter``.
    weights_from, weights_to : array (m,) or "size", optional
        The weights at both ends, normalised to sum 1. Some may be 0. For two measures by default ``(1, 0)`` and
        ``(0, 1)``.
    steps : int, default=11
        How many barycenters, both ends included.
    support : array (n, d), Support, str or None, default=None
        As for ``barycenter``; one for all steps.
    **options
        Further options of ``barycenter`` without a network: ``reg``, ``tol`` and so on.

    Returns
    -------
    BarycenterPath
        A sequence of Results, with ``animate`` and ``plot``. Ctrl-C returns the steps so far.

    Examples
    --------
    >>> import barymesh as bm
    >>> geodesic = bm.path([bm.Gaussian(-2, 0.5), bm.Gaussian(3, 1.5)], steps=3, reg=0.05)
    >>> [round(float(result.mean()[0]), 2) for result in geodesic]
    [-2.0, 0.5, 3.0]
    """
    for name in ("weights", "network", "start"):
        if name in options:
            raise OptionError(f"{name} is no option of path: it computes every step here, with weights of its own.")
    check_places(options, EXACT)
    asked = Options(measures, support, **options)
    if asked.output != "numpy":
        raise OptionError("The steps of a path have arrays of NumPy; leave out output.")
    problem = Problem.create(**asked.problem_arguments())
    if problem.free is not None:
        raise OptionError(
            "A path needs one support for all steps, and the points of a FreeSupport move. Compute each step with "
            "barymesh.barycenter(..., weights=..., start=result), from the result of the last one."
        )
    count = whole_number("steps", steps, 2)
    ends = _ends(weights_from, weights_to, problem)
    shares = np.linspace(0.0, 1.0, count)[:, None]
    weights = (1.0 - shares) * ends[0] + shares * ends[1]
    found: list[Result] = []
    for own in weights:
        found.append(_step(problem.with_weights(own), asked, found[-1] if found else None))
        if found[-1].status in (Status.INTERRUPTED, Status.STOPPED):
            break
    return BarycenterPath(tuple(found), weights[: len(found)])


def _ends(first: ArrayLike | str | None, last: ArrayLike | str | None, problem: Problem) -> list[Floats]:
    if len(problem.measures) == 2:
        first, last = (1.0, 0.0) if first is None else first, (0.0, 1.0) if last is None else last
    if first is None or last is None:
        raise WeightError(
            f"A path between {len(problem.measures)} measures needs weights_from and weights_to, a weight for each "
            "measure; only for two measures they may be left out."
        )
    return [checked_weights(weights, problem.measures, zero=True) for weights in (first, last)]


def _step(problem: Problem, options: Options, before: Result | None) -> Result:
    """The barycenter with these weights. Measures of weight 0 play no part in it; their potentials are those of their
    transport to it."""
    from barymesh.exact.run import solve_problem
    from barymesh.exact.transport import transport_potentials

    there = problem.weights > 0
    acting, idle = np.flatnonzero(there), np.flatnonzero(~there)
    part = problem if there.all() else problem.part(acting, problem.weights[acting])

    def solved(start: Result | None) -> Result:
        return solve_problem(
            part, max_iter=options.max_iter, tol=options.tol, start=start, callback=options.callback,
            progress=bool(options.progress),
        )  # fmt: skip

    found = solved(before and replace(before, duals=before.duals[acting]))
    if before is not None and found.status is Status.MAX_ITERATIONS:
        found = solved(None)
    duals, node_weights = np.empty((there.size, found.weights.size)), np.empty((there.size, found.weights.size))
    duals[acting], node_weights[acting] = found.duals, found.node_weights
    if idle.size:
        first = None if before is None else before.duals[idle] / problem.reg
        rest = problem.part(idle, np.ones(idle.size)).float64_oracle
        x = transport_potentials(rest, found.weights, max_iter=options.max_iter, tol=options.tol, start=first)[0]
        duals[idle], node_weights[idle] = problem.reg * x, np.exp(rest.evaluate(x)[1])
    return replace(found, duals=duals, node_weights=node_weights, problem=problem.without_oracles())
