"""Random faults in a network of real processes, for as long as you like; after each series it must recover.

    make soak MINUTES=10 SEED=0

Nodes are killed, stopped for a while, lose their disk, or get new data; unknown keys and neighbours that never read
connect. After every few faults the network is left alone until all nodes are within TV 0.01 of the true barycenter,
which new data have moved. No node may ever end by itself, or take more and more memory.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import tempfile
import time
from pathlib import Path

import numpy as np
import zmq

from barymesh.transport.handshake import Request
from barymesh.transport.keys import KeyPair
from barymesh.transport.wire import VERSIONS
from tests.peers.cluster import Cluster, until

SIZE, GRAPH, INTERVAL = 8, "erdos_renyi", 0.1
FAULTS_IN_A_ROW = 4
# MB that a process may grow beyond what it had when it was first asked after some work
GROWTH = 40.0


class Soak:
    """A network with faults. ``chance`` decides everything that is random."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster, self.chance = cluster, random.Random(seed)
        self.context = zmq.Context()
        self.context.linger = 0
        self.counts: dict[str, int] = {}
        # by process: memory when first seen, and now
        self.memory: dict[int, tuple[float, float]] = {}
        self.slow: list[zmq.Socket[bytes]] = []

    def fault(self) -> None:
        """One, drawn at random."""
        name = self.chance.choice(("kill", "stop", "lose_disk", "new_data", "unknown_key", "slow_listener"))
        node = self.chance.randrange(SIZE)
        print(f"  {name.replace('_', ' ')}: node {node}", flush=True)
        getattr(self, name)(node)
        self.counts[name] = self.counts.get(name, 0) + 1

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

    def new_data(self, node: int) -> None:
        self.cluster.send(signal.SIGKILL, node)
        shutil.rmtree(self.cluster.kits[node] / "run", ignore_errors=True)
        rng = np.random.default_rng(self.chance.randrange(2**32))
        self.cluster.samples[node] = rng.normal(rng.uniform(-1.5, 1.5), rng.uniform(0.3, 0.6), 40)
        self.cluster.write_data(node)
        self.cluster.start(node)

    def unknown_key(self, node: int) -> None:
        with self._listener(node, KeyPair.create()) as socket:
            assert not socket.poll(2000), "a message was sent to an unknown key"

    def slow_listener(self, node: int) -> None:
        """A listener with the key of a neighbour that never reads, for a while."""
        neighbour = int(self.cluster.network.network().neighbours_of(node)[0])
        self.slow.append(self._listener(node, self.cluster.kit(neighbour).keys))
        if len(self.slow) > 3:
            self.slow.pop(0).close()

    def _listener(self, node: int, keys: KeyPair) -> zmq.Socket[bytes]:
        socket = self.context.socket(zmq.DEALER)
        socket.rcvhwm = 1
        socket.curve_serverkey = self.cluster.network.nodes[node].public_key.encode()
        socket.curve_secretkey, socket.curve_publickey = keys.secret.encode(), keys.public.encode()
        socket.connect(self.cluster.endpoints[node])
        socket.send(Request(VERSIONS, 0, bytes(16), None, self.cluster.network.fingerprint).encode())
        return socket

    def recover(self) -> float:
        """Wait until all have recovered; the seconds it took."""
        began = time.monotonic()
        truth = self.cluster.truth()
        until(lambda: all(self.answers(k) for k in range(SIZE)), "all answer")
        self.cluster.wait_for_accuracy(truth)
        # and it must last
        time.sleep(3)
        worst = max(self.cluster.distance(k, truth) for k in range(SIZE))
        assert worst <= 0.01, f"TV {worst} after all had recovered"
        for node in range(SIZE):
            self.watch(self.cluster.processes[node].pid)
        return time.monotonic() - began

    def answers(self, node: int) -> bool:
        assert self.cluster.ended(node) is None, f"node {node} ended: {self.cluster.log(node).read_text()[-2000:]}"
        return bool(self.cluster.facts(node).get("ready"))

    def watch(self, pid: int) -> None:
        status = Path(f"/proc/{pid}/status").read_text()
        now = int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024
        first = self.memory.get(pid, (now, now))[0]
        self.memory[pid] = (first, now)
        assert now <= first + GROWTH, f"process {pid} grew from {first:.0f} to {now:.0f} MB"

    def close(self) -> None:
        self.context.destroy(linger=0)


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
            net.finish()
        except KeyboardInterrupt:
            print("interrupted")
        finally:
            soak.close()
            growth = max((now - first for first, now in soak.memory.values()), default=0.0)
            print(f"faults: {soak.counts}; most growth of a process: {growth:.1f} MB", flush=True)


if __name__ == "__main__":
    main()
