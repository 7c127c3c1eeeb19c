"""
Clinics of different size: weights that count patients
======================================================

Nine clinics measure the radius of tumours. The largest has 160 patients, the smallest eight, and each has a scanner
with an unknown offset of its own. They want the distribution of all patients, seen by an average scanner. Should
clinics count the same, or by their patients? And why not just add up the histograms?
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import wasserstein_distance
from sklearn.datasets import load_breast_cancer

import barymesh as bm

radius = load_breast_cancer().data[:, 0]
sizes = [160, 120, 90, 70, 50, 35, 22, 14, 8]
support = bm.Support.regular(100, 0, 35)
methods = {
    "histograms added up": "#D55E00",
    "barycenter, clinics count": "#56B4E9",
    "barycenter, patients count": "#0072B2",
}


def scanned(seed: int, offset: float) -> list[np.ndarray]:
    """The patients dealt out to the clinics, and measured with offsets of this standard deviation in millimetres."""
    rng = np.random.default_rng(seed)
    dealt = np.split(rng.permutation(radius), np.cumsum(sizes)[:-1])
    return [patients + offset * rng.normal() for patients in dealt]


def merged(clinics: list[np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
    """By each method, the values and their weights. The weights of the barycenter are relative: sizes will do."""
    by_clinic, by_patient = (
        bm.barycenter([bm.Empirical(values) for values in clinics], support, reg=0.5, weights=weights, tol=1e-3)
        for weights in (None, sizes)
    )
    everyone, grid = np.concatenate(clinics), support.points[:, 0]
    return [(everyone, np.ones(everyone.size)), (grid, by_clinic.weights), (grid, by_patient.weights)]


# %%
# The truth is known here: the radii before any offset. How far is each answer from it? The mean distance by which
# patients would have to be moved (the 1-Wasserstein distance, from SciPy), over ten ways to deal the patients out.

offsets = (0.0, 2.0)
errors = {
    offset: np.array(
        [
            [wasserstein_distance(values, radius, weights) for values, weights in merged(scanned(seed, offset))]
            for seed in range(10)
        ]
    )
    for offset in offsets
}
for offset, table in errors.items():
    for name, column in zip(methods, table.T, strict=True):
        print(f"scanners {offset:.0f} mm apart, {name:26} off by {column.mean():.2f} mm")
by_offset = {offset: table.mean(axis=0) for offset, table in errors.items()}
assert by_offset[0.0][2] < 0.8 * by_offset[0.0][1]
assert max(by_offset[2.0][1:]) < by_offset[2.0][0]

# %%
# With perfect scanners, add the histograms up: that *is* the pooled data, and no barycenter beats it. With offsets
# the sum is too wide, while the barycenter keeps the shape. Counting patients removes a third of the error with
# perfect scanners; against offsets it helps little, because an offset does not care how many patients a clinic has.

figure, (left, right) = plt.subplots(1, 2, figsize=(7, 3.6), width_ratios=[1.3, 1], layout="constrained")
left.ecdf(radius, color="black", linestyle=":", label="truth")
for (name, colour), (values, weights) in zip(methods.items(), merged(scanned(1, 2.0)), strict=True):
    left.ecdf(values, weights, color=colour, label=name)
left.set(xlabel="radius (mm)", ylabel="share of patients below", xlim=(4, 30))
left.set_title("one of the ten, scanners 2 mm apart", fontsize=10)
for place, offset in enumerate(offsets):
    for shift, colour, column in zip((-0.2, 0, 0.2), methods.values(), errors[offset].T, strict=True):
        right.plot(np.full(10, place + shift), column, "o", color=colour, alpha=0.5, markersize=4)
        right.plot([place + shift - 0.08, place + shift + 0.08], [column.mean()] * 2, color=colour, linewidth=3)
right.set_xticks([0, 1], ["perfect\nscanners", "scanners\n2 mm apart"])
right.set_ylabel("error (mm)")
right.set_title("all ten, and their means", fontsize=10)
figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False, fontsize=9)
plt.show()
