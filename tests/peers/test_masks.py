"""Nodes of organisations that mask what they report: real sockets, restarts, lost disks, and why a node is silent."""

from __future__ import annotations

import asyncio
import itertools
import shutil
import signal

import numpy as np
import pytest

import barymesh as bm
from barymesh.core import tree
from barymesh.engines.runtime import StopReason
from barymesh.errors import ConfigError, OptionError
from barymesh.peers.kit import Kit
from barymesh.peers.members import KITS, NewNode, create
from barymesh.peers.node import open_peer
from barymesh.peers.states import state_text
from barymesh.peers.status import metrics
from tests.peers.cluster import Cluster
from tests.ports import free_ports

MEASURES = [bm.Empirical(np.random.default_rng(k).normal(k - 1, 0.5, (30, 1))) for k in range(4)]


def network_of(folder, names, **options):
    ports = free_ports(len(names))
    nodes = [NewNode(name, f"tcp://127.0.0.1:{port}") for name, port in zip(names, ports, strict=True)]
    given = {"support": "20:-3:3", "reg": 0.3, "method": "rounds", "masks": True, "interval": 0.005, **options}
    return create(folder, nodes, list(itertools.pairwise(names)), **given)


async def opened(folder, names):
    kits = [Kit.open(folder / KITS / name) for name in names]
    return [
        await open_peer(kit, measure, folder / f"run-{kit.name}") for kit, measure in zip(kits, MEASURES, strict=False)
    ]


def barycenter(count):
    return bm.barycenter(MEASURES[:count], np.linspace(-3, 3, 20), reg=0.3, tol=1e-10).weights


def test_three_nodes_find_the_barycenter_and_no_parent_can_read_a_report(tmp_path):
    network_of(tmp_path, "abc")
    seen = []

    async def work():
        peers = await opened(tmp_path, "abc")
        for peer in peers:
            host = peer.runtime.host
            receive = host.transport.receive

            def noted(batch, host=host, receive=receive):
                inbox = receive(batch)
                for row in inbox.rows[inbox.slots]:
                    if row[tree.PARENT] == host.nodes.ids[0] != row[tree.SENDER] and row[tree.STAMP] >= 0:
                        masked = host.algorithm.masked
                        seen.append(row[host.algorithm.private].view(np.uint64)[masked.roll.stop :].copy())
                return inbox

            host.transport.receive = noted
        endings = await asyncio.gather(*(peer.run(duration=60.0, linger=0.5) for peer in peers))
        return peers, endings

    peers, endings = asyncio.run(work())
    assert endings == [StopReason.CONVERGED] * 3
    for peer in peers:
        assert np.abs(peer.latest.weights[0] - barycenter(3)).sum() <= 1e-5
        assert peer.facts()["masks"] == {
            "members": ["a", "b", "c"], "absent": [], "min_members": 3, "why_not": "", "void": 0
        }  # fmt: skip
    words = np.unique(np.array([row for row in seen if row.any()]), axis=0)
    assert len(words) >= 6
    # half of all bits are set; contributions themselves would have runs of equal ones at their ends
    share = np.unpackbits(words.view(np.uint8)).mean()
    assert abs(share - 0.5) <= 4 * 0.5 / np.sqrt(64 * words.size)


def test_a_process_uses_no_mask_of_an_earlier_one_whatever_is_on_its_disk(tmp_path):
    """Real processes: a node is killed, and starts with its disk, with one of some time ago, and without any. In all
    its lives it contributes once to each round, and the network finds the barycenter in each."""
    with Cluster(tmp_path, 3, graph="complete", method="rounds", interval=0.01, masks=True) as cluster:
        run, old, lost = cluster.kits[1] / "run", tmp_path / "old", cluster.kits[2] / "run"
        truth, noted = cluster.truth(), cluster.kits[1].with_name("n1.rounds")
        program, lives = ("-m", "tests.peers.noted_masks"), [0]
        cluster.start(main=program)
        for disk in ("present", "old", "none"):
            cluster.wait_for_accuracy(truth, tv=1e-5)
            cluster.send(signal.SIGKILL, 1, 2)
            lives.append(len(noted.read_text().splitlines()))
            if disk == "present":
                shutil.copytree(run, old)
            else:
                shutil.rmtree(run)
            if disk == "old":
                shutil.copytree(old, run)
            # another node has other data now, and all have to contribute again
            shutil.rmtree(lost)
            cluster.samples[2] = cluster.samples[2] + 0.3
            cluster.write_data(2)
            truth = cluster.truth()
            cluster.start(1, 2, main=program)
        cluster.wait_for_accuracy(truth, tv=1e-5)
        cluster.finish()
    found = [line.split() for line in noted.read_text().splitlines()]
    assert all(len(found) > before for before in lives)
    assert len({(node, moment) for node, moment, _ in found}) == len(found)
    assert len({words for _, _, words in found}) == len(found)


def test_a_node_says_why_it_does_not_contribute(tmp_path):
    network_of(tmp_path, "abc")

    async def work():
        peers = (await opened(tmp_path, "abc"))[:2]
        await asyncio.gather(*(peer.run(duration=1.5) for peer in peers))
        return peers

    for peer in asyncio.run(work()):
        assert peer.facts()["masks"]["absent"] == []
        assert "does not contribute: there is no roll of members; it takes 3" in state_text(peer.facts())
        assert "barymesh_contributes 0.0" in metrics(peer.facts())
        assert not peer.runtime.host.state.report.any()


@pytest.mark.parametrize(
    ("names", "options", "reason"),
    [
        ("ab", {}, "a sum over 2 nodes hides too little"),
        ("abcd", {"min_members": 5}, "masks need 5 nodes"),
        ("abc", {"method": "sinkhorn"}, "sinkhorn has no masks"),
        ("abc", {"min_members": 2}, "min_members"),
        ("abc", {"support": "free:n=5,dimension=1"}, "has no reach"),
        ("abc", {"reg": 1e-9}, "Make it at least"),
        ("abc", {"reg": 1e-4}, r"reg \(0.0001\) is too small"),
    ],
)
def test_what_cannot_be_masked_is_refused(tmp_path, names, options, reason):
    with pytest.raises((ConfigError, OptionError), match=reason):
        network_of(tmp_path, names, **options)
    assert not any(tmp_path.iterdir())
