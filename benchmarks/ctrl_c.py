"""Whether Ctrl-C was pressed, even where a solver or simulation handled it and ended early."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


@contextmanager
def noticing() -> Iterator[Callable[[], bool]]:
    """Within the block, the yielded function says whether Ctrl-C was pressed. Outside the main thread it never was."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    # Python writes the number of every signal here, whatever handles it
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    previous = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    seen = bytearray()

    def pressed() -> bool:
        # raised when there is nothing to read
        with suppress(BlockingIOError):
            seen.extend(os.read(reading, 4096))
        return signal.SIGINT in seen

    try:
        yield pressed
    finally:
        signal.set_wakeup_fd(previous)
        os.close(reading)
        os.close(writing)
