"""Figures of networks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barymesh.extras import needs
from barymesh.viz.figure import Figure
from barymesh.viz.plots import INK

with needs("plots"):
    from matplotlib.collections import LineCollection

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from barymesh.network.topology import Network

# beyond this many nodes edges are drawn thin, and at most this many of them
LARGE, MOST_EDGES = 200, 3000


def plot_network(network: Network) -> Figure:
    """Nodes and edges at ``network.positions``."""
    figure = Figure(figsize=(4.2, 3.6), layout="constrained")
    axes = figure.subplots()
    draw_edges(axes, network)
    size = min(80.0, 4000 / network.size)
    x, y = network.positions.T
    axes.scatter(x, y, s=size, color=INK, edgecolors="white", linewidths=0.5, zorder=3)
    return figure


def draw_edges(axes: Axes, network: Network) -> None:
    """The edges and the name of a network, on axes without frame."""
    large = network.size > LARGE
    edges = network.edges[:: max(1, -(-len(network.edges) // MOST_EDGES))] if large else network.edges
    width, opacity = (0.3, 0.25) if large else (0.8, 0.6)
    lines = list(network.positions[edges])
    axes.add_collection(LineCollection(lines, colors="0.6", linewidths=width, alpha=opacity, zorder=1))
    axes.set_title(f"{network.name}: {network.size} nodes, {len(network.edges)} edges", fontsize=10)
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.08)
    axes.axis("off")
