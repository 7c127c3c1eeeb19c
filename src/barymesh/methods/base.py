"""What a method is: a pair of pure functions, and a place to keep what a node must remember between two calls.

    local(own measure, own state, target) -> contribution       what a node computes from its own measure
    root(average of the contributions, own state) -> target     needs the sum only, never any node's data

What adds the contributions up (a loop in memory, a spanning tree of asynchronous nodes) does not depend on what they
mean. All functions work on some rows of a state with a row for each node: hundreds in a simulation, one at a peer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic

import numpy as np
from numpy.typing import NDArray

from barymesh.state import S

if TYPE_CHECKING:
    from barymesh.measures import Atoms

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

# far beyond any potential, in units of the cost or of reg
LARGEST = 1e12
# no measure of a node that belongs to others may have a larger cost to a point of the support than so many times the
# largest between two points of it
FARTHEST = 2.0
# the largest L1 distance of two measures; also stands for one that is not known
UNKNOWN_ERROR = 2.0


@dataclass(frozen=True)
class Contribution:
    """What nodes add to the sums, before it is multiplied by their weights: ``parts``, arrays ``(b, size)`` side by
    side; and ``errors (b,)``, the distances of their own estimates from the target's measure, in L1."""

    parts: tuple[Floats, ...]
    errors: Floats


@dataclass(frozen=True)
class Answer:
    """The root's new ``target (down,)``; ``moved``: its distance from the one before, in L1; ``remaining``: how far the
    target itself still has to go, in L1, as estimated by the root; in rounds, ``decided``: the reports show that
    the nodes are close enough, and only a certificate is missing, ``finished``: this is the last target, and every node
    may stop."""

    target: Floats
    moved: float
    remaining: float
    decided: bool = False
    finished: bool = False


# whether the nodes are close enough to the barycenter, from an estimate of the distance, in L1
Enough = Callable[[float], bool]


class Method(ABC, Generic[S]):
    """A method whose contributions have ``up`` numbers and whose targets have ``down``.

    ``final``: whether all that there is to know of the measures is known from the start, so that the nodes can converge
    and stop.
    """

    name: str
    up: int
    down: int
    final: bool

    def restrict(self) -> None:
        """The nodes belong to others, who may lie: keep within bounds that follow from what is public, the support and
        reg, and from the measures' not being farther away than ``FARTHEST``. By default there are no such bounds."""

    def contradiction(self, average: Floats, single: bool) -> str:
        """What is impossible in the ``average (up,)`` of contributions, after ``restrict``; of one node's if it is
        ``single``. Empty if nothing is."""
        return ""

    def contribution_bounds(self) -> tuple[Floats, Floats]:
        """``lower, upper (up,)``: no contribution has numbers outside of these, nor has an average of them."""
        return np.full(self.up, -LARGEST), np.full(self.up, LARGEST)

    def target_bounds(self) -> tuple[Floats, Floats]:
        """``lower, upper (down,)``: no target has numbers outside of these."""
        return np.full(self.down, -LARGEST), np.full(self.down, LARGEST)

    @abstractmethod
    def start(self, count: int) -> S:
        """So many nodes as they begin."""

    @abstractmethod
    def first(self, state: S) -> Contribution:
        """The contributions of all nodes before any of them has acted, or knows a target."""

    def approach(self, state: S, rows: Indices, targets: Floats) -> None:
        """Before they contribute, the nodes in the ``rows (b,)`` may work towards their targets, the rows of ``targets
        (k, down)``, by themselves. By default they do not."""

    @abstractmethod
    def local(self, state: S, rows: Indices, targets: Floats, known: NDArray[np.bool_]) -> Contribution:
        """The contributions of the nodes in the ``rows (b,)``, which act now. Their targets are the rows of ``targets
        (k, down)`` where they are ``known (b,)``."""

    @abstractmethod
    def advance(self, state: S, rows: Indices, contribution: Contribution, targets: Floats, moving: Indices) -> None:
        """The nodes at the places ``moving`` among the ``rows (b,)`` of the contribution move towards their targets."""

    @abstractmethod
    def root(self, state: S, row: int, average: Floats, target: Floats, loop: float, complete: bool) -> Answer:
        """The answer of the root, the node in ``row``, to the ``average (up,)`` of the contributions. ``target
        (down,)``: its last one; ``loop``: its activations in the last time round the loop from the root to all nodes
        and back, 0 if there was none; ``complete``: whether one has just been completed."""

    @abstractmethod
    def errors(self, state: S) -> Floats:
        """``(k,)``: the errors of the last contributions."""

    @abstractmethod
    def duals(self, state: S) -> Floats:
        """``lam (k, n)``."""

    @abstractmethod
    def change(self, state: S, row: int, measure: int) -> None:
        """The node has the measure of this number from now on."""

    @abstractmethod
    def measures(self, state: S) -> NDArray[np.int64]:
        """``(k,)``: the numbers of the measures that the nodes have."""

    def placed(self, state: S) -> tuple[Floats, Floats, Floats] | None:
        """Where the support's points move: those that the nodes have, ``(k, n, d)``, and there the values ``(k,)`` of
        their dual functions and their estimates ``(k, n)``; None where the points stay."""
        return None

    @abstractmethod
    def known_atoms(self, state: S, rows: Indices) -> list[Atoms] | None:
        """What the nodes in the ``rows (b,)`` know of their measures by now; None if they know the atoms that the
        problem has."""


class RoundMethod(Method[S]):
    """A method that also works in rounds, in which all contributions refer to one target. There ``respond`` and
    ``order`` take the places of ``local``, ``advance`` and ``root``. ``in_rounds``: it does so from the start.

    ``precise``: the part of a contribution whose rounding changes the result, and not only the way there.
    ``rounding``: what the averages of it may be off by, because they were added up in fixed point. ``fixed``: the part
    that does not change from round to round, ``fixed_sizes (k,)``, how large that usually is, and
    ``fixed_rounding (k,)``, what the averages of it may be off by.

    With masks the rows of targets are longer than ``down``: they end with the members. A target of zeros stands for
    none: the first one of a root has no other content than these.
    """

    in_rounds: bool
    precise, fixed = slice(None), slice(0, 0)
    rounding = 0.0
    fixed_sizes = fixed_rounding = np.empty(0)

    def allow_for(self, rounding: float, fixed_rounding: Floats) -> None:
        """Contributions are added up in fixed point: take note of what averages may be off by, the whole of them and
        those of the ``fixed`` part; OptionError if that is too much."""
        self.rounding, self.fixed_rounding = rounding, fixed_rounding

    def limits(self) -> Floats | None:
        """``(up,)``: what a contribution is cut to in size before it is added up in fixed point. All nodes know it, and
        honest contributions that are close to the barycenter are below it. None if there is no such bound."""
        return None

    @abstractmethod
    def respond(
        self, state: S, rows: Indices, targets: Floats, known: NDArray[np.bool_], fresh: NDArray[np.bool_]
    ) -> Contribution:
        """In rounds, the contributions of the nodes in the ``rows (b,)``. Their targets are the rows of ``targets (k,
        down)`` where they are ``known (b,)``; where they are ``fresh (b,)`` the nodes act on them first."""

    @abstractmethod
    def begin(self, state: S, row: int, target: Floats, weight: float, close: bool) -> Answer:
        """The first target of rounds that follow other work, made by the root, the node in ``row``, after its
        last ``target (down,)``; ``weight``: the sum of the nodes' weights. ``close``: the nodes are as
        close to the barycenter as they need to be, and only a certificate is missing."""

    @abstractmethod
    def order(
        self, state: S, row: int, average: Floats, target: Floats | None, weight: float, error: float, enough: Enough
    ) -> Answer:
        """In rounds, the answer of the root, the node in ``row``, to the ``average (up,)`` of contributions that all
        refer to its last ``target (down,)``, if there is one yet. ``weight``: the sum of the nodes' weights; ``error``:
        their largest."""

    @abstractmethod
    def agrees(self, state: S, rows: Indices, targets: Floats) -> NDArray[np.bool_]:
        """``(b,)``: whether the last targets of the nodes in the ``rows (b,)``, rows of ``targets (k, down)``, are
        those that they have themselves solved their transports to, for the certificate."""

    @abstractmethod
    def gaps(self, targets: Floats) -> Floats:
        """``(k,)``: the certified gaps that the last targets ``(k, down)`` of a run in rounds carry."""
