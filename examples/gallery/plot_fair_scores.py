"""
A risk score that does not depend on age group
==============================================

A clinic predicts how far diabetes will have progressed after a year, and calls in those with the highest scores.
Older patients score higher, and the clinic wants a score that has the same distribution in every age group. *Leaving
out the column with the age does not do it*: blood pressure and blood values give the age away.

The repair that changes the scores least (in mean square) moves every group's scores to the Wasserstein barycenter of
the groups' distributions, along the transport map that keeps the order within each group.
"""

from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import ks_2samp
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
from sklearn.model_selection import cross_val_predict

import barymesh as bm

data = load_diabetes(scaled=False)
ages = ["up to 42 years", "43 to 55 years", "over 55 years"]
group = np.digitize(data.data[:, 0], [42.5, 55.5])
aware = cross_val_predict(LinearRegression(), data.data, data.target, cv=10)
unaware = cross_val_predict(LinearRegression(), data.data[:, 1:], data.target, cv=10)

# %%
# Each group counts by its number of patients. The map of a group sends a score to the mean of the barycenter's points
# under the plan of that group.

members = [group == k for k in range(3)]
shares = [each.mean() for each in members]
result = bm.barycenter([bm.Empirical(unaware[each]) for each in members], reg=20.0, weights="size")
fair, shifted, exact = unaware.copy(), unaware.copy(), unaware.copy()
for k, each in enumerate(members):
    fair[each] = result.map(k)(unaware[each])

# %%
# The check: on the line the repair has a closed form, the average of the groups' quantile functions at the patient's
# rank within the group. It needs no transport, and must agree. The naive repair shifts all groups to the same mean.

for each in members:
    shifted[each] += unaware.mean() - unaware[each].mean()
    rank = (np.argsort(np.argsort(unaware[each])) + 0.5) / each.sum()
    exact[each] = sum(share * np.quantile(unaware[of], rank) for share, of in zip(shares, members, strict=True))
difference = np.abs(fair - exact).mean()
print(f"Mean difference from the closed form {difference:.2f}, where scores spread by {unaware.std():.0f}.")
assert difference < 0.03 * unaware.std()

# %%
# Parity gap: the largest difference between the cumulative distributions of two groups. Accuracy: R squared against
# the progression that was measured a year later.


def parity_gap(score: np.ndarray) -> float:
    return max(ks_2samp(score[one], score[other]).statistic for one, other in combinations(members, 2))


candidates = {"with age": aware, "age left out": unaware, "means shifted": shifted, "moved to the barycenter": fair}
for name, score in candidates.items():
    print(f"{name:24} parity gap {parity_gap(score):.3f}   R squared {r2_score(data.target, score):.3f}")
assert parity_gap(fair) < 0.5 * parity_gap(shifted) < 0.5 * parity_gap(unaware)
assert r2_score(data.target, fair) > r2_score(data.target, unaware) - 0.04

# %%
# The gap is gone for 0.03 of R squared, no more than shifting the means costs, which leaves a gap three times as
# large. Part of that price is real: progression does differ by age. And the gap was measured on the patients that the
# map was made from; for new patients expect one of the size of sampling noise, about 0.1 for groups of 150.

shown = ("age left out", "means shifted", "moved to the barycenter")
figure, panels = plt.subplots(1, 3, figsize=(7, 3), sharex=True, sharey=True, layout="constrained")
for axes, name in zip(panels, shown, strict=True):
    for each, label, colour in zip(members, ages, ("#E69F00", "#009E73", "#0072B2"), strict=True):
        axes.ecdf(candidates[name][each], label=label, color=colour)
    axes.set_title(f"{name}\nparity gap {parity_gap(candidates[name]):.2f}", fontsize=10)
    axes.set_xlabel("predicted progression")
panels[0].set_ylabel("share of the age group below")
figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
plt.show()
