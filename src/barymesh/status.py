"""Why a computation ended, in words people read."""

from __future__ import annotations

from enum import Enum


class Status(Enum):
    """The reason a result looks the way it does. ``status.value`` is a sentence.

    Examples
    --------
    >>> from barymesh import Status
    >>> Status.FINISHED.value
    'Ran for the duration asked for.'
    """

    CONVERGED = "Converged: the nodes agree to the tolerance asked for."
    MAX_ITERATIONS = "Stopped at the largest number of iterations allowed, before reaching the tolerance."
    FINISHED = "Ran for the duration asked for."
    STOPPED = "Stopped by the callback."
    INTERRUPTED = "Interrupted; this is the best result so far."

    def __str__(self) -> str:
        return self.value
