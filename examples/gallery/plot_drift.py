"""
Following a distribution that drifts
====================================

Twelve weather stations exchange messages with a few neighbours each, and follow the distribution of temperature that is
typical of all of them. The weather changes: every fifteen seconds each station has new data, at a time of its own.
Nothing is restarted. How far behind is the network, and what would an answer computed once, at the start, be worth?
"""

import matplotlib.pyplot as plt
import numpy as np

import barymesh as bm
from barymesh.scenario import NewData

STATIONS, PERIOD, LAST, END = 12, 15.0, 90.0, 120.0
offsets = np.random.default_rng(0).normal(0, 1.5, STATIONS)
support = np.linspace(0, 30, 61)


def weather(station: int, at: float) -> bm.Gaussian:
    """Warmer and warmer, and more and more varied."""
    return bm.Gaussian(15 + 4 * np.sin(np.pi * (at - 40) / 80) + offsets[station], 1 + at / 60)


first = [weather(station, 0.0) for station in range(STATIONS)]
changes = [
    NewData(node=station, at=at, measure=weather(station, at))
    for station in range(STATIONS)
    for at in np.arange(PERIOD * (station + 1) / STATIONS, LAST, PERIOD)
]
run = bm.barycenter(
    first, support, reg=0.2, network="watts_strogatz", events=changes, duration=END, record_every=3, snapshots=True
)

# %%
# The check: every 3 seconds, the barycenter of the data that the stations have at that moment, computed in one place.
# ``snapshots`` holds what each station believed then. Total variation is the share of the distribution that is
# misplaced: 0 is right, 1 is all wrong.

times, truth, now = run.history["time"], [], None
for time in times:
    data = {change.node: change.measure for change in changes if change.at <= time}
    now = bm.barycenter([data.get(k, first[k]) for k in range(STATIONS)], support, reg=0.2, tol=1e-5, start=now)
    truth.append(now.weights)
truth = np.array(truth)
network = np.abs(run.snapshots - truth[:, None]).sum(axis=2) / 2
once = np.abs(truth[0] - truth).sum(axis=1) / 2

settled = (times > 10) & (times <= LAST)
print(f"While the weather changes: network {network[settled].mean():.2f}, first answer {once[settled].mean():.2f}")
print(f"{END - LAST:.0f} s after the last change: network {network[-1].max():.4f}, first answer {once[-1]:.2f}")
assert network[settled].mean() < 0.2 * once[settled].mean()
assert network[-1].max() < 0.01

# %%
# The network is about three seconds behind, the time in which a change goes to the root of its tree and back; a
# station with fresh data leans towards them until messages of the others arrive. If data changed much faster than
# that, the answer would lag visibly; once they no longer change, it becomes exact.

figure, (top, bottom) = plt.subplots(2, 1, figsize=(7, 5), sharex=True, layout="constrained")
top.plot(times, run.snapshots @ support, color="#56B4E9", linewidth=0.8)
top.plot([], [], color="#56B4E9", label="each station's answer")
top.plot(times, truth @ support, color="black", linestyle=":", linewidth=2, label="exact at that moment")
top.axhline(truth[0] @ support, color="#D55E00", linestyle="--", label="computed once, at the start")
top.set_ylabel("mean temperature (°C)")
bottom.plot(times, once, color="#D55E00", linestyle="--")
bottom.plot(times, network, color="#56B4E9", linewidth=0.8)
bottom.plot(times, network.mean(axis=1), color="#0072B2", linewidth=2, label="mean of the stations")
bottom.set(xlabel="time (s)", ylabel="share misplaced", ylim=(0, 1.05))
for axes in (top, bottom):
    axes.axvspan(LAST, END, color="0.92")
figure.legend(loc="outside lower center", ncols=2, frameon=False)
figure.suptitle("In the grey part no new data arrive", fontsize=10)
plt.show()
