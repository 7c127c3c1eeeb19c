"""Members come, go and change their keys while the network runs. Its sites take the new file one by one, and each works
with those that have the same file meanwhile."""

from __future__ import annotations

import asyncio
import random
import shutil
import signal

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
from tests.peers.cluster import until as happens
from tests.soak import Liar

INTERVAL = 0.02
OTHER_FILE = LinkState.OTHER_NETWORK.value


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


# a process of another version of the program, with a clock that is ten minutes slow
OTHER = """
import importlib.metadata, time
clock, version = time.time, importlib.metadata.version
time.time = lambda: clock() - 600.0
importlib.metadata.version = lambda name: "9.9.0" if name == "barymesh" else version(name)
import barymesh
barymesh.__version__ = "9.9.0"
from barymesh.cli.app import app
app()
"""


def test_members_join_leave_and_change_keys_while_real_processes_work(tmp_path):
    """Sites take each new file one by one, in any order, and are killed or asked to stop for it. One of them loses its
    folder, and has a slow clock and another version from then on."""
    chance = random.Random(1)
    with Cluster(tmp_path, 4, "cycle", interval=INTERVAL) as cluster:
        running = {0, 1, 2, 3}

        def take_file(node):
            cluster.send(chance.choice((signal.SIGTERM, signal.SIGKILL)), node)
            cluster.processes[node].wait(PATIENCE)
            cluster.adopt(node)
            if node == 2:
                shutil.rmtree(cluster.kits[node] / "run")
            cluster.start(node, main=("-c", OTHER) if node == 2 else ("-m", "barymesh"))
            cluster.wait_for_work(node)
            # a node that has just started shows nothing yet
            before = {k: cluster.facts(k).get("activations", 0) for k in running}
            # more messages than would have a hostile neighbour cut off
            happens(lambda: all(cluster.facts(k).get("activations", 0) > before[k] + 25 for k in running), "all act")
            for k in running:
                for link in cluster.facts(k)["links"].values():
                    assert link["cut_offs"] == 0
                    assert set(link["refused_messages"]) <= {"STALE", "RUN", "VERSION"}

        cluster.start()
        cluster.wait_for_work()
        new = cluster.add(0, 2)
        cluster.start(new)
        running.add(new)
        take_file(2)
        happens(lambda: cluster.facts(2)["links"]["n4"]["state"] == "connected", "the new one is connected")
        for one, other in ((2, 1), (1, 2)):
            link = f"n{other}"
            happens(lambda one=one, link=link: cluster.facts(one)["links"][link]["state"] == OTHER_FILE, "files differ")
        take_file(0)
        # before all have this file, there is another; three of them are in use at a time
        cluster.rotate(3)
        cluster.remove(1)
        order = list(cluster.members)
        chance.shuffle(order)
        for node in order:
            take_file(node)
        cluster.finish(1)
        running.discard(1)
        assert running == set(cluster.members)

        def certified(facts):
            return facts.get("stopped") and (facts.get("tv_bound") or 1.0) <= 0.01

        happens(lambda: all(certified(cluster.facts(k)) for k in running), "all are certified")
        truth = cluster.truth()
        for node in running:
            facts = cluster.facts(node)
            assert cluster.distance(node, truth) < 1e-4
            assert facts["fingerprint"] == cluster.network.fingerprint
            for name, link in facts["links"].items():
                assert (link["state"], link["network"]) == ("connected", facts["fingerprint"])
                assert (link["program"] == "9.9.0") == (name == "n2")
                assert link["version"] == facts["wire_version"]
            assert (facts["program"] == "9.9.0") == (node == 2)
            assert facts["doubts"] == []
        cluster.finish(*running)
        # neither kills nor ends leave anything that is half written
        assert [path for kit in cluster.kits for path in kit.rglob(".*")] == []


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
