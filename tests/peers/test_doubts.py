"""Evidence that somebody lies: proof where there is proof, a reason to ask where there is not, and nothing else."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from barymesh.core import tree
from barymesh.peers.doubts import Doubts
from barymesh.transport.subscriber import LinkState

NAMES = ["a", "b", "c", "d"]
TARGET = slice(tree.HEADER, tree.HEADER + 3)


class Watcher:
    """Node 3, with a clock of its own. The key of the root k is k - 4."""

    def __init__(self):
        self.now = 0.0
        self.doubts = Doubts(3, NAMES, lambda key: int(key) + 4, TARGET, clock=lambda: self.now)

    def look(self, sender, target, *, stamp=1.0, root=0, epoch=1.0, beat=0.0):
        message = np.zeros(TARGET.stop)
        message[[tree.EPOCH, tree.ROOT, tree.STAMP, tree.BEAT]] = epoch, root - 4, stamp, beat
        message[TARGET] = target
        self.doubts.look(sender, message)

    def found(self):
        return [(one.nodes, one.proof) for one in self.doubts.all]


def test_honest_nodes_raise_no_doubt():
    watcher = Watcher()
    for epoch in range(1, 60):
        for stamp in range(5):
            # late, early, twice: the same target under the same name
            for sender in (0, 1, 2, 1, 3):
                watcher.look(sender, epoch * 10 + stamp, stamp=stamp, epoch=epoch, beat=stamp + 1)
    assert watcher.found() == []


@pytest.mark.parametrize(
    ("senders", "nodes"),
    [((0, 1), ("b",)), ((1, 0), ("b",)), ((1, 2), ("b", "c")), ((2, 1), ("b", "c"))],
    ids=["the root first", "the liar first", "two others", "two others the other way round"],
)
def test_two_targets_under_one_name_are_proof(senders, nodes):
    watcher = Watcher()
    for value, sender in enumerate(senders):
        watcher.look(sender, value)
        watcher.look(sender, value)
    assert watcher.found() == [(nodes, True)]
    assert "targets that a has not made" in watcher.doubts.all[0].text


def test_a_target_that_the_root_cannot_have_made_yet():
    watcher = Watcher()
    watcher.look(0, 1, beat=50.0)
    watcher.look(1, 2, stamp=5000.0)
    assert watcher.found() == []
    watcher.look(1, 2, stamp=1e9)
    assert watcher.found() == [(("b",), True)]


def test_epochs_that_change_too_often_and_who_brings_them():
    watcher = Watcher()
    for number in range(200):
        # at this rate nodes that fail may bring them
        watcher.now += 30.0
        watcher.look(number % 3, 1, epoch=number + 1.0, stamp=-1.0)
    assert watcher.found() == []
    for number in range(200, 300):
        watcher.now += 1.0
        watcher.look(2 if number % 4 else 1, 1, epoch=number + 1.0, stamp=-1.0)
    assert watcher.found() == [(("c",), False)]


def test_a_root_that_should_not_be_one():
    watcher = Watcher()

    def compare(root, stamp, **states):
        links = {name: SimpleNamespace(state=state, since=0.0) for name, state in states.items()}
        watcher.doubts.compare_root(root, stamp, NAMES, links)

    here, lost = LinkState.CONNECTED, LinkState.LOST
    compare("b", 1.0, a=here, b=here)
    watcher.now = 100.0
    compare("b", 2.0, a=here, b=here)
    assert watcher.found() == []
    watcher.now = 300.0
    compare("b", 3.0, a=lost, b=here)
    assert watcher.found() == []
    compare("b", 4.0, a=here, b=here)
    compare("b", 4.0, a=here, b=lost)
    assert watcher.found() == [(("a", "b"), False)]
    compare("b", 5.0, a=lost, b=lost)
    assert watcher.found()[1:] == [(("b",), False)]
