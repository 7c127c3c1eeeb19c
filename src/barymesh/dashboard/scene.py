"""What the page shows at one moment, from any source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from barymesh.errors import NetworkError
from barymesh.network.topology import Network
from barymesh.record import NodeState
from barymesh.subsample import evenly
from barymesh.support.points import Support

Floats = NDArray[np.float64]
Columns = Mapping[str, Floats]

# among the counts of a scene
GAP = "certified gap"
# the most that a page shows
MOST_NODES, MOST_EDGES, MOST_ROWS = 2000, 4000, 1000


@dataclass(frozen=True)
class NodeTable:
    """The nodes that are drawn: ``names (m,)``, ``positions (m, 2)``, ``errors (m,)`` (total variation from the mean of
    all, NaN where unknown), ``states (m,)``, ``edges (E, 2)`` between them and ``staleness (E,)``, seconds since the
    last message received over each was sent (NaN where unknown). ``notes``: further text about each. ``total``,
    ``links``: how many there are, drawn or not."""

    names: Sequence[str]
    positions: Floats
    errors: Floats
    states: Sequence[NodeState]
    edges: NDArray[np.intp]
    staleness: Floats
    total: int
    links: int
    notes: Sequence[str] = ()

    @property
    def dead(self) -> list[str]:
        """The names of those that are dead."""
        return [name for name, state in zip(self.names, self.states, strict=True) if state is NodeState.DEAD]


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
    """All of it. ``status``: a sentence. ``runs``: the histories by name, over the column ``clock``, which is measured
    in ``unit``; ``counts``: numbers for people, by what they are."""

    title: str
    status: str
    running: bool
    runs: Mapping[str, Columns] = field(default_factory=dict)
    clock: str = "time"
    unit: str = "s"
    nodes: NodeTable | None = None
    barycenter: Barycenter | None = None
    counts: Mapping[str, str] = field(default_factory=dict)


class Source(Protocol):
    """Where scenes come from. ``scene()`` may take a second or two, and is called from one thread only."""

    def scene(self) -> Scene: ...


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
