"""Nodes in several places: shards of them, whose sums are added up, always in the same order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barymesh.exact.certificate import NodeBounds
from barymesh.exact.nodes import Ahead, Evaluation, Floats, Indices, NodeGroup, ResidualSums, RoundSums
from barymesh.support.points import Support


class Shard(ABC):
    """``count`` nodes in one place."""

    count: int

    @abstractmethod
    def submit(self, method: str, *arguments: Any) -> Callable[[], Any]:
        """Call a method of the nodes, and return a function that waits for what it returns. Calls are carried out in
        their order; errors are raised by the wait, or by that of a later call."""

    def queue(self, method: str, *arguments: Any) -> None:
        """Call a method that returns nothing; it may be carried out as late as with the next call that is submitted."""
        self.submit(method, *arguments)


class Shards(NodeGroup):
    """The nodes of all shards, one shard after the other, on a support of ``size`` points."""

    def __init__(self, shards: Sequence[Shard], size: int, reg: float) -> None:
        self.shards, self.size, self.reg = shards, size, reg
        self.count = sum(shard.count for shard in shards)
        self.ends = np.cumsum([shard.count for shard in shards])
        self.finer: list[int] = []
        # what was computed ahead
        self.products: Floats | None = None

    def _all(self, method: str, *arguments: Any) -> None:
        """Call it everywhere, and do not wait."""
        for shard in self.shards:
            shard.queue(method, *arguments)

    def _sum(self, method: str, *arguments: Any) -> Any:
        """The sum of what it returns everywhere."""
        waits = [shard.submit(method, *arguments) for shard in self.shards]
        return reduce(add, [wait() for wait in waits])

    def _split(self, rows: NDArray[Any]) -> list[NDArray[Any]]:
        """The parts of the shards of an array with a row for each node."""
        return np.split(rows, self.ends[:-1])

    # the potentials

    def total(self) -> Floats:
        return np.asarray(self._sum("total"))

    def shift(self, by: Floats) -> None:
        self._all("shift", by)

    def reset(self) -> None:
        self._all("reset")

    def save(self) -> None:
        self._all("save")

    def restore(self) -> None:
        self._all("restore")

    def potentials(self) -> Floats:
        waits = [shard.submit("potentials") for shard in self.shards]
        return np.concatenate([wait() for wait in waits])

    def set_potentials(self, x: Floats) -> None:
        for shard, part in zip(self.shards, self._split(x), strict=True):
            shard.queue("set_potentials", part)

    # an iteration

    def evaluate(self) -> Evaluation:
        self.products = None
        found: Evaluation = self._sum("evaluate")
        return found

    def residual(self, mean: Floats, p: Floats, ahead: Ahead | None = None) -> float:
        if ahead is None:
            return float(self._sum("residual", mean, p))
        found: ResidualSums = self._sum("residual_ahead", mean, p, ahead)
        self.products = found.gram
        return found.error

    def adjust(self, by: Floats) -> None:
        self._all("adjust", by)

    # its acceleration

    def begin_history(self, depth: int, brief: bool) -> None:
        self._all("begin_history", depth, brief)

    def close_slot(self, slot: int, relaxation: float) -> None:
        if self.products is None:
            self._all("close_slot", slot, relaxation)

    def gram(self, count: int, p: Floats) -> Floats:
        found, self.products = self.products, None
        return np.asarray(self._sum("gram", count, p)) if found is None else found

    def move(self, drift: Floats, coefficients: Floats, relaxation: float, slot: int) -> None:
        self._all("move", drift, coefficients, relaxation, slot)

    def undo(self, slot: int) -> None:
        self._all("undo", slot)

    def end_history(self) -> None:
        self._all("end_history")

    # levels

    def coarsen(self, support: Support) -> None:
        self.finer.append(self.size)
        self.size = support.size
        self._all("coarsen", support)

    def refine(self) -> Floats:
        self.size = self.finer.pop()
        return np.asarray(self._sum("refine"))

    def use(self, reg: float) -> None:
        self.reg = reg
        self._all("use", reg)

    # rounds

    def begin_rounds(self, chosen: bool) -> None:
        self._all("begin_rounds", chosen)

    def respond(self, target: Floats | None) -> RoundSums:
        found: RoundSums = self._sum("respond", target)
        return found

    def end_rounds(self, points: Floats | None = None) -> None:
        self._all("end_rounds", points)

    def draw(self, shares: NDArray[np.int64], start: int) -> Floats:
        parts = zip(self.shards, self._split(shares), strict=True)
        waits = [shard.submit("draw", part, start) for shard, part in parts]
        return np.concatenate([wait() for wait in waits])

    # results

    def distance(self, p: Floats) -> float:
        return float(self._sum("distance", p))

    def bounds(self, p: Floats) -> NodeBounds:
        found: NodeBounds = self._sum("bounds", p)
        return found

    def log_estimates(self, numbers: Indices | None = None) -> Floats:
        if numbers is None:
            waits = [shard.submit("log_estimates") for shard in self.shards]
            return np.concatenate([wait() for wait in waits])
        whose = np.searchsorted(self.ends, numbers, side="right")
        found = np.empty((numbers.size, self.size))
        for number, shard in enumerate(self.shards):
            places = np.flatnonzero(whose == number)
            if places.size:
                own = numbers[places] - (self.ends[number] - shard.count)
                found[places] = shard.submit("log_estimates", own)()
        return found
