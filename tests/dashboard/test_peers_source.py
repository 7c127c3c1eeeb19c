"""Real nodes, asked how they fare; one is killed, one freezes."""

from __future__ import annotations

import signal
import time

import numpy as np
import pytest

from barymesh.cli.dashboard import source_of
from barymesh.dashboard.peers import PeersSource
from barymesh.dashboard.scene import NodeState
from barymesh.errors import NetworkError
from barymesh.peers.members import NewNode, create
from tests.peers.cluster import POINTS, Cluster, until


def seen_as(source, node, state, patience):
    """Whether the node comes to be in this state in time."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        scene = source.scene()
        if scene.nodes.states[scene.nodes.graph.names.index(node)] is state:
            return True
        time.sleep(0.5)
    return False


def test_a_network_that_comes_to_harm(tmp_path):
    with Cluster(tmp_path, 4) as cluster:
        source = source_of([str(tmp_path)])
        assert source.scene().status == "No node answers yet."
        cluster.start()
        cluster.wait_for_work()
        until(lambda: set(source.scene().nodes.states) == {NodeState.CONVERGED}, "all have converged")
        # nodes look at what they know once a second
        until(lambda: source.scene().nodes.errors.max() < 1e-4, "what they tell is that")
        scene = source.scene()
        assert scene.nodes.graph.names == ["n0", "n1", "n2", "n3"]
        assert len(scene.nodes.graph.edges) == 4
        assert scene.nodes.staleness.max() < 5
        assert scene.barycenter.estimates.shape == (4, POINTS)
        assert np.abs(scene.barycenter.mean - cluster.truth()).sum() < 1e-3
        # what each node knows of the certificate, and of the tree
        until(lambda: np.isfinite(source.scene().nodes.gaps).all(), "all know how good it is")
        recording = source.recording()
        nodes = recording.newest.nodes
        assert (nodes.gaps < 1e-3).all()
        assert nodes.roots.size == 1
        assert np.isfinite(recording.newest.epoch)
        assert not nodes.masked.any()
        assert "certified to be within" in nodes.notes[0]
        history = recording.runs["network"]
        assert (np.diff(history["time"]) > 0).all()
        assert (np.diff(history["messages"]) >= 0).all()
        before = [one.now for one in recording.scenes]
        assert [one.now for one in source.recording().scenes][: len(before)] == before

        # asked for one node only: its neighbours are known from what it says
        port = cluster.network.nodes[0].status_port
        alone = source_of([f"127.0.0.1:{port}"])
        told = alone.scene().nodes
        told = dict(zip(told.graph.names, told.states, strict=True))
        assert told == {"n0": NodeState.CONVERGED, "n1": NodeState.ELSEWHERE, "n3": NodeState.ELSEWHERE}

        cluster.send(signal.SIGKILL, 2)
        assert seen_as(source, "n2", NodeState.DEAD, 5)
        cluster.send(signal.SIGSTOP, 3)
        assert seen_as(source, "n3", NodeState.DEAD, 5)
        cluster.send(signal.SIGCONT, 3)
        assert seen_as(source, "n3", NodeState.CONVERGED, 10)
        after = source.scene().nodes
        assert after.staleness[(after.graph.edges == 2).any(axis=1)].min() > 2
        cluster.start(2)
        assert seen_as(source, "n2", NodeState.CONVERGED, 60)


def test_masks_of_a_network_are_shown(tmp_path):
    with Cluster(tmp_path, 4, method="rounds", masks=True) as cluster:
        source = source_of([str(tmp_path)])
        cluster.start()
        until(lambda: set(source.scene().nodes.states) == {NodeState.CONVERGED}, "all have converged")
        scene = source.scene()
        assert scene.nodes.masked.all()
        assert scene.rounds
        assert "contributes to masked sums" in scene.nodes.notes[0]


def test_a_network_that_cannot_be_asked(tmp_path):
    nodes = [NewNode(name, f"tcp://127.0.0.1:{5000 + k}") for k, name in enumerate("ab")]
    create(tmp_path, nodes, [("a", "b")], support="10:0:1", reg=0.1)
    with pytest.raises(NetworkError, match="status=PORT"):
        PeersSource.of_file(tmp_path / "network.toml")
