"""Why a computation ended."""

from __future__ import annotations

from enum import Enum


class Status(Enum):
    """Why a computation ended. ``status.value`` is a sentence.

    Examples
    --------
    >>> from barymesh import Status
    >>> Status.OUT_OF_TIME.value
    'Stopped at the end of the duration, before reaching the tolerance.'
    """

    CONVERGED = "Converged: the tolerance was reached."
    STATIONARY = "Converged to a stationary point: no small change is better, though another measure may be."
    MAX_ITERATIONS = "Stopped at the largest number of iterations allowed, before reaching the tolerance."
    OUT_OF_TIME = "Stopped at the end of the duration, before reaching the tolerance."
    STOPPED = "Stopped by the callback."
    INTERRUPTED = "Interrupted; this is the best result so far."
    RUNNING = "Still working; this is the newest result, before reaching the tolerance."

    def __str__(self) -> str:
        return self.value
