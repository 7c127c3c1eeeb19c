"""Frames of a neighbour that lies: structure-aware, within the envelope, through decode, check, activation and encode.

    python -m tests.frames --count 1000000 --seed 0

A node of a random small network gets frames in the right format, of the right run and newer than the last, from
neighbours with the right keys. Their fields are extreme, contradictory, or those of honest messages with a few changed.
It works from any state: that of an honest run, one that the frames before have led to, or one of extreme numbers. It
must never fail, and whatever it makes of what it admits, its own message must pass the check of its neighbours, and
so must that of a node which continues from its memory. Case k of a seed is the same in every run.
"""

from __future__ import annotations

import argparse
import logging
import time
import warnings
from collections import Counter

import numpy as np

import barymesh as bm
from barymesh.core import kernels, tree
from barymesh.decentralized.algorithm import Nodes
from barymesh.decentralized.host import Host
from barymesh.decentralized.masks.streams import Masks
from barymesh.decentralized.transport import MemoryTransport
from barymesh.engines.runtime import Pace, Place, Runtime, hosted_algorithm
from barymesh.methods.base import LARGEST
from barymesh.network import Network
from barymesh.problem import Problem
from barymesh.transport.admission import Admission, Tolerance
from barymesh.transport.handshake import Reply
from barymesh.transport.keys import KeyPair, raw_public
from barymesh.transport.subscriber import Neighbour
from barymesh.transport.wire import VERSION, VERSIONS, encode

RUN = "frames"
# frames for one node until the next case begins
EACH = 1000
GRAPHS = {
    "pair": (2, [(0, 1)]), "path": (4, [(0, 1), (1, 2), (2, 3)]), "cycle": (5, [(k, (k + 1) % 5) for k in range(5)]),
    "star": (4, [(0, 1), (0, 2), (0, 3)]), "complete": (4, [(i, j) for i in range(4) for j in range(i)]),
}  # fmt: skip
KEYS = [KeyPair.create() for _ in range(5)]
EXTREMES = (
    0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 1e-300, 5e-324, 63.0, 65.5, 1e6, LARGEST, -LARGEST, 2.0 * LARGEST, 2.0**32, 2.0**43,
    2.0**52, 2.0**53, 2.0**53 + 2, -(2.0**53), 1e300,
)  # fmt: skip


def announced(admission: Admission, run: str) -> Admission:
    """With a reply to its request: messages of incarnation 1 follow."""
    if admission.reply is None:
        admission.accept(Reply(VERSION, VERSIONS, admission.begin(), 1, run).encode())
    return admission


class Victim:
    """One node of a random network, and what honest neighbours would send it. Case ``number`` of a ``seed``."""

    def __init__(self, seed: int, number: int) -> None:
        self.rng = rng = np.random.default_rng([seed, number])
        self.shape = str(rng.choice(sorted(GRAPHS)))
        kind = str(rng.choice(["sinkhorn", "rounds", "masked"]))
        self.method, self.masked = "rounds" if kind == "masked" else kind, kind == "masked"
        size, edges = GRAPHS[self.shape]
        self.graph, self.node = Network(size, edges), int(rng.integers(size))
        points = int(rng.integers(2, 7))
        reg = float(rng.choice([1.0, 0.05, 1e-4]))
        measures = [bm.Empirical(rng.uniform(0, 1, (3, 1))) for _ in range(size)]
        weights = rng.dirichlet(np.ones(size)) * 0.9 + 0.1 / size
        self.whole = Problem.create(measures, np.linspace(0, 1, points), reg=reg, weights=weights)
        self.runtime = self.started()
        self.honest = self.honest_messages(int(rng.integers(40)))
        self.sequence = 0

    def started(self) -> Runtime:
        """The node as it begins."""
        own = self.whole.with_measures([self.whole.measures[self.node]], np.ones(1))
        weights = self.whole.weights * self.graph.size
        nodes = Nodes(self.graph, np.array([self.node]), weights[[self.node]], weights)
        algorithm = hosted_algorithm(self.method, own, nodes, tol=1e-3, batch="exact", masks=self.masks(self.node))
        around = [
            Neighbour(f"n{j}", f"tcp://127.0.0.1:{5000 + j}", (int(j),), KEYS[j].public)
            for j in self.graph.neighbours_of(self.node)
        ]
        place = Place(RUN, "tcp://127.0.0.1:5999", around, KEYS[self.node])
        return Runtime(algorithm, own, place, Pace(0.0), tolerance=Tolerance(bad=10**9), incarnation=1)

    def masks(self, *nodes: int) -> Masks | None:
        """Those of the nodes, in networks that mask what they report."""
        if not self.masked:
            return None
        keys = KEYS[: self.graph.size]
        return Masks(
            {node: keys[node].raw_secret for node in nodes}, [raw_public(one.public) for one in keys], run=RUN.encode(),
            method=self.method, secret=bytes(32), min_members=2,
        )  # fmt: skip

    def honest_messages(self, steps: int) -> np.ndarray:
        """``(m, width)``: what all nodes send after so many activations without a liar."""
        everything = hosted_algorithm(
            self.method, self.whole, Nodes.all_of(self.graph, self.whole.weights), tol=1e-3, batch="exact",
            masks=self.masks(*range(self.graph.size)),
        )  # fmt: skip
        host = Host(everything, MemoryTransport(self.graph, everything.width, everything.private), self.whole)
        messages = everything.first_messages(host.state)
        for k in range(steps):
            batch = host.batch(k)
            outgoing = host.activate(batch)
            messages = outgoing.messages
            host.send(batch, outgoing)
        return messages

    def lie(self, sender: int) -> np.ndarray:
        """A message of the neighbour that is not honest."""
        rng, state = self.rng, self.runtime.host.state
        algorithm = self.runtime.host.algorithm
        message = self.honest[sender].copy()
        header = message[: tree.HEADER]
        if rng.random() < 0.8:
            # in the tree of the node, above it, below it or beside it
            header[tree.EPOCH], header[tree.ROOT] = state.epoch[0], state.root[0]
            self.stand(header, sender)
            header[tree.STAMP] = state.stamp[0] + rng.integers(-1, 3)
            header[tree.OLDEST] = min(header[tree.STAMP], header[tree.OLDEST])
            header[tree.DONE] = rng.choice([0.0, max(header[tree.STAMP] + 1, 0.0)], p=[0.8, 0.2])
        lower, upper = algorithm.bounds()
        for _ in range(rng.integers(4)):
            column = int(rng.integers(tree.HEADER))
            near = [lower[column], upper[column], header[column] + 1, header[column] - 1, header[column] + 64]
            header[column] = rng.choice([*near, *EXTREMES])
        if rng.random() < 0.6:
            # the numbers of the body: all, a block, or one; within the bounds that hold for them, or a little beyond
            least, most = lower.copy(), upper.copy()
            if not self.masked:
                least[algorithm.private], most[algorithm.private] = (
                    header[tree.WEIGHT] * bound for bound in algorithm.method.contribution_bounds()
                )
            start = tree.HEADER if rng.random() < 0.5 else algorithm.private.stop
            columns = np.arange(start, message.size)
            if rng.random() < 0.5:
                columns = rng.choice(columns, rng.integers(1, columns.size + 1), replace=False)
            kind = rng.integers(5)
            if kind == 0:
                message[columns] = np.where(rng.random(columns.size) < 0.5, least[columns], most[columns])
            elif kind == 1:
                scale = 10.0 ** rng.uniform(-3, 12)
                message[columns] = np.clip(scale * rng.normal(size=columns.size), least[columns], most[columns])
            elif kind == 2:
                message[columns] = np.clip(rng.choice(EXTREMES, columns.size), least[columns], most[columns])
            elif kind == 3:
                message[columns] = 0.0
            else:
                message[columns] *= 10.0 ** rng.uniform(-9, 9)
        if rng.random() < 0.7:
            self.disguise(message)
        return message

    def disguise(self, message: np.ndarray) -> None:
        """Sums that are possible, as far from honest ones as they may be; with masks any bits are."""
        rng, algorithm = self.rng, self.runtime.host.algorithm
        sums = message[algorithm.private]
        if self.masked:
            message[algorithm.private] = rng.integers(0, 2**64, sums.size, dtype=np.uint64).view(np.float64)
            return
        n, method, weight = algorithm.method.points, algorithm.method, message[tree.WEIGHT]
        h = rng.choice([0.1, 1.0, 30.0, method.spread]) * rng.normal(size=n)
        h -= h.max() + np.log(np.exp(h - h.max()).sum())
        difference = method.spread * rng.choice([rng.uniform(size=n), rng.integers(0, 2, n)])
        sums[:n], sums[n : 2 * n] = weight * h, weight * (h - difference)
        sums[n : 2 * n] -= sums[n : 2 * n].mean()

    def stand(self, header: np.ndarray, sender: int) -> None:
        """A place in the tree that is possible for the sender."""
        algorithm = self.runtime.host.algorithm
        keys, around = algorithm.checks.ranks, self.graph.neighbours_of(sender)
        roots = [k for k in range(self.graph.size) if keys[k] < keys[sender]]
        if not roots or self.rng.random() < 0.2:
            header[tree.ROOT], header[tree.DISTANCE], header[tree.PARENT] = keys[sender], 0.0, sender
            return
        state = self.runtime.host.state
        same = [k for k in roots if keys[k] == state.root[0]]
        root = same[0] if same and self.rng.random() < 0.8 else int(self.rng.choice(roots))
        least = self.graph.hops_from(root)[sender]
        header[tree.ROOT], header[tree.DISTANCE] = keys[root], self.rng.integers(least, self.graph.size)
        child = sender != self.node and self.rng.random() < 0.6
        header[tree.PARENT] = self.node if child else self.rng.choice(around)

    def scramble(self) -> None:
        """A state that no history leads to: extreme numbers where the method keeps numbers, any place in the tree."""
        rng, state, algorithm = self.rng, self.runtime.host.state, self.runtime.host.algorithm
        header = np.zeros(tree.HEADER)
        self.stand(header, self.node)
        state.root[0], state.distance[0], state.parent[0] = header[[tree.ROOT, tree.DISTANCE, tree.PARENT]]
        state.epoch[0] = rng.choice([0.0, 0.4, 1.0, 7.3, 1e6, kernels.LAST_EPOCH - 1, kernels.LAST_EPOCH])
        # a root has made its targets itself, none of them later than now
        now = float(self.runtime.host.counts[0]) - 1.0
        state.stamp[0] = rng.choice([-1.0, now] if state.parent[0] == self.node else [-1.0, 0.0, 5.0, 2.0**53])
        state.checkpoint[0] = rng.choice([-1.0, state.stamp[0]])
        state.done[0] = rng.choice([0.0, max(0.0, min(state.stamp[0] + 1, 2.0**53))])
        for name, values in (
            ("away", [0, 0, 0, 1]), ("newcomer", [0, 1]), ("whole", [0, 1]), ("settled", [0, 1]), ("agreed", [0, 1]),
            ("residual", [0, 2]), ("allowance", [0, 1, 64]), ("quiet", [0, 10**9]), ("age", [0, 10**9]),
            ("waited", [0, 10**9]), ("patience", [100, 2**40]), ("lag", [100, 2.0**53]), ("loop", [0, 1, 1e9]),
            ("left", [0, 1e-300, 2]), ("rate", [0, 1]), ("moved", [0, 2, np.inf]),
        ):  # fmt: skip
            getattr(state, name)[0] = rng.choice(values)
        if not algorithm.method.in_rounds:
            state.rounds[0] = rng.choice([0.0, 1.0])
        lower, upper = (bound[algorithm.private.stop :] for bound in algorithm.bounds())
        state.target[0] = np.where(rng.random(lower.size) < 0.5, rng.uniform(lower, upper), rng.choice([lower, upper]))
        own, scale = state.own, 10.0 ** rng.uniform(-3, 12)
        for name in ("x", "base", "correction", "base_mean", "base_drift"):
            values = getattr(own, name)
            most = algorithm.method.largest
            values[0] = np.clip(scale * rng.normal(size=values.shape[1]), -most, most)
        own.base_h[0] = -np.abs(own.base[0])
        own.phase[0], own.valid[0] = rng.integers(6), False
        own.stage[0] = own.base_stage[0] = rng.integers(algorithm.method.last_stage + 1)
        for name in ("base_merit", "base_spread", "drift"):
            getattr(own, name)[0] = rng.choice([0.0, 1e-9, LARGEST, np.inf])

    def frame(self, sender: int, message: np.ndarray) -> bytes:
        self.sequence += 1
        private = self.runtime.host.algorithm.private
        whole = message[tree.PARENT] == self.node
        values = message if whole else np.delete(message, private)
        return encode(RUN, sender, 1, self.sequence, values, with_private=bool(whole))

    def receive(self, frame: bytes) -> bool:
        """Decode and check; whether it was admitted."""
        links = self.runtime.links
        sender = int.from_bytes(frame[24:28], "little")
        message = announced(links.admission(f"n{sender}"), RUN).accept(frame)
        if message is None:
            return False
        links.deliver(message)
        return True

    def act(self) -> None:
        """Activate, encode for the parent and for the others, and keep; an error if neighbours would refuse it."""
        host = self.runtime.host
        batch = host.batch(0)
        outgoing = host.activate(batch)
        # sending checks nothing; and where nothing is sent, the state is kept
        self.runtime.transport.check(batch, outgoing.messages)
        host.send(batch, outgoing)
        if self.sequence % 16 == 0:
            host.view(0)

    def restart(self) -> None:
        """Continue from its memory."""
        kept = self.runtime.memory.pack()
        self.runtime = self.started()
        self.runtime.memory.unpack(kept)


def attack(seed: int, number: int, frames: int = EACH) -> Counter[str]:
    """Case ``number`` of a seed: how many frames were sent, admitted, and refused by reason."""
    victim, counts = Victim(seed, number), Counter[str]()
    with np.errstate(all="ignore"):
        while counts["frames"] < frames:
            draw = victim.rng.random()
            if draw < 0.03:
                victim.scramble()
            elif draw < 0.05:
                victim.restart()
            for sender in victim.graph.neighbours_of(victim.node).tolist():
                counts["admitted"] += victim.receive(victim.frame(sender, victim.lie(sender)))
                counts["frames"] += 1
            victim.act()
    for link in victim.runtime.links.status().values():
        counts.update({f"refused: {reason}": count for reason, count in link.refused_messages.items()})
    return counts


def main() -> None:
    """Run the cases, and say what was found."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=1_000_000, help="how many frames")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the first case")
    options = parser.parse_args()
    logging.disable()
    warnings.simplefilter("ignore")
    total, failed, began = Counter[str](), 0, time.monotonic()
    number = options.first - 1
    while total["frames"] < options.count:
        number += 1
        try:
            total += attack(options.seed, number)
        except Exception as error:
            failed += 1
            total["frames"] += EACH
            print(f"case {number}: {type(error).__name__}: {error}", flush=True)
    print(f"cases {options.first} to {number}: {dict(total)}, {failed} cases failed, {time.monotonic() - began:.0f} s")
    raise SystemExit(failed > 0)


if __name__ == "__main__":
    main()
