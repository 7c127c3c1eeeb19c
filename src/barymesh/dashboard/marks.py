"""What happened during a run, read off its scenes: to be marked over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from barymesh.dashboard.scene import Graph, NodeTable, Scene
from barymesh.record import NodeState

# states in which a node does not work with the others
TROUBLE = (NodeState.DEAD, NodeState.STUCK, NodeState.CUT_OFF, NodeState.LEFT)
# names in one mark, and marks in all: the last ones, as the first are those of nodes that begin
MOST_NAMED, MOST_MARKS = 3, 60
EPOCH, ROUNDS, HARM, DONE = "epoch", "rounds", "harm", "done"


@dataclass(frozen=True)
class Mark:
    """A change, first seen in the scene with the number ``place`` at the time ``now``. ``kind``: EPOCH or ROUNDS for
    the tree, HARM for nodes that fail, leave or come back, DONE when all present have converged."""

    place: int
    now: float
    kind: str
    text: str


def marks_of(scenes: Sequence[Scene]) -> list[Mark]:
    """The changes from each scene to the next, in the order of time."""
    found = [
        Mark(place, after.now, kind, text)
        for place, (before, after) in enumerate(pairwise(scenes), start=1)
        for kind, text in _changes(before, after)
    ]
    return found[-MOST_MARKS:]


def _changes(before: Scene, after: Scene) -> Iterator[tuple[str, str]]:
    if before.nodes is not None and after.nodes is not None and _same(before.nodes.graph, after.nodes.graph):
        yield from _harm(before.nodes, after.nodes)
    if np.isfinite(before.epoch) and after.epoch != before.epoch and np.isfinite(after.epoch):
        yield EPOCH, f"epoch {after.epoch:.0f}"
    old, new = _root(before.nodes), _root(after.nodes)
    if old and new and old != new:
        yield EPOCH, f"root {new}"
    if after.rounds != before.rounds and np.isfinite(before.epoch):
        yield ROUNDS, "rounds" if after.rounds else "no rounds"
    if _done(after.nodes) and not _done(before.nodes):
        yield DONE, "converged"


def _same(one: Graph, other: Graph) -> bool:
    return one is other or list(one.names) == list(other.names)


def _harm(before: NodeTable, after: NodeTable) -> Iterator[tuple[str, str]]:
    if before.states is after.states:
        return
    changed = np.flatnonzero(before.states != after.states).tolist()
    for state in TROUBLE:
        names = [after.graph.names[k] for k in changed if after.states[k] is state]
        if names:
            yield HARM, f"{_named(names)} {'left' if state is NodeState.LEFT else state}"
    back = [after.graph.names[k] for k in changed if before.states[k] in TROUBLE and after.states[k] not in TROUBLE]
    if back:
        yield HARM, f"{_named(back)} back"


def _root(nodes: NodeTable | None) -> str:
    """The name of the root, if there is one and no other."""
    roots = [] if nodes is None else nodes.roots.tolist()
    return nodes.graph.names[roots[0]] if nodes is not None and len(roots) == 1 else ""


def _done(nodes: NodeTable | None) -> bool:
    ended = (NodeState.CONVERGED, NodeState.DEAD, NodeState.LEFT)
    # mostly the first node shows that they are not
    return nodes is not None and all(one in ended for one in nodes.states) and NodeState.CONVERGED in nodes.states


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
