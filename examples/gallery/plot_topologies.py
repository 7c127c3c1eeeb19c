"""
Which links should a network have?
==================================

Twenty-five sites are to agree on a barycenter. Which of them should be linked? More links cost more traffic; fewer
mean longer ways. How long does it take until the sites have the answer to within 1% on average, and what does it cost?
"""

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np

import barymesh as bm
from barymesh.network import as_network

rng = np.random.default_rng(0)
support = np.linspace(-5, 5, 60)
sites = [bm.Gaussian(rng.uniform(-3, 3), rng.uniform(0.4, 0.8)) for _ in range(25)]
truth = bm.barycenter(sites, support, reg=0.1, tol=1e-9).weights

# %%
# Messages take 0.2 to 1 s, and every site acts five times a second. ``reference`` is the barycenter computed in one
# place: the independent answer that all networks must arrive at, whatever their shape.

names = ("complete", "star", "exponential", "erdos_renyi", "torus", "grid", "cycle", "path")
hops, seconds, megabytes, robust = [], [], [], []
for name in names:
    network = as_network(name, len(sites), 1)
    run = bm.barycenter(
        sites, support, reg=0.1, network=network, reference=truth, tol=1e-3, record_every=0.2, duration=80
    )
    # total variation of the site that is furthest off, at the end
    assert np.abs(run.node_weights - truth).sum(axis=1).max() / 2 < 1e-3
    until = run.summary()["until"]["0.01"]
    # how far the farthest site is from the centre, where what all report comes together
    hops.append(nx.radius(network.to_networkx()))
    seconds.append(until["time"])
    megabytes.append(until["bytes"] / 1e6)
    robust.append(nx.is_biconnected(network.to_networkx()))
    print(f"{name:12} {len(network.edges):3} links, {hops[-1]:2} hops: {seconds[-1]:4.1f} s, {megabytes[-1]:4.1f} MB")

# %%
# The time is set by how many hops the farthest site is from the centre, about 1.8 s for each, and not by the number of
# links. The complete network is the most expensive way to be fast but for the long ones: a sparse network without long
# ways (exponential, or random) is nearly as fast for two thirds of the traffic or less. Paths and cycles have few links
# and still cost more, because they take longer. The star is the cheapest, but depends on its hub: hollow bars are
# networks that fall apart if one site fails.

assert np.corrcoef(hops, seconds)[0, 1] > 0.95
cost = dict(zip(names, megabytes, strict=True))
assert cost["star"] < cost["exponential"] < 0.7 * cost["complete"]

figure, panels = plt.subplots(1, 2, figsize=(7, 3.4), sharey=True, layout="constrained")
labels = [f"{name.replace('_', ' ')}, hops: {count}" for name, count in zip(names, hops, strict=True)]
faces = ["#0072B2" if safe else "white" for safe in robust]
for axes, lengths, quantity in zip(panels, (seconds, megabytes), ("time (s)", "traffic (MB)"), strict=True):
    bars = axes.barh(labels, lengths, color=faces, edgecolor="#0072B2")
    axes.bar_label(bars, fmt=" %.1f", fontsize=9)
    axes.set_xlabel(quantity)
    axes.margins(x=0.18)
figure.suptitle("Until the sites are on average within 1% of the barycenter", fontsize=11)
panels[0].invert_yaxis()
plt.show()
