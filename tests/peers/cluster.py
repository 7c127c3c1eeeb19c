"""A network of real ``barymesh node`` processes, each with its own kit and data, for tests that do harm to it."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import barymesh as bm
from barymesh.io.output import RESULT
from barymesh.network import as_network
from barymesh.peers import kit, members
from barymesh.peers.kit import NEXT_SECRET, Kit
from barymesh.peers.members import KITS, NewNode, create
from barymesh.peers.network_file import NETWORK
from barymesh.peers.status import query
from barymesh.transport.keys import KeyPair
from tests.ports import free_ports

ENVIRONMENT = {**os.environ, "BARYMESH_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
# seconds: a guard against hanging
PATIENCE = 150
POINTS, REG = 20, 0.3


def until(condition, what, patience=PATIENCE):
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(0.1)


class Cluster:
    """``size`` nodes with samples of their own. ``endpoints`` and ``prefixes``, what comes before the command of a
    node, are for networks other than the loopback. Used in ``with``: nothing is left running.

    Nodes are known by numbers that they keep. ``members``: those in the newest network file; a node takes that file
    with ``adopt``, and has it from its next start on."""

    def __init__(
        self, folder, size, graph="cycle", method="sinkhorn", interval=0.05, tol=1e-6, endpoints=None, prefixes=None,
        masks=False, support=f"{POINTS}:-3:3", debias=False,
    ):  # fmt: skip
        ports = free_ports(2 * size)
        self.size, self.folder = size, Path(folder)
        self.endpoints = endpoints or [f"tcp://127.0.0.1:{port}" for port in ports[:size]]
        self.prefixes = prefixes or [[] for _ in range(size)]
        names = [f"n{k}" for k in range(size)]
        nodes = [NewNode(name, self.endpoints[k], None, ports[size + k]) for k, name in enumerate(names)]
        pairs = [(names[i], names[j]) for i, j in as_network(graph, size).edges]
        self.network = create(
            self.folder, nodes, pairs, support=support, reg=REG, method=method, interval=interval, tol=tol,
            masks=masks, debias=debias,
        )  # fmt: skip
        self.names, self.status_ports, self.members = names, ports[size:], list(range(size))
        self.kits = [self.folder / KITS / name for name in names]
        self.rng = np.random.default_rng(size)
        self.samples = [self._drawn() for _ in range(size)]
        for node in range(size):
            self.write_data(node)
        self.processes: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes.values():
            process.kill()
            process.wait()

    def _drawn(self):
        return self.rng.normal(self.rng.uniform(-1.5, 1.5), self.rng.uniform(0.3, 0.6), 40)

    def add(self, *neighbours):
        """Add a node; its number."""
        node, name, (port, status_port) = self.size, f"n{self.size}", free_ports(2)
        new = NewNode(name, f"tcp://127.0.0.1:{port}", None, status_port)
        self.network = members.add(self.folder / NETWORK, new, [self.names[k] for k in neighbours])
        self.size += 1
        self.members.append(node)
        for known, value in (
            (self.names, name), (self.endpoints, new.endpoint), (self.status_ports, status_port), (self.prefixes, []),
            (self.kits, self.folder / KITS / name), (self.samples, self._drawn()),
        ):  # fmt: skip
            known.append(value)
        self.write_data(node)
        return node

    def remove(self, node):
        """Remove a node; its neighbours are linked in its place."""
        name = self.names[node]
        around = [next(other for other in edge if other != name) for edge in self.network.edges if name in edge]
        linked = {frozenset(edge) for edge in self.network.edges}
        edges = [pair for pair in itertools.pairwise(around) if frozenset(pair) not in linked]
        self.network = members.remove(self.folder / NETWORK, name, edges)
        self.members.remove(node)

    def rotate(self, node):
        """Give a node another key."""
        keys = KeyPair.create()
        (self.kits[node] / NEXT_SECRET).unlink(missing_ok=True)
        keys.save(self.kits[node] / NEXT_SECRET)
        self.network = members.rotate_key(self.folder / NETWORK, self.names[node], keys.public)

    def adopt(self, *nodes):
        """Let nodes take the newest file."""
        for node in nodes:
            kit.accept(self.network, self.kits[node])

    def write_data(self, node):
        header = ",".join("xyz"[: self.samples[node][0].size])
        np.savetxt(self.kits[node] / "x.csv", self.samples[node], header=header, delimiter=",", comments="")

    def kit(self, node) -> Kit:
        return Kit.open(self.kits[node])

    def start(self, *nodes, options=("--stay",), main=("-m", "barymesh")):
        for node in nodes or range(self.size):
            command = [*self.prefixes[node], sys.executable, *main, "node", str(self.kits[node])]
            command += ["--data", str(self.kits[node] / "x.csv"), "--yes", "--no-picture", "--json", "--log", "json"]
            command += options
            with open(self.log(node), "ab") as log:
                self.processes[node] = subprocess.Popen(
                    command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=log, start_new_session=True
                )

    def send(self, number, *nodes):
        for node in nodes:
            self.processes[node].send_signal(number)
            if number == signal.SIGKILL:
                self.processes[node].wait()

    def ended(self, node):
        """The exit code; None while it is running, or if it was never started."""
        return self.processes[node].poll() if node in self.processes else None

    def finish(self, *nodes):
        """Ask the nodes to stop, and see that all do so in order."""
        nodes = nodes or tuple(self.processes)
        self.send(signal.SIGTERM, *nodes)
        for node in nodes:
            assert self.processes[node].wait(PATIENCE) == 0, self.log(node).read_text()[-2000:]

    def log(self, node) -> Path:
        return self.folder / f"{node}.log"

    def logged(self, node):
        return [json.loads(line) for line in self.log(node).read_text().splitlines()]

    def facts(self, node):
        """What a node says of itself; nothing if it is not there, but it must not have ended with an error."""
        if found := query(self.status_ports[node]):
            return found
        assert (self.ended(node) or 0) <= 0, self.log(node).read_text()[-2000:]
        return {}

    def truth(self, nodes=None):
        chosen = [self.samples[k] for k in (self.members if nodes is None else nodes)]
        measures = [bm.Empirical(samples[:, None]) for samples in chosen]
        return bm.barycenter(measures, np.linspace(-3, 3, POINTS), reg=REG, tol=1e-10).weights

    def distance(self, node, truth):
        """TV of what is on disk from the truth; infinite if there is nothing."""
        path = self.kits[node] / "run" / RESULT
        if not path.exists():
            return float("inf")
        return 0.5 * float(np.abs(bm.load(path).weights - truth).sum())

    def wait_for_work(self, *nodes, activations=5):
        nodes = nodes or range(self.size)
        until(
            lambda: all((self.facts(k).get("activations") or 0) >= activations for k in nodes), f"{nodes} are at work"
        )

    def wait_for_accuracy(self, truth, nodes=None, tv=0.01, patience=PATIENCE):
        nodes = self.members if nodes is None else nodes
        until(
            lambda: all(self.distance(k, truth) <= tv for k in nodes),
            f"TV {tv} at all of {list(nodes)}",
            patience,
        )
        for node in nodes:
            assert self.ended(node) is None, self.log(node).read_text()[-2000:]
