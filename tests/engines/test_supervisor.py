"""The caller of the workers: what it makes of their reports."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from barymesh.engines.runtime import Snapshot
from barymesh.engines.supervisor import WorkerHandle, _require_reached, gathered
from barymesh.errors import NetworkError
from barymesh.transport.sockets import Links
from barymesh.transport.subscriber import Neighbour
from barymesh.transport.wire import MessageFormat


class Silent(WorkerHandle):
    """A worker without a process."""

    def poll(self):
        """Nothing to see."""

    def end(self):
        """Nothing to end."""


def report(nodes, activations):
    rows = np.ones((len(nodes), 3))
    return Snapshot(
        nodes=np.array(nodes), weights=rows, duals=rows, values=rows[:, 0], errors=rows[:, 0], gaps=rows[:, 0],
        tv_bounds=rows[:, 0], points=None, activations=activations,
        messages=2 * activations, bytes=200 * activations, stopped=False, seconds=1.0,
    )  # fmt: skip


def test_a_worker_that_lost_its_memory_counts_on():
    """One that kept it reports counts that go on; one that lost it reports counts from 0."""
    keeps, loses = Silent(None), Silent(None)
    for activations in (10, 50, 60):
        keeps.receive(report([0, 1], activations))
    for activations in (10, 50, 5, 20, 3):
        loses.receive(report([2], activations))
    found = gathered([keeps, loses], 3)
    assert found.activations == 60 + 50 + 20 + 3
    assert found.traffic.messages == 2 * found.activations
    assert found.traffic.bytes == 200 * found.activations


def test_workers_that_never_reach_one_another_are_an_error():
    """Real links to a port where nothing listens."""
    assignment = SimpleNamespace(number=1)

    async def tried():
        near = Neighbour("worker 0", "tcp://127.0.0.1:1", (0,), None)
        message_format = MessageFormat("run", np.zeros(1), np.ones(1))
        async with Links([1], "tcp://127.0.0.1:0", [near], message_format, curve=None) as links:
            while not links.status()["worker 0"].note:
                await asyncio.sleep(0.01)
            return links.unreached()

    worker = Silent(assignment)
    worker.receive(report([1], 10))
    _require_reached([worker], 60.0)
    worker.receive(replace(report([1], 20), unreached=asyncio.run(tried())))
    with pytest.raises(NetworkError, match=r"Worker 1 has not reached worker 0 in 60 s \(tcp://127.0.0.1:1: it cannot"):
        _require_reached([worker], 60.0)
