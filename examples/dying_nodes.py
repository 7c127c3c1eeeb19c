"""A network converges although nodes die: every node is drawn as its own estimate of the barycenter.

Twenty nodes have one picture each of two nested ellipses. They exchange messages with their neighbours only, on their
own clocks; a tenth of the messages are lost. Four nodes die on the way. The others wait for them, then give them up,
and find the barycenter of the pictures that are left. Seconds in which nothing changes are not shown.

    python examples/dying_nodes.py [file.gif]
"""

from __future__ import annotations

import sys
from pathlib import Path

import networkx as nx
import numpy as np
from matplotlib.animation import FuncAnimation, PillowWriter
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from nested_ellipses import nested_ellipses
from numpy.typing import NDArray

import barymesh as bm

ROWS, COLUMNS = 4, 5
SIDE, COUNT, SEED, REG = 40, ROWS * COLUMNS, 11, 0.002
# which node dies when, in virtual seconds
DYING = {8: 4.0, 16: 6.0, 3: 8.0, 12: 10.0}
DURATION, EVERY = 120.0, 1.0
# smaller changes of an estimate, in L1, are not shown
VISIBLE = 0.01
# the last picture is shown for so many frames
REST = 6
# half of the width of a node's picture, where neighbours are at a distance of 1
HALF = 0.33
# nodes that are nearer to one another are neighbours
NEAR = 1.45


def main() -> None:
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "demo/dying-nodes.gif")
    rng = np.random.default_rng(SEED)
    pictures = np.array([nested_ellipses(rng, SIDE, 0.025) for _ in range(COUNT)])
    pictures /= pictures.sum(axis=(1, 2), keepdims=True)
    places = np.array([(column, row) for row in range(ROWS) for column in range(COLUMNS)])
    places = places + rng.uniform(-0.13, 0.13, places.shape)
    # everybody near enough is a neighbour
    distances = np.linalg.norm(places[:, None] - places, axis=2)
    graph = nx.from_numpy_array((distances < NEAR) & (distances > 0))
    times: list[float] = []
    estimates: list[NDArray[np.float64]] = []

    def keep(record: bm.Record) -> None:
        now = record.estimates(np.arange(COUNT))
        if not estimates or np.abs(now - estimates[-1]).sum(axis=1).max() > VISIBLE:
            times.append(record.time)
            estimates.append(now)

    faults = [f"crash:node={node},start={at:g}" for node, at in DYING.items()]
    result = bm.barycenter(
        pictures, reg=REG, network=graph, faults=["loss:probability=0.1", *faults], duration=DURATION,
        record_every=EVERY, seed=SEED, callback=keep,
    )  # fmt: skip
    living = [node for node in range(COUNT) if node not in DYING]
    wanted = bm.barycenter(pictures[living], reg=REG).weights
    distance = np.abs(result.node_weights - wanted).sum(axis=1).max() / 2
    print(f"The farthest of the {len(living)} that live is within a total variation of {distance:.1e} of the truth.")
    path.parent.mkdir(parents=True, exist_ok=True)
    animation(graph, places, times, estimates).save(path, PillowWriter(fps=4), dpi=60)
    print(f"The animation is in {path}.")


def animation(
    graph: nx.Graph, places: NDArray[np.float64], times: list[float], estimates: list[NDArray[np.float64]]
) -> FuncAnimation:
    """Every node as its estimate, in its place; those that have died are crossed out."""
    figure = Figure(figsize=(6.4, 5.6), facecolor="black")
    network = figure.add_axes((0, 0, 1, 0.93))
    network.set_axis_off()
    links = {edge: network.plot(*places[list(edge)].T, color="#5a5a7a", lw=1.2, zorder=1)[0] for edge in graph.edges}
    shown = []
    for node, (x, y) in enumerate(places):
        rim = network.add_patch(Circle((x, y), HALF, facecolor="black", edgecolor="#5a5a7a", zorder=2))
        own = estimates[0][node].reshape(SIDE, SIDE)
        image = network.imshow(own, cmap="magma", extent=(x - HALF, x + HALF, y - HALF, y + HALF), zorder=3)
        image.set_clip_path(rim)
        shown.append(image)
    network.set(xlim=(-0.6, COLUMNS - 0.4), ylim=(-0.6, ROWS - 0.4), aspect="equal")
    said = figure.text(0.5, 0.955, "", color="white", ha="center", va="center", fontsize=13)
    crosses = {
        node: network.text(*places[node], "dead", color="#ff5555", fontsize=13, ha="center", va="center", zorder=4)
        for node in DYING
    }

    def show(frame: int) -> list[object]:
        now = min(frame, len(times) - 1)
        dead = {node for node, at in DYING.items() if times[now] >= at}
        for node, image in enumerate(shown):
            own = estimates[now][node].reshape(SIDE, SIDE)
            if node not in dead:
                image.set_data(own)
                image.set_clim(0, np.quantile(own, 0.99))
            image.set_alpha(0.25 if node in dead else 1.0)
        for edge, line in links.items():
            line.set_visible(not dead & set(edge))
        for node, cross in crosses.items():
            cross.set_visible(node in dead)
        said.set_text(f"{times[now]:4.1f} s:  {COUNT - len(dead)} nodes, each with its own estimate")
        return []

    return FuncAnimation(figure, show, frames=len(times) + REST, blit=False)


if __name__ == "__main__":
    main()
