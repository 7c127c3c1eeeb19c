"""Ports of the loopback for programs that tests start."""

from __future__ import annotations

import itertools
import os
import socket

# a port that the system chooses is one of those it also gives to outgoing connections: before a program listens at it,
# some connection may have it. It chooses none of these
FIRST, LAST, EACH = 10_000, 30_000, 1_000

# every process of the tests has ports of its own
_worker = os.environ.get("PYTEST_XDIST_WORKER", "gw").removeprefix("gw")
_first = FIRST + EACH * (int(_worker or os.getpid()) % ((LAST - FIRST) // EACH))
_candidates = itertools.cycle(range(_first, _first + EACH))


def free_ports(count: int) -> list[int]:
    """So many ports at which nothing listens, others each time."""
    return list(itertools.islice(filter(_is_free, _candidates), count))


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
