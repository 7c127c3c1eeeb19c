"""
A horse becomes a chess knight
==============================

What lies between two shapes? Animators want the frames between two drawings, biologists a cell between two moments,
engineers a part between two designs. A cross-fade shows both shapes at once. Along the *geodesic* of optimal transport
the mass of one moves to that of the other, on straight lines and at constant speed. ``bm.path`` computes it.
"""

# sphinx_gallery_thumbnail_number = 2
import matplotlib.pyplot as plt
import numpy as np
import ot
from matplotlib.font_manager import FontProperties
from matplotlib.path import Path
from matplotlib.textpath import TextPath
from skimage import data
from skimage.transform import resize

import barymesh as bm

SIDE, STEPS = 64, 17

# %%
# The horse is a photograph's outline that comes with scikit-image, the knight a sign of the font DejaVu that comes with
# matplotlib. Both get mass 1, spread evenly.

horse = resize((~data.horse()).astype(float), (SIDE - 12, SIDE - 12), anti_aliasing=True)
horse = np.pad(horse, 6)
sign = TextPath((0, 0), "\N{BLACK CHESS KNIGHT}", size=1, prop=FontProperties(family="DejaVu Sans"))
low, high = sign.vertices.min(axis=0), sign.vertices.max(axis=0)
fine = (np.arange(4 * SIDE) + 0.5) / (4 * SIDE) * 1.2 - 0.1
across, down = np.meshgrid(fine, fine[::-1])
spots = np.column_stack([across.ravel(), down.ravel()]) * (high - low).max() + (low + high - (high - low).max()) / 2
inside = Path(sign.vertices, sign.codes).contains_points(spots).reshape(SIDE, 4, SIDE, 4)
knight = inside.mean(axis=(1, 3))
shapes = np.array([shape / shape.sum() for shape in (horse, knight)])
path = bm.path(shapes, steps=STEPS, reg=0.0003, tol=1e-3)
animation = path.animate(fps=8)

# %%
# The check, by another library (POT) and without regularisation: on a geodesic the distances to both ends are known. At
# time t they are t times, and 1 - t times, the distance between the shapes, and no detour is made.


def distance(one: np.ndarray, two: np.ndarray) -> float:
    """The exact Wasserstein distance of two pictures, at half the resolution."""
    small = [image.reshape(SIDE // 2, 2, SIDE // 2, 2).sum(axis=(1, 3)) for image in (one, two)]
    rows, columns = np.indices(small[0].shape) / (SIDE // 2)
    (p, here), (q, there) = (
        (image[ink] / image[ink].sum(), np.column_stack([rows[ink], columns[ink]]))
        for image in small
        for ink in [image > 1e-3 * image.max()]
    )
    return float(np.sqrt(ot.emd2(p, q, ot.dist(here, there))))


length = distance(*shapes)
times = np.linspace(0, 1, 5)
frames = [path[round(t * (STEPS - 1))].image for t in times]
fades = [(1 - t) * shapes[0] + t * shapes[1] for t in times]
ways = {
    name: np.array([[distance(shape, image) for shape in shapes] for image in images]) / length
    for name, images in {"geodesic": frames, "cross-fade": fades}.items()
}
for name, way in ways.items():
    print(f"{name:10} from the horse {way[:, 0].round(2)}, longest detour {100 * (way.sum(axis=1).max() - 1):.0f}%")
assert np.abs(ways["geodesic"][:, 0] - times).max() < 0.05
assert ways["geodesic"].sum(axis=1).max() - 1 < 0.5 * (ways["cross-fade"].sum(axis=1).max() - 1)

# %%
# Above the geodesic, below the cross-fade. ``reg`` blurs every frame by about ``sqrt(reg / 2)``, less than a pixel
# here; ``debias=True`` would remove that too, and take longer.

figure, panels = plt.subplots(2, len(times), figsize=(8, 3.6), layout="constrained")
for row, (name, images) in zip(panels, {"geodesic": frames, "cross-fade": fades}.items(), strict=True):
    for axes, image, t, way in zip(row, images, times, ways[name], strict=True):
        axes.imshow(image, cmap="gray_r", vmax=np.max(shapes))
        axes.set(xticks=[], yticks=[], title=f"t = {t:.2f}")
        axes.set_xlabel(f"detour {100 * abs(way.sum() - 1):.0f}%", fontsize=8)
    row[0].set_ylabel(name)
plt.show()
