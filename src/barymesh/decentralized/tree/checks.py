"""What neighbours may send: the checks of a message of the tree on arrival.

Whatever passes them leads to messages that pass them too: docs/explanation/security.md has the proof, and says what a
liar can still do.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from barymesh.core import kernels, tree
from barymesh.decentralized.algorithm import Floats, Nodes
from barymesh.methods.base import LARGEST, UNKNOWN_ERROR

# the checksum of a report that lacks children
MISSING_CHECK = 2.0**52
# the fields of the header that are whole numbers
WHOLE_FIELDS = (
    tree.SENDER, tree.AWAY, tree.ROOT, tree.DISTANCE, tree.PARENT, tree.BEAT, tree.STAMP, tree.WHOLE, tree.DONE,
    tree.ROUNDS, tree.OLDEST, tree.COVERED, tree.CHILDREN,
)  # fmt: skip


class Checks:
    """The checks of messages whose sums are in the columns ``private``. The roots' keys of all nodes are ``ranks
    (m,)``; all nodes together weigh ``total`` at most; ``contribution_bounds``, ``target_bounds`` and ``impossible``,
    which is its ``contradiction``, are those of the method. ``masked``: nobody can read the sums; ``in_rounds``: the
    network may work in rounds."""

    def __init__(
        self, nodes: Nodes, ranks: Floats, total: float, private: slice, contribution_bounds: tuple[Floats, Floats],
        target_bounds: tuple[Floats, Floats], impossible: Callable[[Floats, bool], str], *, masked: bool,
        in_rounds: bool,
    ) -> None:  # fmt: skip
        self.nodes, self.ranks, self.total, self.private = nodes, ranks, total, private
        self._contribution_bounds, self._target_bounds = contribution_bounds, target_bounds
        self._impossible, self.masked, self.in_rounds = impossible, masked, in_rounds
        self.width = private.stop + target_bounds[0].size
        # every link may lack a message, and every node its children
        self.largest_check = MISSING_CHECK * float(nodes.network.neighbours.size + nodes.size + 1)
        # by the key of a root, and by the id of a sender
        self._hops: dict[float, list[float]] = {}
        self._facts: dict[int, tuple[float, float, Floats]] = {}
        self._no_sums = np.empty(0), np.empty(0)

    def bounds(self) -> tuple[Floats, Floats]:
        """``lower, upper (width,)``: no node that works as it should sends numbers outside of these."""
        lower, upper = np.full(self.width, -LARGEST), np.full(self.width, LARGEST)
        most, nodes = kernels.FAR, float(self.nodes.size)
        for field, least, largest in (
            (tree.SENDER, 0.0, nodes - 1), (tree.EPOCH, 0.0, kernels.LAST_EPOCH), (tree.AWAY, 0.0, 1.0),
            (tree.ROOT, -nodes, -1.0), (tree.DISTANCE, 0.0, nodes - 1), (tree.PARENT, 0.0, nodes - 1),
            (tree.BEAT, -1.0, most), (tree.STAMP, -1.0, most), (tree.WHOLE, 0.0, 1.0),
            (tree.RESIDUAL, 0.0, UNKNOWN_ERROR), (tree.DONE, 0.0, most), (tree.ROUNDS, 0.0, float(self.in_rounds)),
            (tree.ERROR, 0.0, UNKNOWN_ERROR + 1e-9), (tree.OLDEST, -1.0, most),
            (tree.COVERED, 0.0, 1.0), (tree.CHECK, -self.largest_check, self.largest_check),
            (tree.CHILDREN, 0.0, nodes - 1), (tree.WEIGHT, 0.0, self.total),
        ):  # fmt: skip
            lower[field], upper[field] = least, largest
        down = slice(self.private.stop, self.width)
        lower[down], upper[down] = self._target_bounds
        if not self.masked:
            least_sum, most_sum = self._contribution_bounds
            lower[self.private], upper[self.private] = self.total * least_sum, self.total * most_sum
        return lower, upper

    def contradiction(self, sender: int, values: Floats) -> str:
        """What is impossible in a message of the node ``sender`` whose numbers are within the bounds; see
        ``AsynchronousAlgorithm.contradiction``."""
        key, declared, around = self._facts_of(sender)
        hops = self._hops_to(values.item(tree.ROOT))
        with_sums = values.size == self.width and not self.masked
        bounds = self._contribution_bounds if with_sums else self._no_sums
        if hops is None or not kernels.is_possible(values, sender, key, declared, around, hops[sender], *bounds):
            return self._explanation(sender, values)
        weight = values.item(tree.WEIGHT)
        if with_sums and weight > 0 and declared >= 0:
            return self._impossible(values[self.private] / weight, not values.item(tree.CHILDREN))
        return ""

    def _explanation(self, sender: int, values: Floats) -> str:
        """What is wrong with numbers that ``is_possible`` has refused."""
        header = values[: tree.HEADER].tolist()
        for field in WHOLE_FIELDS:
            if not header[field].is_integer():
                return f"{kernels.HEADER_FIELDS[field]} is {header[field]:g}, not a whole number"
        if header[tree.SENDER] != sender:
            return f"SENDER is {header[tree.SENDER]:g}, and the message is from {sender}"
        key, declared, around = self._facts_of(sender)
        root, distance, parent, weight = (header[k] for k in (tree.ROOT, tree.DISTANCE, tree.PARENT, tree.WEIGHT))
        hops = self._hops_to(root)
        if root == key:
            if distance != 0 or parent != sender:
                return f"it is its own root, with DISTANCE {distance:g} and PARENT {parent:g}"
        elif root > key:
            return f"ROOT is {root:g}, which comes after the sender's own {key:g}"
        elif parent not in around:
            return f"PARENT is {parent:g}, which is no neighbour of {sender}"
        elif hops is not None and distance < hops[sender]:
            return f"DISTANCE is {distance:g}, less than the number of links to the root"
        if header[tree.CHILDREN] > around.size:
            return f"CHILDREN is {header[tree.CHILDREN]:g}, more than it has neighbours"
        if declared >= 0 and not header[tree.CHILDREN] and weight not in (0.0, declared):
            return f"WEIGHT is {weight:g} without children, and the network file has {declared:g}"
        if header[tree.OLDEST] > header[tree.STAMP] or header[tree.DONE] > header[tree.STAMP] + 1:
            return "OLDEST or DONE refers to a later target than STAMP"
        return f"the sums are larger than WEIGHT {weight:g} allows"

    def _facts_of(self, sender: int) -> tuple[float, float, Floats]:
        """The key of a node, its declared weight, -1 if there is none, and its neighbours ``(degree,)``."""
        if sender not in self._facts:
            weights = self.nodes.declared
            declared = -1.0 if weights is None else 1.0 if self.masked else float(weights[sender])
            around = self.nodes.network.neighbours_of(sender).astype(float)
            self._facts[sender] = float(self.ranks[sender]), declared, around
        return self._facts[sender]

    def _hops_to(self, key: float) -> list[float] | None:
        """``(m,)``: the number of links on the shortest way from each node to the root with this key; None if no node
        has it."""
        found = self._hops.get(key)
        if found is None and key.is_integer():
            graph = self.nodes.network
            found = self._hops[key] = graph.hops_from(int(graph.by_centrality[int(key) + graph.size])).tolist()
        return found
