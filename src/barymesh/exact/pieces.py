"""Nodes of which little is in memory between two calls: a shard too large for arrays of all its nodes at once is made
of such pieces, which take turns.

A piece keeps potentials and residuals in the precision of the problem, and the history of the acceleration in a file,
where the operating system has it in memory as far as there is room. What the oracle needs of images is made again from
their pixels whenever it is needed, which takes less time than the oracle. The plain step, in case that the accelerated
one is undone, is not kept either, but found from the history, to its precision.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barymesh.exact.nodes import Floats
from barymesh.exact.rows import Rows
from barymesh.exact.shards import Shard, Shards
from barymesh.measures.stack import ImageStack
from barymesh.problem import Problem

# numbers of the potentials of a piece: few enough for the caches
PIECE = 2**19
# bytes of a file
FILE = 2**30
# the arrays that a call reads, and those that it changes; others do both with both
BOTH = ("x", "log_p")
READS = {"evaluate": ("x",), "residual": ("log_p",), "residual_ahead": ("log_p",), "close_slot": ("log_p",),
         "gram": ("log_p",), "move": BOTH, "undo": ("x",), "end_history": (), "total": ("x",),
         "shift": ("x",)}  # fmt: skip
CHANGES: dict[str, tuple[str, ...]] = {
    "evaluate": ("log_p",), "residual": ("log_p",), "residual_ahead": ("log_p",), "close_slot": (), "gram": (),
    "move": ("x",), "undo": ("x",), "end_history": (), "total": (), "shift": ("x",)
}  # fmt: skip
EMPTY = np.empty((0, 0))


def in_pieces(problem: Problem, weights: Floats, all_nodes: int, folder: Path) -> Shards:
    """The nodes of a problem, in pieces, with files in the folder."""
    rows = max(1, PIECE // problem.support.size)
    disk, scratch = Disk(folder), Scratch()
    pieces = []
    for start in range(0, len(problem.measures), rows):
        part = slice(start, start + rows)
        own = problem.part_of(part)
        pieces.append(Piece(own, weights[part], all_nodes, disk.allocate, scratch))
    return Shards(pieces, problem.support.size, problem.reg)


class Disk:
    """Arrays in files, which are gone as soon as nothing refers to them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.room = folder, np.empty(0, np.uint8)

    def allocate(self, shape: tuple[int, ...], dtype: type) -> NDArray[Any]:
        """An array with any numbers."""
        needed = int(np.prod(shape)) * np.dtype(dtype).itemsize
        if needed > self.room.size:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self.folder)
            os.close(handle)
            self.room = np.memmap(name, np.uint8, "w+", shape=(max(FILE, needed),))
            # the space is free again when the last array in it is
            os.unlink(name)
        found, self.room = self.room[:needed], self.room[needed:]
        return np.asarray(found).view(dtype).reshape(shape)


class Scratch:
    """Arrays that all pieces use in turn."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, tuple[int, ...]], Floats] = {}

    def array(self, name: str, shape: tuple[int, ...]) -> Floats:
        """The one of this name and shape, with any numbers."""
        return self.kept.setdefault((name, shape), np.empty(shape))


class Piece(Shard):
    """The nodes of a ``problem``, part of a larger one, with these ``weights (count,)``."""

    def __init__(
        self, problem: Problem, weights: Floats, all_nodes: int, allocate: Callable[..., NDArray[Any]], scratch: Scratch
    ) -> None:
        self.count, self.allocate, self.scratch = weights.size, allocate, scratch
        self.dtype = np.float32 if problem.precision == "float32" else np.float64
        self.lazy = isinstance(problem.measures, ImageStack)
        # float32 is what numbers are kept in: in its arithmetic images underflow, and take longer
        self.rows = Rows.of(replace(problem, precision="float64"), weights, all_nodes)
        self.rows.allocate = allocate
        self.kept: dict[str, NDArray[Any]] = {}
        self._put_away(BOTH)

    def submit(self, method: str, *arguments: Any) -> Callable[[], Any]:
        self._take_out(READS.get(method, BOTH))
        rows = self.rows
        if method == "move":
            rows.fallback = self.scratch.array("fallback", rows.x.shape)
        elif method == "undo":
            (slot,) = arguments
            rows.fallback = rows.x - _wide(rows.moves[slot]) + _wide(rows.changes[slot])
        found = getattr(rows, method)(*arguments)
        if found is rows.x or found is rows.log_p:
            found = found.copy()
        self._put_away(CHANGES.get(method, BOTH))
        return lambda: found

    def _take_out(self, names: tuple[str, ...]) -> None:
        """The arrays become those of the rows, in float64; others are there for results only."""
        for name in BOTH:
            wide = self.scratch.array(name, self.kept[name].shape)
            if name in names:
                wide[:] = self.kept[name]
            setattr(self.rows, name, wide)

    def _put_away(self, names: tuple[str, ...]) -> None:
        """Keep the arrays that have changed, and nothing that can be made again."""
        for name in BOTH:
            wide = getattr(self.rows, name)
            if name in names or self.kept[name].shape != wide.shape:
                kept = self.kept.get(name)
                if kept is None or kept.shape != wide.shape:
                    kept = self.kept[name] = np.empty(wide.shape, self.dtype)
                # an array that is not computed yet may hold any number, also one too large for the narrower kind
                with np.errstate(over="ignore", invalid="ignore"):
                    kept[:] = wide
            setattr(self.rows, name, EMPTY)
        self.rows.fallback = EMPTY
        if self.lazy:
            self.rows.forget()


def _wide(history: NDArray[Any]) -> NDArray[Any]:
    """Numbers of 16 bits in full."""
    return (history.astype(np.uint32) << 16).view(np.float32) if history.dtype == np.uint16 else history
