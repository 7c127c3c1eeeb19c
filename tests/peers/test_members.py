"""Members come, go and change their keys while the network runs. Its sites take the new file one by one, and each works
with those that have the same file meanwhile."""

from __future__ import annotations

import asyncio
import random
import shutil

import typer
from typer.testing import CliRunner

import barymesh as bm
from barymesh.cli.peers import register
from barymesh.peers.kit import Kit
from barymesh.peers.node import STATE, open_peer
from barymesh.peers.states import state_text
from barymesh.peers.status import metrics
from barymesh.transport.subscriber import LinkState
from tests.peers.cluster import PATIENCE, Cluster
from tests.soak import Liar

INTERVAL = 0.02


class Site:
    """A node of the cluster in this process, with real sockets."""

    def __init__(self, cluster, node):
        self.cluster, self.kit = cluster, cluster.kits[node]
        self.measure = bm.Empirical(cluster.samples[node][:, None])

    async def start(self):
        self.peer = await open_peer(Kit.open(self.kit), self.measure, self.kit / "run")
        self.task = asyncio.create_task(self.peer.run())

    async def stop(self):
        self.peer.stop()
        await self.task

    async def killed(self):
        """Without a chance to do anything more."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    @property
    def facts(self):
        assert not self.task.done()
        return self.peer.facts()

    def at(self, name):
        """The state of the link to a neighbour."""
        return self.facts["links"][name]["state"]

    def heard(self, node):
        """(incarnation, sequence) of the newest message of a neighbour that was used."""
        return self.peer.runtime.transport.marks.get(node, (None, None))

    def certified(self):
        facts = self.facts
        return facts["stopped"] and facts["tv_bound"] is not None and facts["tv_bound"] <= 0.01


async def until(true):
    async with asyncio.timeout(PATIENCE):
        while not true():
            await asyncio.sleep(0.02)


async def close(sites):
    await asyncio.gather(*(site.stop() for site in sites.values()))


def assert_nobody_is_cut_off(sites):
    for site in sites.values():
        for link in site.facts["links"].values():
            assert link["cut_offs"] == 0
            assert set(link["refused_messages"]) <= {"STALE", "RUN", "VERSION"}


def test_a_site_joins_one_leaves_and_one_changes_its_key_while_all_work(tmp_path):
    cluster = Cluster(tmp_path, 4, "cycle", interval=INTERVAL)
    sites = {node: Site(cluster, node) for node in range(4)}
    chance = random.Random(1)

    async def take_file(node):
        await sites[node].stop()
        cluster.adopt(node)
        await sites[node].start()
        before = {k: site.facts["activations"] for k, site in sites.items()}
        # many more messages than would have a hostile neighbour cut off
        await until(lambda: all(site.facts["activations"] > before[k] + 40 for k, site in sites.items()))
        assert_nobody_is_cut_off(sites)

    async def work():
        for site in sites.values():
            await site.start()
        await until(lambda: all(site.certified() for site in sites.values()))
        new = cluster.add(0, 2)
        sites[new] = Site(cluster, new)
        await sites[new].start()
        await take_file(2)
        assert sites[2].at("n4") is LinkState.CONNECTED
        await until(lambda: sites[2].at("n1") is LinkState.OTHER_NETWORK)
        assert sites[2].facts["links"]["n1"]["network"] == sites[1].facts["fingerprint"]
        await until(lambda: sites[1].at("n2") is LinkState.OTHER_NETWORK)
        await take_file(0)
        # before all have this file, there is another; three of them are in use at a time
        cluster.rotate(3)
        cluster.remove(1)
        order = [node for node in cluster.members if node != 3]
        chance.shuffle(order)
        for node in (3, *order):
            await take_file(node)
        await sites.pop(1).stop()
        truth = cluster.truth()
        await until(lambda: all(site.certified() for site in sites.values()))
        for site in sites.values():
            assert site.facts["fingerprint"] == cluster.network.fingerprint
            assert {link["state"] for link in site.facts["links"].values()} == {LinkState.CONNECTED}
            assert {link["network"] for link in site.facts["links"].values()} == {cluster.network.fingerprint}
            assert {link["program"] for link in site.facts["links"].values()} == {site.facts["program"]}
            assert {link["version"] for link in site.facts["links"].values()} == {site.facts["wire_version"]}
        assert_nobody_is_cut_off(sites)
        await close(sites)
        assert max(cluster.distance(node, truth) for node in sites) < 1e-4

    asyncio.run(work())


def test_old_memories_and_lost_ones_are_found_out_by_a_handshake(tmp_path):
    """A node is set back to an earlier state, twice: to one of this life, and to one of the life before. Its neighbours
    take it in again, although they have had newer messages of it."""
    cluster = Cluster(tmp_path, 3, "path", interval=INTERVAL)
    sites = {node: Site(cluster, node) for node in range(3)}
    state, saved = sites[1].kit / "run" / STATE, tmp_path / "saved"

    async def work():
        for site in sites.values():
            await site.start()
        lives = []
        await until(lambda: all(sites[k].heard(1)[0] == sites[1].facts["incarnation"] for k in (0, 2)))
        for number, lose in enumerate((False, False, True)):
            lives.append(sites[1].facts["incarnation"])
            if number != 1:
                await sites[1].killed()
                # at the second time the state is older than the present life
                shutil.copy(state, saved)
                await sites[1].start()
            # it continues where it was
            await until(lambda: all(sites[k].at("n1") is LinkState.CONNECTED for k in (0, 2)))
            count = sites[1].facts["activations"]
            await until(lambda count=count: sites[1].facts["activations"] > count + 20)
            assert sites[1].facts["incarnation"] == lives[-1]
            await sites[1].killed()
            if lose:
                shutil.rmtree(sites[1].kit / "run")
            else:
                shutil.copy(saved, state)
            await sites[1].start()
            await until(lambda: sites[1].facts["incarnation"] not in lives)
            # both neighbours use messages of its new life
            await until(lambda: all(sites[k].heard(1)[0] == sites[1].facts["incarnation"] for k in (0, 2)))
        await until(lambda: all(site.certified() for site in sites.values()))
        assert_nobody_is_cut_off(sites)
        await close(sites)
        assert max(cluster.distance(node, cluster.truth()) for node in sites) < 1e-4

    asyncio.run(work())


def test_a_neighbour_is_cut_off_for_a_while_and_readmitted_by_a_command(tmp_path):
    cluster = Cluster(tmp_path, 2, "complete", interval=INTERVAL)
    sites = {node: Site(cluster, node) for node in range(2)}
    app = typer.Typer()
    register(app)

    async def work():
        await sites[0].start()
        liar = Liar(Kit.open(cluster.kits[1]), cluster.endpoints[1], 0)
        try:
            await until(lambda: sites[0].at("n1") is LinkState.CUT_OFF)
        finally:
            liar.end()
        facts = sites[0].facts
        link = facts["links"]["n1"]
        assert link["cut_off_until"] - link["since"] == 60
        assert "without n1, cut off since" in state_text(facts)
        assert 'barymesh_link_cut_off{peer="n1"} 1.0' in metrics(facts)
        assert 'barymesh_cut_offs_total{peer="n1"} 1.0' in metrics(facts)
        await sites[1].start()
        await until(lambda: sites[1].at("n0") is LinkState.REFUSED)
        done = await asyncio.to_thread(CliRunner().invoke, app, ["readmit", str(cluster.kits[0]), "n1"])
        assert done.exit_code == 0, done.output
        await until(lambda: all(site.certified() for site in sites.values()))
        assert sites[0].at("n1") is LinkState.CONNECTED
        await close(sites)
        assert max(cluster.distance(node, cluster.truth()) for node in sites) < 1e-4

    asyncio.run(work())
