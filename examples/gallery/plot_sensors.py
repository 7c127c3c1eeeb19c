"""
Where is the source? Sensors on failing links
=============================================

Thirty sensors on a map look for the source of a signal. Each has a belief, from a bearing and a rough distance. What
none of them knows: their map is of another datum, and everything on it lies 200 m off. They send radio messages to the
sensors within reach; one message in ten is lost, and every link is down for some time. Can all of them still arrive at
the common answer, without a centre? And which answer should it be?
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import softmax

import barymesh as bm
from barymesh.network import as_network
from barymesh.scenario import LinkDown, Loss

SIDE, KILOMETRES, REG, DATUM = 32, 3, 0.009, (0.12, 0.16)
rng = np.random.default_rng(2)
network = as_network("random_geometric", 30, 1)
sensors, source = KILOMETRES * network.positions, np.array([2.0, 1.2])
support = bm.Support.regular([SIDE, SIDE], 0, KILOMETRES)


def belief(sensor: np.ndarray) -> np.ndarray:
    """What the sensor believes, ``(n,)``: a bearing to within 8 degrees, a distance to within 15%."""
    seen, reach = complex(*(source - sensor)), support.points - (sensor + DATUM)
    measured = seen * np.exp(1j * np.radians(rng.normal(0, 8)) + rng.normal(0, 0.15))
    ratio = (reach[:, 0] + 1j * reach[:, 1]) / measured
    density = np.exp(-((np.angle(ratio) / np.radians(8)) ** 2 + ((np.abs(ratio) - 1) / 0.15) ** 2) / 2)
    return density / density.sum()


beliefs = np.array([belief(sensor) for sensor in sensors])
central = bm.barycenter(beliefs, support, reg=REG)

# %%
# The run on the network, twice: with everything in order, and with links that fail. ``reference`` is the barycenter
# computed in one place, for comparison. The sensors find out by themselves when to stop.

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
    print(f"{name}: all stopped after {run.history['time'][-1]:.0f} s, the worst sensor {worst:.1e} off")
    assert run.status is bm.Status.CONVERGED
    assert worst < 1e-3

# %%
# Which answer? The product of all beliefs is what Bayes' rule gives *if* the error bars are honest; the mean of the
# beliefs is the cautious rival. Compared are the regions that hold 90%: how large, and is the source inside?

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
    levels[name], areas[name] = falling[count - 1], count * (KILOMETRES / (SIDE - 1)) ** 2
    inside = bool(weights[nearest] >= levels[name])
    print(f"{name:18} 90% within {areas[name]:4.2f} square km, source inside: {inside}")
    assert inside is (name != "product of beliefs")
assert areas["barycenter"] < 0.6 * areas["mean of beliefs"]

# %%
# The product is sure of a wrong place, because it takes a shared error for thirty independent ones; the mean needs
# twice the area. The barycenter is a typical sensor's belief at the average place. Its centre is as wrong, but it does
# not claim more than a sensor can know. It does not get narrower with more sensors either: where errors are known to be
# independent, multiply.

figure, (left, right) = plt.subplots(1, 2, figsize=(7, 3.9), width_ratios=[1.2, 1], layout="constrained")
left.plot(*sensors[network.edges].T, color="0.85", linewidth=0.8, zorder=0)
left.plot(*sensors.T, "o", color="0.5", markersize=4)
for (name, weights), colour in zip(answers.items(), ("#E69F00", "#0072B2", "#D55E00"), strict=True):
    left.contour(*support.grid.axes, weights.reshape(SIDE, SIDE).T, [levels[name]], colors=colour, linewidths=2)
    left.plot([], [], color=colour, linewidth=2, label=name)
left.plot(*source, "k*", markersize=10, label="source")
left.set(xlabel="east (km)", ylabel="north (km)", aspect="equal", title="regions that hold 90%")
for (name, run), style in zip(runs.items(), ("-", "--"), strict=True):
    right.semilogy(run.history["time"], run.history["tv"], style, color="black", label=name)
right.axvspan(0, stops.max(), color="0.9", label="some links down")
right.set(xlabel="time (s)", ylabel="mean share misplaced", title="distance to the central answer")
for axes in (left, right):
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, frameon=False, fontsize=8)
    axes.title.set_fontsize(10)
plt.show()
