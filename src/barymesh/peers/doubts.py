"""What a node sees that no network of honest nodes shows: evidence of a false root, or of false targets.

A target is known by its epoch, its root and its stamp, and all nodes pass it on as it is. So two neighbours that pass
on different ones under the same name are **proof** that somebody lies: one of them, or a node between it and the root.
If one of the two is the root itself, it is the other. Epochs that change too often, and a root that should not be one,
are reasons to ask: nodes that fail may look like that too.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from barymesh.core import tree
from barymesh.decentralized.algorithm import Floats
from barymesh.transport.sockets import LinkStatus
from barymesh.transport.subscriber import LinkState

_log = logging.getLogger(__name__)

# targets that are remembered, and doubts that are kept
_TARGETS, _MOST_DOUBTS = 512, 32
# how many activations of the root a target may be ahead of its last message
_AHEAD = 10_000
# more new epochs than this in so many seconds are too many
_EPOCHS, _PERIOD = 64, 600.0
# seconds for which a root that should not be one is no reason to ask: the tree is mended in less
_MENDED = 120.0


@dataclass
class Doubt:
    """A ``text`` for people about these ``nodes``, ``since`` when and until when it was ``last`` seen, by the wall
    clock; whether it is ``proof`` that somebody lies."""

    text: str
    nodes: tuple[str, ...]
    since: float
    last: float
    proof: bool


class Doubts:
    """The doubts of the node with the number ``own``. ``names`` of all nodes; ``by_key``: the number of the node that a
    key of a root stands for; ``target``: the columns of a message that hold it."""

    def __init__(
        self, own: int, names: Sequence[str], by_key: Callable[[float], int], target: slice,
        clock: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self._own, self._names, self._by_key, self._target, self._clock = own, names, by_key, target, clock
        # by epoch, root and stamp: a digest, and who has sent it first
        self._targets: OrderedDict[tuple[float, float, float], tuple[int, int]] = OrderedDict()
        # of each root that is a neighbour, its epoch and its last activation
        self._beats: dict[int, tuple[float, float]] = {}
        self._newest_epoch = 0.0
        self._epochs: deque[tuple[float, int]] = deque()
        self._root_since: tuple[str, float] | None = None
        self._stamp = -1.0
        self._found: dict[str, Doubt] = {}

    @property
    def all(self) -> list[Doubt]:
        """Those since the start, the oldest first."""
        return list(self._found.values())

    def look(self, sender: int, message: Floats) -> None:
        """At a message that is used, of a neighbour or of the node itself."""
        epoch, key, stamp = float(message[tree.EPOCH]), float(message[tree.ROOT]), float(message[tree.STAMP])
        if epoch > self._newest_epoch:
            self._newest_epoch = epoch
            self._note_epoch(sender)
        if stamp < 0 or message[tree.AWAY] > 0:
            return
        root = self._by_key(key)
        if sender == root:
            self._beats[root] = (epoch, float(message[tree.BEAT]))
        elif (known := self._beats.get(root)) is not None and known[0] == epoch and stamp > known[1] + _AHEAD:
            self._accuse(root, sender)
        digest = hash(message[self._target].tobytes())
        first, other = self._targets.setdefault((epoch, key, stamp), (digest, sender))
        if len(self._targets) > _TARGETS:
            self._targets.popitem(last=False)
        if first != digest:
            self._contradict(root, sender, other)

    def _contradict(self, root: int, one: int, other: int) -> None:
        """Two nodes pass on different targets of the root under the same name."""
        if root in (one, other):
            self._accuse(root, other if root == one else one)
        else:
            self._accuse(root, *sorted((one, other)))

    def _accuse(self, root: int, *nodes: int) -> None:
        """One of the nodes has false targets. The node itself has its targets from its parent, which is accused too."""
        if self._own not in nodes:
            who = " or ".join(f"{self._names[node]} (or a node between it and the root)" for node in nodes)
            self._doubt(nodes, f"{who} passes on targets that {self._names[root]} has not made", True)

    def _note_epoch(self, sender: int) -> None:
        now = self._clock()
        self._epochs.append((now, sender))
        while self._epochs[0][0] < now - _PERIOD:
            self._epochs.popleft()
        if len(self._epochs) > _EPOCHS:
            node = Counter(who for _, who in self._epochs).most_common(1)[0][0]
            text = f"the tree is made anew too often, and most of the new epochs come from {self._names[node]}"
            if node != self._own:
                self._doubt((node,), text, False)

    def compare_root(self, root: str, stamp: float, order: Sequence[str], links: Mapping[str, LinkStatus]) -> None:
        """The root of the node, and the stamp of its last target, with the public ``order`` of the nodes, the first of
        which should be the root, and the states of the links to the neighbours."""
        now, moves = self._clock(), stamp != self._stamp
        self._stamp = stamp
        if self._root_since is None or self._root_since[0] != root:
            self._root_since = (root, now)
        if now - self._root_since[1] < _MENDED:
            return
        for name in order[: order.index(root)]:
            link = links.get(name)
            if link is not None and link.state is LinkState.CONNECTED and now - link.since >= _MENDED:
                text = f"{root} is the root, and {name}, which is connected, should be"
                self._doubt((name, root), text, False)
        link = links.get(root)
        if moves and link is not None and link.state is not LinkState.CONNECTED and now - link.since >= _MENDED:
            self._doubt((root,), f"targets of {root} arrive, though {root} is not connected here", False)

    def _doubt(self, nodes: Sequence[int | str], text: str, proof: bool) -> None:
        now = self._clock()
        if (known := self._found.get(text)) is not None:
            known.last = now
            return
        names = tuple(self._names[node] if isinstance(node, int) else node for node in nodes)
        if len(self._found) < _MOST_DOUBTS:
            self._found[text] = Doubt(text, names, now, now, proof)
            _log.warning(
                "%s: %s", "somebody lies" if proof else "ask the others", text, extra={"peers": names, "proof": proof}
            )
