"""An animation of the estimates of a network's nodes."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from barymesh.checks import whole_number
from barymesh.errors import OptionError
from barymesh.extras import needs
from barymesh.io.atomic import replacing, write_text
from barymesh.metrics import total_variations
from barymesh.subsample import evenly
from barymesh.viz.cloud import CloudPicture
from barymesh.viz.comparison import label_plainly
from barymesh.viz.network_plot import draw_edges
from barymesh.viz.plane import PlanePicture, axis_name
from barymesh.viz.plots import INK
from barymesh.viz.theme import curve_scale

with needs("plots"):
    from matplotlib import rc_context
    from matplotlib.animation import FFMpegWriter, FuncAnimation, PillowWriter
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.collections import LineCollection
    from matplotlib.colors import LogNorm, Normalize
    from matplotlib.figure import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from barymesh.network.topology import Network
    from barymesh.result import Result
    from barymesh.support.points import Support

Floats = NDArray[np.floating[Any]]
# changes what is drawn to the frame with this number
Update = Callable[[int], object]

# enough frames for a smooth animation in a small file
MOST_FRAMES = 200
MOST_IMAGES = 9
# smaller shares of the largest distance have the same colour
FADED = 1e-3
# the share of all curves that are shown to their top
USUAL_PEAKS = 0.97
NODE_COLOURS = "viridis"
# matplotlib takes the symbols on the buttons from the web; these are in every font
SYMBOLS = {
    "minus": "-", "plus": "+", "fast-backward": "\\00AB", "fast-forward": "\\00BB", "step-backward": "\\2039",
    "step-forward": "\\203A", "play": "\\25BA", "pause": "\\2016",
}  # fmt: skip
BUTTONS = "\n".join(
    [
        "<style>",
        ".fa { font-style: normal; display: inline-block }",
        ".fa-flip-horizontal { transform: scaleX(-1) }",
        *(f'.fa-{name}::before {{ content: "{symbol}" }}' for name, symbol in SYMBOLS.items()),
        "</style>",
    ]
)


def animate(result: Result, *, frames: int | None, fps: int) -> FuncAnimation:
    """The network on the left, its nodes coloured by how far each is from the mean estimate; the estimates on the
    right. ``frames`` of the snapshots are shown, evenly spaced."""
    snapshots, network = result.snapshots, result.network
    if snapshots is None or network is None or len(snapshots) == 0:
        raise OptionError(
            "This result has no snapshots to animate. Compute it on a network with snapshots=True, or write "
            "'animation = true' in the configuration of barymesh simulate."
        )
    most = min(len(snapshots), MOST_FRAMES if frames is None else whole_number("frames", frames, 1))
    moments = np.linspace(0, len(snapshots) - 1, most).round().astype(int) if most > 1 else np.array([-1])
    shown, times = snapshots[moments].astype(float), result.history["time"][moments]
    nodes = evenly(network.size, shown.shape[1])
    mean = shown.mean(axis=1)
    distances = total_variations(shown, mean[:, None])

    pictures = result.support.dimension > 1 and result.support.grid is not None
    figure = Figure(figsize=(12.5, 4.6) if pictures else (10.5, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    halves: Any = figure.subfigures(1, 2, width_ratios=(1, 2) if pictures else (1, 1.2))
    left, right = halves
    updates: list[Update] = [_draw_network(left, network, nodes, distances)]
    if result.support.dimension == 1:
        updates.append(_draw_curves(right, result.support, shown, mean))
    elif pictures:
        updates.append(_draw_pictures(right, result.support, nodes, shown, mean))
    else:
        updates.append(_draw_cloud(right, result.support, mean))

    def show(frame: int) -> list[Any]:
        title.set_text(f"{result.method}, virtual time {times[frame]:.4g} s")
        for update in updates:
            update(frame)
        return []

    title = figure.suptitle("", fontsize=12)
    show(most - 1)
    # laid out once, so that nothing moves between frames
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    return FuncAnimation(figure, show, frames=most, interval=1000 / whole_number("fps", fps, 1), blit=False)


def saved(make: Callable[[], FuncAnimation], path: str | Path | None, fps: int) -> FuncAnimation:
    """The animation, also in a file if there is a path, whose kind is checked before any work."""
    if path is None:
        return make()
    check_kind(Path(path))
    animation = make()
    save_animation(animation, Path(path), fps)
    return animation


def save_animation(animation: FuncAnimation, path: Path, fps: int) -> None:
    """Write a .gif, a .mp4 or a page .html that needs nothing else. An old file is replaced only by a whole one."""
    check_kind(path)
    if path.suffix.lower() == ".html":
        # the limit is meant for notebooks, and would drop the end silently
        with rc_context({"animation.embed_limit": 2.0**12}):
            player = animation.to_jshtml(fps=fps, default_mode="once")
        page = re.sub(r"<link[^>]*>", lambda _: BUTTONS, player)
        write_text(path, f'<!DOCTYPE html>\n<meta charset="utf-8">\n<title>barymesh</title>\n{page}\n')
        return
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / f"animation{path.suffix.lower()}"
        writer = PillowWriter(fps=fps) if made.suffix == ".gif" else FFMpegWriter(fps=fps)
        animation.save(made, writer=writer)
        with replacing(path) as file:
            file.write(made.read_bytes())


def check_kind(path: Path) -> None:
    """Raise OptionError for a kind of file that cannot be written here."""
    kind = path.suffix.lower()
    if kind not in (".gif", ".mp4", ".html"):
        raise OptionError(f"An animation ends in .gif, .mp4 or .html; {path.name!r} does not.")
    if kind == ".mp4" and not FFMpegWriter.isAvailable():
        raise OptionError(
            f"{path.name} needs the program ffmpeg, which is not on the PATH. Install it, or take .gif or .html."
        )


def _draw_network(panel: Any, network: Network, nodes: NDArray[np.intp], distances: Floats) -> Update:
    axes: Axes = panel.subplots()
    places = network.positions
    draw_edges(axes, network)
    if nodes.size < network.size:
        axes.scatter(places[:, 0], places[:, 1], s=6, color="0.75", linewidths=0, zorder=2)
    dots = axes.scatter(
        places[nodes, 0],
        places[nodes, 1],
        c=distances[0],
        s=float(np.clip(2400 / nodes.size, 36, 140)),
        cmap=NODE_COLOURS,
        norm=_distance_norm(distances),
        edgecolors="0.2",
        linewidths=0.6,
        zorder=3,
    )
    label = "total variation to the mean estimate"
    bar = panel.colorbar(dots, ax=axes, location="bottom", shrink=0.8, pad=0.02, label=label)
    if isinstance(dots.norm, LogNorm):
        label_plainly(bar.long_axis)
    return lambda frame: dots.set_array(distances[frame])


def _distance_norm(distances: Floats) -> Normalize:
    """A logarithmic scale, so that small distances are visible too."""
    largest = float(distances.max())
    if largest <= 0:
        return Normalize(0, 1)
    positive = distances[distances > 0]
    smallest = max(float(positive.min()), FADED * largest)
    return LogNorm(smallest, largest, clip=True) if smallest < largest else Normalize(0, largest)


def _draw_curves(panel: Any, support: Support, shown: Floats, mean: Floats) -> Update:
    axes: Axes = panel.subplots()
    order = np.argsort(support.points[:, 0])
    z = support.points[order, 0]
    scale, label = curve_scale(support)
    curves, middle = scale * shown[:, :, order], scale * mean[:, order]
    thin = LineCollection([], colors="0.45", linewidths=0.8, alpha=0.6)
    axes.add_collection(thin)
    (bold,) = axes.plot(z, middle[0], color=INK, linewidth=2.6, marker="o" if z.size == 1 else None)
    thin.set_label(f"{shown.shape[1]} nodes")
    bold.set_label("their mean")
    axes.legend(loc="upper right", frameon=False, fontsize=9)
    axes.set_title("estimates of the nodes", fontsize=10)
    axes.set_xlabel(axis_name(support, 0))
    axes.set_ylabel(label)
    # a few sharp peaks are cut off, so that the other curves fill the panel
    axes.set_ylim(0, 1.1 * max(float(np.quantile(curves.max(axis=2), USUAL_PEAKS)), float(middle.max())))

    def update(frame: int) -> None:
        thin.set_segments([np.column_stack([z, curve]) for curve in curves[frame]])
        bold.set_ydata(middle[frame])

    return update


def _draw_pictures(panel: Any, support: Support, nodes: NDArray[np.intp], shown: Floats, mean: Floats) -> Update:
    """Small pictures of some nodes' estimates beside the mean, each as bright as its own largest weight. Axes beyond
    the second are summed over."""
    few = np.unique(np.linspace(0, nodes.size - 1, min(MOST_IMAGES, nodes.size)).round().astype(int))
    side = int(np.ceil(np.sqrt(few.size)))
    small, large = panel.subfigures(1, 2)
    courses = [shown[:, k] for k in few] + [mean]
    places = list(np.atleast_1d(small.subplots(side, side, squeeze=False)).flat)
    titles = [f"node {node}" for node in nodes[few]] + ["mean of the nodes pictured"]
    for spare in places[few.size :]:
        spare.axis("off")
    pictures = []
    for axes, course, title in zip([*places[: few.size], large.subplots()], courses, titles, strict=True):
        pictures.append(PlanePicture(axes, support, course[0]))
        axes.set(title=title, xticks=[], yticks=[], xlabel="", ylabel="")
        axes.title.set_fontsize(9)
    summed = "; summed over the axes beyond the second" if support.dimension > 2 else ""
    panel.supxlabel(f"each picture has a scale of its own{summed}", fontsize=9)

    def update(frame: int) -> None:
        for picture, course in zip(pictures, courses, strict=True):
            picture.show(course[frame])

    return update


def _draw_cloud(panel: Any, support: Support, mean: Floats) -> Update:
    axes: Axes = panel.subplots()
    picture = CloudPicture(axes, support, mean[0], largest=float(mean.max()))
    panel.colorbar(picture.dots, ax=axes, label="weight")
    axes.set_title("mean estimate", fontsize=10)
    if support.dimension > 2:
        axes.text(0.02, 0.02, f"2 of {support.dimension} coordinates", transform=axes.transAxes, fontsize=8)
    return lambda frame: picture.show(mean[frame])
