"""A progress bar for iterations that run until a tolerance is reached."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barymesh.engines.simulation import Simulation
    from barymesh.exact.solver import State

Callback = Callable[["State"], bool | None]


@contextmanager
def following(tol: float, max_iter: int, show: bool, callback: Callback | None) -> Iterator[Callback | None]:
    """A callback that draws progress, then asks the user's own callback whether to stop.

    The bar measures digits gained: from the first error seen down to ``tol``.
    """
    if not show:
        yield callback
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("barycenter"), BarColumn(), TextColumn("{task.fields[detail]}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=False) as bar:
        task = bar.add_task("barycenter", total=1.0, detail="preparing")
        first: list[float] = []

        def watch(state: State) -> bool | None:
            first.append(state.error) if not first else None
            share = _share(first[0], state.error, tol, state.iteration, max_iter)
            bar.update(
                task, completed=share, detail=f"iteration {state.iteration}, error {state.error:.1e} (goal {tol:.0e})"
            )
            return callback(state) if callback else None

        yield watch
        bar.update(task, completed=1.0)


def _share(first: float, error: float, tol: float, iteration: int, max_iter: int) -> float:
    if tol > 0 and first > tol and error > 0:
        return min(1.0, max(0.0, math.log(first / error) / math.log(first / tol)))
    return iteration / max_iter


@contextmanager
def following_time(
    duration: float, title: str, callback: Callable[[Simulation[Any]], bool | None] | None
) -> Iterator[Callable[[Simulation[Any]], bool | None]]:
    """The same for a run on a network: the bar measures its seconds, virtual or real."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn(title), BarColumn(), TextColumn("{task.fields[detail]}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=False) as bar:
        task = bar.add_task(title, total=duration, detail="preparing")

        def watch(simulation: Simulation[Any]) -> bool | None:
            detail = f"{simulation.now:.4g} of {duration:.4g} seconds, {simulation.activations:,} activations"
            bar.update(task, completed=min(simulation.now, duration), detail=detail)
            return callback(simulation) if callback else None

        yield watch
