"""Ctrl-C that keeps what was computed: the first stops the work at its next safe point, the second stops at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


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
    if previous in (None, signal.SIG_IGN):
        yield requested.is_set
        return
    signal.signal(signal.SIGINT, on_signal)
    try:
        yield requested.is_set
    finally:
        signal.signal(signal.SIGINT, previous)
