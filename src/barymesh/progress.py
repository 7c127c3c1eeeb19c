"""Progress of iterations that run until a tolerance is reached, and of runs that last for a time: a bar on the
terminal, in a notebook one line that changes in place."""

from __future__ import annotations

import html
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barymesh.record import Callback, Record

# the share done, and a description
Update = Callable[[float, str], None]
# seconds between two changes of a line in a notebook: each is a message to the browser
UPDATE_SECONDS = 0.2


def in_notebook() -> bool:
    """Whether this runs in the kernel of a notebook. IPython is not imported to find out."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


def is_interactive() -> bool:
    """Whether progress can be seen: in a terminal or a notebook."""
    return sys.stderr.isatty() or in_notebook()


def show_message(sentence: str) -> None:
    """Print a sentence beside the progress bar: on standard error, as standard output is for results; in a notebook on
    standard output, because standard error is shown there as an error."""
    print(sentence, file=sys.stdout if in_notebook() else sys.stderr)


@contextmanager
def iteration_progress(tol: float, max_iter: int, show: bool, callback: Callback | None) -> Iterator[Callback | None]:
    """A callback that draws progress, then calls the user's own callback, which may stop the run.

    The bar measures digits gained: from the first error seen down to ``tol``.
    """
    if not show:
        yield callback
        return
    with _bar("barycenter", 1.0) as update:
        first: list[float] = []

        def watch(record: Record) -> bool | None:
            error = record.figures["consensus"]
            first.append(error) if not first else None
            share = _share(first[0], error, tol, record.step, max_iter)
            update(share, f"iteration {record.step}, error {error:.1e} (goal {tol:.0e})")
            return callback(record) if callback else None

        yield watch


def _share(first: float, error: float, tol: float, iteration: int, max_iter: int) -> float:
    if tol > 0 and first > tol and error > 0:
        return min(1.0, max(0.0, math.log(first / error) / math.log(first / tol)))
    return iteration / max_iter


@contextmanager
def time_progress(duration: float, title: str, show: bool, callback: Callback | None) -> Iterator[Callback | None]:
    """The same for a run on a network: the bar measures its seconds, virtual or real."""
    if not show:
        yield callback
        return
    with _bar(title, duration) as update:

        def watch(record: Record) -> bool | None:
            detail = f"{record.time:.4g} of {duration:.4g} seconds, {record.step:,} activations"
            update(min(record.time, duration), detail)
            return callback(record) if callback else None

        yield watch


def _bar(title: str, total: float) -> AbstractContextManager[Update]:
    return _notebook_line(title, total) if in_notebook() else _terminal_bar(title, total)


@contextmanager
def _terminal_bar(title: str, total: float) -> Iterator[Update]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn(title), BarColumn(), TextColumn("{task.fields[detail]}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=False) as bar:
        task = bar.add_task(title, total=total, detail="preparing")
        yield lambda completed, detail: bar.update(task, completed=completed, detail=detail)
        bar.update(task, completed=total)


@contextmanager
def _notebook_line(title: str, total: float) -> Iterator[Update]:
    """One output that changes in place: a bar and text, or text alone where HTML is not shown. Needs no widgets."""
    import IPython.display

    display: Any = IPython.display.display
    began = time.monotonic()
    shown, due = "preparing", began + UPDATE_SECONDS
    completed = 0.0

    def line() -> dict[str, str]:
        text = f"{title}: {shown}, {time.monotonic() - began:.1f} s"
        drawn = f"<progress value='{completed / total:.4f}'></progress> {html.escape(text)}"
        return {"text/plain": text, "text/html": drawn}

    handle = display(line(), raw=True, display_id=True)

    def update(now_completed: float, detail: str) -> None:
        nonlocal completed, shown, due
        completed, shown = now_completed, detail
        if time.monotonic() >= due:
            handle.update(line(), raw=True)
            due = time.monotonic() + UPDATE_SECONDS

    try:
        yield update
        completed = total
    finally:
        handle.update(line(), raw=True)
