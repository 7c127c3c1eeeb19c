"""Reads sockets of ZeroMQ in an event loop, without a future for each wait: those of ``zmq.asyncio`` would take longer
than all the rest that is done for a message."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from barymesh.extras import needs

with needs("peers"):
    import zmq


@contextmanager
def read_when_ready(socket: zmq.Socket[bytes], read: Callable[[], bool]) -> Iterator[None]:
    """Calls ``read`` whenever something may have come. It must read until nothing is left, as the descriptor of a
    socket only announces what is new; or return True, to be called again when others had their turn."""
    loop, descriptor = asyncio.get_running_loop(), socket.fileno()
    again: asyncio.Handle | None = None

    def ready() -> None:
        nonlocal again
        if again is not None:
            again.cancel()
        again = loop.call_soon(ready) if read() else None

    loop.add_reader(descriptor, ready)
    # for what came before
    again = loop.call_soon(ready)
    try:
        yield
    finally:
        loop.remove_reader(descriptor)
        if again is not None:
            again.cancel()
