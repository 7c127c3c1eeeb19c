"""
Eighteen institutions that show nobody their patients
=====================================================

Eighteen institutions treat advanced lung cancer. How old are the patients of a typical one? Some have two patients, and
none may show them to anybody. Here the sites are real: the data of the North Central Cancer Treatment Group, in the
package lifelines, say which institution treated whom. The institutions send each other messages over a network, masked
so that nobody can read anything but sums over all of them.
"""

import matplotlib.pyplot as plt
import numpy as np
from lifelines.datasets import load_lung

import barymesh as bm

lung = load_lung().dropna(subset=["inst", "age"])
sites = sorted((group.to_numpy(float) for _, group in lung.groupby("inst")["age"]), key=np.mean)
years = np.linspace(35, 90, 56)
common = {"reg": 8.0, "weights": "size"}
print(
    f"{len(sites)} institutions, {len(lung)} patients, between {min(map(len, sites))} and {max(map(len, sites))} each"
)

# %%
# A simulated network in which each institution has a few neighbours. Institutions count by their patients; ``reg``
# blurs by about two years.

result = bm.barycenter(
    sites, years, network="random_regular", method="rounds", masks=True, duration=600, progress=False, **common
)
print(result)

# %%
# Two checks. The barycenter of the pooled data, which only we can compute here, is the same. And on a line the
# barycenter without blur has a closed form: the average of the institutions' quantiles. Its mean and its spread,
# with the blur added, are those that were found.

pooled = bm.barycenter(sites, years, tol=1e-9, **common)
misplaced = np.abs(result.weights - pooled.weights).sum() / 2
ranks = (np.arange(1000) + 0.5) / 1000
shares = np.array([len(ages) for ages in sites]) / len(lung)
exact = shares @ [np.quantile(ages, ranks, method="inverted_cdf") for ages in sites]
spread = float(np.sqrt(result.cov().item()))
print(f"{misplaced:.0e} of the patients misplaced")
print(f"mean {result.mean().item():.1f} years, closed form {exact.mean():.1f}")
print(f"spread {spread:.1f} years, closed form {np.hypot(exact.std(), 2):.1f}, all patients {lung['age'].std():.1f}")
assert misplaced < 1e-6
assert abs(result.mean().item() - exact.mean()) < 0.1
assert abs(spread - np.hypot(exact.std(), 2)) < 0.3

# %%
# The barycenter is what a typical institution sees. All patients together spread wider, because institutions differ in
# the mean age of theirs. What neighbours could read without masks is in :doc:`/tutorials/institutions`.

figure, (top, bottom) = plt.subplots(2, 1, figsize=(7, 6), sharex=True, height_ratios=[1.7, 1], layout="constrained")
colours = plt.cm.viridis(np.linspace(0, 0.9, len(sites)))
for row, (ages, colour) in enumerate(zip(sites, colours, strict=True)):
    top.plot([ages.min(), ages.max()], [row, row], color=colour, linewidth=0.8, alpha=0.6)
    top.plot(ages, np.full(len(ages), row), "o", color=colour, markersize=5, alpha=0.6, markeredgewidth=0)
    top.plot(ages.mean(), row, "|", color="black", markersize=11, markeredgewidth=2)
top.set_yticks(range(len(sites)), [str(len(ages)) for ages in sites], fontsize=8)
top.set(ylabel="institutions, by their number of patients", title="What nobody sees: the patients, and their mean ages")
bottom.hist(lung["age"], bins=np.arange(35, 91, 5), weights=np.full(len(lung), 20 / len(lung)), color="0.85")
bottom.fill_between(years, 100 * result.weights, color="#0072B2", alpha=0.4)
bottom.plot(years, 100 * result.weights, color="#0072B2", linewidth=2)
bottom.text(72, 4.4, "typical institution", color="#0072B2")
bottom.text(35.5, 0.9, "all patients", color="0.45")
bottom.set(xlabel="age (years)", ylabel="patients (% for each year)", title="What all learn: the barycenter")
plt.show()
