"""Ctrl-C that keeps what was computed: the first stops the work at its next safe point, the second stops at once.

So does ``request_interrupt``, however often it is called.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

# of the blocks that are being carried out in the main thread, the innermost last
_requests: list[threading.Event] = []


def request_interrupt() -> None:
    """Stop the work at its next safe point, or at once if it has none: KeyboardInterrupt."""
    if not _requests:
        raise KeyboardInterrupt
    _requests[-1].set()


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Within the block, Ctrl-C makes the yielded function return True. Outside the main thread it changes nothing."""
    requested = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield requested.is_set
        return
    previous = signal.getsignal(signal.SIGINT)

    def on_signal(number: int, frame: FrameType | None) -> None:
        if requested.is_set():
            raise KeyboardInterrupt
        requested.set()

    # None: not ours to restore; SIG_IGN: the process is meant to continue through Ctrl-C
    ours = previous not in (None, signal.SIG_IGN)
    _requests.append(requested)
    if ours:
        signal.signal(signal.SIGINT, on_signal)
    try:
        yield requested.is_set
    finally:
        if ours:
            signal.signal(signal.SIGINT, previous)
        _requests.remove(requested)
