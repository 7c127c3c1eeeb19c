"""Ctrl-C that keeps what was computed: the first asks the work to stop at its next safe point, the second stops at
once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Within the block, Ctrl-C makes the yielded function return True. Outside the main thread it changes nothing."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return
    previous = signal.getsignal(signal.SIGINT)

    def ask(number: int, frame: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    # None: not ours to restore; SIG_IGN: somebody wants this process to go on through Ctrl-C
    if previous in (None, signal.SIG_IGN):
        yield asked.is_set
        return
    signal.signal(signal.SIGINT, ask)
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGINT, previous)
