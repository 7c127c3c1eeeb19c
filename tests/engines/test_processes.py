"""Real processes: the same barycenter, whatever is killed on the way."""

from __future__ import annotations

import multiprocessing
import os
import signal

import numpy as np
import pytest

import barymesh as bm
from barymesh.errors import OptionError

POINTS = np.linspace(-3, 3, 20)
MEASURES = [bm.Gaussian(mean, 0.3 + 0.05 * k) for k, mean in enumerate(np.linspace(-2, 2, 6))]


def run(**options):
    options = {"network": "cycle", "engine": "processes", "duration": 120, "workers": 2, "record_every": 0.2, **options}
    return bm.barycenter(MEASURES, POINTS, reg=0.3, progress=False, **options)


def test_processes_end_where_the_exact_solver_does():
    result = run(weights=[1, 2, 3, 1, 1, 1], reference=True)
    exact = bm.barycenter(MEASURES, POINTS, reg=0.3, weights=[1, 2, 3, 1, 1, 1], tol=1e-10)
    assert result.status is bm.Status.CONVERGED
    np.testing.assert_allclose(result.weights, exact.weights, atol=1e-6)
    assert result.gap < 1e-4
    assert result.history["tv"][-1] < 1e-6
    assert (result.node_errors <= 1e-5).all()
    assert result.messages > 0
    assert result.bytes > result.messages * POINTS.size * 8


def test_killed_workers_go_on_where_they_were():
    """Three times one of them is killed at once, in the middle of its work."""
    killed = []

    def kill(recorder):
        if len(killed) < 3 and len(recorder.rows) > 2 * len(killed):
            victim = sorted(multiprocessing.active_children(), key=lambda child: child.pid)[len(killed) % 2]
            os.kill(victim.pid, signal.SIGKILL)
            killed.append(victim.pid)
        return False

    result = run(callback=kill, interval=0.02)
    exact = bm.barycenter(MEASURES, POINTS, reg=0.3, tol=1e-10)
    assert len(killed) == 3
    assert result.status is bm.Status.CONVERGED
    np.testing.assert_allclose(result.weights, exact.weights, atol=1e-6)
    assert not multiprocessing.active_children()


def test_a_callback_may_stop_it():
    result = run(callback=lambda recorder: len(recorder.rows) > 3, tol=0)
    assert result.status is bm.Status.STOPPED
    assert not multiprocessing.active_children()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"engine": "threads"}, "threads"), ({"delays": "constant:seconds=1"}, "simulation"),
        ({"workers": 0}, "workers"), ({"method": "dcwb"}, "synchronous"), ({"interval": -1}, "interval"),
        ({"duration": 0}, "duration"), ({"network": None}, "network"),
    ],
)  # fmt: skip
def test_bad_options_are_named_before_anything_starts(options, said):
    with pytest.raises(OptionError, match=said):
        run(**options)
    assert not multiprocessing.active_children()
