"""Nodes of organisations that mask what they report: real sockets, restarts, lost disks, and why a node is silent."""

from __future__ import annotations

import asyncio
import itertools
import shutil

import numpy as np
import pytest

import barymesh as bm
from barymesh.core import tree
from barymesh.engines.runtime import StopReason
from barymesh.errors import ConfigError
from barymesh.peers.kit import Kit
from barymesh.peers.members import KITS, NewNode, create
from barymesh.peers.node import STATE, open_peer
from tests.peers.cluster import free_ports

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
        assert peer.facts()["masks"] == {"members": ["a", "b", "c"], "min_members": 3, "why_not": ""}
    words = np.unique(np.array([row for row in seen if row.any()]), axis=0)
    assert len(words) >= 6
    # half of all bits are set; contributions themselves would have runs of equal ones at their ends
    share = np.unpackbits(words.view(np.uint8)).mean()
    assert abs(share - 0.5) <= 4 * 0.5 / np.sqrt(64 * words.size)


def test_a_node_without_its_disk_draws_another_number_and_one_with_it_goes_on(tmp_path):
    network_of(tmp_path, "abc")

    async def work(seconds):
        peers = await opened(tmp_path, "abc")
        await asyncio.gather(*(peer.run(duration=seconds, linger=0.3) for peer in peers))
        return peers

    first = asyncio.run(work(20.0))
    shutil.rmtree(tmp_path / "run-b")
    second = asyncio.run(work(20.0))
    numbers = [[float(peer.runtime.host.state.number[0]) for peer in peers] for peers in (first, second)]
    assert numbers[0][1] != numbers[1][1]
    for peer in second:
        assert np.abs(peer.latest.weights[0] - barycenter(3)).sum() <= 1e-5
    assert (tmp_path / "run-a" / STATE).exists()


def test_a_node_says_why_it_does_not_contribute(tmp_path):
    network_of(tmp_path, "abc")

    async def work():
        peers = (await opened(tmp_path, "abc"))[:2]
        await asyncio.gather(*(peer.run(duration=1.5) for peer in peers))
        return peers

    for peer in asyncio.run(work()):
        assert "it takes 3 members" in peer.facts()["masks"]["why_not"]
        assert not peer.runtime.host.state.report.any()


@pytest.mark.parametrize(
    ("names", "options", "reason"),
    [
        ("ab", {}, "a sum over 2 nodes hides too little"),
        ("abcd", {"min_members": 5}, "masks need 5 nodes"),
        ("abc", {"method": "sinkhorn"}, "sinkhorn has no masks"),
        ("abc", {"min_members": 2}, "min_members"),
        ("abc", {"support": "free:n=5,dimension=1"}, "has no reach"),
    ],
)
def test_what_cannot_be_masked_is_refused(tmp_path, names, options, reason):
    with pytest.raises(ConfigError, match=reason):
        network_of(tmp_path, names, **options)
