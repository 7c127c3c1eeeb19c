"""How the files of tests are shared out among the processes that run them (pytest-xdist).

Some tests mostly wait: for real processes on the loopback, for a browser, for a Ray cluster. They have processes of
their own, as many as ``WAITERS``, beside one for each core. Those compute, and give way: what has waited goes first, so
it sees a machine that is hardly busy. A file stays in one process, which makes its fixtures once. See
docs/design/tests.md.
"""

from __future__ import annotations

import os
from typing import Any

from xdist.scheduler import LoadFileScheduling

from barymesh.resources.cores import available_cores

WAITERS = 2
# how much the processes that compute give way
NICE = 10
# files whose tests mostly wait; the longest first
WAITING = (
    "peers/test_attacks", "peers/test_faults", "dashboard/test_browser", "engines/test_conformance",
    "engines/test_ray", "engines/test_ray_shards", "engines/test_objectives", "engines/test_streams",
    "engines/test_small_machines", "cli/test_peers", "peers/test_lung",
    "peers/test_masks", "peers/test_kinds", "deploy/test_docker", "engines/test_processes", "engines/test_runtime",
    "engines/test_result_fields", "peers/test_members", "transport/test_access", "transport/test_sockets",
    "cli/test_dashboard", "dashboard/test_peers_source", "peers/test_check", "peers/test_node",
    "transport/test_hostile_neighbours", "io/test_slot_file",
)  # fmt: skip
# files that compute; the longest first, so that all processes end at about the same time
COMPUTING = (
    "decentralized/test_sinkhorn", "docs/test_code_blocks", "decentralized/test_rounds", "studies/test_command",
    "decentralized/test_members", "viz/test_animation", "cli/test_barycenter", "cli/test_endings", "test_extras",
    "exact/test_certificate", "decentralized/test_tree", "cli/test_simulate", "studies/test_running",
    "studies/test_figures", "measures/test_gaussian", "test_release", "engines/test_simulation",
    "engines/test_host", "theory/test_paper_claims", "engines/test_samplers", "decentralized/test_liars",
    "exact/test_against_pot", "decentralized/test_plain_tree", "methods/test_rounds",
)  # fmt: skip


def waits(file: str) -> bool:
    """Whether the tests of the file, ``tests/peers/test_faults.py`` for example, mostly wait."""
    return file.removeprefix("tests/").removesuffix(".py") in WAITING


def place(file: str) -> int:
    """The place of the file in its queue: files that are not listed come last."""
    name = file.removeprefix("tests/").removesuffix(".py")
    queue = WAITING if name in WAITING else COMPUTING
    return queue.index(name) if name in queue else len(queue)


def is_waiter(worker: str) -> bool:
    """Whether the process of this name, ``gw0`` for example, is one for tests that wait: the first compute."""
    return int(worker.removeprefix("gw")) >= available_cores()


def give_way() -> None:
    """A process that computes leaves the cores to those that wait, if there are any, whenever they need them."""
    worker, count = os.environ.get("PYTEST_XDIST_WORKER"), int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if worker and count > available_cores() and not is_waiter(worker) and hasattr(os, "nice"):
        os.nice(NICE)


class TwoQueues(LoadFileScheduling):
    """Every process takes the next file of its own kind. One that waits ends when there is none left, if others
    compute; those take what there is."""

    def _next(self, node: Any) -> str | None:
        waiter = is_waiter(node.gateway.id)
        own = next((file for file in self.workqueue if waits(file) == waiter), None)
        if own is None and waiter and not all(is_waiter(one.gateway.id) for one in self.nodes):
            return None
        return own or next(iter(self.workqueue), None)

    def _reschedule(self, node: Any) -> None:
        if self._next(node) is None and not node.shutting_down:
            node.shutdown()
        else:
            super()._reschedule(node)

    def _assign_work_unit(self, node: Any) -> None:
        if (file := self._next(node)) is not None:
            self.workqueue.move_to_end(file, last=False)
            super()._assign_work_unit(node)
