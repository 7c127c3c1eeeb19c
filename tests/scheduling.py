"""How the files of tests are shared out among the processes that run them (pytest-xdist).

Some tests mostly wait: for real processes on the loopback, for a browser, for a Ray cluster. They have processes of
their own, as many as ``WAITERS``, beside one for each core. Those compute, and give way: what waits is served first
when something arrives, so it sees a machine that is hardly busy. A file stays in one process, which makes its fixtures
once. See docs/design/tests.md.
"""

from __future__ import annotations

import os

from xdist.scheduler import LoadFileScheduling

WAITERS = 2
# how much the processes that compute give way
NICE = 10
# files whose tests mostly wait; the longest first
WAITING = (
    "peers/test_faults", "engines/test_ray", "engines/test_conformance", "dashboard/test_browser",
    "deploy/test_docker", "cli/test_peers", "engines/test_result_fields", "engines/test_processes",
)  # fmt: skip
# files that compute; the longest first, so that all processes end at about the same time
COMPUTING = (
    "decentralized/test_sinkhorn", "docs/test_code_blocks", "test_release", "decentralized/test_members",
    "decentralized/test_tree", "exact/test_against_pot", "engines/test_simulation", "benchmarks/test_comparisons",
    "exact/test_certificate", "io/test_files", "oracle/test_oracles", "test_repeats",
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
    """Whether the process of this name, ``gw0`` for example, is one for tests that wait."""
    return int(worker.removeprefix("gw")) < WAITERS


def give_way(worker: str) -> None:
    """A process that computes leaves the cores to those that wait, whenever they need them."""
    if not is_waiter(worker) and hasattr(os, "nice"):
        os.nice(NICE)


class TwoQueues(LoadFileScheduling):
    """Every process takes the next file of its own kind, and of the other kind when there is none left."""

    def _assign_work_unit(self, node) -> None:
        waiter = is_waiter(node.gateway.id)
        chosen = next((file for file in self.workqueue if waits(file) == waiter), None)
        if chosen is not None:
            self.workqueue.move_to_end(chosen, last=False)
        super()._assign_work_unit(node)
