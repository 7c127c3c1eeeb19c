"""Made-up scenes."""

from __future__ import annotations

import numpy as np

from barymesh.dashboard.scene import Barycenter, Graph, NodeTable, Scene
from barymesh.support.points import Support


def graph(count, edges=()):
    """Nodes called site-0, site-1 and so on."""
    pairs = np.array(edges, dtype=np.intp).reshape(-1, 2)
    names = [f"site-{k}" for k in range(count)]
    return Graph(names, np.zeros((count, 2)), pairs, count, len(pairs))


def scene(*states, errors=None, gaps=None, parents=None, running=True, where=None, **facts):
    """A scene of nodes in these states."""
    count = len(states)
    where = where or graph(count)
    nodes = NodeTable(
        where, np.full(count, np.nan) if errors is None else np.array(errors), np.array(states, dtype=object),
        np.full(len(where.edges), np.nan), np.full(count, np.nan) if gaps is None else np.array(gaps),
        np.full(count, -1) if parents is None else np.array(parents), np.zeros(count, dtype=bool),
    )  # fmt: skip
    return Scene("", running, nodes=nodes, **facts)


def pictured(now, points=10):
    """A scene with a barycenter on so many points."""
    support = Support.scattered(np.arange(points, dtype=float)[:, None])
    return Scene("", True, now=now, barycenter=Barycenter(support, np.ones(points), np.ones((2, points)), ["a", "b"]))
