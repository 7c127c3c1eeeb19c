"""
Following the weather, week by week
===================================

How warm are the days of a typical week, *by now*? Each week has seven days. The barycenter of the last thirteen weeks
is the typical one. Every week a new one comes and the oldest is dropped, for four years of real weather in Seattle.
Must everything be computed anew each time? Twelve of the thirteen weeks have not changed, and the computation
can continue from their last potentials.
"""

import matplotlib.pyplot as plt
import numpy as np
from vega_datasets import data

import barymesh as bm

WEEKS, REG = 13, 2.0
weather = data.seattle_weather()
days = weather["temp_max"].to_numpy()
weeks = [bm.Empirical(days[start : start + 7], label=f"week {start // 7}") for start in range(0, len(days) - 6, 7)]
degrees = np.linspace(-4, 40, 89)
print(f"{len(weeks)} weeks, from {weather['date'].min():%d %B %Y} to {weather['date'].max():%d %B %Y}")

# %%
# ``start`` takes the last result. Weeks are known by their labels: one that was there before keeps its potentials, and
# the new one begins without any.

ends = range(WEEKS, len(weeks) + 1)
continued, last = [], None
for end in ends:
    last = bm.barycenter(weeks[end - WEEKS : end], degrees, reg=REG, tol=1e-4, start=last)
    continued.append(last)
anew = [bm.barycenter(weeks[end - WEEKS : end], degrees, reg=REG, tol=1e-4) for end in ends]
saved = 1 - sum(one.iterations for one in continued[1:]) / sum(one.iterations for one in anew[1:])
print(f"Iterations saved: {saved:.0%}")

# %%
# Two checks. Computed anew, the answers are the same. And on a line the barycenter without blur has a closed form: the
# mean of the coldest days of the thirteen weeks, the mean of the second coldest, and so on. Its mean and its spread,
# with the blur of ``reg`` added, are those that were found.

misplaced = max(np.abs(one.weights - other.weights).sum() / 2 for one, other in zip(continued, anew, strict=True))
typical = np.array([np.mean([np.sort(week.points[:, 0]) for week in weeks[end - WEEKS : end]], axis=0) for end in ends])
means, spreads = np.transpose([[one.mean().item(), np.sqrt(one.cov().item())] for one in continued])
blurred = np.hypot(typical.std(axis=1), np.sqrt(REG / 2))
print(f"Anew: {misplaced:.0e} of the days misplaced at most")
print(f"Closed form: means within {np.abs(means - typical.mean(axis=1)).max():.3f} degrees,", end=" ")
print(f"spreads within {np.abs(spreads - blurred).max():.2f}")
assert misplaced < 1e-3
assert np.abs(means - typical.mean(axis=1)).max() < 0.05
assert np.abs(spreads - blurred).max() < 0.5
assert saved > 0.1

# %%
# The obvious alternative counts all days of the last thirteen weeks together. In spring and autumn that is much wider
# than any of these weeks was, because the season moves within the window. The barycenter is as wide as a week.

pooled = np.array([days[7 * (end - WEEKS) : 7 * end].std() for end in ends])
typical_week = np.array([np.mean([week.points.std() for week in weeks[end - WEEKS : end]]) for end in ends])
print(f"Spread: all days together {pooled.mean():.1f} degrees, a week {typical_week.mean():.1f},", end=" ")
print(f"barycenter {typical.std(axis=1).mean():.1f}")
assert abs(typical.std(axis=1).mean() - typical_week.mean()) < 0.1 * pooled.mean()

dates = weather["date"].to_numpy()[[7 * end - 1 for end in ends]]
figure, (top, bottom) = plt.subplots(
    2, 1, figsize=(7.5, 5.4), sharex=True, height_ratios=[2.4, 1], layout="constrained"
)
ribbon = np.array([one.weights for one in continued]).T / (degrees[1] - degrees[0])
shown = top.pcolormesh(dates, degrees, 100 * ribbon, cmap="magma", shading="nearest", rasterized=True)
top.plot(dates, means, color="white", linewidth=1)
figure.colorbar(shown, ax=top, label="days (% for each degree)")
top.set(
    ylabel="warmest hour of the day (°C)", title="The days of a typical week, of the last thirteen; white: the mean"
)
bottom.plot(dates, pooled, color="#D55E00")
bottom.plot(dates, typical.std(axis=1), color="#0072B2")
bottom.text(dates[2], 1.05 * pooled.max(), "all days of the thirteen weeks together", color="#D55E00", fontsize=9)
bottom.text(dates[2], 0.3, "barycenter", color="#0072B2", fontsize=9)
bottom.set(ylabel="spread (°C)", ylim=(0, 1.25 * pooled.max()))
plt.show()
