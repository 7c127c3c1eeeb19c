"""Random faults in a network of real processes, for as long as you like; after each series it must recover.

    make soak MINUTES=30 SEED=0

Nodes are killed, stopped for a while, lose their disk or get an old one back, or get new data; members join, leave and
change their keys, and sites take the new file one by one; a node turns into a liar; unknown keys and neighbours that
never read connect. After every few faults the network is left alone until every node holds a certificate and is within
TV 0.01 of the true barycenter, which new data and members have moved. At the end a liar stays, and is removed. No node
may ever end by itself, or take more and more memory.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import zmq

from barymesh.core import tree
from barymesh.methods.orders import Order
from barymesh.peers.node import STATE
from barymesh.transport.handshake import Reply, Request
from barymesh.transport.keys import KeyPair
from barymesh.transport.wire import VERSION, VERSIONS, encode
from tests.peers.cluster import ENVIRONMENT, POINTS, Cluster, until

SIZE, GRAPH, INTERVAL = 7, "erdos_renyi", 0.1
# members at any time
LEAST, MOST = 5, 9
FAULTS_IN_A_ROW = 4
# MB that a process may grow beyond what it had when it was first asked after some work, and in the quiet at the end
GROWTH, QUIET_GROWTH = 40.0, 5.0
# seconds until all are certified
PATIENCE = 240
KINDS = (
    "kill", "stop", "lose_disk", "old_disk", "new_data", "unknown_key", "slow_listener", "add", "remove", "rotate",
    "lie",
)  # fmt: skip


class Liar:
    """In the place of a node, with its key: it answers every request, and sends what no honest node sends."""

    def __init__(self, kit, endpoint, seed):
        self.kit, self.endpoint, self.rng = kit, endpoint, np.random.default_rng(seed)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._lie, daemon=True)
        self._thread.start()

    def end(self):
        self._ended.set()
        self._thread.join()

    def _lie(self):
        with zmq.Context() as context, context.socket(zmq.ROUTER) as speaker:
            speaker.linger = 0
            speaker.curve_server = True
            speaker.curve_secretkey = self.kit.keys.secret.encode()
            speaker.curve_publickey = self.kit.keys.public.encode()
            until(lambda: self._bound(speaker), "the port is free")
            connections = []
            while not self._ended.is_set():
                while speaker.poll(0):
                    routing_id, frame = speaker.recv_multipart()
                    asked = Request.decode(frame)
                    reply = Reply(VERSION, VERSIONS, asked.challenge, 7, asked.run)
                    speaker.send_multipart([routing_id, reply.encode()])
                    connections.append(routing_id)
                for routing_id in connections[-8:]:
                    speaker.send_multipart([routing_id, self._frame()])
                time.sleep(0.05)

    def _bound(self, speaker):
        try:
            speaker.bind(self.endpoint)
        except zmq.ZMQError:
            return False
        return True

    def _frame(self):
        """Noise, a message with impossible values, or one in the name of another."""
        run, node = self.kit.network.fingerprint, self.kit.number
        values = self.rng.normal(size=tree.HEADER + POINTS + len(Order))
        sequence = time.monotonic_ns()
        kind = self.rng.integers(4)
        if kind == 0:
            return os.urandom(int(self.rng.integers(1, 300)))
        if kind == 1:
            return encode(run, (node + 1) % len(self.kit.network.nodes), 7, sequence, values)
        values[self.rng.integers(values.size)] = self.rng.choice([np.nan, np.inf, -1e300, 2.0**60])
        return encode(run, node, 7, sequence, values)


class Soak:
    """A network with faults. ``chance`` decides everything that is random."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster, self.chance = cluster, random.Random(seed)
        self.context = zmq.Context()
        self.context.linger = 0
        self.counts: Counter[str] = Counter()
        self.waiting: list[str] = []
        # members that have not taken the newest file, and nodes that run although they are no members any more
        self.late: set[int] = set()
        self.removed: set[int] = set()
        # states of before
        self.copies: dict[int, Path] = {}
        # by process: memory when first seen, and now
        self.memory: dict[int, tuple[float, float]] = {}
        self.slow: list[zmq.Socket[bytes]] = []
        self.liar: Liar | None = None

    def fault(self) -> None:
        """One, drawn at random: each kind once before any comes again."""
        if not self.waiting:
            self.waiting = self.chance.sample(KINDS, len(KINDS))
        name, node = self.waiting.pop(), self.chance.choice(self.cluster.members)
        print(f"  {name.replace('_', ' ')}: node {node}", flush=True)
        getattr(self, name)(node)
        self.counts[name] += 1

    def kill(self, node: int) -> None:
        self.cluster.send(signal.SIGKILL, node)
        time.sleep(self.chance.uniform(0, 3))
        self.cluster.start(node)

    def stop(self, node: int) -> None:
        self.cluster.send(signal.SIGSTOP, node)
        time.sleep(self.chance.uniform(0, 10))
        self.cluster.send(signal.SIGCONT, node)

    def lose_disk(self, node: int) -> None:
        self.cluster.send(signal.SIGKILL, node)
        shutil.rmtree(self.cluster.kits[node] / "run", ignore_errors=True)
        self.cluster.start(node)

    def old_disk(self, node: int) -> None:
        """A backup of some time ago is restored, or there is none."""
        self.cluster.send(signal.SIGKILL, node)
        if node in self.copies:
            folder = self.cluster.kits[node] / "run"
            # it may have been killed before it made its folder
            folder.mkdir(exist_ok=True)
            shutil.copy(self.copies[node], folder / STATE)
        self.cluster.start(node)

    def new_data(self, node: int) -> None:
        self.cluster.send(signal.SIGKILL, node)
        shutil.rmtree(self.cluster.kits[node] / "run", ignore_errors=True)
        self.copies.pop(node, None)
        rng = np.random.default_rng(self.chance.randrange(2**32))
        self.cluster.samples[node] = rng.normal(rng.uniform(-1.5, 1.5), rng.uniform(0.3, 0.6), 40)
        self.cluster.write_data(node)
        self.cluster.start(node)

    def unknown_key(self, node: int) -> None:
        with self._listener(node, KeyPair.create()) as socket:
            assert not socket.poll(2000), "a message was sent to an unknown key"

    def slow_listener(self, node: int) -> None:
        """A listener with the key of a neighbour that never reads, for a while."""
        self.slow.append(self._listener(node, self.cluster.kit(self._around(node)[0]).keys))
        if len(self.slow) > 3:
            self.slow.pop(0).close()

    def _listener(self, node: int, keys: KeyPair) -> zmq.Socket[bytes]:
        socket = self.context.socket(zmq.DEALER)
        socket.rcvhwm = 1
        kit = self.cluster.kit(node)
        socket.curve_serverkey = kit.keys.public.encode()
        socket.curve_secretkey, socket.curve_publickey = keys.secret.encode(), keys.public.encode()
        socket.connect(self.cluster.endpoints[node])
        socket.send(Request(VERSIONS, 0, bytes(16), None, kit.network.fingerprint).encode())
        return socket

    def _around(self, node: int) -> list[int]:
        """Its neighbours in the newest file."""
        name, names = self.cluster.names[node], self.cluster.names
        return [
            names.index(other) for edge in self.cluster.network.edges if name in edge for other in edge if other != name
        ]

    # members

    def add(self, _: int) -> None:
        if len(self.cluster.members) < MOST:
            new = self.cluster.add(*self.chance.sample(self.cluster.members, 2))
            self.cluster.start(new)
            self._changed(new)

    def remove(self, node: int) -> None:
        if len(self.cluster.members) > LEAST:
            self.cluster.remove(node)
            self.removed.add(node)
            self._changed()

    def rotate(self, node: int) -> None:
        self.cluster.rotate(node)
        self._changed()

    def _changed(self, *new: int) -> None:
        """Some take the new file now, in any order; the others before the network has to recover."""
        self.late = set(self.cluster.members).difference(new)
        for node in self.chance.sample(sorted(self.late), len(self.late) // 2):
            self.adopt(node)
            time.sleep(self.chance.uniform(0, 2))

    def adopt(self, node: int) -> None:
        self.cluster.adopt(node)
        self.cluster.send(self.chance.choice((signal.SIGTERM, signal.SIGKILL)), node)
        self.cluster.processes[node].wait(60)
        self.cluster.start(node)
        self.late.discard(node)

    # a liar

    def lie(self, node: int) -> None:
        """Its neighbours cut it off; then it is honest again, and they are told so."""
        self.begin_to_lie(node)
        assert self.liar is not None
        self.liar.end()
        self.liar = None
        self.cluster.start(node)
        for other in self._around(node):
            command = [
                sys.executable,
                "-m",
                "barymesh",
                "readmit",
                str(self.cluster.kits[other]),
                self.cluster.names[node],
            ]
            subprocess.run(command, env=ENVIRONMENT, check=True, capture_output=True)

    def begin_to_lie(self, node: int) -> None:
        for other in sorted(self.late):
            self.adopt(other)
        self.cluster.wait_for_work(*self.cluster.members)
        self.cluster.send(signal.SIGKILL, node)
        self.liar = Liar(self.cluster.kit(node), self.cluster.endpoints[node], self.chance.randrange(2**32))
        name = self.cluster.names[node]
        until(lambda: all(self._state(k, name) == "cut off" for k in self._around(node)), f"all cut off {name}")

    def _state(self, node: int, neighbour: str) -> str:
        return str(self.cluster.facts(node).get("links", {}).get(neighbour, {}).get("state"))

    # recovery

    def recover(self) -> float:
        """Wait until all have recovered; the seconds it took."""
        began = time.monotonic()
        for node in sorted(self.late):
            self.adopt(node)
        for node in sorted(self.removed):
            self.cluster.send(signal.SIGTERM, node)
            # one that has just been started again may not have got far enough to end in order
            assert self.cluster.processes[node].wait(60) in (0, -signal.SIGTERM)
        self.removed.clear()
        members, truth = self.cluster.members, self.cluster.truth()
        until(lambda: all(self.answers(k) for k in members), "all answer")
        # a node whose memory is old is right with it, until its neighbours tell it so and it begins anew
        until(lambda: all(self.connected(k) for k in members), "all are connected", PATIENCE)
        time.sleep(2)
        self.cluster.wait_for_accuracy(truth)
        until(lambda: all(self.certified(k) for k in members), "all are certified", PATIENCE)
        # and it must last
        time.sleep(3)
        worst = max(self.cluster.distance(k, truth) for k in members)
        assert worst <= 0.01, f"TV {worst} after all had recovered"
        for node in members:
            # faults are no lies
            proofs = [one["text"] for one in self.cluster.facts(node)["doubts"] if one["proof"]]
            assert proofs == [], f"node {node} believes that honest nodes lie: {proofs}"
            self.watch(self.cluster.processes[node].pid)
            state = self.cluster.kits[node] / "run" / STATE
            self.copies[node] = Path(shutil.copy(state, self.cluster.folder / f"{node}.copy"))
        return time.monotonic() - began

    def answers(self, node: int) -> bool:
        assert self.cluster.ended(node) is None, f"node {node} ended: {self.cluster.log(node).read_text()[-2000:]}"
        return bool(self.cluster.facts(node).get("ready"))

    def connected(self, node: int) -> bool:
        return all(link["state"] == "connected" for link in self.cluster.facts(node)["links"].values())

    def certified(self, node: int) -> bool:
        facts = self.cluster.facts(node)
        return bool(facts.get("stopped") and (facts.get("tv_bound") or 1.0) <= 0.01)

    def watch(self, pid: int) -> None:
        now = resident(pid)
        first = self.memory.get(pid, (now, now))[0]
        self.memory[pid] = (first, now)
        assert now <= first + GROWTH, f"process {pid} grew from {first:.0f} to {now:.0f} MB"

    def end(self, quiet: float) -> None:
        """A liar that is removed, and goes on lying; then some quiet, in which nobody may grow; then all end."""
        victim = self.chance.choice(self.cluster.members)
        print(f"a liar that stays, and is removed: node {victim}", flush=True)
        self.begin_to_lie(victim)
        self.cluster.remove(victim)
        self.late = set(self.cluster.members)
        del self.cluster.processes[victim]
        print(f"recovered in {self.recover():.0f} s", flush=True)
        processes = [self.cluster.processes[node].pid for node in self.cluster.members]
        before = [resident(pid) for pid in processes]
        time.sleep(quiet)
        growth = max(resident(pid) - first for pid, first in zip(processes, before, strict=True))
        print(f"most growth of a process in {quiet:.0f} s of quiet: {growth:.1f} MB", flush=True)
        assert growth <= QUIET_GROWTH
        assert all(self.certified(node) for node in self.cluster.members)
        self.cluster.finish(*self.cluster.members)
        left = [path.name for kit in self.cluster.kits for path in (kit / "run").glob(".*")]
        assert left == [], f"temporary files were left: {left}"

    def close(self) -> None:
        if self.liar is not None:
            self.liar.end()
        self.context.destroy(linger=0)


def resident(pid: int) -> float:
    """MB in memory."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    deadline = time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory(prefix="soak-") as folder, Cluster(folder, SIZE, GRAPH, interval=INTERVAL) as net:
        soak = Soak(net, options.seed)
        try:
            net.start()
            print(f"recovered in {soak.recover():.0f} s", flush=True)
            while time.monotonic() < deadline:
                for _ in range(FAULTS_IN_A_ROW):
                    soak.fault()
                print(f"recovered in {soak.recover():.0f} s", flush=True)
            soak.end(min(60.0, 6 * options.minutes))
        except KeyboardInterrupt:
            print("interrupted")
        finally:
            soak.close()
            growth = max((now - first for first, now in soak.memory.values()), default=0.0)
            print(f"faults: {dict(soak.counts)}; most growth of a process: {growth:.1f} MB", flush=True)


if __name__ == "__main__":
    main()
