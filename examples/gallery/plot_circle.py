"""
The typical night on a clock without ends
=========================================

At what hour do emergency calls come in, in a typical district? Each of seven districts has a night peak and a smaller
one in the afternoon, at hours of its own; some night peaks are before midnight, some after. A clock is a circle, so
the cost of moving a call is the squared *shorter way round*. On the line from 0 to 24, cut at midnight, 23:30 and 0:30
would be a whole day apart.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import vonmises

import barymesh as bm

HOURS = np.arange(240) / 10
REG = 0.15


def clock_cost(support: np.ndarray, atoms: np.ndarray) -> np.ndarray:
    """The squared arc between hours of the day, ``(n, 1)`` and ``(N, 1)`` to ``(n, N)``."""
    apart = np.abs(support - atoms.T)
    return np.minimum(apart, 24 - apart) ** 2


def peak(hour: float, concentration: float) -> np.ndarray:
    """A von Mises density round the clock."""
    return vonmises.pdf((HOURS - hour) * 2 * np.pi / 24, concentration)


rng = np.random.default_rng(4)
nights = rng.uniform(-2, 2.5, 7)
districts = np.array([0.7 * peak(night, 12) + 0.3 * peak(night + rng.normal(15.5, 0.7), 12) for night in nights])
districts /= districts.sum(axis=1, keepdims=True)
on_the_circle = bm.barycenter(districts, HOURS, reg=REG, cost=clock_cost)
on_the_line = bm.barycenter(districts, HOURS, reg=REG)
print(f"{on_the_circle.message} The objective is within {on_the_circle.gap:.1e} of the best possible.")

# %%
# Two checks. The night peak must be at the mean of the districts' night peaks. And if all districts put their clocks
# forward by 7 hours, the answer must turn with them, because nothing may depend on where the day begins.

turned = np.roll(districts, 70, axis=1)
again_on_the_circle = bm.barycenter(turned, HOURS, reg=REG, cost=clock_cost)
again_on_the_line = bm.barycenter(turned, HOURS, reg=REG)


def disagreement(first: bm.Result, second: bm.Result) -> float:
    """The share of calls that two answers place differently, the second with its clock put back."""
    return float(np.abs(first.weights - np.roll(second.weights, -70)).sum() / 2)


found = (HOURS[on_the_circle.weights.argmax()] + 12) % 24 - 12
turns = disagreement(on_the_circle, again_on_the_circle), disagreement(on_the_line, again_on_the_line)
print(f"Night peak {60 * found:.0f} minutes after midnight, the mean of the districts is {60 * nights.mean():.0f}.")
print(f"Calls placed differently after the clock change: circle {turns[0]:.1e}, line {turns[1]:.2f}.")
assert abs(found - nights.mean()) < 0.2
assert turns[0] < 1e-5
assert turns[1] > 0.3

# %%
# The mean of the densities turns correctly too, but its peak is flat and wide: no district has such a night. The
# limit of averages on a circle: if the peaks are spread all round it, there is no typical hour, and several
# barycenters are equally good.

figure, panels = plt.subplots(
    1, 3, figsize=(7, 3), subplot_kw={"projection": "polar"}, sharey=True, layout="constrained"
)
answers = {
    "mean of the densities": districts.mean(axis=0),
    "barycenter on the line": on_the_line.weights,
    "barycenter on the circle": on_the_circle.weights,
}
angle = np.append(HOURS, 24) * 2 * np.pi / 24
for axes, (name, weights) in zip(panels, answers.items(), strict=True):
    for district in districts:
        axes.plot(angle, 10 * np.append(district, district[0]), color="0.75", linewidth=0.8)
    axes.plot(angle, 10 * np.append(weights, weights[0]), color="#0072B2", linewidth=2)
    axes.set_theta_zero_location("N")
    axes.set_theta_direction(-1)
    axes.set_xticks(np.arange(0, 24, 6) * 2 * np.pi / 24, ["0 h", "6 h", "12 h", "18 h"])
    axes.set_yticks([0.1, 0.2], ["", ""])
    axes.set_title(name, fontsize=10)
figure.suptitle("Calls by the hour; rings at 10% and 20% of the calls an hour; grey: the districts", fontsize=10)
plt.show()
