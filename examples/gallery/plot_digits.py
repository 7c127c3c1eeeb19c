"""
The average of handwritten digits that are not aligned
======================================================

A template for "the typical 3" is wanted, from pictures in which the digit sits in different places: nobody has
registered them. The pixel-wise mean answers "how often is this pixel dark", which is a smear. The Wasserstein
barycenter averages *where the ink is*, and stays a digit.
"""

import matplotlib.pyplot as plt
import numpy as np
import ot
from scipy.ndimage import zoom

import barymesh as bm
from barymesh.datasets.digits import small_digits

# %%
# The 8 x 8 digits that come with scikit-learn, enlarged three times, each at a random place of a 36 x 36 canvas. Half
# of the pictures make the template, and twelve of the others judge it.

rng = np.random.default_rng(0)
pictures = np.zeros((60, 36, 36))
for picture, digit in zip(pictures, small_digits(3, 60).images, strict=True):
    row, column = rng.integers(0, 13, 2)
    picture[row : row + 24, column : column + 24] = zoom(digit, 3, order=1)
pictures /= pictures.sum(axis=(1, 2), keepdims=True)
seen, unseen = pictures[:30], pictures[30:]

result = bm.barycenter(seen, reg=0.0005)
templates = {"pixel-wise mean": seen.mean(axis=0), "Wasserstein barycenter": result.image}
print(f"{result.message} The objective is within {result.gap:.1e} of the best possible.")

# %%
# How good is a template? An independent check, by another library (POT) and without regularisation: the exact
# transport cost from the template to pictures that it has not seen. Every picture is first moved so that its centre
# of mass is the template's, because where a digit was put says nothing about its shape.


def cost_of_shape(template: np.ndarray, picture: np.ndarray) -> float:
    """The exact squared Wasserstein distance between the two, each with its centre of mass at 0."""
    shapes = []
    for image in (template, picture):
        ink = image.ravel() > 1e-4 * image.max()
        masses = image.ravel()[ink] / image.ravel()[ink].sum()
        places = result.support.points[ink]
        shapes.append((places - masses @ places, masses))
    (places, masses), (others, other_masses) = shapes
    return float(ot.emd2(masses, other_masses, ot.dist(places, others)))


costs = {name: np.mean([cost_of_shape(t, picture) for picture in unseen[:12]]) for name, t in templates.items()}
for name, cost in costs.items():
    print(f"{name}: mean squared distance to unseen digits {cost:.4f}")
assert costs["Wasserstein barycenter"] < 0.5 * costs["pixel-wise mean"]

# %%
# The barycenter is not as crisp as a single digit: ``reg`` blurs it by about ``sqrt(reg / 2)``, 0.6 pixels here, and
# thirty hands do differ. Use it as a template where pictures are shifted, stretched or bent; where they are aligned
# already, the mean is nearly as good and costs nothing.

figure, panels = plt.subplot_mosaic("abcdMMBB;efghMMBB", figsize=(7, 2.3), layout="constrained")
for place, picture in zip("abcdefgh", seen, strict=False):
    panels[place].imshow(picture, cmap="magma")
for place, (name, template) in zip("MB", templates.items(), strict=True):
    panels[place].imshow(template, cmap="magma")
    panels[place].set_title(f"{name}\ncost to unseen {costs[name]:.4f}", fontsize=9)
for axes in panels.values():
    axes.set_axis_off()
figure.suptitle("Eight of the thirty pictures, and their two averages", fontsize=11)
plt.show()
