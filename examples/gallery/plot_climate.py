"""
When does it rain in Seattle? A calendar without ends
=====================================================

A gardener, a dam or an insurer wants the typical year: at what time of the year does the rain fall? The years do not
agree. The wettest month was November in 2012, September in 2013, March in 2014 and December in 2015, so their average
spreads the rain over months that were dry in most years. The Wasserstein barycenter averages *when* it rains.

A calendar is a circle: 31 December and 1 January are one day apart. So the cost of moving a millimetre of rain is the
squared number of days on the *shorter way round*.
"""

import matplotlib.pyplot as plt
import numpy as np
import ot
from vega_datasets import data

import barymesh as bm

DAYS, BLUR = 365, 10
weather = data.seattle_weather()
years = weather["date"].dt.year
rain = np.array([weather["precipitation"][years == year].to_numpy()[:DAYS] for year in np.unique(years)])
days = np.arange(DAYS, dtype=float)


def calendar_cost(support: np.ndarray, atoms: np.ndarray) -> np.ndarray:
    """The squared days between dates, ``(n, 1)`` and ``(N, 1)`` to ``(n, N)``."""
    apart = np.abs(support - atoms.T)
    return np.minimum(apart, DAYS - apart) ** 2


# %%
# Single storms are weather, not climate. ``reg`` blurs by about ``sqrt(reg / 2)``, here ten days, which makes a curve
# of them. On the line from January to December the same computation breaks the wet winter in two.

shares = rain / rain.sum(axis=1, keepdims=True)
options = {"reg": 2.0 * BLUR**2, "tol": 1e-6}
circle = bm.barycenter(shares, days, cost=calendar_cost, **options)
line = bm.barycenter(shares, days, **options)
print(f"{circle.message} The objective is within {circle.gap:.1e} square days of the best possible.")

# %%
# Two checks. Another library (POT) finds the same from the matrix of costs. And if the year began in July, the answer
# must turn with it, because nothing may depend on where a calendar begins; on the line it does not.

matrix = calendar_cost(days[:, None], days[:, None])
other = ot.bregman.barycenter(shares.T, matrix, options["reg"], numItermax=5000, stopThr=1e-10)
from_july = np.roll(shares, 184, axis=1)


def misplaced(one: np.ndarray, two: np.ndarray) -> float:
    """The share of the rain that two answers put on different days."""
    return float(np.abs(one - two).sum() / 2)


turned = bm.barycenter(from_july, days, cost=calendar_cost, **options)
turned_line = bm.barycenter(from_july, days, **options)
differences = {
    "POT": misplaced(circle.weights, other),
    "circle, year from July": misplaced(circle.weights, np.roll(turned.weights, -184)),
    "line, year from July": misplaced(line.weights, np.roll(turned_line.weights, -184)),
}
for name, difference in differences.items():
    print(f"{name:23} {difference:.1e} of the rain on other days")
assert differences["POT"] < 1e-3
assert differences["circle, year from July"] < 1e-3
assert differences["line, year from July"] > 0.03

# %%
# One wet season and one dry summer are left. Four years are few: what the figure shows is the typical year of 2012 to
# 2015, and not yet the climate.

figure, panels = plt.subplots(1, 2, figsize=(8, 4.4), subplot_kw={"projection": "polar"}, layout="constrained")
angle = np.append(days, DAYS) * 2 * np.pi / DAYS
total = rain.sum(axis=1).mean()
months = np.cumsum([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30]) * 2 * np.pi / DAYS
kernel = np.exp(-matrix / (2 * BLUR**2))
smooth = shares @ (kernel / kernel.sum(axis=0))
for axes, (name, weights) in zip(
    panels, {"mean of the years": smooth.mean(axis=0), "barycenter of the years": circle.weights}.items(), strict=True
):
    for year, colour in zip(smooth, plt.cm.viridis(np.linspace(0.1, 0.85, len(smooth))), strict=True):
        axes.plot(angle, total * np.append(year, year[0]), color=colour, linewidth=0.9)
    axes.fill(angle, total * np.append(weights, weights[0]), color="#0072B2", alpha=0.35)
    axes.plot(angle, total * np.append(weights, weights[0]), color="#0072B2", linewidth=2.5)
    axes.set_theta_zero_location("N")
    axes.set_theta_direction(-1)
    axes.set_xticks(months, ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"])
    axes.set_yticks([3, 6, 9], ["3", "6", "9 mm a day"], color="0.35", fontsize=8)
    axes.set_rlabel_position(200)
    axes.set_title(name)
figure.suptitle("Rain in Seattle, 2012 to 2015 (thin lines, smoothed over ten days)", fontsize=11)
plt.show()
