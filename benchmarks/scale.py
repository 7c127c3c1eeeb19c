"""The cost of what is too large for one machine, by counting: of sinkhorn on networks, with the paper's schedule and
delays, messages, bytes, memory and time; of the exact solver on a cluster, the same.
docs/explanation/scale.md says where the formulas come from, and compares them with runs.

python -m benchmarks.scale
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from barymesh.core.tree import HEADER
from barymesh.engines.delivery import LARGE_POOL_ROOM
from barymesh.methods.orders import Order
from barymesh.methods.rounds import Rounds
from barymesh.transport.wire import frame_bytes
from benchmarks.parts import Row
from benchmarks.tables import table

NUMBER = 8
PERIOD, LONGEST_DELAY = 0.2, 1.0
# virtual seconds to a total variation of 0.01 for degree 4: LAW[0] + LAW[1] log2(m), fitted by the benchmark "growth"
LAW = (2.49, 1.32)
# atoms of a measure, and what an atom takes: place, weight, number, in the problem and in two oracles
ATOMS, ATOM_BYTES = 28, 72
# numbers a node holds besides vectors, and vectors: of the algorithm, and of the records and the certificate
SCALARS, VECTORS = 40, 12
# an interpreter with the compiled kernels
PROCESS = 220e6
# seconds of one core for an activation with ATOMS atoms on 100 points
ACTIVATION = 11e-6


@dataclass(frozen=True)
class NetworkCost:
    """``nodes`` with ``degree`` neighbours each, measures on ``points``, for ``seconds`` of virtual time."""

    nodes: int
    seconds: float
    degree: int = 4
    points: int = 100

    @classmethod
    def to_accuracy(cls, nodes: int) -> NetworkCost:
        """Until the total variation is 0.01, by the law."""
        return cls(nodes, LAW[0] + LAW[1] * math.log2(nodes))

    @property
    def rounds(self) -> float:
        """Messages that a node sends to each neighbour: one every time it acts."""
        return self.seconds / PERIOD

    @property
    def messages(self) -> float:
        """Of all nodes."""
        return self.nodes * self.degree * self.rounds

    @property
    def bytes(self) -> float:
        """Of all nodes: header and target to every neighbour, two sums to the parent."""
        each = self.degree * frame_bytes(HEADER + self.points + len(Order)) + NUMBER * (
            2 * self.points + Rounds.SCALARS
        )
        return self.nodes * each * self.rounds

    @property
    def simulator_bytes(self) -> float:
        """Memory of the simulator: the last messages of every node that are in flight, being made or held, in a pool
        that is LARGE_POOL_ROOM times as large; the nodes' own vectors; their atoms."""
        kept = LONGEST_DELAY / PERIOD + 2
        pool = LARGE_POOL_ROOM * kept * (HEADER + 3 * self.points)
        own = SCALARS + VECTORS * self.points
        return PROCESS + self.nodes * (NUMBER * (pool + own) + ATOMS * ATOM_BYTES)

    def worker_bytes(self, workers: int) -> float:
        """Memory of one of the workers that share the nodes, if it holds nothing of the others: instead of the pool the
        newest message of each node and of each of its neighbours."""
        own = SCALARS + VECTORS * self.points + (1 + self.degree) * (HEADER + 3 * self.points)
        return PROCESS + self.nodes / workers * (NUMBER * own + ATOMS * ATOM_BYTES)

    def worker_traffic(self, workers: int) -> float:
        """Bytes a second that leave a worker, at the paper's pace, if nodes are dealt out at random."""
        return self.bytes / (self.rounds * PERIOD) / workers * (1 - 1 / workers)

    def worker_load(self, workers: int) -> float:
        """Cores a worker keeps busy at the paper's pace."""
        return self.nodes / workers * ACTIVATION / PERIOD


def totals() -> list[Row]:
    """Up to a million nodes."""
    rows = []
    for power in range(2, 7):
        scale = NetworkCost.to_accuracy(10**power)
        rows.append(
            {
                "nodes": f"10^{power}", "virtual s": scale.seconds,
                "messages a node": scale.messages / scale.nodes, "kB a node": scale.bytes / scale.nodes / 1e3,
                "messages": scale.messages, "GB sent": scale.bytes / 1e9,
                "simulator GB": scale.simulator_bytes / 1e9,
                "core seconds": scale.nodes * scale.seconds / PERIOD * ACTIVATION,
            }
        )  # fmt: skip
    return rows


def shares(nodes: int = 10**6) -> list[Row]:
    """The nodes on several machines."""
    scale = NetworkCost.to_accuracy(nodes)
    return [
        {
            "workers": workers, "nodes each": nodes // workers, "GB each": scale.worker_bytes(workers) / 1e9,
            "MB/s out of each": scale.worker_traffic(workers) / 1e6, "cores each": scale.worker_load(workers),
        }
        for workers in (10, 30, 100, 300, 1000)
    ]  # fmt: skip


# the exact solver on images of 28 x 28: seconds of one core for an iteration of an image, in memory and in pieces, and
# of all calls to a shard in an iteration; bytes for each number of the potentials: in memory (x, residual, plain step,
# history in 16 bits), in pieces (in float32), and in their files
IMAGE, PIECE_IMAGE, SHARD_CALLS = 6.9e-6, 11.5e-6, 0.8e-3
IN_MEMORY, IN_PIECES, IN_FILES = 8 * 3 + 2 * 10, 4 * 2, 2 * 10
IMAGE_ATOMS, ORACLE_ATOM_BYTES, PIXEL = 104, 56, 1


@dataclass(frozen=True)
class ClusterCost:
    """The exact solver for so many ``images`` on ``shards``, machines with ``cores`` each; ``pieces``: with shards in
    pieces."""

    images: int
    shards: int
    cores: int
    pieces: bool = False
    points: int = 784
    iterations: int = 26

    @property
    def seconds(self) -> float:
        """Of an iteration: the work, and the calls, which the caller makes one after the other."""
        each = PIECE_IMAGE if self.pieces else IMAGE
        return self.images * each / (self.shards * self.cores) + SHARD_CALLS * self.shards

    @property
    def bytes(self) -> float:
        """To and from all shards in an iteration: three vectors there and two back, and a few numbers."""
        return self.shards * NUMBER * (5 * self.points + 37)

    @property
    def shard_bytes(self) -> float:
        """Memory of a shard, without what is in files."""
        own = IN_PIECES * self.points + PIXEL * self.points
        if not self.pieces:
            own = IN_MEMORY * self.points + IMAGE_ATOMS * ORACLE_ATOM_BYTES
        return PROCESS + self.images / self.shards * own

    @property
    def file_bytes(self) -> float:
        """Of a shard."""
        return self.images / self.shards * IN_FILES * self.points if self.pieces else 0.0


def clusters() -> list[Row]:
    """A million images on this machine, and on clusters of up to a thousand cores."""
    rows = []
    for shards, cores, pieces in ((2, 1, True), (1, 64, False), (4, 64, False), (16, 64, False), (1000, 1, False)):
        cost = ClusterCost(10**6, shards, cores, pieces)
        rows.append(
            {
                "shards": shards, "cores each": cores, "s an iteration": cost.seconds,
                "minutes": cost.iterations * cost.seconds / 60, "MB an iteration": cost.bytes / 1e6,
                "GB of a shard": cost.shard_bytes / 1e9, "GB in files": cost.file_bytes / 1e9,
            }
        )  # fmt: skip
    return rows


if __name__ == "__main__":
    print(table(totals()), table(shares()), table(clusters()), sep="\n\n")
