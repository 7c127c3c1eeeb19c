"""The caller of the workers: what it makes of their reports."""

from __future__ import annotations

import numpy as np

from barymesh.engines.runtime import Snapshot
from barymesh.engines.supervisor import WorkerHandle, gathered


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
