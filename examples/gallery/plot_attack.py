"""
A network under attack
======================

Five institutions find the typical age of their lung cancer patients (real ones, from the package lifelines), over an
encrypted network and without pooling data. One of them lies. How far can it move the answer of the others, and do they
notice who it is? Three lies are tried: data that are invented, numbers that no data can give, and an answer of its own
that it passes on as everybody's. An attacker does not keep to the public interface, so this example does not either:
it runs the five nodes in one process, with the checks of the real ones, and changes what the liar sends.
"""

import logging

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
from lifelines.datasets import load_lung

import barymesh as bm
from barymesh.core import tree
from barymesh.decentralized.algorithm import Nodes
from barymesh.engines.runtime import Pace, Place, Runtime, hosted_algorithm
from barymesh.methods.orders import Order
from barymesh.network import Network
from barymesh.peers.doubts import Doubts
from barymesh.transport.handshake import Reply
from barymesh.transport.keys import KeyPair
from barymesh.transport.subscriber import Neighbour
from barymesh.transport.wire import VERSION, VERSIONS, encode

# every refused message would be logged
logging.disable()
GRAPH, LIAR, STEPS = Network(5, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (1, 3)]), 4, 150
lung = load_lung().dropna(subset=["inst", "age"])
largest = lung["inst"].value_counts().index[:5]
ages = [bm.Empirical(lung["age"][lung["inst"] == one].to_numpy(float)) for one in largest]
years, reg, n = np.linspace(35, 95, 61), 8.0, 61
invented = [*ages[:LIAR], bm.Empirical([95.0] * 12)]


def attack(measures: list, lie=None) -> tuple[np.ndarray, dict[int, set[str]]]:
    """What the honest end up with, ``(4, n)``, and whom each of them names. ``lie`` changes a message of the liar."""
    keys, peers, doubts = [KeyPair.create() for _ in range(5)], [], []
    for node, measure in enumerate(measures):
        own = bm.Problem.create([measure], years, reg=reg)
        algorithm = hosted_algorithm("sinkhorn", own, Nodes(GRAPH, np.array([node]), np.ones(1), np.ones(5)), tol=1e-8)
        around = [
            Neighbour(f"n{j}", f"tcp://127.0.0.1:{5000 + j}", (int(j),), keys[j].public)
            for j in GRAPH.neighbours_of(node)
        ]
        place = Place("attack", f"tcp://127.0.0.1:{5000 + node}", around, keys[node])
        peers.append(Runtime(algorithm, own, place, Pace(0.0), incarnation=1))
        target = slice(algorithm.private.stop, algorithm.width)
        doubts.append(Doubts(node, "ABCDE", lambda key: int(GRAPH.by_centrality[int(key) + 5]), target))
        peers[-1].transport.observer = doubts[-1].look
    for step in range(1, STEPS + 1):
        sent = []
        for node, peer in enumerate(peers):
            batch = peer.host.batch(step)
            outgoing = peer.host.activate(batch)
            peer.host.send(batch, outgoing)
            sent += [(node, int(j), outgoing.messages[0].copy()) for j in GRAPH.neighbours_of(node)]
        for sender, receiver, message in sent:
            if lie is not None and sender == LIAR:
                message = lie(message)
            # the sums are for the parent only
            private = receiver == message[tree.PARENT]
            values = message if private else np.delete(message, peers[receiver].host.algorithm.private)
            admission = peers[receiver].links.admission(f"n{sender}")
            if admission.reply is None:
                admission.accept(Reply(VERSION, VERSIONS, admission.begin(), 1, "attack").encode())
            if accepted := admission.accept(encode("attack", sender, 1, step, values, with_private=private)):
                peers[receiver].links.deliver(accepted)
    named = {node: {name for doubt in doubts[node].all if doubt.proof for name in doubt.nodes} for node in range(LIAR)}
    for node in range(LIAR):
        links = peers[node].links.status().items()
        named[node] |= {"ABCDE"[int(name[1:])] for name, link in links if link.refused_messages}
    return np.array([peer.host.view(0).estimates[0] for peer in peers[:LIAR]]), named


# %%
# The lies. Invented data: twelve patients of 95 years. Impossible numbers: a report for a million times as many
# patients as the network file says. An answer of its own: a target at 95 years, under the name of the root's.


def more_patients(message: np.ndarray) -> np.ndarray:
    message[tree.WEIGHT] *= 1e6
    return message


def own_answer(message: np.ndarray) -> np.ndarray:
    edge = -((years - 95) ** 2) / 20
    message[message.size - n - len(Order) : message.size - len(Order)] = edge - np.log(np.exp(edge).sum())
    return message


lies = {
    "it invents patients": attack(invented),
    "it reports impossible numbers": attack(ages, more_patients),
    "it passes on an answer of its own": attack(ages, own_answer),
}
logging.disable(logging.NOTSET)

# %%
# The checks are against barycenters computed in one place. Invented data move the mean age by the liar's share of the
# weight, a fifth, times how far it has moved its own mean: no more, and nobody can tell them from real ones. Impossible
# numbers are refused, and the others go on without the liar. A false answer reaches nobody, because answers are taken
# on the way from the root only; who hears two answers under one name has proof, and names the liar.

truth, without = (bm.barycenter(some, years, reg=reg, tol=1e-9).weights for some in (ages, ages[:LIAR]))
expected = dict(zip(lies, (None, without, truth), strict=True))
for what, (found, named) in lies.items():
    shift = (found - truth) @ years
    print(f"{what}: the mean moves by {shift.max():.2f} years, named by {sum(map(len, named.values()))} institutions")
    if expected[what] is None:
        assert np.abs(shift - (95 - ages[LIAR].points.mean()) / 5).max() < 0.1
        assert not any(named.values())
    else:
        assert np.abs(found - expected[what]).sum(axis=1).max() / 2 < 1e-4
        assert set.union(*named.values()) == {"E"}

# %%
# So choose whom you give weight. :doc:`/explanation/security` has what liars can still do, and what networks with
# masks, which nobody can read, can and cannot check.

figure, panels = plt.subplots(2, 3, figsize=(8.4, 4.8), height_ratios=[1, 1.2], sharey="row", layout="constrained")
graph = nx.Graph(GRAPH.edges.tolist())
where = nx.circular_layout(range(5))
for (above, below), (what, (found, named)) in zip(panels.T, lies.items(), strict=True):
    colours = ["#D55E00" if k == LIAR else "#0072B2" for k in range(5)]
    rings = ["black" if named.get(k) else colours[k] for k in range(5)]
    nx.draw_networkx(
        graph, where, ax=above, nodelist=range(5), node_color=colours, edgecolors=rings, linewidths=3, node_size=420,
        labels=dict(enumerate("ABCDE")), font_color="white", edge_color="0.7",
    )  # fmt: skip
    above.set_title(f"{what}\nnamed by {' and '.join('ABCD'[k] for k in named if named[k]) or 'nobody'}", fontsize=10)
    above.set_axis_off()
    above.margins(0.2)
    below.plot(years, 100 * truth, color="black", linestyle=":")
    below.fill_between(years, 100 * found[0], color="#0072B2", alpha=0.35)
    below.plot(years, 100 * found.T, color="#0072B2")
    below.set_xlabel("age (years)")
panels[1, 0].set_ylabel("patients (% for each year)")
figure.suptitle("E lies. Below: what the others find (blue), and the truth (dotted)", fontsize=11)
plt.show()
