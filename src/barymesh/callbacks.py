"""Callbacks that log the figures of a run to TensorBoard or MLflow while it is running.

They are given as ``callback=`` to ``barymesh.barycenter``, with and without a network, whatever the engine. What is
logged are the columns of ``result.history``, at the step of the record: iterations of the solver, activations on a
network.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from barymesh.checks import whole_number
from barymesh.extras import needs

if TYPE_CHECKING:
    from barymesh.record import Record


class Logger(ABC):
    """A callback that logs every so many calls. Use it in a ``with`` block, or ``close`` it, to be sure that all is
    written."""

    def __init__(self, every: int) -> None:
        self.every = whole_number("every", every, 1)
        self._calls = 0

    def __call__(self, record: Record) -> None:
        """Log the figures of the record."""
        if self._calls % self.every == 0:
            self._log(record.step, dict(record.figures))
        self._calls += 1

    @abstractmethod
    def _log(self, step: int, figures: dict[str, float]) -> None:
        """Hand the figures on."""

    def close(self) -> None:
        """Write what is still in memory."""
        return

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class TensorBoard(Logger):
    """Log to a folder that TensorBoard reads (``tensorboard --logdir folder``).

    Parameters
    ----------
    folder
        Where the event file goes; a folder for each run, inside the one given to TensorBoard, lets it compare runs.
    every
        Log every so many iterations, or records of a run on a network.
    prefix
        Put before the names of the figures.

    Examples
    --------
    >>> with TensorBoard("runs/first") as board:                                  # doctest: +SKIP
    ...     result = bm.barycenter(measures, reg=0.05, callback=board)
    """

    def __init__(self, folder: str | Path, *, every: int = 1, prefix: str = "barymesh/") -> None:
        super().__init__(every)
        with needs("tensorboard"):
            from tensorboardX import SummaryWriter  # type: ignore[import-untyped]

        self._writer = SummaryWriter(str(folder))
        self._prefix = prefix

    def _log(self, step: int, figures: dict[str, float]) -> None:
        for name, value in figures.items():
            self._writer.add_scalar(self._prefix + name, value, step)

    def close(self) -> None:
        """Write what is still in memory, and close the file."""
        self._writer.close()


class MLflow(Logger):
    """Log metrics to the MLflow run that is active, or to one that MLflow starts.

    Parameters
    ----------
    every
        Log every so many iterations, or records of a run on a network. Each takes MLflow some milliseconds.
    prefix
        Put before the names of the figures.

    Examples
    --------
    >>> with mlflow.start_run():                                                  # doctest: +SKIP
    ...     result = bm.barycenter(measures, reg=0.05, callback=MLflow(every=10))
    ...     mlflow.log_metric("gap", result.gap)
    """

    def __init__(self, *, every: int = 1, prefix: str = "") -> None:
        super().__init__(every)
        with needs("mlflow"):
            import mlflow

        self._log_metrics = mlflow.log_metrics
        self._prefix = prefix

    def _log(self, step: int, figures: dict[str, float]) -> None:
        self._log_metrics({self._prefix + name: value for name, value in figures.items()}, step=step)
