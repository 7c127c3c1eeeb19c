"""A network in one process whose messages pass through the checks on arrival, and in which one node lies.

    python -m tests.decentralized.liars

prints by how much one liar can shift the barycenter: the table in docs/explanation/security.md.
"""

from __future__ import annotations

import logging

import numpy as np

import barymesh as bm
from barymesh.core import tree
from barymesh.decentralized.algorithm import Nodes
from barymesh.decentralized.masks.streams import Masks
from barymesh.engines.runtime import Pace, Place, Runtime, hosted_algorithm
from barymesh.methods.base import FARTHEST
from barymesh.methods.orders import Order
from barymesh.network import Network, as_network
from barymesh.problem import Problem, support_cost
from barymesh.transport.keys import KeyPair, raw_public
from barymesh.transport.subscriber import Neighbour
from barymesh.transport.wire import encode
from tests.frames import announced

POINTS, REG = np.linspace(-3, 3, 20), 0.3


def honest(sender, message, receiver, step):
    """The message as it is."""
    return message


class Society:
    """Honest nodes with measures of their own, each as a peer hosts it; and a ``liar``, a node of the same kind whose
    messages ``lie(sender, message, receiver, step)`` changes for each receiver; None for nothing."""

    def __init__(
        self, graph: Network, liar=None, lie=honest, method="sinkhorn", measures=None, tol=1e-6, seed=0, masked=False
    ):
        rng = np.random.default_rng(seed)
        self.graph, self.liar, self.lie, self.step_number = graph, liar, lie, 0
        if measures is None:
            measures = [bm.Empirical(rng.normal(rng.uniform(-1.5, 1.5), 0.5, (40, 1))) for _ in range(graph.size)]
        self.measures = measures
        keys = [KeyPair.create() for _ in measures]
        self.peers = []
        for node, measure in enumerate(measures):
            own = Problem.create([measure], POINTS, reg=REG)
            nodes = Nodes(graph, np.array([node]), np.ones(1), np.ones(graph.size))
            masks = Masks(
                {node: keys[node].raw_secret}, [raw_public(one.public) for one in keys], run=b"liars", method="rounds",
                secret=bytes([node] * 32), min_members=3,
            )  # fmt: skip
            algorithm = hosted_algorithm(
                "rounds" if masked else method, own, nodes, tol=tol, batch="exact", masks=masks if masked else None
            )
            around = [
                Neighbour(f"n{j}", f"tcp://127.0.0.1:{5000 + j}", (int(j),), keys[j].public)
                for j in graph.neighbours_of(node)
            ]
            place = Place("liars", f"tcp://127.0.0.1:{5000 + node}", around, keys[node])
            self.peers.append(Runtime(algorithm, own, place, Pace(0.0), incarnation=1))

    def step(self) -> None:
        """Everybody acts once, and what is sent arrives."""
        self.step_number += 1
        sent = []
        for node, peer in enumerate(self.peers):
            batch = peer.host.batch(self.step_number)
            outgoing = peer.host.activate(batch)
            peer.transport.check(batch, outgoing.messages)
            peer.host.send(batch, outgoing)
            around = self.graph.neighbours_of(node)
            chosen = np.ones(around.size, bool) if outgoing.links is None else outgoing.links
            sent += [(node, int(j), outgoing.messages[0], outgoing.receivers[0]) for j in around[chosen]]
        for sender, receiver, message, parent in sent:
            values = message.copy()
            if sender == self.liar:
                values = self.lie(sender, values, receiver, self.step_number)
                if values is None:
                    continue
                parent = int(values[tree.PARENT]) if np.isfinite(values[tree.PARENT]) else -1
            self.deliver(sender, receiver, values, receiver == parent)

    def deliver(self, sender, receiver, values, with_private) -> None:
        peer = self.peers[receiver]
        if not with_private:
            values = np.delete(values, peer.host.algorithm.private)
        frame = encode("liars", sender, 1, self.step_number, values, with_private=with_private)
        message = announced(peer.links.admission(f"n{sender}"), "liars").accept(frame)
        if message is not None:
            peer.links.deliver(message)

    def run(self, steps: int):
        for _ in range(steps):
            self.step()
        return self

    @property
    def honest_nodes(self):
        return [k for k in range(self.graph.size) if k != self.liar]

    def estimate(self, node):
        return self.peers[node].host.view(0).estimates[0]

    def refused(self, node, neighbour):
        """By reason, how many messages of the neighbour the node has refused."""
        return self.peers[node].links.status()[f"n{neighbour}"].refused_messages

    def truth(self, nodes=None, weights=None):
        chosen = range(self.graph.size) if nodes is None else nodes
        return bm.barycenter([self.measures[k] for k in chosen], POINTS, reg=REG, tol=1e-10, weights=weights).weights

    def distance(self, node, truth):
        return 0.5 * float(np.abs(self.estimate(node) - truth).sum())


def main() -> None:
    logging.disable()
    centre = bm.Empirical(np.random.default_rng(0).normal(0, 0.5, (40, 1)))
    print("| network | liar | what it does | total variation | shift of the mean |")
    print("|---|---|---|---|---|")
    for shape, size, liar in (("star", 5, 4), ("star", 20, 19), ("path", 5, 0), ("path", 5, 1), ("path", 5, 2)):
        graph = as_network(shape, size)
        measures = [centre] * size
        truth = Society(graph, measures=measures).truth()
        root = int(graph.by_centrality[0])
        place = "the root" if liar == root else f"{len(_below(graph, liar, root))} of {size} nodes in its subtree"
        claimed = [[bm.Empirical([[far]]) if k == liar else centre for k in range(size)] for far in (3.0, 5.48)]
        for what, society in (
            ("another measure, at the edge", Society(graph, measures=claimed[0])),
            ("another measure, as far outside as data may be", Society(graph, measures=claimed[1])),
            ("false sums and targets", Society(graph, liar, _false_numbers(graph, liar), measures=measures)),
            ("masked: its numbers, far outside, times m / 2", exaggerating(graph, liar, claimed[1], size / 2)),
        ):  # fmt: skip
            society.run(150)
            others = [k for k in range(size) if k != liar]
            tv = max(society.distance(k, truth) for k in others)
            mean = max(abs(float((society.estimate(k) - truth) @ POINTS)) for k in others)
            print(f"| {shape} of {size} | {place} | {what} | {tv:.3f} | {mean:.3f} |", flush=True)


def exaggerating(graph, liar, measures, factor, weight=1.0):
    """With masks: the liar's numbers count for ``factor`` times what they are, and it says that it weighs so much."""
    society = Society(graph, liar, measures=measures, masked=True)
    sums = society.peers[liar].host.algorithm.masked

    def report(masks, node, moment, _, error, parts):
        words = sums.presence(node, float(moment.roll[node]))
        numbers = (weight, error, *factor * np.concatenate(parts))
        scales = (*sums.weights.scale, *sums._errors.scale, *sums.parts.scale)
        cut = np.clip(np.multiply(numbers, scales), -(2.0**62), 2.0**62)
        words[sums.roll.stop :] = np.array([1, *np.rint(cut)]).astype(np.int64).view(np.uint64)
        words[sums.roll.stop :] += masks.mask(node, moment, (1, 1, 1, *(part.size for part in parts)))
        return words

    sums.report = report
    return society


def _below(graph, node, root):
    """The nodes that reach the root through the node only, itself included."""
    near = graph.hops_from(root)
    found = {node}
    for other in np.argsort(near):
        around = graph.neighbours_of(int(other))
        parents = [int(k) for k in around if near[k] < near[other]]
        if other not in (node, root) and parents and all(k in found for k in parents):
            found.add(int(other))
    return sorted(found)


def _false_numbers(graph, liar):
    """It reports a measure at the edge that is as far away as the checks allow, and passes on a target there."""
    # the numbers of h - x may differ by so much; it grows towards the edge
    problem = Problem.create([bm.Empirical([[0.0]])], POINTS, reg=REG)
    difference = FARTHEST * support_cost(problem) / REG * np.linspace(0, 1, POINTS.size)

    def lie(sender, message, receiver, step):
        n, up = POINTS.size, slice(tree.HEADER, tree.HEADER + POINTS.size)
        edge = -((POINTS - 3.0) ** 2) / (2 * REG)
        edge -= np.log(np.exp(edge).sum())
        x = edge - difference
        message[up] = message[tree.WEIGHT] * edge
        message[up.stop : up.stop + n] = message[tree.WEIGHT] * (x - x.mean())
        target = slice(message.size - n - len(Order), message.size - len(Order))
        if message[tree.STAMP] >= 0:
            message[target] = edge
        return message

    return lie


if __name__ == "__main__":
    main()
