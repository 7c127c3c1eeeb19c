"""
Where does it thunder? Airfields on failing links
=================================================

Airfields of Kansas listen for thunderstorms. Each has a belief about where the lightning is, from a bearing and a rough
distance. What none of them knows: all of their reports are half an hour old, and the storm has moved on by 25 km. They
send radio messages to the airfields within reach; one message in ten is lost, and every link is down for some time. Can
all of them still arrive at the common answer, without a centre? And which answer should it be? The airfields are real
ones, from the package vega_datasets; the storm is drawn at random.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import softmax
from vega_datasets import data

import barymesh as bm
from barymesh.network import Network
from barymesh.scenario import LinkDown, Loss

# %%
# Every second airfield of the state, in kilometres east and north of its south-west corner. Those within 110 km of each
# other are in touch.

REG, MOVED = 250.0, (20.0, 15.0)
airports = data.airports()
kansas = airports[airports["state"] == "KS"].sort_values("longitude")[["longitude", "latitude"]].to_numpy()
sensors = ((kansas - [-102.05, 37.0]) * [111.2 * np.cos(np.radians(38.5)), 111.2])[::2]
source = np.array([390.0, 190.0])
apart = np.linalg.norm(sensors[:, None] - sensors, axis=2)
network = Network(len(sensors), [(i, j) for i, j in np.argwhere(apart < 110) if i < j])
support = bm.Support.regular([48, 26], [0, 0], [650, 345])
rng = np.random.default_rng(2)


def belief(sensor: np.ndarray) -> np.ndarray:
    """What the airfield believes, ``(n,)``: a bearing to within 8 degrees, a distance to within 15%."""
    seen, reach = complex(*(source - MOVED - sensor)), support.points - sensor
    measured = seen * np.exp(1j * np.radians(rng.normal(0, 8)) + rng.normal(0, 0.15))
    ratio = (reach[:, 0] + 1j * reach[:, 1]) / measured
    density = np.exp(-((np.angle(ratio) / np.radians(8)) ** 2 + ((np.abs(ratio) - 1) / 0.15) ** 2) / 2)
    return density / density.sum()


beliefs = np.array([belief(sensor) for sensor in sensors])
central = bm.barycenter(beliefs, support, reg=REG)

# %%
# The run on the network, twice: with everything in order, and with links that fail. The check: ``central``, the
# barycenter computed in one place. The airfields find out by themselves when to stop.

starts = rng.uniform(0, 15, len(network.edges))
stops = starts + rng.uniform(2, 10, len(network.edges))
outages = [LinkDown(*link, *when) for link, *when in zip(network.edges.tolist(), starts, stops, strict=True)]
runs = {
    name: bm.barycenter(
        beliefs, support, reg=REG, network=network, faults=faults, reference=central.weights, duration=80,
        record_every=0.5, schedule="poisson:rate=5", delays="uniform:low=0.1,high=0.5", tol=1e-3,
    )
    for name, faults in {"all links work": [], "links fail": [Loss(0.1), *outages]}.items()
}  # fmt: skip
for name, run in runs.items():
    worst = np.abs(run.node_weights - central.weights).sum(axis=1).max() / 2
    print(f"{name}: all stopped after {run.history['time'][-1]:.0f} s, the worst airfield {worst:.1e} off")
    assert run.status is bm.Status.CONVERGED
    assert worst < 1e-3

# %%
# Which answer? The product of all beliefs is what Bayes' rule gives *if* their errors are independent; the mean of the
# beliefs is the cautious rival. Compared are the regions that hold 90%: how large, and is the storm inside?

answers = {
    "mean of beliefs": beliefs.mean(axis=0),
    "barycenter": runs["links fail"].weights,
    "product of beliefs": softmax(np.log(np.maximum(beliefs, 1e-300)).sum(axis=0)),
}
nearest = np.linalg.norm(support.points - source, axis=1).argmin()
levels, areas = {}, {}
for name, weights in answers.items():
    falling = np.sort(weights)[::-1]
    count = np.searchsorted(np.cumsum(falling), 0.9) + 1
    levels[name], areas[name] = falling[count - 1], count * 650 * 345 / (47 * 25)
    inside = bool(weights[nearest] >= levels[name])
    print(f"{name:18} 90% within {areas[name]:6,.0f} square km, storm inside: {inside}")
    assert inside is (name != "product of beliefs")
assert areas["barycenter"] < 0.6 * areas["mean of beliefs"]

# %%
# The product is sure of a wrong place, because it takes a shared error for forty independent ones; the mean needs twice
# the area. The barycenter does not claim more than one airfield can know, nor does it get narrower with more of them.

figure, axes = plt.subplots(figsize=(8, 4.8), layout="constrained")
axes.plot(*sensors[network.edges].T, color="0.82", linewidth=0.7, zorder=0)
axes.plot(*sensors.T, "o", color="0.35", markersize=4)
for (name, weights), colour in zip(answers.items(), ("#E69F00", "#0072B2", "#D55E00"), strict=True):
    region = weights.reshape(48, 26).T
    axes.contourf(*support.grid.axes, region, [levels[name], 1], colors=colour, alpha=0.25)
    axes.contour(*support.grid.axes, region, [levels[name]], colors=colour, linewidths=2)
    axes.plot(*(weights @ support.points), "+", color=colour, markersize=9, markeredgewidth=2)
    axes.plot([], [], "s", color=colour, markersize=9, label=f"{name}: {areas[name]:,.0f} square km")
axes.plot(*source, "*", color="black", markersize=16, label="the storm")
axes.set(xlabel="east (km)", ylabel="north (km)", aspect="equal", title="Where 90% of each answer is")
axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2, frameon=False, fontsize=9)
plt.show()
