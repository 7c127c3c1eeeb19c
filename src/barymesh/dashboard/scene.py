"""What the page shows: one moment of a run, and all of them in a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from rich.filesize import decimal

from barymesh.errors import NetworkError
from barymesh.network.topology import Network
from barymesh.record import NodeState
from barymesh.subsample import evenly
from barymesh.support.points import Support
from barymesh.viz.theme import shown_number

Floats = NDArray[np.float64]
Columns = Mapping[str, Floats]

# among the counts of a scene
GAP = "certified gap"
# the most that a page shows
MOST_NODES, MOST_EDGES, MOST_ROWS, MOST_TILES = 2000, 4000, 1000, 16


@dataclass(frozen=True, eq=False)
class Graph:
    """The nodes that are drawn: ``names (m,)``, ``positions (m, 2)``, and ``edges (E, 2)`` between them. ``total``,
    ``links``: how many there are, drawn or not."""

    names: Sequence[str]
    positions: Floats
    edges: NDArray[np.intp]
    total: int
    links: int


@dataclass(frozen=True)
class NodeTable:
    """The nodes of the ``graph`` at one moment: ``errors (m,)``, the total variation from the mean of all, and ``gaps
    (m,)``, the certified gap that each knows (NaN where unknown); ``states (m,)`` as NodeState; ``staleness (E,)``,
    seconds since the last message received over each edge was sent (NaN where unknown); ``parents (m,)``, each node's
    parent in the tree by its place in this table, its own for a root and -1 where unknown; ``masked (m,)``, whether
    what it reports is masked. ``notes``: further text about each."""

    graph: Graph
    errors: Floats
    states: NDArray[np.object_]
    staleness: Floats
    gaps: Floats
    parents: NDArray[np.intp]
    masked: NDArray[np.bool_]
    notes: Sequence[str] = ()

    @property
    def dead(self) -> list[str]:
        """The names of those that are dead."""
        return [self.graph.names[k] for k in np.flatnonzero(self.states == NodeState.DEAD).tolist()]

    @property
    def roots(self) -> NDArray[np.intp]:
        """The places of the roots that have children: one, unless the tree is being mended."""
        own = np.arange(self.parents.size)
        above = self.parents[(self.parents != own) & (self.parents >= 0)]
        return np.intersect1d(own[self.parents == own], above).astype(np.intp)


@dataclass(frozen=True)
class Barycenter:
    """What the nodes know: ``estimates (k, n)`` of the nodes with the names ``owners``, their ``mean (n,)`` over all
    nodes, on the ``support``."""

    support: Support
    mean: Floats
    estimates: Floats
    owners: Sequence[str]


@dataclass(frozen=True)
class Scene:
    """One moment of a run, ``now`` on its clock. ``status``: a sentence. ``epoch`` of the tree, NaN without one;
    ``rounds``: whether the nodes work in rounds. ``counts``: numbers for people, by what they are. ``proofs``: in
    words, that somebody lies."""

    status: str
    running: bool
    now: float = np.nan
    nodes: NodeTable | None = None
    barycenter: Barycenter | None = None
    epoch: float = np.nan
    rounds: bool = False
    counts: Mapping[str, str] = field(default_factory=dict)
    proofs: Sequence[str] = ()


@dataclass(frozen=True)
class Recording:
    """A run from its beginning to the newest scene, which is the last of the ``scenes``. ``runs``: the histories by
    name, over the column ``clock``, which is measured in ``unit``."""

    title: str
    scenes: Sequence[Scene]
    runs: Mapping[str, Columns] = field(default_factory=dict)
    clock: str = "time"
    unit: str = "s"

    @property
    def newest(self) -> Scene:
        """The last scene."""
        return self.scenes[-1]

    def at(self, time: float) -> Scene:
        """The scene that was the newest at this time."""
        times = [scene.now for scene in self.scenes]
        return self.scenes[max(0, int(np.searchsorted(times, time, side="right")) - 1)]


class Source(Protocol):
    """Where recordings come from. ``recording()`` may take a second or two, and is called from one thread only."""

    def recording(self) -> Recording: ...


def thinned(columns: Columns, most: int = MOST_ROWS) -> dict[str, Floats]:
    """At most so many rows, evenly spaced, with the first and the last."""
    rows = max((column.size for column in columns.values()), default=0)
    kept = evenly(rows, most)
    return {name: column[kept] for name, column in columns.items()}


def layout(size: int, edges: NDArray[np.intp]) -> Floats:
    """Where to draw nodes, ``(size, 2)``: as the network does, on a circle where not all edges are known, and many
    without any in rows."""
    if not len(edges):
        side = int(np.ceil(np.sqrt(size)))
        place = np.arange(size)
        return np.stack([place % side, -(place // side)], axis=1).astype(float)
    try:
        return Network(size, edges).positions
    except NetworkError:
        angle = 2 * np.pi * np.arange(size) / size
        return np.stack([np.sin(angle), np.cos(angle)], axis=1)


def drawn(network: Network) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Which nodes of a network are drawn, and which of its edges: none if not all nodes are."""
    edges = evenly(len(network.edges), MOST_EDGES if network.size <= MOST_NODES else 0)
    return evenly(network.size, MOST_NODES), edges


def graph_of(network: Network) -> Graph:
    """What is drawn of a network."""
    nodes, chosen = drawn(network)
    edges, known = network.edges[chosen], network.known_positions if nodes.size == network.size else None
    places = layout(nodes.size, edges) if known is None else known
    return Graph([str(k) for k in nodes], places, edges, network.size, len(network.edges))


def counts_of(size: int, network: Network | None, figures: Mapping[str, float]) -> dict[str, str]:
    """The numbers of a run for people."""
    found = {"measures" if network is None else "nodes": f"{size:,}"}
    if network is not None:
        found |= {"links": f"{len(network.edges):,}", "network": network.name}
        found |= {name: f"{figures[name]:,.0f}" for name in ("activations", "messages") if name in figures}
    if figures.get("bytes"):
        found["bytes sent"] = decimal(int(figures["bytes"]))
    if "gap" in figures:
        found[GAP] = shown_number(figures["gap"], 2)
    return found


@dataclass(frozen=True)
class TimeAxis:
    """What a run's time is measured by: the ``column`` of its history."""

    column: str
    virtual: bool

    @property
    def unit(self) -> str:
        """The unit of the column."""
        if self.column == "iterations":
            return ""
        return "virtual s" if self.virtual else "s"

    def reading(self, now: float, until: float | None) -> str:
        """A time in words."""
        of = "" if until is None else f" of {until:,.6g}"
        if self.column == "iterations":
            return f"iteration {now:,.0f}" + (f" of at most {until:,.0f}" if until else "")
        return f"{now:,.4g}{of} {'virtual ' if self.virtual else ''}seconds"


def nbytes(scene: Scene) -> int:
    """The bytes of its arrays, as a file holds them."""
    arrays: list[NDArray[Any]] = []
    if scene.nodes is not None:
        table = scene.nodes
        arrays += [table.errors, table.staleness, table.gaps, table.parents, table.states]
    if scene.barycenter is not None:
        arrays += [scene.barycenter.mean, scene.barycenter.estimates]
    return 4 * sum(array.size for array in arrays)
