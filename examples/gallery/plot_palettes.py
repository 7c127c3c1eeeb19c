"""
One palette for three photographs
=================================

Three photographs will hang side by side, and their colours should look like one series. Each photograph is a
distribution of colours; the Wasserstein barycenter of the three is a palette between them, and the transport plans
say which colour becomes which. The common shortcut gives all photographs the same mean and spread in each channel,
which knows nothing of *which* colours there are.
"""

import matplotlib.pyplot as plt
import numpy as np
import ot
from skimage import color, data
from skimage.transform import resize

import barymesh as bm

# %%
# Colours are points in CIELAB space, where distances are about what the eye sees (2 is just visible). Every other
# pixel is counted into a volume of 24 x 24 x 24 colours; the rest is kept for the check.

names = ("rocket", "coffee", "chelsea")
photographs = [color.rgb2lab(resize(getattr(data, name)(), (72, 104), anti_aliasing=True)) for name in names]
pixels = [np.random.default_rng(0).permutation(photograph.reshape(-1, 3)) for photograph in photographs]
used, held_out = [each[::2] for each in pixels], [each[1::2][:1000] for each in pixels]
lower, upper = np.min(pixels, axis=(0, 1)), np.max(pixels, axis=(0, 1))
volumes = np.array([np.histogramdd(each, 24, list(zip(lower, upper, strict=True)))[0] for each in used])
half = (upper - lower) / 48
result = bm.barycenter(volumes, bm.Support.regular([24] * 3, lower + half, upper - half), reg=25.0)
print(f"{result.message} The objective is within {result.gap:.1e} of the best possible.")

# %%
# The map of a photograph sends a colour to the mean of the palette under its plan, for any colour, counted or not.
# Its rival matches the mean and the standard deviation of each channel.

maps = [result.map(k) for k in range(len(names))]


def to_moments(colours: np.ndarray, own: np.ndarray) -> np.ndarray:
    mean, spread = np.mean([u.mean(axis=0) for u in used], axis=0), np.mean([u.std(axis=0) for u in used], axis=0)
    return (colours - own.mean(axis=0)) / own.std(axis=0) * spread + mean


# %%
# The check, by another library (POT) and on pixels that were held out: the exact Wasserstein distance between the
# palettes of two photographs, averaged over the pairs, in units of CIELAB.


def apart(palettes: list[np.ndarray]) -> float:
    pairs = ((0, 1), (0, 2), (1, 2))
    return float(np.mean([np.sqrt(ot.emd2([], [], ot.dist(palettes[i], palettes[j]))) for i, j in pairs]))


distances = {
    "as taken": apart(held_out),
    "channels matched": apart([to_moments(h, u) for h, u in zip(held_out, used, strict=True)]),
    "barycenter": apart([move(h) for h, move in zip(held_out, maps, strict=True)]),
}
for name, distance in distances.items():
    print(f"{name:17} palettes {distance:.1f} apart")
assert 3 * distances["barycenter"] < distances["channels matched"] < distances["as taken"]

# %%
# The photographs now share their colours, not only the averages of these. The limit: a map that looks at colours only
# moves all pixels of one colour together, and stretches few colours over many, so flat areas can show steps and noise
# of the camera becomes visible. A larger ``reg`` gives smoother maps and paler palettes.

figure, panels = plt.subplots(3, 3, figsize=(7, 5.2), layout="constrained")
for column, (photograph, own, move) in enumerate(zip(photographs, used, maps, strict=True)):
    versions = (photograph, to_moments(photograph, own), move(photograph))
    for axes, version in zip(panels[:, column], versions, strict=True):
        axes.imshow(np.clip(color.lab2rgb(version), 0, 1))
        axes.set(xticks=[], yticks=[])
for axes, (name, distance) in zip(panels[:, 0], distances.items(), strict=True):
    axes.set_ylabel(f"{name}\npalettes {distance:.0f} apart", fontsize=9)
plt.show()
